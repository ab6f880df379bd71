//! The rules of jobs, each a pure function. Engines and managers ask them and never decide by
//! themselves.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{
    Draft, Epoch, Filter, Job, JobRef, Life, Report, Status, Tag, TaskCount, TaskIndex, Version,
    Write, Writer,
};
use crate::{
    Error, ErrorKind, Result,
    clock::Timestamp,
    limits::{DECLARED_CELLS_MAX, DECLARED_TAGS_MAX},
};

/// The job that `wanted` means, given the one that has its name now.
pub fn resolve<'a>(wanted: &JobRef, found: Option<&'a Job>) -> Result<&'a Job> {
    match (found, wanted.life) {
        (None, _) => Err(not_found(format!("job `{}` does not exist", wanted.id))),
        (Some(job), Life::Exactly(life)) if job.incarnation != life => Err(not_found(format!(
            "job `{}` was deleted and created again; this handle belongs to its earlier life",
            wanted.id
        ))),
        (Some(job), _) => Ok(job),
    }
}

fn not_found(detail: String) -> Error {
    Error::new(ErrorKind::NotFound, detail)
}

/// A tombstoned job takes no writes and no new managers.
pub fn check_is_alive(job: &Job) -> Result<()> {
    match job.tombstoned_at {
        None => Ok(()),
        Some(since) => {
            let detail = format!("job `{}` is marked as deleted since {since}", job.id);
            Err(Error::new(ErrorKind::Tombstoned, detail))
        }
    }
}

/// Declared tags as they are stored: in order, each once, at least one.
pub fn declared(num_tasks: TaskCount, tags: Option<&[Tag]>) -> Result<Option<Vec<Tag>>> {
    let Some(tags) = tags else { return Ok(None) };
    if tags.is_empty() || tags.len() > DECLARED_TAGS_MAX {
        let rule = format!("must be between 1 and {DECLARED_TAGS_MAX} where tags are declared");
        return Err(Error::invalid("tags", tags.len(), &rule));
    }
    let tags: BTreeSet<Tag> = tags.iter().cloned().collect();
    if tags.len() as u64 * u64::from(num_tasks.get()) > DECLARED_CELLS_MAX {
        let rule = format!(
            "must be fewer: {} tasks owe a state in each, and a job has at most {DECLARED_CELLS_MAX} such cells",
            num_tasks.get()
        );
        return Err(Error::invalid("tags", tags.len(), &rule));
    }
    Ok(Some(tags.into_iter().collect()))
}

/// A job has the tasks from 0 to its number of tasks, and no others.
pub fn check_task(job: &Job, task: TaskIndex) -> Result<()> {
    if job.num_tasks.has(task) {
        return Ok(());
    }
    let rule =
        format!("must be below the number of tasks of job `{}`, {}", job.id, job.num_tasks.get());
    Err(Error::invalid("task", task, &rule))
}

/// A job with declared tags has no others.
pub fn check_tag(job: &Job, tag: &Tag) -> Result<()> {
    match &job.tags {
        Some(declared) if !declared.contains(tag) => {
            let names: Vec<_> = declared.iter().take(8).map(Tag::as_str).collect();
            let more = if declared.len() > names.len() { ", …" } else { "" };
            let rule = format!(
                "must be one of the declared tags of job `{}`: {}{more}",
                job.id,
                names.join(", ")
            );
            Err(Error::invalid("tag", tag, &rule))
        }
        Some(_) | None => Ok(()),
    }
}

/// One can only ask for tasks and tags that there can be.
pub fn check_filter(job: &Job, filter: &Filter) -> Result<()> {
    filter.task.map_or(Ok(()), |task| check_task(job, task))?;
    filter.tag.as_ref().map_or(Ok(()), |tag| check_tag(job, tag))
}

/// What the store knows when a write arrives.
#[derive(Debug, Clone, Copy)]
pub struct Before<'a> {
    /// The job.
    pub job: &'a Job,
    /// What was written before under the same event id, to the same task and tag.
    pub same_id: Option<&'a Report>,
    /// The epoch of the task's newest manager, if it ever had one.
    pub epoch: Option<Epoch>,
    /// The version of this task and tag, if it was ever written.
    pub version: Option<Version>,
}

