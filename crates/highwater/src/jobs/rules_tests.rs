//! The tables of cases under the rules.

use std::sync::Arc;

use super::*;
use crate::{
    feed::{ScopeId, Seq},
    jobs::{EventId, JobId, TaskCount},
};

fn tag(name: &str) -> Tag {
    Tag::new(name).unwrap()
}

fn job(tasks: u32, tags: Option<&[&str]>) -> Job {
    Job {
        id: JobId::new("job").unwrap(),
        num_tasks: TaskCount::new(tasks).unwrap(),
        incarnation: ScopeId(5),
        created_at: Timestamp::from_micros(0),
        tags: tags.map(|tags| tags.iter().map(|name| tag(name)).collect()),
        tombstoned_at: None,
    }
}

fn report(task: u32, name: &str, status: i32) -> Arc<Report> {
    Arc::new(Report {
        job: JobId::new("job").unwrap(),
        task: TaskIndex(task),
        tag: tag(name),
        status: Status(status),
        message: String::new(),
        timestamp: Timestamp::from_micros(0),
        version: Version::FIRST,
        event_id: EventId::new("e").unwrap(),
        payload: None,
        schema_version: 1,
        revision: Seq(1),
    })
}

const MAX: i32 = i32::MAX;

/// `expected`: task, tag, status, and whether a real state won.
#[track_caller]
fn stands(
    job: &Job,
    filter: &Filter,
    reports: &[(u32, &str, i32)],
    expected: (u32, Option<&str>, i32, bool),
) {
    let reports: Vec<_> =
        reports.iter().map(|&(task, tag, status)| report(task, tag, status)).collect();
    let found = standing(job, filter, &reports);
    let tag = found.tag.as_ref().map(Tag::as_str);
    assert_eq!((found.task.0, tag, found.status.0, found.report.is_some()), expected);
}

#[test]
fn a_silent_task_holds_the_job_at_the_start() {
    stands(&job(3, None), &Filter::job(), &[(0, "a", MAX), (1, "a", MAX)], (2, None, 0, false));
}

#[test]
fn a_failure_ranks_below_silence() {
    stands(&job(3, None), &Filter::job(), &[(1, "a", -1)], (1, Some("a"), -1, true));
}

#[test]
fn ties_name_the_lowest_task_and_then_the_lowest_tag() {
    stands(&job(3, None), &Filter::job(), &[], (0, None, 0, false));
    let equals = [(0, "b", 9), (1, "a", 5), (1, "b", 5)];
    stands(&job(2, None), &Filter::job(), &equals, (1, Some("a"), 5, true));
}

#[test]
fn without_declared_tags_a_task_owes_one_report_of_any_tag() {
    stands(&job(2, None), &Filter::job(), &[(0, "a", MAX), (1, "b", 7)], (1, Some("b"), 7, true));
}

#[test]
fn a_declared_tag_is_owed_by_every_task() {
    let declared = job(2, Some(&["a", "b"]));
    stands(
        &declared,
        &Filter::job(),
        &[(0, "a", MAX), (0, "b", MAX), (1, "b", 7)],
        (1, Some("a"), 0, false),
    );
}

#[test]
fn a_selected_tag_is_owed_by_every_task() {
    stands(&job(2, None), &Filter::job().tag(tag("b")), &[(0, "b", 3)], (1, Some("b"), 0, false));
    stands(
        &job(2, None),
        &Filter::job().tag(tag("b")),
        &[(0, "b", 3), (1, "b", 2)],
        (1, Some("b"), 2, true),
    );
}

#[test]
fn a_task_stands_where_its_lowest_tag_stands() {
    let task_1 = Filter::job().task(TaskIndex(1));
    stands(&job(2, None), &task_1, &[(1, "a", 4), (1, "b", 3)], (1, Some("b"), 3, true));
    stands(&job(2, None), &task_1, &[], (1, None, 0, false));
}

#[test]
fn one_cell_is_that_state_or_silence() {
    let cell = Filter::job().task(TaskIndex(1)).tag(tag("a"));
    stands(&job(2, None), &cell, &[(1, "a", 4)], (1, Some("a"), 4, true));
    stands(&job(2, None), &cell, &[], (1, Some("a"), 0, false));
}

#[test]
fn a_warning_does_not_hide_an_error() {
    let reports = [report(0, "a", -2), report(1, "a", -1), report(2, "a", -1)];
    assert_eq!(standing(&job(3, None), &Filter::job(), &reports).status, Status::WARNING);
    assert_eq!(worst_error(&reports).unwrap().task, TaskIndex(1));
    assert_eq!(worst_error(&reports[..1]), None);
}

fn write(status: i32, writer: Writer) -> Write {
    let draft = Draft::new(tag("a"), Status(status)).event_id(EventId::new("e").unwrap());
    Write::new(JobRef::current(JobId::new("job").unwrap()), TaskIndex(0), draft, writer).unwrap()
}

#[track_caller]
fn refused(write: &Write, before: Before<'_>, expected: ErrorKind) -> String {
    let error = judge(write, before).unwrap_err();
    assert_eq!(error.kind(), expected, "{error}");
    error.to_string()
}

#[test]
fn versions_count_from_one() {
    let job = job(1, None);
    let first = Before { job: &job, same_id: None, epoch: None, version: None };
    assert_eq!(judge(&write(1, Writer::Anonymous), first).unwrap(), Verdict::Apply(Version(1)));
    let second = Before { version: Some(Version(1)), ..first };
    assert_eq!(judge(&write(1, Writer::Anonymous), second).unwrap(), Verdict::Apply(Version(2)));
}

