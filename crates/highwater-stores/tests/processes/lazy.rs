//! Subscribers that are never polled, through 100,000 writes: bounded memory, and nothing lost.

use std::{
    io::{BufRead as _, BufReader},
    sync::Arc,
};

use futures_util::StreamExt as _;
use highwater::{
    feed::{Patience, Start, Step},
    jobs::{
        Draft, Filter, FollowRequest, JobId, JobRef, JobStore, Status, Tag, TaskCount, TaskIndex,
        Write, Writer,
    },
};
use highwater_stores::sqlite::{SqliteOptions, SqliteStore};
use libtest_mimic::Failed;

use super::{Ended, say, this_binary_as};

const WRITES: i32 = 100_000;
const WRITERS: u32 = 64;
const SUBSCRIBERS: usize = 50;

/// What the subscribers together may cost. Were each to buffer what it has not read, it would be
/// 50 × 100,000 events.
const GROWTH_KIB_MAX: u64 = 16 * 1024;

pub(super) fn is_bounded() -> Result<(), Failed> {
    let without = measure(0)?;
    let with = measure(SUBSCRIBERS)?;
    assert!(
        with < without + GROWTH_KIB_MAX,
        "{SUBSCRIBERS} idle subscribers: {with} KiB; without them: {without} KiB"
    );
    Ok(())
}

/// The memory of a process with so many subscribers, in KiB.
fn measure(subscribers: usize) -> Result<u64, Failed> {
    let mut process = Ended(this_binary_as("lazy", &[&subscribers.to_string()]).spawn()?);
    let mut line = String::new();
    BufReader::new(process.0.stdout.as_mut().unwrap()).read_line(&mut line)?;
    assert!(process.0.wait()?.success());
    Ok(line.trim().parse()?)
}

pub(super) async fn child(arguments: &[&str]) {
    let subscribers: usize = arguments[0].parse().unwrap();
    let store = Arc::new(SqliteStore::open_temporary(SqliteOptions::default()).await.unwrap());
    let id = JobId::new("job").unwrap();
    store.open(&id, TaskCount::new(WRITERS).unwrap(), None).await.unwrap();
    let job = JobRef::current(id);
    let mut lazy = Vec::new();
    for _ in 0..subscribers {
        let (filter, start, patience) = (Filter::job(), Start::Snapshot, Patience::Endless);
        lazy.push(store.follow(&job, FollowRequest { filter, start, patience }).await.unwrap());
    }
    let mut writers = tokio::task::JoinSet::new();
    for task in 0..WRITERS {
        let (store, job) = (Arc::clone(&store), job.clone());
        writers.spawn(async move {
            for status in (1..=WRITES).filter(|status| status.unsigned_abs() % WRITERS == task) {
                let draft =
                    Draft::new(Tag::new("t").unwrap(), Status(status)).message("x".repeat(200));
                let write =
                    Write::new(job.clone(), TaskIndex(task), draft, Writer::Anonymous).unwrap();
                store.set(write).await.unwrap();
            }
        });
    }
    writers.join_all().await;
    say(&anonymous_memory_kib().to_string());
    if let Some(first) = lazy.pop() {
        let changes =
            first.filter(|delivery| std::future::ready(matches!(delivery.step, Step::Change(_))));
        let told = changes.take(WRITES.unsigned_abs() as usize).count().await;
        assert_eq!(told, WRITES.unsigned_abs() as usize);
    }
}

/// Without the pages of the file, which the kernel may keep or not as it likes.
fn anonymous_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}