/// What is to be done with a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Store it as this version.
    Apply(Version),
    /// It was stored before: answer what was answered then.
    Repeat,
}

/// Whether a write is to be applied, repeated or refused. A refusal changes nothing.
///
/// The event id is looked up before the epoch and the tombstone: a retry of what has landed is told
/// so, whatever happened since.
pub fn judge(write: &Write, before: Before<'_>) -> Result<Verdict> {
    check_task(before.job, write.task)?;
    check_tag(before.job, &write.tag)?;
    if let Some(earlier) = before.same_id {
        return if says_the_same(write, earlier) {
            Ok(Verdict::Repeat)
        } else {
            Err(id_conflict(write, earlier))
        };
    }
    check_is_alive(before.job)?;
    check_epoch(write, before.epoch)?;
    Ok(Verdict::Apply(before.version.map_or(Version::FIRST, Version::next)))
}

fn says_the_same(write: &Write, earlier: &Report) -> bool {
    write.status == earlier.status
        && write.message == earlier.message
        && write.payload == earlier.payload
        && write.schema_version == earlier.schema_version
}

fn id_conflict(write: &Write, earlier: &Report) -> Error {
    let detail = format!(
        "event_id `{}` was used before, for other content (version {} of task {}, tag `{}`): \
         a new write needs a new id",
        write.event_id, earlier.version, earlier.task, earlier.tag
    );
    Error::new(ErrorKind::Conflict, detail)
}

fn check_epoch(write: &Write, newest: Option<Epoch>) -> Result<()> {
    let refuse = |why: String| Err(Error::new(ErrorKind::Fenced, why));
    match (write.writer, newest) {
        (Writer::Anonymous, _) => Ok(()),
        (Writer::Fenced(mine), Some(newest)) if mine == newest => Ok(()),
        (Writer::Fenced(mine), Some(newest)) if mine < newest => {
            refuse(format!("epoch {mine} of task {} was superseded by epoch {newest}", write.task))
        }
        (Writer::Fenced(mine), _) => {
            refuse(format!("epoch {mine} of task {} was never given out", write.task))
        }
    }
}

/// The epoch of a task's next manager.
pub fn next_epoch(newest: Option<Epoch>) -> Epoch {
    newest.map_or(Epoch(1), |Epoch(newest)| Epoch(newest + 1))
}

/// What a task other than 0 gets for a job-wide write: nothing, and it is told so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobWide {
    /// It counts.
    Counts,
    /// It is ignored.
    Ignored,
}

/// Only task 0 writes what belongs to the whole job.
pub fn job_wide_write(by: TaskIndex) -> JobWide {
    if by == TaskIndex(0) { JobWide::Counts } else { JobWide::Ignored }
}

/// A manager writes for its own task of its own job.
pub fn check_is_own(draft: &Draft, job: &Job, task: TaskIndex) -> Result<()> {
    if let Some(other) = draft.job.as_ref().filter(|&other| *other != job.id) {
        return Err(Error::invalid(
            "job",
            other,
            &format!("must be the manager's own job, `{}`", job.id),
        ));
    }
    if let Some(other) = draft.task.filter(|&other| other != task) {
        return Err(Error::invalid(
            "task",
            other,
            &format!("must be the manager's own task, {task}"),
        ));
    }
    Ok(())
}

/// The code of an error: negative, and not the one that means a warning.
pub fn check_error_code(code: Status) -> Result<Status> {
    if code.is_error() {
        return Ok(code);
    }
    Err(Error::invalid("code", code.0, "must be negative and not -2, which stands for a warning"))
}

/// A message behind its mark, which is added once: a message that was read back can be set again.
pub fn marked(mark: &str, message: &str) -> String {
    if message.starts_with(mark) { message.to_owned() } else { format!("{mark} {message}") }
}