#[test]
fn a_writer_needs_the_newest_epoch_or_none() {
    let job = job(1, None);
    let before = Before { job: &job, same_id: None, epoch: Some(Epoch(2)), version: None };
    assert!(judge(&write(1, Writer::Fenced(Epoch(2))), before).is_ok());
    assert!(judge(&write(1, Writer::Anonymous), before).is_ok());
    let old = refused(&write(1, Writer::Fenced(Epoch(1))), before, ErrorKind::Fenced);
    assert_eq!(old, "epoch 1 of task 0 was superseded by epoch 2");
    let invented = refused(&write(1, Writer::Fenced(Epoch(3))), before, ErrorKind::Fenced);
    assert_eq!(invented, "epoch 3 of task 0 was never given out");
    let never_opened = Before { epoch: None, ..before };
    refused(&write(1, Writer::Fenced(Epoch(1))), never_opened, ErrorKind::Fenced);
}

#[test]
fn an_event_id_repeats_the_same_and_refuses_another() {
    let mut job = job(1, None);
    job.tombstoned_at = Some(Timestamp::from_micros(1));
    let earlier = report(0, "a", 7);
    let before = Before {
        job: &job,
        same_id: Some(&earlier),
        epoch: Some(Epoch(9)),
        version: Some(Version(4)),
    };
    // Neither the tombstone nor the newer epoch makes what has landed unlanded.
    assert_eq!(judge(&write(7, Writer::Fenced(Epoch(1))), before).unwrap(), Verdict::Repeat);
    refused(&write(8, Writer::Anonymous), before, ErrorKind::Conflict);
}

#[test]
fn a_write_must_fit_its_job() {
    let declared = job(1, Some(&["b"]));
    let before = Before { job: &declared, same_id: None, epoch: None, version: None };
    let why = refused(&write(1, Writer::Anonymous), before, ErrorKind::Invalid);
    assert_eq!(why, "tag `a` must be one of the declared tags of job `job`: b");
    let mut of_task_1 = write(1, Writer::Anonymous);
    of_task_1.task = TaskIndex(1);
    let why = refused(&of_task_1, before, ErrorKind::Invalid);
    assert_eq!(why, "task `1` must be below the number of tasks of job `job`, 1");
}

#[test]
fn a_tombstoned_job_takes_no_write() {
    let mut job = job(1, None);
    job.tombstoned_at = Some(Timestamp::from_micros(0));
    let before = Before { job: &job, same_id: None, epoch: None, version: None };
    refused(&write(1, Writer::Anonymous), before, ErrorKind::Tombstoned);
}

#[test]
fn a_handle_of_an_earlier_life_finds_nothing() {
    let job = job(1, None);
    let id = job.id.clone();
    assert!(resolve(&JobRef::current(id.clone()), Some(&job)).is_ok());
    assert!(resolve(&JobRef::from(&job), Some(&job)).is_ok());
    let earlier = JobRef { id: id.clone(), life: Life::Exactly(ScopeId(4)) };
    assert_eq!(resolve(&earlier, Some(&job)).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(resolve(&JobRef::current(id), None).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_manager_writes_for_itself() {
    let job = job(2, None);
    let own = Draft::new(tag("a"), Status(1)).of_job(job.id.clone()).of_task(TaskIndex(1));
    assert!(check_is_own(&own, &job, TaskIndex(1)).is_ok());
    assert_eq!(check_is_own(&own, &job, TaskIndex(0)).unwrap_err().field(), Some("task"));
    let foreign = own.of_job(JobId::new("other").unwrap());
    assert_eq!(check_is_own(&foreign, &job, TaskIndex(1)).unwrap_err().field(), Some("job"));
}

#[test]
fn a_mark_is_added_once() {
    assert_eq!(marked("🔴", "disk full"), "🔴 disk full");
    assert_eq!(marked("🔴", "🔴 disk full"), "🔴 disk full");
}

#[test]
fn the_code_of_an_error_is_negative_and_not_the_warning() {
    assert_eq!(check_error_code(Status(-7)).unwrap(), Status(-7));
    for code in [0, 1, -2] {
        assert!(check_error_code(Status(code)).is_err());
    }
}

#[test]
fn only_an_ended_job_expires_and_only_after_its_time() {
    let at = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
    let keep = Duration::from_secs(10);
    let finished = [report(0, "a", MAX)];
    assert!(is_expired(&job(1, None), &finished, at(0), at(10), keep));
    assert!(!is_expired(&job(1, None), &finished, at(1), at(10), keep));
    assert!(!is_expired(&job(2, None), &finished, at(0), at(10), keep), "task 1 is missing");
    assert!(!is_expired(&job(1, None), &[report(0, "a", -1)], at(0), at(10), keep));
    let tombstoned = Job { tombstoned_at: Some(at(0)), ..job(1, None) };
    assert!(is_expired(&tombstoned, &[], at(0), at(10), keep));
}

#[test]
fn declared_tags_are_in_order_each_once_and_bounded() {
    let names = |names: &[&str]| names.iter().map(|name| tag(name)).collect::<Vec<_>>();
    let declared =
        |tasks: u32, tags: Option<&[Tag]>| declared(TaskCount::new(tasks).unwrap(), tags);
    assert_eq!(declared(1, None).unwrap(), None);
    assert_eq!(declared(1, Some(&names(&["b", "a", "b"]))).unwrap(), Some(names(&["a", "b"])));
    assert_eq!(declared(1, Some(&[])).unwrap_err().field(), Some("tags"));
    assert!(declared(500_000, Some(&names(&["a", "b"]))).is_ok());
    assert_eq!(declared(500_001, Some(&names(&["a", "b"]))).unwrap_err().field(), Some("tags"));
    let many: Vec<_> = (0..=DECLARED_TAGS_MAX).map(|index| tag(&index.to_string())).collect();
    assert!(declared(1, Some(&many)).is_err());
}
