//! Kill −9 in mid-write, thirty times over one file.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader},
    sync::Arc,
};

use futures_util::StreamExt as _;
use highwater::{
    feed::{Delivery, FeedId, Patience, Seq, Start, Step, Token},
    jobs::{
        Draft, EventId, Filter, FollowRequest, JobId, JobRef, JobStore, Report, Status, Tag,
        TaskCount, TaskIndex, Write, Writer,
    },
};
use highwater_testkit::prng::Prng;
use libtest_mimic::Failed;

use super::{Ended, block_on, open, say, this_binary_as};

const ROUNDS: u32 = 30;
const TASKS: u32 = 32;
const SUBSCRIBERS: usize = 4;

fn job() -> JobRef {
    JobRef::current(JobId::new("crash").unwrap())
}

/// The `number`-th write of a task. Its id is its number, so a repetition is recognised, and its
/// status is its number, so a doubled one would leave a version ahead of its status.
fn write(task: u32, number: u64) -> Write {
    let draft = Draft::new(Tag::new("t").unwrap(), Status(i32::try_from(number).unwrap()))
        .event_id(EventId::new(number.to_string()).unwrap());
    Write::new(job(), TaskIndex(task), draft, Writer::Anonymous).unwrap()
}

/// Writes and follows until it is killed; tells what was acknowledged and what was delivered.
pub(super) async fn child(arguments: &[&str]) {
    let [path, tokens @ ..] = arguments else { panic!("{arguments:?}") };
    let store = Arc::new(open(path).await.unwrap());
    store.open(&job().id, TaskCount::new(TASKS).unwrap(), None).await.unwrap();
    for (subscriber, token) in tokens.iter().enumerate() {
        let start =
            if token.is_empty() { Start::Snapshot } else { Start::After(Token::from_text(*token)) };
        let request = FollowRequest { filter: Filter::job(), start, patience: Patience::Endless };
        let mut steps = store.follow(&job(), request).await.unwrap();
        tokio::spawn(async move {
            while let Some(delivery) = steps.next().await {
                let token = delivery.token().unwrap();
                say(&format!("told {subscriber} {} {token}", revision(&delivery)));
            }
        });
    }
    let mut writers = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            let mut number = newest(&*store, task).await.map_or(0, |report| report.version.0);
            loop {
                number += 1;
                let written = store.set(write(task, number)).await.unwrap();
                say(&format!("acknowledged {task} {} {}", number, written.report().version));
            }
        });
    }
    writers.join_all().await;
}

/// The revision of a change; 0 for anything else, of which only the marker may come.
fn revision(delivery: &Delivery<Arc<Report>>) -> u64 {
    match &delivery.step {
        Step::Change(report) => report.revision.0,
        Step::SnapshotEnd { count: 0, .. } => 0,
        step @ (Step::Replay(_)
        | Step::SnapshotEnd { .. }
        | Step::Stale
        | Step::Live
        | Step::Reset
        | Step::End(_)) => panic!("{step:?}"),
    }
}

async fn newest(store: &dyn JobStore, task: u32) -> Option<Arc<Report>> {
    let filter = Filter::job().task(TaskIndex(task));
    store.read(&job(), &filter, Seq::ZERO).await.unwrap().reports.pop()
}

/// What the parent has heard over all rounds.
#[derive(Debug)]
struct Heard {
    /// The newest acknowledged write of each task.
    acknowledged: BTreeMap<u32, u64>,
    /// Of each subscriber: the last revision it was told, and its token.
    told: [(u64, String); SUBSCRIBERS],
}

impl Heard {
    /// Takes in one line; answers whether it was an acknowledgement.
    fn hear(&mut self, line: &str) -> bool {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["acknowledged", task, number, version] => {
                assert_eq!(number, version, "task {task}: a write was doubled or lost");
                let (task, number): (u32, u64) = (task.parse().unwrap(), number.parse().unwrap());
                let newest = self.acknowledged.entry(task).or_insert(0);
                *newest = number.max(*newest);
                true
            }
            ["told", subscriber, revision, token] => {
                let (last, last_token) = &mut self.told[subscriber.parse::<usize>().unwrap()];
                match revision.parse().unwrap() {
                    // The marker of a subscriber's first round: the job's creation is behind it.
                    0 => assert_eq!(std::mem::replace(last, 1), 0, "a second marker"),
                    revision => {
                        assert_eq!(
                            revision,
                            *last + 1,
                            "subscriber {subscriber}: a gap or a duplicate"
                        );
                        *last = revision;
                    }
                }
                token.clone_into(last_token);
                false
            }
            // The kill cut the line off.
            _ => false,
        }
    }
}

pub(super) fn thirty_kills() -> Result<(), Failed> {
    let seed = FeedId::random().0;
    eprintln!("thirty kills: seed {seed}");
    let mut prng = Prng(seed);
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("highwater.db");
    let mut heard = Heard { acknowledged: BTreeMap::new(), told: Default::default() };
    for round in 1..=ROUNDS {
        let mut arguments = vec![path.to_str().unwrap()];
        arguments.extend(heard.told.iter().map(|(_, token)| token.as_str()));
        let mut process = Ended(this_binary_as("crash", &arguments).spawn()?);
        let mut lines = BufReader::new(process.0.stdout.take().unwrap()).split(b'\n');
        let mut acknowledgements_left = 1 + prng.below(600);
        while acknowledgements_left > 0 {
            let Some(line) = lines.next() else {
                return Err(format!("round {round}: the child ended by itself").into());
            };
            acknowledgements_left -= u64::from(heard.hear(&String::from_utf8_lossy(&line?)));
        }
        process.0.kill()?;
        // What it said before it died counts too, but for a line that was cut off.
        let mut rest: Vec<_> = lines.collect::<Result<_, _>>()?;
        rest.pop();
        for line in rest {
            heard.hear(&String::from_utf8_lossy(&line));
        }
        process.0.wait()?;
        block_on(check(&path, &heard, round == ROUNDS))?;
    }
    Ok(())
}

/// The file against what was heard of it.
async fn check(path: &std::path::Path, heard: &Heard, is_last_round: bool) {
    let store = open(path).await.unwrap();
    let reading = store.read(&job(), &Filter::job(), Seq::ZERO).await.unwrap();
    let mut versions = 0;
    for report in &reading.reports {
        let acknowledged = heard.acknowledged.get(&report.task.0).copied().unwrap_or(0);
        assert!(
            report.version.0 >= acknowledged,
            "task {}: {acknowledged} was acknowledged and is lost",
            report.task
        );
        assert_eq!(
            report.version.0,
            u64::from(report.status.0.unsigned_abs()),
            "task {}: doubled",
            report.task
        );
        versions += report.version.0;
    }
    assert_eq!(
        reading.reports.len().max(heard.acknowledged.len()),
        reading.reports.len(),
        "a task is lost"
    );
    assert_eq!(reading.revision.0, versions + 1, "an event per version, and one for the creation");
    if !is_last_round {
        return;
    }
    for (subscriber, (last, token)) in heard.told.iter().enumerate() {
        let start = Start::After(Token::from_text(token));
        let request = FollowRequest { filter: Filter::job(), start, patience: Patience::Endless };
        let mut steps = store.follow(&job(), request).await.unwrap();
        for expected in last + 1..=reading.revision.0 {
            let delivery = steps.next().await.unwrap();
            assert_eq!(revision(&delivery), expected, "subscriber {subscriber}");
        }
    }
}
