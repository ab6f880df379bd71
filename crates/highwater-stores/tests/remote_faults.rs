//! The remote engine over a bad network: stale, then live, and nothing lost or doubled.

#![expect(clippy::unwrap_used, reason = "a test reports by panicking")]

use std::{sync::Arc, time::Duration};

use highwater::{
    ErrorKind, Outcome,
    jobs::{
        Draft, Filter, JobId, JobRef, JobStore as _, Manager, ManagerOptions, Report, Status, Tag,
        TaskIndex, Viewer, Write, Writer, Written,
    },
    memory::MemoryStore,
};
use highwater_server::ServerOptions;
use highwater_stores::{
    Slots,
    remote::{RemoteOptions, RemoteStore},
};
use highwater_testkit::{
    clock::ManualClock,
    history::{History, Told},
    proxy::{Fault, FaultProxy},
};
use tokio::net::TcpListener;

/// Longest that a test waits for what must happen.
const DEADLINE: Duration = Duration::from_mins(1);

/// A store, a server before it, a network before that, and a client at its end.
struct Path {
    backing: Arc<MemoryStore>,
    proxy: FaultProxy,
    remote: Arc<RemoteStore>,
    /// The client's time: its waits between two tries, and its patience with silence.
    clock: Arc<ManualClock>,
}

impl Path {
    async fn new() -> Path {
        let backing = Arc::new(MemoryStore::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let upstream = listener.local_addr().unwrap();
        let slots = Slots {
            jobs: backing.clone(),
            jobs_engine: "memory",
            events: backing.clone(),
            upkeep: vec![],
        };
        tokio::spawn(highwater_server::serve(
            listener,
            slots,
            ServerOptions::default(),
            std::future::pending(),
        ));
        let proxy = FaultProxy::start(upstream).await;
        let clock = Arc::new(ManualClock::default());
        let options = RemoteOptions { clock: clock.clone(), ..RemoteOptions::default() };
        let remote =
            Arc::new(RemoteStore::open(&format!("http://{}", proxy.address()), options).unwrap());
        Path { backing, proxy, remote, clock }
    }

    /// Writes behind the network, where it always works.
    async fn worker(&self) -> Manager {
        let job = JobId::new("job").unwrap();
        Manager::open(self.backing.clone(), job, 0, 1, ManagerOptions::default()).await.unwrap()
    }

    /// Lets the client's time pass until `work` is done.
    async fn in_time<T>(&self, work: impl Future<Output = T>) -> T {
        let passing = async {
            let mut ticks = tokio::time::interval(Duration::from_millis(1));
            loop {
                ticks.tick().await;
                self.clock.advance(Duration::from_millis(500));
            }
        };
        tokio::select! {
            done = tokio::time::timeout(DEADLINE, work) => done.unwrap(),
            () = passing => unreachable!("time passes for ever"),
        }
    }
}

async fn write(worker: &Manager, status: i32) -> Arc<Report> {
    let draft = Draft::new(Tag::new("t").unwrap(), Status(status));
    Arc::clone(worker.set_state(draft).await.unwrap().report())
}

/// A subscriber behind a network that fails, and mends after changes have been made.
async fn outage(fault: Fault) {
    let path = Path::new().await;
    let worker = path.worker().await;
    let viewer = Viewer::open(path.remote.clone(), worker.job().id.clone()).await.unwrap();
    let mut log = vec![write(&worker, 1).await];
    let mut subscription = viewer.subscribe(Filter::job()).await.unwrap();
    let mut history = History::default();
    history.follow_to(&mut subscription, log[0].revision).await;
    log.push(write(&worker, 2).await);
    history.follow_to(&mut subscription, log[1].revision).await;

    path.proxy.set(fault);
    let stale = history.follow(&mut subscription, |told| *told == Told::Stale);
    path.in_time(stale).await;
    for status in 3..=300 {
        log.push(write(&worker, status).await);
    }
    path.proxy.set(Fault::None);
    let last = log.last().unwrap().revision;
    path.in_time(history.follow_to(&mut subscription, last)).await;

    history.check_is_complete(&log).unwrap();
    let signs: Vec<_> =
        history.steps.iter().filter(|told| matches!(told, Told::Stale | Told::Live)).collect();
    assert_eq!(signs, [&Told::Stale, &Told::Live]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_is_survived_by_subscribers() {
    outage(Fault::Cut).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_is_survived_by_subscribers() {
    outage(Fault::Reset).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_open_connection_is_noticed_and_survived() {
    outage(Fault::HalfOpen).await;
}

/// The answer to every write is lost once: the caller hears that it may have landed, asks again under
/// the same id, and hears what it became.
#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_is_cut_off_doubles_nothing() {
    let path = Path::new().await;
    let worker = path.worker().await;
    for number in 1..=50 {
        let draft = Draft::new(Tag::new("t").unwrap(), Status(number));
        let job = JobRef::from(worker.job());
        let write = Write::new(job, TaskIndex(0), draft, Writer::Anonymous).unwrap();
        path.proxy.set(Fault::CutAfterRequest);
        let lost = path.remote.set(write.clone()).await.unwrap_err();
        assert_eq!((lost.outcome(), lost.is_transient()), (Outcome::Unknown, true), "{lost}");
        path.proxy.set(Fault::None);
        let Written::Repeated(report) = path.remote.set(write).await.unwrap() else {
            panic!("doubled")
        };
        assert_eq!(report.version.0, u64::from(number.unsigned_abs()));
    }
    assert_eq!(path.proxy.strikes(), 50);
}

/// Nothing was sent, and the error says so.
#[tokio::test]
async fn a_server_that_is_not_there_was_sent_nothing() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let remote = RemoteStore::open(&format!("http://{free}"), RemoteOptions::default()).unwrap();
    let error = remote.job(&JobRef::current(JobId::new("job").unwrap())).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.outcome()),
        (ErrorKind::Unavailable, Outcome::NotApplied),
        "{error}"
    );
}
