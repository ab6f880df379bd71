//! What goes over the wire, and what an answer that does not come means.

use std::time::Duration;

use highwater::{
    Outcome,
    clock::SystemClock,
    feed::ScopeId,
    jobs::{Draft, EventId, Status},
    limits::Limits,
};
use highwater_testkit::clock::ManualClock;

use super::{
    super::scripted::{Scene, ScriptedServer, Then, answer, problem},
    *,
};

const JOB: &str =
    r#"{"job":"a/b","num_tasks":2,"incarnation":7,"created_at":"2024-06-01T12:34:56.000789Z"}"#;

fn life() -> JobRef {
    JobRef { id: JobId::new("a/b").unwrap(), life: Life::Exactly(ScopeId(7)) }
}

fn write() -> Write {
    let payload = Payload::new(r#"{"n":1.10}"#, &Limits::default()).unwrap();
    let draft = Draft::new(Tag::new("ü").unwrap(), Status(40)).message("on").payload(payload);
    let draft = draft.event_id(EventId::new("e").unwrap()).schema_version(3);
    Write::new(life(), TaskIndex(1), draft, Writer::Fenced(Epoch(4))).unwrap()
}

fn json(body: &str) -> Scene {
    answer("200 OK", "application/json", body)
}

/// The outcome of a call, and the request that it made.
async fn call<T>(
    scene: Scene,
    make: impl AsyncFn(RemoteStore) -> Result<T>,
) -> (Result<T>, String) {
    let mut server = ScriptedServer::start(vec![scene]).await;
    let result = make(server.store(Arc::new(SystemClock))).await;
    (result, server.requests.recv().await.unwrap())
}

#[tokio::test]
async fn a_write_goes_out_with_all_its_parts() {
    let state = r#"{"state":{"job":"a/b","task":1,"tag":"ü","status":40,"timestamp":"2024-06-01T12:34:56Z","version":1,
        "event_id":"e","schema_version":3,"revision":9,"payload":{"n":1.10}},"revision":9,"applied":false}"#;
    let (written, request) = call(json(state), async |store| store.set(write()).await).await;
    assert!(request.starts_with("PUT /v1/jobs/a%2Fb/tasks/1/tags/%C3%BC?incarnation=7 HTTP"));
    let body = r#"{"status":40,"message":"on","payload":{"n":1.10},"event_id":"e","schema_version":3,"epoch":4}"#;
    assert!(request.ends_with(body), "{request}");
    let Written::Repeated(report) = written.unwrap() else { panic!("it was not applied") };
    assert_eq!(report.payload.as_ref().unwrap().as_str(), r#"{"n":1.10}"#);
}

