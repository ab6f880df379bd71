//! Kill −9 of the server under writers and subscribers, thirty times over one file.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use highwater::feed::FeedId;
use highwater_testkit::prng::Prng;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinSet};

use super::{
    client::{Answer, Client, Event, Events, state_path},
    server::Folder,
    within,
};

const KILLS: u32 = 30;
const WRITERS: u32 = 64;
const SUBSCRIBERS: usize = 20;
const JOB: &str = "crash";

/// What the clients know of the server.
#[derive(Debug, Clone)]
enum Phase {
    /// It answers here, and an error is a failure of the test.
    Up { round: u32, client: Client },
    /// It is being killed, or was: errors are to be expected.
    Killed { round: u32 },
    /// It answers and will not be killed any more: writers end, subscribers read up to the end.
    Settled { client: Client },
}

/// What the clients have seen over all rounds.
#[derive(Debug)]
struct Record {
    /// The newest acknowledged write of each task.
    acknowledged: Vec<AtomicU64>,
    /// How many writes were acknowledged.
    acknowledgements: watch::Sender<u64>,
    /// How many of them had landed before: their first acknowledgement was lost with the server.
    repeated: AtomicU64,
}

/// A client of a server that comes and goes.
struct Visitor {
    phase: watch::Receiver<Phase>,
    round: u32,
}

impl Visitor {
    /// The server of the next round; whether it is the last one.
    async fn next(&mut self) -> (Client, bool) {
        let last = self.round;
        let is_next = |phase: &Phase| match phase {
            Phase::Up { round, .. } => *round > last,
            Phase::Killed { .. } => false,
            Phase::Settled { .. } => true,
        };
        match &*within(self.phase.wait_for(is_next)).await.unwrap() {
            Phase::Up { round, client } => {
                self.round = *round;
                (client.clone(), false)
            }
            Phase::Settled { client } => {
                self.round = KILLS + 1;
                (client.clone(), true)
            }
            Phase::Killed { .. } => unreachable!("it is waited for one that is up"),
        }
    }

    /// Refuses an error that no kill explains.
    #[track_caller]
    fn excuse(&self, error: &dyn std::error::Error) {
        let round = match &*self.phase.borrow() {
            Phase::Up { round, .. } => round - 1,
            Phase::Killed { round } => *round,
            Phase::Settled { .. } => KILLS,
        };
        assert!(self.round <= round, "round {}: the server was not killed: {error:?}", self.round);
    }
}

/// Writes 1, 2, 3 … as the status of one task. A write of unknown outcome is repeated with its id
/// when the server is back; a doubled one would leave a version ahead of its status.
async fn write(task: u32, mut visitor: Visitor, record: Arc<Record>) -> u64 {
    let mut number = 1;
    loop {
        let (client, is_last) = visitor.next().await;
        let mut first_of_round = true;
        loop {
            let body = json!({"status": number, "event_id": number.to_string()}).to_string();
            let request = client.request(Method::PUT, &state_path(JOB, task, "t")).body(body);
            let written = match within(request.send()).await {
                Ok(response) => {
                    assert_eq!(response.status().as_u16(), 200);
                    within(response.json::<Value>()).await
                }
                Err(error) => Err(error),
            };
            let written = match written {
                Ok(written) => written,
                Err(error) => {
                    visitor.excuse(&error);
                    break;
                }
            };
            assert_eq!(written["state"]["version"], number, "task {task}: doubled or lost");
            assert_eq!(written["state"]["status"], number, "task {task}");
            if written["applied"] == false {
                assert!(first_of_round, "task {task}: {number} was written once");
                record.repeated.fetch_add(1, Ordering::SeqCst);
            }
            record.acknowledged[task as usize].store(number, Ordering::SeqCst);
            record.acknowledgements.send_modify(|count| *count += 1);
            if is_last {
                return number;
            }
            number += 1;
            first_of_round = false;
        }
    }
}

/// What a subscriber has been told: the snapshot, then every revision.
#[derive(Debug, Default)]
struct Told {
    token: Option<String>,
    revision: u64,
    replayed: u64,
    is_live: bool,
}

impl Told {
    fn hear(&mut self, event: &Event) {
        let revision = event.revision();
        match (event.name.as_str(), self.is_live) {
            ("replay", false) => {
                assert!(revision > self.revision, "{event:?} after {self:?}");
                self.replayed += 1;
            }
            ("snapshot_end", false) => {
                assert!(revision >= self.revision, "{event:?} after {self:?}");
                assert_eq!(event.data["count"], self.replayed, "{event:?}");
                self.is_live = true;
            }
            ("put", true) => {
                assert_eq!(revision, self.revision + 1, "a gap or a duplicate after {self:?}");
            }
            _ => panic!("{event:?} after {self:?}"),
        }
        self.revision = revision;
        self.token = Some(event.token().to_owned());
    }
}

