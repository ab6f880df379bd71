//! J10 to J15: what a subscriber is told, and that nothing else is.

use std::{sync::Arc, time::Duration};

use highwater::{
    Error, ErrorKind,
    feed::{Seq, Start, Token},
    jobs::{Draft, Filter, Manager, Report, Status, Subscription, TaskIndex},
    retention::Retention,
};

use crate::{
    history::{History, Told},
    promise::{Bed, promises, tag},
};

promises![
    a_snapshot_is_in_order_and_has_one_marker,
    a_filter_selects_replay_and_changes,
    every_racing_write_is_told_once,
    a_nonstop_writer_cannot_postpone_the_marker,
    a_subscriber_that_is_never_polled_loses_nothing_and_delays_nobody,
    a_subscription_resumes_behind_every_step,
    a_state_rewritten_before_its_turn_comes_live_only,
    a_foreign_or_damaged_token_is_refused,
    a_reader_behind_the_retention_is_reset,
    deleting_a_job_ends_its_subscriptions_behind_its_last_change,
    a_tombstone_ends_subscriptions_old_and_new,
    closing_a_manager_ends_its_subscriptions,
];

async fn history_to(manager: &Manager, filter: Filter, revision: Seq) -> History {
    let mut history = History::default();
    history.follow_to(&mut manager.subscribe(filter).await.unwrap(), revision).await;
    history
}

/// J10: existing states only, oldest change first, one marker, also when there is nothing.
async fn a_snapshot_is_in_order_and_has_one_marker(bed: Bed) {
    let manager = bed.manager(0, 3).await;
    let mut history = History::default();
    let is_marker = |told: &Told| matches!(told, Told::SnapshotEnd { .. });
    history.follow(&mut manager.subscribe(Filter::job()).await.unwrap(), is_marker).await;
    assert!(matches!(history.steps[..], [Told::SnapshotEnd { count: 0, .. }]), "{history:?}");
    bed.put("job", 2, "z", 1).await;
    bed.put("job", 0, "a", 1).await;
    // The order is the store's, not the timestamps'.
    bed.clock.set_back(Duration::from_hours(1));
    let oldest = bed.put("job", 1, "m", 1).await;
    let rewritten = bed.put("job", 0, "a", 2).await;
    let history = history_to(&manager, Filter::job(), rewritten.report().revision).await;
    history.check_protocol().unwrap();
    let order: Vec<_> = history.reports().map(|report| (report.task.0, report.version.0)).collect();
    assert_eq!(order, [(2, 1), (1, 1), (0, 2)]);
    assert!(rewritten.report().revision > oldest.report().revision);
    let expected = Told::SnapshotEnd { revision: rewritten.report().revision, count: 3 };
    assert_eq!(history.steps.last(), Some(&expected));
}

/// J10, in all four scopes.
async fn a_filter_selects_replay_and_changes(bed: Bed) {
    let manager = bed.manager(0, 2).await;
    let filters = [
        Filter::job(),
        Filter::job().task(TaskIndex(1)),
        Filter::job().tag(tag("a")),
        Filter::job().task(TaskIndex(1)).tag(tag("a")),
    ];
    let cells = [(0, "a"), (0, "b"), (1, "a"), (1, "b")];
    for (task, name) in cells {
        bed.put("job", task, name, 1).await;
    }
    let mut subscriptions = Vec::new();
    for filter in &filters {
        let mut subscription = manager.subscribe(filter.clone()).await.unwrap();
        let mut history = History::default();
        history.follow(&mut subscription, |told| matches!(told, Told::SnapshotEnd { .. })).await;
        subscriptions.push((subscription, history));
    }
    let mut last = Seq::ZERO;
    for (task, name) in cells {
        last = bed.put("job", task, name, 2).await.report().revision;
    }
    manager.mark_deleted().await.unwrap();
    for (filter, (mut subscription, mut history)) in filters.into_iter().zip(subscriptions) {
        history.follow(&mut subscription, |told| matches!(told, Told::End(_))).await;
        history.check_protocol().unwrap();
        let selected = |task: u32, name: &str| {
            filter.task.is_none_or(|wanted| wanted.0 == task)
                && filter.tag.as_ref().is_none_or(|wanted| wanted.as_str() == name)
        };
        let expected: Vec<_> =
            cells.into_iter().filter(|&(task, name)| selected(task, name)).collect();
        let told = |wanted: i32| -> Vec<_> {
            let reports = history.reports().filter(|report| report.status.0 == wanted);
            reports.map(|report| (report.task.0, report.tag.to_string())).collect()
        };
        let expected: Vec<_> =
            expected.into_iter().map(|(task, name)| (task, name.to_owned())).collect();
        assert_eq!((told(1), told(2)), (expected.clone(), expected), "{filter:?} up to {last}");
    }
}