/// What a task owes a state for: reported, or missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell<'a> {
    /// Whose.
    pub task: TaskIndex,
    /// In which work stream; `None` if the task has not reported at all, so that no tag is known.
    pub tag: Option<&'a Tag>,
    /// What it reported, if it did.
    pub report: Option<&'a Arc<Report>>,
}

impl Cell<'_> {
    /// Silence counts as not started.
    pub fn status(&self) -> Status {
        self.report.map_or(Status::NOT_STARTED, |report| report.status)
    }
}

/// Visits every cell of the job that `filter` selects, by task, then by tag.
///
/// A selected tag is owed by every task, and so is every declared one. Where tags are not known a
/// task owes what it reported, and at least one report.
///
/// `reports` are those that `filter` selects, by task, then by tag.
pub fn for_each_cell<'a>(
    job: &'a Job,
    filter: &'a Filter,
    reports: &'a [Arc<Report>],
    mut visit: impl FnMut(Cell<'a>),
) {
    let owed: Option<&[Tag]> = match (&filter.tag, &job.tags) {
        (Some(tag), _) => Some(std::slice::from_ref(tag)),
        (None, Some(declared)) => Some(declared),
        (None, None) => None,
    };
    let mut rest = reports;
    let first_and_last = match filter.task {
        Some(TaskIndex(task)) => (task, task),
        None => (0, job.num_tasks.get() - 1),
    };
    for task in (first_and_last.0..=first_and_last.1).map(TaskIndex) {
        let (of_task, others) =
            rest.split_at(rest.iter().take_while(|report| report.task == task).count());
        rest = others;
        match owed {
            None if of_task.is_empty() => visit(Cell { task, tag: None, report: None }),
            None => {
                for report in of_task {
                    visit(Cell { task, tag: Some(&report.tag), report: Some(report) });
                }
            }
            Some(tags) => {
                for tag in tags {
                    let found = of_task.binary_search_by(|report| report.tag.cmp(tag)).ok();
                    visit(Cell {
                        task,
                        tag: Some(tag),
                        report: found.map(|index| &of_task[index]),
                    });
                }
            }
        }
    }
}

/// Where a job, a tag or a task stands, and what holds it there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The task that holds it back.
    pub task: TaskIndex,
    /// Its tag; `None` if the task has not reported at all.
    pub tag: Option<Tag>,
    /// How far it got.
    pub status: Status,
    /// The winning state; `None` where silence won.
    pub report: Option<Arc<Report>>,
    /// Since when the job is marked as deleted.
    pub tombstoned_at: Option<Timestamp>,
}

/// Lowest status wins: a job stands where its slowest task stands.
///
/// Ties go to the lowest task, then to the lowest tag, so all readers name the same one.
pub fn standing(job: &Job, filter: &Filter, reports: &[Arc<Report>]) -> Standing {
    let mut lowest: Option<Cell<'_>> = None;
    for_each_cell(job, filter, reports, |cell| {
        if lowest.is_none_or(|lowest| cell.status() < lowest.status()) {
            lowest = Some(cell);
        }
    });
    // A job has at least one task, and a task at least one cell.
    let lowest = lowest.unwrap_or(Cell { task: TaskIndex(0), tag: None, report: None });
    Standing {
        task: lowest.task,
        tag: lowest.tag.cloned(),
        status: lowest.status(),
        report: lowest.report.cloned(),
        tombstoned_at: job.tombstoned_at,
    }
}

/// The worst error: the lowest status that is one, which a warning may be hiding.
///
/// `reports` are in the order of task, then tag, which decides between equals.
pub fn worst_error(reports: &[Arc<Report>]) -> Option<&Arc<Report>> {
    reports.iter().filter(|report| report.status.is_error()).min_by_key(|report| report.status)
}

/// Whether a job is to be erased: it ended, and nothing happened to it for `keep`.
pub fn is_expired(
    job: &Job,
    reports: &[Arc<Report>],
    last_change: Timestamp,
    now: Timestamp,
    keep: Duration,
) -> bool {
    let has_ended = || {
        job.tombstoned_at.is_some()
            || standing(job, &Filter::job(), reports).status == Status::FINISHED
    };
    last_change <= now.earlier_by(keep) && has_ended()
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
