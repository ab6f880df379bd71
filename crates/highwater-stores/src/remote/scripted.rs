//! For tests: a server that reads its lines from a script, and a clock that sleeps as it is told.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use highwater::{
    clock::{Clock, Sleep, SystemClock, Timestamp},
    feed::{Delivery, End, FeedId, Fingerprint, Mark, Position, ScopeId, Seq, Step, Token},
    jobs::Report,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
};

use super::{RemoteOptions, RemoteStore};

/// What becomes of one connection.
#[derive(Debug, Clone)]
pub(super) struct Scene {
    /// Sent once a request has arrived.
    pub(super) answer: String,
    pub(super) then: Then,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Close,
    /// Until the client hangs up.
    Hold,
}

/// Plays one scene per connection, in order, and is gone behind the last.
#[derive(Debug)]
pub(super) struct ScriptedServer {
    pub(super) url: String,
    /// Every request as it came.
    pub(super) requests: mpsc::UnboundedReceiver<String>,
    /// The number of every connection that the client has closed, from 0.
    pub(super) hung_up: mpsc::UnboundedReceiver<usize>,
    _play: JoinSet<()>,
}

impl ScriptedServer {
    pub(super) async fn start(script: Vec<Scene>) -> ScriptedServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (request, requests) = mpsc::unbounded_channel();
        let (farewell, hung_up) = mpsc::unbounded_channel();
        let mut play = JoinSet::new();
        play.spawn(async move {
            let mut listener = Some(listener);
            let mut held = JoinSet::new();
            let last = script.len() - 1;
            for (number, scene) in script.into_iter().enumerate() {
                let (mut stream, _) = listener.as_ref().unwrap().accept().await.unwrap();
                if number == last {
                    // Before the answer: who is told to come back finds nobody.
                    listener = None;
                }
                request.send(read_request(&mut stream).await).unwrap();
                stream.write_all(scene.answer.as_bytes()).await.unwrap();
                if scene.then == Then::Hold {
                    let farewell = farewell.clone();
                    held.spawn(async move {
                        let _ = stream.read(&mut [0]).await;
                        let _ = farewell.send(number);
                    });
                }
            }
            held.join_all().await;
        });
        ScriptedServer { url, requests, hung_up, _play: play }
    }

    pub(super) fn store(&self, clock: Arc<dyn Clock>) -> RemoteStore {
        let options = RemoteOptions { clock, ..RemoteOptions::default() };
        RemoteStore::open(&self.url, options).unwrap()
    }

    /// The first line of the next request, without its version.
    pub(super) async fn asked(&mut self) -> String {
        let request = self.requests.recv().await.unwrap();
        request.split(" HTTP/1.1").next().unwrap().to_owned()
    }
}

async fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return text;
            }
        }
        if stream.read_buf(&mut bytes).await.unwrap() == 0 {
            return text;
        }
    }
}

/// An answer with a body.
pub(super) fn answer(status: &str, content_type: &str, body: &str) -> Scene {
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    );
    Scene { answer, then: Then::Close }
}

/// A refusal as Highwater words it.
pub(super) fn problem(status: &str, kind: &str) -> Scene {
    let body = format!(
        r#"{{"type":"urn:highwater:{kind}","title":"","status":0,"detail":"told so","outcome":"not_applied"}}"#
    );
    answer(status, "application/problem+json", &body)
}

/// A stream of events, with its last chunk missing.
pub(super) fn events(events: &str, then: Then) -> Scene {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = match events.len() {
        0 => String::new(),
        length => format!("{length:x}\r\n{events}\r\n"),
    };
    Scene { answer: format!("{head}{chunk}"), then }
}

const MARKER: &str = "event: snapshot_end\ndata: {\"revision\":0,\"count\":0}\n";
pub(super) const CANCELLED: &str = "event: end\ndata: {\"reason\":\"cancelled\"}\n\n";
pub(super) const DELETED: &str = "event: end\ndata: {\"reason\":\"deleted\"}\n\n";

/// A token of the life 7.
pub(super) fn token(at: u64) -> Token {
    let (feed, scope) = (FeedId(1), ScopeId(7));
    let position = Position::Live { at: Seq(at) };
    Mark { feed, scope, selection: Fingerprint::of(&[]), position }.token()
}

/// The marker, with a token.
pub(super) fn marker() -> String {
    format!("{MARKER}id: {}\n\n", token(0))
}

/// A change, with a token.
pub(super) fn put(revision: u64) -> String {
    let report = format!(
        r#"{{"job":"j","task":0,"tag":"t","status":1,"timestamp":"2024-06-01T12:34:56Z","version":{revision},
"event_id":"e{revision}","schema_version":1,"revision":{revision},"payload":{{"n":1.10}}}}"#
    );
    let report = report.replace('\n', "\ndata: ");
    format!("event: put\ndata: {report}\nid: {}\n\n", token(revision))
}

pub(super) fn named(name: &str) -> String {
    format!("event: {name}\ndata: {{}}\n\n")
}

/// A step in a word; `item` gives the number of what was told.
pub(super) fn word<T>(step: &Step<T>, item: impl Fn(&T) -> u64) -> String {
    match step {
        Step::Replay(it) => format!("replay {}", item(it)),
        Step::SnapshotEnd { .. } => "marker".to_owned(),
        Step::Change(it) => format!("put {}", item(it)),
        Step::Stale => "stale".to_owned(),
        Step::Live => "live".to_owned(),
        Step::Reset => "reset".to_owned(),
        Step::End(End::Deleted) => "deleted".to_owned(),
        Step::End(End::Cancelled) => "cancelled".to_owned(),
        Step::End(End::Failed(error)) => format!("failed: {:?}", error.kind()),
    }
}

pub(super) fn told(delivery: &Delivery<Arc<Report>>) -> String {
    word(&delivery.step, |report| report.revision.0)
}

/// Sleeps of a deadline's length never end; the waits between two tries do at once, and are noted.
#[derive(Debug, Default)]
pub(super) struct TestClock {
    pub(super) waits: Mutex<Vec<Duration>>,
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    fn sleep(&self, span: Duration) -> Sleep {
        if span >= super::CALL_TIMEOUT {
            return Box::pin(std::future::pending());
        }
        self.waits.lock().unwrap().push(span);
        Box::pin(std::future::ready(()))
    }
}