/// Writes from many tasks at once; answers every write in the order of revisions.
async fn race(bed: &Bed, tasks: u32, times: i32) -> Vec<Arc<Report>> {
    let mut race = tokio::task::JoinSet::new();
    for task in 0..tasks {
        let bed = bed.clone();
        race.spawn(async move {
            let mut written = Vec::new();
            for status in 1..=times {
                written.push(Arc::clone(bed.put("job", task, "t", status).await.report()));
            }
            written
        });
    }
    let mut log: Vec<_> = race.join_all().await.into_iter().flatten().collect();
    log.sort_by_key(|report| report.revision);
    log
}

/// J11: subscribers that attach while 10,000 writes race see every version once.
async fn every_racing_write_is_told_once(bed: Bed) {
    let manager = Arc::new(bed.manager(0, 50).await);
    let racing = {
        let bed = bed.clone();
        tokio::spawn(async move { race(&bed, 50, 200).await })
    };
    let mut reading = tokio::task::JoinSet::new();
    for subscriber in 0..5_u32 {
        // Each attaches after the race has gone on for a while, which the feed itself tells.
        let manager = Arc::clone(&manager);
        reading.spawn(async move {
            let mut scout = manager.subscribe(Filter::job()).await.unwrap();
            let mut seen = 0;
            while seen < subscriber * 500 {
                scout.next().await.unwrap();
                seen += 1;
            }
            drop(scout);
            let mut subscription = manager.subscribe(Filter::job()).await.unwrap();
            let mut history = History::default();
            history.follow(&mut subscription, |told| matches!(told, Told::End(_))).await;
            history
        });
    }
    let log = racing.await.unwrap();
    assert_eq!(log.len(), 10_000);
    manager.mark_deleted().await.unwrap();
    for history in reading.join_all().await {
        history.check_is_complete(&log).unwrap();
    }
}

/// J10: the boundary is fixed at registration.
async fn a_nonstop_writer_cannot_postpone_the_marker(bed: Bed) {
    let manager = bed.manager(0, 1).await;
    let drafts = (0..3_000).map(|index| Draft::new(tag(&format!("tag {index}")), Status(1)));
    bed.set_all("job", 0, drafts).await;
    let before = bed.put("job", 0, "t", 1).await.report().revision;
    let (stop, mut stopped) = tokio::sync::watch::channel(false);
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..4 {
        let (bed, stopped) = (bed.clone(), stopped.clone());
        writers.spawn(async move {
            let mut status = 0;
            while !*stopped.borrow() {
                status += 1;
                bed.put("job", 0, &format!("busy {writer}"), status).await;
            }
        });
    }
    let mut subscription = manager.subscribe(Filter::job()).await.unwrap();
    let mut history = History::default();
    history.follow(&mut subscription, |told| matches!(told, Told::SnapshotEnd { .. })).await;
    stop.send(true).unwrap();
    stopped.mark_unchanged();
    writers.join_all().await;
    let Some(&Told::SnapshotEnd { revision, count }) = history.steps.last() else {
        panic!("no marker")
    };
    assert!(revision >= before && (3_001..=3_005).contains(&count), "{count} up to {revision}");
    history.check_protocol().unwrap();
}

/// J12, J13: it reads the feed at its own pace, as late as it likes.
async fn a_subscriber_that_is_never_polled_loses_nothing_and_delays_nobody(bed: Bed) {
    let manager = bed.manager(0, 50).await;
    let mut lazy = manager.subscribe(Filter::job()).await.unwrap();
    let mut eager = manager.subscribe(Filter::job()).await.unwrap();
    let keeping_up = tokio::spawn(async move {
        let mut history = History::default();
        history.follow(&mut eager, |told| matches!(told, Told::End(_))).await;
        history
    });
    let log = race(&bed, 50, 200).await;
    manager.mark_deleted().await.unwrap();
    keeping_up.await.unwrap().check_is_complete(&log).unwrap();
    let mut history = History::default();
    history.follow(&mut lazy, |told| matches!(told, Told::End(_))).await;
    history.check_is_complete(&log).unwrap();
}

