//! Drives an engine and the memory store with the same random calls: they must answer alike.

use std::{collections::HashMap, fmt::Debug, sync::Arc, time::Duration};

use highwater::{
    Result,
    clock::Clock as _,
    feed::{Patience, Seq, Start, Token},
    jobs::{
        Deletion, Draft, Epoch, Filter, FollowRequest, JobRef, JobStore, ListJobs, Payload, Shown,
        Status, TaskCount, TaskIndex, Write, Writer,
    },
    limits::Limits,
    memory::MemoryStore,
    retention::{Retention, Upkeep},
};

use crate::{
    history::{History, Told},
    prng::Prng,
    promise::{Bed, event_id, job_id, tag},
};

const STEPS: usize = 1_000;

/// One call, with everything it needs: the same for both stores.
#[derive(Debug)]
enum Op {
    Open { job: &'static str, tasks: u32, tags: Option<Vec<&'static str>> },
    TakeOver { job: &'static str, task: u32 },
    Set { job: &'static str, task: u32, draft: Draft, writer: Writer },
    Read { job: &'static str, filter: Filter, at_least: u64 },
    List(ListJobs),
    Delete { job: &'static str, how: Deletion },
    Snapshot { job: &'static str, filter: Filter },
    Resume { job: &'static str },
    Sweep(Retention),
    TimePasses(Duration),
}

const JOBS: &[&str] = &["a", "b", "b/c", "ü"];
const TAGS: &[&str] = &["x", "y", "x/y"];

impl Op {
    fn random(prng: &mut Prng) -> Op {
        let job = *prng.pick(JOBS);
        let task = u32::try_from(prng.below(4)).unwrap();
        match prng.below(100) {
            0..10 => {
                let tags = (prng.below(4) == 0).then(|| vec![*prng.pick(TAGS), *prng.pick(TAGS)]);
                Op::Open { job, tasks: task + 1, tags }
            }
            10..16 => Op::TakeOver { job, task },
            16..60 => Op::Set { job, task, draft: draft(prng), writer: writer(prng) },
            60..72 => Op::Read { job, filter: filter(prng), at_least: prng.below(12) },
            72..76 => Op::List(ListJobs {
                prefix: (*prng.pick(&["", "b", "b/", "z"])).to_owned(),
                shown: *prng.pick(&[Shown::All, Shown::Alive, Shown::Tombstoned]),
                after: (prng.below(3) == 0).then(|| job_id(job)),
                limit: usize::try_from(prng.below(4)).unwrap(),
            }),
            76..80 => Op::Delete { job, how: *prng.pick(&[Deletion::Tombstone, Deletion::Erase]) },
            80..86 => Op::Snapshot { job, filter: filter(prng) },
            86..93 => Op::Resume { job },
            93..95 => {
                let ended_jobs = (prng.below(2) == 0).then(|| Duration::from_secs(prng.below(100)));
                let feed_age = Duration::from_secs(prng.below(100));
                Op::Sweep(Retention { feed_age, feed_events: prng.below(60), ended_jobs })
            }
            _ => Op::TimePasses(Duration::from_millis(prng.below(20_000))),
        }
    }
}

fn draft(prng: &mut Prng) -> Draft {
    let status = *prng.pick(&[i32::MIN, -2, -1, 0, 1, 50, i32::MAX, i32::MAX]);
    let mut draft = Draft::new(tag(prng.pick::<&str>(TAGS)), Status(status));
    if status != 0 && prng.below(3) == 0 {
        draft = draft.message("words");
    }
    if prng.below(3) == 0 {
        draft = draft.payload(Payload::new(r#"{"k":[1,2.50]}"#, &Limits::default()).unwrap());
    }
    // Always given: an id made on the way would differ between the two.
    draft.event_id(event_id(&prng.below(40).to_string()))
}

fn writer(prng: &mut Prng) -> Writer {
    match prng.below(3) {
        0 => Writer::Fenced(Epoch(prng.below(4))),
        _ => Writer::Anonymous,
    }
}

fn filter(prng: &mut Prng) -> Filter {
    let mut filter = Filter::job();
    if prng.below(2) == 0 {
        filter = filter.task(TaskIndex(u32::try_from(prng.below(4)).unwrap()));
    }
    if prng.below(2) == 0 {
        filter = filter.tag(tag(prng.pick::<&str>(TAGS)));
    }
    filter
}

/// One of the two, with what it alone remembers: its tokens.
struct Side<'a> {
    jobs: &'a dyn JobStore,
    upkeep: &'a dyn Upkeep,
    tokens: HashMap<&'static str, (Token, Seq)>,
}

fn shown<T: Debug>(answer: Result<T>) -> String {
    match answer {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{:?} {:?}: {error}", error.kind(), error.field()),
    }
}

impl Side<'_> {
    async fn apply(&mut self, op: &Op) -> String {
        let current = |job: &str| JobRef::current(job_id(job));
        match op {
            Op::Open { job, tasks, tags } => {
                let tags =
                    tags.as_ref().map(|tags| tags.iter().map(|name| tag(name)).collect::<Vec<_>>());
                shown(
                    self.jobs
                        .open(&job_id(job), TaskCount::new(*tasks).unwrap(), tags.as_deref())
                        .await,
                )
            }
            Op::TakeOver { job, task } => {
                shown(self.jobs.take_over(&current(job), TaskIndex(*task)).await)
            }
            Op::Set { job, task, draft, writer } => {
                let write =
                    Write::new(current(job), TaskIndex(*task), draft.clone(), *writer).unwrap();
                shown(self.jobs.set(write).await)
            }
            Op::Read { job, filter, at_least } => {
                shown(self.jobs.read(&current(job), filter, Seq(*at_least)).await)
            }
            Op::List(query) => shown(self.jobs.list(query).await),
            Op::Delete { job, how } => shown(self.jobs.delete(&current(job), *how).await),
            Op::Snapshot { job, filter } => shown(
                self.follow(&current(job), filter.clone(), Start::Snapshot, Seq::ZERO)
                    .await
                    .map(|history| history.steps),
            ),
            Op::Resume { job } => shown(self.resume(job).await),
            Op::Sweep(retention) => shown(self.upkeep.sweep(retention).await),
            Op::TimePasses(_) => String::new(),
        }
    }

    /// What a subscriber is told up to `revision`, and at least up to the marker.
    async fn follow(
        &self,
        job: &JobRef,
        filter: Filter,
        start: Start,
        revision: Seq,
    ) -> Result<History> {
        use futures_util::StreamExt as _;
        let request = FollowRequest { filter, start, patience: Patience::Endless };
        let mut steps = self.jobs.follow(job, request).await?;
        let mut history = History::default();
        while let Some(delivery) = steps.next().await {
            history.push(delivery);
            match history.steps.last() {
                Some(Told::SnapshotEnd { revision: boundary, .. }) if *boundary >= revision => {
                    break;
                }
                Some(Told::Change(report)) if report.revision >= revision => break,
                _ => {}
            }
        }
        Ok(history)
    }

    /// Goes on where the last subscription to this job stopped, up to where the job is now.
    async fn resume(&mut self, name: &'static str) -> Result<Vec<Told>> {
        let job = JobRef::current(job_id(name));
        let revision = self.jobs.read(&job, &Filter::job(), Seq::ZERO).await?.revision;
        let start = match self.tokens.remove(name) {
            Some((_, seen)) if seen == revision => return Ok(Vec::new()),
            Some((token, _)) => Start::After(token),
            None => Start::Snapshot,
        };
        let history = self.follow(&job, Filter::job(), start, revision).await?;
        if let Some(Some(token)) = history.tokens.last() {
            self.tokens.insert(name, (token.clone(), revision));
        }
        Ok(history.steps)
    }
}

/// Runs one seed over `bed` and a memory store that shares its clock.
pub async fn agrees_with_memory(bed: &Bed, seed: u64) {
    let memory = MemoryStore::new(Arc::clone(&bed.clock) as Arc<_>);
    let mut model = Side { jobs: &memory, upkeep: &memory, tokens: HashMap::new() };
    let mut subject = Side { jobs: &*bed.jobs, upkeep: &*bed.upkeep, tokens: HashMap::new() };
    let mut prng = Prng(seed);
    for step in 0..STEPS {
        let op = Op::random(&mut prng);
        if let Op::TimePasses(span) = &op {
            bed.clock.advance(*span);
        }
        let (expected, actual) = (model.apply(&op).await, subject.apply(&op).await);
        assert_eq!(actual, expected, "seed {seed}, step {step} at {}: {op:?}", bed.clock.now());
    }
}