#[tokio::test]
async fn a_job_is_opened_in_whatever_life_it_has() {
    let opened = JOB.replace('}', r#","created":true}"#);
    let tags = [Tag::new("t").unwrap()];
    let (opened, request) = call(json(&opened), async |store| {
        store.open(&life().id, TaskCount::new(2).unwrap(), Some(&tags)).await
    })
    .await;
    assert!(request.starts_with("PUT /v1/jobs/a%2Fb HTTP"), "{request}");
    assert!(request.ends_with(r#"{"num_tasks":2,"tags":["t"]}"#), "{request}");
    let (job, created) = opened.unwrap();
    assert_eq!((job.incarnation, created), (ScopeId(7), Created::New));
}

#[tokio::test]
async fn a_reading_says_what_it_wants() {
    let states = format!(r#"{{"job":{JOB},"revision":9,"states":[]}}"#);
    let filter = Filter::job().task(TaskIndex(1)).tag(Tag::new("a&b").unwrap());
    let (reading, request) =
        call(json(&states), async |store| store.read(&life(), &filter, Seq(8)).await).await;
    let line = "GET /v1/jobs/a%2Fb/states?incarnation=7&task=1&tag=a%26b&min_revision=8 HTTP";
    assert!(request.starts_with(line), "{request}");
    assert_eq!(reading.unwrap().revision, Seq(9));
}

#[tokio::test]
async fn a_listing_says_what_it_wants() {
    let page = format!(r#"{{"jobs":[{JOB}],"next":"a/b"}}"#);
    let query = ListJobs {
        prefix: "a".to_owned(),
        shown: Shown::Tombstoned,
        after: Some(JobId::new("a/a").unwrap()),
        limit: 1,
    };
    let (jobs, request) = call(json(&page), async |store| store.list(&query).await).await;
    let line = "GET /v1/jobs?prefix=a&shown=tombstoned&after=a%2Fa&limit=1 HTTP";
    assert!(request.starts_with(line), "{request}");
    assert_eq!(jobs.unwrap().len(), 1);
    let first = ListJobs { after: None, ..query };
    let (_, request) = call(json(&page), async |store| store.list(&first).await).await;
    assert!(request.starts_with("GET /v1/jobs?prefix=a&shown=tombstoned&limit=1 HTTP"));
}

#[tokio::test]
async fn a_deletion_says_which_it_is() {
    for (how, query) in [(Deletion::Erase, ""), (Deletion::Tombstone, "&tombstone=true")] {
        let scene = json(r#"{"deleted":"already"}"#);
        let (deleted, request) = call(scene, async |store| store.delete(&life(), how).await).await;
        let line = format!("DELETE /v1/jobs/a%2Fb?incarnation=7{query} HTTP");
        assert!(request.starts_with(&line), "{request}");
        assert_eq!(deleted.unwrap(), Deleted::Already);
    }
}

#[tokio::test]
async fn a_refusal_is_the_error_that_the_server_meant() {
    let scene = problem("409 Conflict", "fenced");
    let (epoch, request) =
        call(scene, async |store| store.take_over(&life(), TaskIndex(1)).await).await;
    assert!(request.starts_with("POST /v1/jobs/a%2Fb/tasks/1/open?incarnation=7 HTTP"));
    let error = epoch.unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Fenced, "told so"));
}

#[tokio::test]
async fn a_server_that_is_away_was_sent_nothing() {
    // A port that was free a moment ago.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let store = RemoteStore::open(&url, super::super::RemoteOptions::default()).unwrap();
    let error = store.set(write()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(error.to_string(), format!("cannot set a state at {url}: no connection"));
    assert!(std::error::Error::source(&error).is_some());
}

#[tokio::test]
async fn a_write_without_a_whole_answer_may_have_landed() {
    let cut = |answer: &str| Scene { answer: answer.to_owned(), then: Then::Close };
    let scenes = [
        cut(""),
        cut("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"state\":"),
        cut("no HTTP at all\r\n\r\n"),
        json("{\"state\":"),
        json("{}"),
        answer("200 OK", "text/html", "<p>welcome</p>"),
        answer("502 Bad Gateway", "text/html", "<p>sorry</p>"),
        answer("504 Gateway Timeout", "application/problem+json", "{"),
    ];
    for scene in scenes {
        let (written, _) = call(scene.clone(), async |store| store.set(write()).await).await;
        let error = written.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown, "{scene:?}: {error}");
        assert!(error.to_string().starts_with("cannot set a state at http://127.0.0.1:"));
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let scene = answer("307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/", "text/html", "");
    let (written, _) = call(scene, async |store| store.set(write()).await).await;
    assert_eq!(written.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn a_call_that_is_not_answered_ends_at_its_deadline() {
    let clock = Arc::new(ManualClock::default());
    let scene = Scene { answer: String::new(), then: Then::Hold };
    let mut server = ScriptedServer::start(vec![scene]).await;
    let store = server.store(clock.clone());
    let calling = tokio::spawn(async move { store.set(write()).await });
    server.requests.recv().await.unwrap();
    clock.advance(Duration::from_secs(10));
    let error = calling.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
    assert!(error.to_string().ends_with("no answer within 10s"), "{error}");
    assert_eq!(server.hung_up.recv().await, Some(0), "the connection is closed");
}