/// J14: from every token on the way, in the replay too, what follows is what followed.
async fn a_subscription_resumes_behind_every_step(bed: Bed) {
    let manager = bed.manager(0, 4).await;
    for task in 0..4 {
        bed.put("job", task, "t", 1).await;
    }
    let mut subscription = manager.subscribe(Filter::job()).await.unwrap();
    let mut last = Seq::ZERO;
    for status in 2..=4 {
        last = bed.put("job", 0, "other", status).await.report().revision;
    }
    let mut whole = History::default();
    whole.follow_to(&mut subscription, last).await;
    assert_eq!(whole.steps.len(), 4 + 1 + 3);
    for (index, token) in whole.tokens.iter().enumerate().take(whole.steps.len() - 1) {
        let start = Start::After(token.clone().unwrap());
        let mut resumed = manager.subscribe_from(Filter::job(), start).await.unwrap();
        let mut history = History::default();
        history.follow_to(&mut resumed, last).await;
        assert_eq!(history.steps, whole.steps[index + 1..], "behind step {index}");
    }
}

/// J10: its turn in the replay is skipped, and its change is told behind the marker.
async fn a_state_rewritten_before_its_turn_comes_live_only(bed: Bed) {
    let manager = bed.manager(0, 3).await;
    for task in 0..3 {
        bed.put("job", task, "t", 1).await;
    }
    let mut first = manager.subscribe(Filter::job()).await.unwrap();
    let token = first.next().await.unwrap().token().unwrap();
    drop(first);
    let last = bed.put("job", 2, "t", 2).await.report().revision;
    let mut resumed = manager.subscribe_from(Filter::job(), Start::After(token)).await.unwrap();
    let mut history = History::default();
    history.follow_to(&mut resumed, last).await;
    let [Told::Replay(second), Told::SnapshotEnd { count: 2, .. }, Told::Change(rewritten)] =
        &history.steps[..]
    else {
        panic!("{history:?}")
    };
    assert_eq!((second.task.0, rewritten.task.0, rewritten.version.0), (1, 2, 2));
}

/// J14: damaged, of another job, another life, another selection.
async fn a_foreign_or_damaged_token_is_refused(bed: Bed) {
    let manager = bed.manager(0, 1).await;
    let written = bed.put("job", 0, "t", 1).await;
    let history = history_to(&manager, Filter::job(), written.report().revision).await;
    let token = history.tokens[0].clone().unwrap();
    let refused = |result: highwater::Result<Subscription>, what: &str| {
        let error: Error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadToken, "{what}: {error}");
    };
    let from = |token: &Token| Start::After(token.clone());
    for damaged in
        [format!("{token}A"), token.as_str()[1..].to_owned(), String::new(), "☃".to_owned()]
    {
        let start = Start::After(Token::from_text(damaged.clone()));
        refused(manager.subscribe_from(Filter::job(), start).await, &damaged);
    }
    let other_job = bed.manager_of("other", 0, 1).await;
    refused(other_job.subscribe_from(Filter::job(), from(&token)).await, "another job");
    let other_tag = Filter::job().tag(tag("t"));
    refused(manager.subscribe_from(other_tag, from(&token)).await, "another selection");
    assert!(manager.subscribe_from(Filter::job(), from(&token)).await.is_ok());
    manager.delete().await.unwrap();
    let next_life = bed.manager(0, 1).await;
    refused(next_life.subscribe_from(Filter::job(), from(&token)).await, "another life");
}