/// Follows the job over all rounds, up to the revision where everything settles.
async fn follow(mut visitor: Visitor, mut settled: watch::Receiver<Option<u64>>) -> Told {
    let mut told = Told::default();
    loop {
        let (client, is_last) = visitor.next().await;
        let path = format!("/v1/jobs/{JOB}/events");
        let mut request = client.request(Method::GET, &path);
        if let Some(token) = &told.token {
            request = request.header("last-event-id", token);
        }
        let mut events = match within(request.send()).await {
            Ok(response) => {
                assert_eq!(response.status().as_u16(), 200);
                Events::new(response)
            }
            Err(error) => {
                visitor.excuse(&error);
                continue;
            }
        };
        if is_last {
            let last = within(settled.wait_for(Option::is_some)).await.unwrap().unwrap();
            while told.revision < last {
                told.hear(&events.next().await);
            }
            return told;
        }
        loop {
            match within(events.try_next()).await {
                Ok(Some(event)) => told.hear(&event),
                Ok(None) => panic!("the server ended a stream: {told:?}"),
                Err(error) => {
                    visitor.excuse(&error);
                    break;
                }
            }
        }
    }
}

/// The server's states against what was acknowledged; answers their revision.
async fn check(client: &Client, record: &Record) -> u64 {
    let answer: Answer = client.get(&format!("/v1/jobs/{JOB}/states")).await;
    let reading = answer.json(200);
    let mut versions = vec![0; WRITERS as usize];
    for state in reading["states"].as_array().unwrap() {
        let task = usize::try_from(state["task"].as_u64().unwrap()).unwrap();
        assert_eq!(state["version"], state["status"], "task {task}: doubled");
        versions[task] = state["version"].as_u64().unwrap();
    }
    for (task, (version, acknowledged)) in versions.iter().zip(&record.acknowledged).enumerate() {
        let acknowledged = acknowledged.load(Ordering::SeqCst);
        assert!(*version >= acknowledged, "task {task}: {acknowledged} was acknowledged and lost");
        assert!(*version <= acknowledged + 1, "task {task}: {version} was never sent");
    }
    let revision = reading["revision"].as_u64().unwrap();
    assert_eq!(revision, versions.iter().sum::<u64>() + 1, "an event per version and the creation");
    revision
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_kills_of_the_server_lose_and_double_nothing() {
    let seed = FeedId::random().0;
    eprintln!("thirty kills of the server: seed {seed}");
    let mut prng = Prng(seed);
    let folder = Folder::new();
    let (announcer, phase) = watch::channel(Phase::Killed { round: 0 });
    let (settle, settled) = watch::channel(None);
    let record = Arc::new(Record {
        acknowledged: (0..WRITERS).map(|_| AtomicU64::new(0)).collect(),
        acknowledgements: watch::Sender::new(0),
        repeated: AtomicU64::new(0),
    });
    let visitor = || Visitor { phase: phase.clone(), round: 0 };
    let mut writers = JoinSet::new();
    for task in 0..WRITERS {
        writers.spawn(write(task, visitor(), Arc::clone(&record)));
    }
    let mut subscribers = JoinSet::new();
    for _ in 0..SUBSCRIBERS {
        subscribers.spawn(follow(visitor(), settled.clone()));
    }
    let mut acknowledgements = record.acknowledgements.subscribe();
    for round in 1..=KILLS {
        let server = folder.serve().await;
        if round == 1 {
            server.client.create(JOB, WRITERS).await;
        }
        check(&server.client, &record).await;
        let target = *acknowledgements.borrow() + 1 + prng.below(600);
        announcer.send_replace(Phase::Up { round, client: Client::pooled(server.address) });
        tokio::select! {
            reached = within(acknowledgements.wait_for(|count| *count >= target)) => {
                reached.unwrap();
            }
            // Neither ends before the last round, unless it fails.
            Some(ended) = writers.join_next() => panic!("a writer ended: {ended:?}"),
            Some(ended) = subscribers.join_next() => panic!("a subscriber ended: {ended:?}"),
        }
        announcer.send_replace(Phase::Killed { round });
        server.kill().await;
    }
    let server = folder.serve().await;
    check(&server.client, &record).await;
    announcer.send_replace(Phase::Settled { client: Client::pooled(server.address) });
    let written: u64 = within(writers.join_all()).await.iter().sum();
    let last = check(&server.client, &record).await;
    assert_eq!(last, written + 1, "a version per write, and the creation");
    settle.send_replace(Some(last));
    for told in within(subscribers.join_all()).await {
        assert_eq!(told.revision, last, "{told:?}");
    }
    let repeated = record.repeated.load(Ordering::SeqCst);
    eprintln!("{written} writes; {repeated} had landed when their acknowledgement was lost");
}