/// J13: a typed reset, then a new snapshot with its own marker, then changes.
async fn a_reader_behind_the_retention_is_reset(bed: Bed) {
    let manager = bed.manager(0, 2).await;
    let mut subscription = manager.subscribe(Filter::job()).await.unwrap();
    let mut history = History::default();
    history.follow(&mut subscription, |told| matches!(told, Told::SnapshotEnd { .. })).await;
    // More than fits in any buffer on the way, so that the reader depends on what the feed still has.
    let long = "x".repeat(12_000);
    let drafts = (1..=2_000).map(|status| Draft::new(tag("t"), Status(status)).message(&long));
    bed.set_all("job", 0, drafts).await;
    bed.clock.advance(Duration::from_hours(8 * 24));
    // The engine may have done it by itself, now that the time has come.
    bed.upkeep.sweep(&Retention::default()).await.unwrap();
    let last = bed.put("job", 1, "t", 7).await.report().revision;
    let mut history = History::default();
    history.follow_to(&mut subscription, last).await;
    let sent_before =
        history.steps.iter().take_while(|told| matches!(told, Told::Change(_))).count();
    let [
        Told::Reset,
        Told::Replay(state),
        Told::Replay(newest),
        Told::SnapshotEnd { count: 2, revision },
    ] = &history.steps[sent_before..]
    else {
        panic!("{:?} behind {sent_before} changes", history.steps.get(sent_before))
    };
    assert!(sent_before < 2_000, "nothing was left to be trimmed");
    assert_eq!((state.version.0, newest.revision, *revision), (2_000, last, last));
    let after = bed.put("job", 0, "t", 9).await.report().revision;
    let mut history = History::default();
    history.follow_to(&mut subscription, after).await;
    assert!(matches!(&history.steps[..], [Told::Change(_)]), "{history:?}");
}

/// J10, J15: everything that was written, then the reason.
async fn deleting_a_job_ends_its_subscriptions_behind_its_last_change(bed: Bed) {
    let manager = bed.manager(0, 1).await;
    let mut subscription = manager.subscribe(Filter::job()).await.unwrap();
    bed.put("job", 0, "t", 1).await;
    manager.delete().await.unwrap();
    let recreated = bed.manager(0, 1).await;
    recreated.set_state(Draft::new(tag("t"), Status(9))).await.unwrap();
    let mut history = History::default();
    history.follow(&mut subscription, |told| matches!(told, Told::End(_))).await;
    let [Told::SnapshotEnd { count: 0, .. }, Told::Change(report), Told::End("deleted")] =
        &history.steps[..]
    else {
        panic!("{history:?}")
    };
    assert_eq!(report.status, Status(1));
    assert!(subscription.next().await.is_none());
    let mut of_new_life = recreated.subscribe(Filter::job()).await.unwrap();
    let first = of_new_life.next().await.unwrap();
    let mut history = History::default();
    history.push(first);
    assert!(
        matches!(&history.steps[..], [Told::Replay(report)] if report.version.0 == 1),
        "{history:?}"
    );
}

/// J1: running ones end, new ones show what there is and end.
async fn a_tombstone_ends_subscriptions_old_and_new(bed: Bed) {
    let manager = bed.manager(0, 1).await;
    bed.put("job", 0, "t", 1).await;
    let mut running = manager.subscribe(Filter::job()).await.unwrap();
    let mut before = History::default();
    before.follow(&mut running, |told| matches!(told, Told::SnapshotEnd { .. })).await;
    let waiting = tokio::spawn(async move { Told::from(running.next().await.unwrap().step) });
    manager.mark_deleted().await.unwrap();
    assert_eq!(waiting.await.unwrap(), Told::End("deleted"));
    let mut new = manager.subscribe(Filter::job()).await.unwrap();
    let mut history = History::default();
    history.follow(&mut new, |told| matches!(told, Told::End(_))).await;
    assert!(
        matches!(
            &history.steps[..],
            [Told::Replay(_), Told::SnapshotEnd { count: 1, .. }, Told::End("deleted")]
        ),
        "{history:?}"
    );
}

/// J15, J17: a subscriber that waits is told at once, and everything else is refused.
async fn closing_a_manager_ends_its_subscriptions(bed: Bed) {
    let manager = bed.manager(0, 1).await;
    let mut subscription = manager.subscribe(Filter::job()).await.unwrap();
    let mut before = History::default();
    before.follow(&mut subscription, |told| matches!(told, Told::SnapshotEnd { .. })).await;
    let waiting = tokio::spawn(async move {
        let told = Told::from(subscription.next().await.unwrap().step);
        (told, subscription.next().await.is_none())
    });
    manager.close();
    assert_eq!(waiting.await.unwrap(), (Told::End("cancelled"), true));
    assert_eq!(manager.set_started(tag("t"), "").await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(manager.get_state(&Filter::job()).await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(manager.subscribe(Filter::job()).await.unwrap_err().kind(), ErrorKind::Closed);
    bed.put("job", 0, "t", 1).await;
}
