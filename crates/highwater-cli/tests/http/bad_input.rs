//! Bad input, one kind per test: refused with the reason, and nothing is changed by it.

use highwater::retention::Retention;
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    client::{Answer, Events, Raw},
    server::{Folder, Server},
};

const STATE: &str = "/v1/jobs/job/tasks/0/tags/t";
const EVENTS: &str = "/v1/jobs/job/events";

/// A server with a job that bad input must leave as it is.
pub(crate) struct Bed {
    pub(crate) server: Server,
    before: Value,
    folder: Folder,
}

impl Bed {
    pub(crate) async fn new() -> Bed {
        Bed::with(&[]).await
    }

    pub(crate) async fn with(flags: &[&str]) -> Bed {
        let folder = Folder::new();
        let server = folder.serve_with(flags).await;
        server.client.create("job", 2).await;
        server.client.set("job", 0, "t", &json!({"status": 1, "event_id": "e"})).await;
        let before = picture(&server).await;
        Bed { server, before, folder }
    }

    /// Takes what has been done so far for granted.
    async fn settle(&mut self) {
        self.before = picture(&self.server).await;
    }

    pub(crate) async fn put(&self, path: &str, body: &str) -> Answer {
        self.server.client.put(path, body.to_owned()).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.server.client.get(path).await
    }

    pub(crate) async fn raw(&self, method: &str, path: &str, body: &str) -> Answer {
        Raw::ask(self.server.address, method, path, body).await
    }

    /// Writes something, which a stream of task 1 must bring.
    pub(crate) async fn brings_the_next_write(&mut self, events: &mut Events) {
        let written = self.server.client.set("job", 1, "t", &json!({"status": 1})).await;
        assert_eq!(events.expect("put").await.data, written["state"]);
        self.settle().await;
    }

    /// The server answers, and everything is as it was.
    pub(crate) async fn unharmed(self) {
        assert_eq!(self.server.client.get("/healthz").await.status, 200);
        assert_eq!(picture(&self.server).await, self.before);
    }
}

/// All jobs, and all states of ours with their revision.
async fn picture(server: &Server) -> Value {
    let jobs = server.client.get("/v1/jobs").await.json(200);
    let states = server.client.get("/v1/jobs/job/states").await.json(200);
    json!({"jobs": jobs, "states": states})
}

#[tokio::test]
async fn a_task_that_the_job_does_not_have() {
    let bed = Bed::new().await;
    for task in ["2", "4294967295", "4294967296", "-1", "x", "1.0", "%20"] {
        let path = format!("/v1/jobs/job/tasks/{task}/tags/t");
        bed.put(&path, r#"{"status":1}"#).await.refused(422, Some("task"));
        let path = format!("/v1/jobs/job/tasks/{task}/open");
        bed.server.client.post(&path).await.refused(422, Some("task"));
        for what in ["state", "states", "summary", "wait", "events"] {
            let path = format!("/v1/jobs/job/{what}?task={task}");
            bed.get(&path).await.refused(422, Some("task"));
        }
    }
    bed.unharmed().await;
}

#[tokio::test]
async fn a_write_as_another_task() {
    let bed = Bed::new().await;
    bed.put(STATE, r#"{"status":2,"as_task":1}"#).await.refused(422, Some("as_task"));
    bed.unharmed().await;
}

#[tokio::test]
async fn a_write_of_an_old_epoch() {
    let mut bed = Bed::new().await;
    let open = "/v1/jobs/job/tasks/0/open";
    let old = bed.server.client.post(open).await.json(200)["epoch"].clone();
    let new = bed.server.client.post(open).await.json(200)["epoch"].clone();
    assert!(old.as_u64() < new.as_u64(), "{old} {new}");
    bed.settle().await;
    let write = |epoch: &Value| json!({"status": 2, "epoch": epoch}).to_string();
    let problem = bed.put(STATE, &write(&old)).await.refused(409, None);
    assert_eq!(problem["type"], "urn:highwater:fenced");
    bed.unharmed().await;
}

#[tokio::test]
async fn an_event_id_used_for_something_else() {
    let bed = Bed::new().await;
    for body in [
        r#"{"status":2,"event_id":"e"}"#,
        r#"{"status":1,"event_id":"e","message":"other"}"#,
        r#"{"status":1,"event_id":"e","payload":{}}"#,
        r#"{"status":1,"event_id":"e","schema_version":2}"#,
    ] {
        let problem = bed.put(STATE, body).await.refused(409, None);
        assert_eq!(problem["type"], "urn:highwater:conflict");
    }
    bed.unharmed().await;
}

#[tokio::test]
async fn a_job_that_is_not_there() {
    let bed = Bed::new().await;
    let client = &bed.server.client;
    bed.put("/v1/jobs/nobody/tasks/0/tags/t", r#"{"status":1}"#).await.refused(404, None);
    client.post("/v1/jobs/nobody/tasks/0/open").await.refused(404, None);
    client.delete("/v1/jobs/nobody").await.refused(404, None);
    for what in ["", "/state", "/states", "/summary", "/wait", "/events"] {
        bed.get(&format!("/v1/jobs/nobody{what}")).await.refused(404, None);
    }
    bed.unharmed().await;
}

#[tokio::test]
async fn names_that_are_too_long_or_hold_control_characters() {
    let bed = Bed::new().await;
    let too_long = "x".repeat(257);
    let too_long_in_bytes = "%C3%BC".repeat(129);
    for name in [&too_long, &too_long_in_bytes, "a%0Ab", "%00", "%7F", "%C2%85"] {
        let job = format!("/v1/jobs/{name}");
        bed.put(&job, r#"{"num_tasks":1}"#).await.refused(422, Some("job"));
        bed.get(&job).await.refused(422, Some("job"));
        let tag = format!("/v1/jobs/job/tasks/0/tags/{name}");
        bed.put(&tag, r#"{"status":1}"#).await.refused(422, Some("tag"));
        bed.get(&format!("/v1/jobs/job/state?tag={name}")).await.refused(422, Some("tag"));
        bed.get(&format!("{EVENTS}?tag={name}")).await.refused(422, Some("tag"));
    }
    for event_id in ["", &too_long, "a\nb", "\0"] {
        let body = json!({"status": 2, "event_id": event_id}).to_string();
        bed.put(STATE, &body).await.refused(422, Some("event_id"));
    }
    bed.unharmed().await;
}

#[tokio::test]
async fn names_that_are_empty() {
    let bed = Bed::new().await;
    for path in ["/v1/jobs/", "/v1/jobs//tasks/0/tags/t", "/v1/jobs/job/tasks/0/tags/"] {
        let answer = bed.put(path, r#"{"num_tasks":1}"#).await;
        let field = serde_json::from_str::<Value>(&answer.body).unwrap()["field"].clone();
        assert!(answer.status == 404 || answer.status == 422, "{path}: {answer:?}");
        answer.refused(answer.status, field.as_str());
    }
    bed.get("/v1/jobs/job/state?tag=").await.refused(422, Some("tag"));
    bed.unharmed().await;
}

/// Raw, because HTTP libraries take `%2E` for a dot, and a dot for a step.
#[tokio::test]
async fn names_of_dots() {
    let bed = Bed::new().await;
    for name in ["%2E", "%2E%2E", "%2e%2e", ".", ".."] {
        let path = format!("/v1/jobs/{name}");
        bed.raw("PUT", &path, r#"{"num_tasks":1}"#).await.refused(422, Some("job"));
        bed.raw("GET", &path, "").await.refused(422, Some("job"));
        let path = format!("/v1/jobs/job/tasks/0/tags/{name}");
        bed.raw("PUT", &path, r#"{"status":1}"#).await.refused(422, Some("tag"));
    }
    bed.unharmed().await;
}

#[tokio::test]
async fn names_that_are_no_text() {
    let bed = Bed::new().await;
    bed.raw("PUT", "/v1/jobs/%FF", r#"{"num_tasks":1}"#).await.refused(400, None);
    bed.raw("PUT", "/v1/jobs/job/tasks/0/tags/%C3", r#"{"status":1}"#).await.refused(400, None);
    bed.unharmed().await;
}

#[tokio::test]
async fn a_job_of_no_tasks_or_too_many() {
    let bed = Bed::new().await;
    for count in ["0", "1000001", "4294967296", "-1", "1.5", "\"2\"", "null"] {
        let body = format!(r#"{{"num_tasks":{count}}}"#);
        bed.put("/v1/jobs/new", &body).await.refused(422, Some("num_tasks"));
    }
    bed.put("/v1/jobs/new", "{}").await.refused(422, Some("num_tasks"));
    bed.unharmed().await;
}

#[tokio::test]
async fn a_tag_that_was_not_declared() {
    let mut bed = Bed::new().await;
    bed.put("/v1/jobs/strict", r#"{"num_tasks":1,"tags":["t"]}"#).await.json(201);
    bed.settle().await;
    let path = "/v1/jobs/strict/tasks/0/tags/u";
    bed.put(path, r#"{"status":1}"#).await.refused(422, Some("tag"));
    bed.unharmed().await;
}

#[tokio::test]
async fn a_payload_over_its_limit() {
    let bed = Bed::new().await;
    let body = json!({"status": 2, "payload": {"x": "y".repeat(64 * 1024)}}).to_string();
    let answer = bed.put(STATE, &body).await;
    let field = (answer.status == 422).then_some("payload");
    answer.refused(if field.is_some() { 422 } else { 413 }, field);
    bed.unharmed().await;
}

#[tokio::test]
async fn a_payload_that_is_no_object() {
    let bed = Bed::new().await;
    for payload in ["[1]", "1", "\"x\"", "true", "[]"] {
        let body = format!(r#"{{"status":2,"payload":{payload}}}"#);
        bed.put(STATE, &body).await.refused(422, Some("payload"));
    }
    bed.unharmed().await;
}

#[tokio::test]
async fn a_message_over_its_limit() {
    let bed = Bed::new().await;
    let body = json!({"status": 2, "message": "x".repeat(16 * 1024 + 1)}).to_string();
    bed.put(STATE, &body).await.refused(422, Some("message"));
    bed.unharmed().await;
}

#[tokio::test]
async fn a_status_of_the_wrong_type_or_out_of_range() {
    let bed = Bed::new().await;
    for status in ["\"1\"", "1.5", "1e3", "true", "null", "[1]", "2147483648", "-2147483649"] {
        let body = format!(r#"{{"status":{status}}}"#);
        bed.put(STATE, &body).await.refused(422, Some("status"));
    }
    bed.put(STATE, "{}").await.refused(422, Some("status"));
    bed.put(STATE, r#"{"status":1,"set":"started"}"#).await.refused(422, Some("status"));
    bed.put(STATE, r#"{"set":"done"}"#).await.refused(422, Some("set"));
    bed.put(STATE, r#"{"set":"error","code":1}"#).await.refused(422, Some("code"));
    bed.put(STATE, r#"{"status":-1,"code":-3}"#).await.refused(422, Some("code"));
    bed.unharmed().await;
}

#[tokio::test]
async fn a_message_without_a_start() {
    let bed = Bed::new().await;
    let answer = bed.put(STATE, r#"{"status":0,"message":"x"}"#).await;
    let problem: Value = serde_json::from_str(&answer.body).unwrap();
    let field = problem["field"].as_str();
    assert!(matches!(field, Some("status" | "message")), "{problem}");
    answer.refused(422, field);
    bed.unharmed().await;
}

#[tokio::test]
async fn fields_that_nobody_knows() {
    let bed = Bed::new().await;
    bed.put(STATE, r#"{"status":2,"statsu":1}"#).await.refused(422, Some("statsu"));
    bed.put("/v1/jobs/new", r#"{"num_tasks":1,"tag":[]}"#).await.refused(422, Some("tag"));
    for what in ["", "/state", "/states", "/summary", "/wait", "/events"] {
        bed.get(&format!("/v1/jobs/job{what}?tsk=1")).await.refused(422, Some("tsk"));
    }
    bed.get("/v1/jobs?tsk=1").await.refused(422, Some("tsk"));
    bed.get("/v1/events?tsk=1").await.refused(422, Some("tsk"));
    let delete = "/v1/jobs/job?tombston=true";
    bed.server.client.delete(delete).await.refused(422, Some("tombston"));
    bed.unharmed().await;
}

#[tokio::test]
async fn queries_that_break_a_rule() {
    let bed = Bed::new().await;
    for (query, field) in [
        ("/v1/jobs?limit=0", "limit"),
        ("/v1/jobs?limit=1001", "limit"),
        ("/v1/jobs?limit=x", "limit"),
        ("/v1/jobs?after=", "job"),
        ("/v1/jobs/job/state?min_revision=1000000", "min_revision"),
        ("/v1/jobs/job/state?min_revision=-1", "min_revision"),
        ("/v1/jobs/job/wait?timeout=soon", "timeout"),
        ("/v1/jobs/job/wait?timeout=-1s", "timeout"),
        ("/v1/jobs/job/wait?timeout=9h", "timeout"),
        ("/v1/jobs/job/wait?status=done", "status"),
        ("/v1/events?domain=nothing", "domain"),
    ] {
        bed.get(query).await.refused(422, Some(field));
    }
    let delete = "/v1/jobs/job?tombstone=maybe";
    bed.server.client.delete(delete).await.refused(422, Some("tombstone"));
    bed.unharmed().await;
}

#[tokio::test]
async fn bodies_that_are_no_json() {
    let bed = Bed::new().await;
    let half = r#"{"status":2"#;
    let two = r#"{"status":2}{"status":3}"#;
    for body in ["", "{", half, two, "status=2", r"{'status':2}", r#"{"status":2,}"#] {
        bed.put(STATE, body).await.refused(400, None);
    }
    let no_text = b"{\"status\":2,\"message\":\"\xff\"}".to_vec();
    bed.server.client.put(STATE, no_text).await.refused(400, None);
    bed.unharmed().await;
}

/// A list among them: its elements are not taken for fields in the order of their declaration.
#[tokio::test]
async fn bodies_that_are_json_and_no_object() {
    let bed = Bed::new().await;
    for body in ["[]", "[2]", "1", "null", "true", r#""x""#] {
        for path in [STATE, "/v1/jobs/new"] {
            let answer = bed.put(path, body).await;
            assert_eq!(answer.status, 422, "{body} to {path}: {answer:?}");
        }
    }
    bed.unharmed().await;
}

#[tokio::test]
async fn a_field_that_comes_twice() {
    let bed = Bed::new().await;
    bed.put(STATE, r#"{"status":2,"status":3}"#).await.refused(422, Some("status"));
    bed.unharmed().await;
}

#[tokio::test]
async fn a_tower_of_brackets() {
    let bed = Bed::new().await;
    let tower = "[".repeat(50_000);
    assert!(matches!(bed.put(STATE, &tower).await.status, 400 | 422));
    bed.put(STATE, &format!(r#"{{"status":2,"payload":{tower}"#)).await.refused(400, None);
    bed.unharmed().await;
}

/// It would be taken as it is, and then break the readers of every other state beside it: most JSON
/// libraries refuse to go so deep.
#[tokio::test]
async fn a_payload_that_is_nested_too_deeply_to_be_read() {
    let bed = Bed::new().await;
    let payload = format!(r#"{{"x":{}{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
    let body = format!(r#"{{"status":2,"payload":{payload}}}"#);
    bed.put(STATE, &body).await.refused(422, Some("payload"));
    bed.unharmed().await;
}

#[tokio::test]
async fn a_token_that_is_damaged() {
    let bed = Bed::new().await;
    let mut events = bed.server.client.events(EVENTS).await;
    let token = events.expect("replay").await.token().to_owned();
    let damaged = format!("{}{}", &token[1..], &token[..1]);
    for token in [damaged.as_str(), "x", "%20", &token[1..], &"A".repeat(10_000)] {
        let by_query = bed.get(&format!("{EVENTS}?from={token}")).await;
        assert_eq!(by_query.refused(400, None)["type"], "urn:highwater:bad_token");
        let by_header = bed.server.client.request(Method::GET, EVENTS);
        let by_header = Answer::of(by_header.header("last-event-id", token)).await;
        assert_eq!(by_header.refused(400, None)["type"], "urn:highwater:bad_token");
        bed.get(&format!("/v1/events?from={token}")).await.refused(400, None);
    }
    bed.unharmed().await;
}

#[tokio::test]
async fn a_token_of_something_else() {
    let mut bed = Bed::new().await;
    let client = &bed.server.client;
    client.create("other", 1).await;
    let token = client.events(EVENTS).await.expect("replay").await.token().to_owned();
    for path in ["/v1/jobs/other/events", "/v1/jobs/job/events?task=0", "/v1/events"] {
        let request = client.request(Method::GET, path).header("last-event-id", &token);
        let problem = Answer::of(request).await.refused(400, None);
        assert_eq!(problem["type"], "urn:highwater:bad_token");
    }
    // Nor does a token outlive its job.
    client.delete("/v1/jobs/job").await.json(200);
    client.create("job", 2).await;
    bed.settle().await;
    bed.get(&format!("{EVENTS}?from={token}")).await.refused(400, None);
    bed.unharmed().await;
}

#[tokio::test]
async fn a_token_that_the_feed_was_trimmed_past() {
    let Bed { server, folder, .. } = Bed::new().await;
    let mut of_job = server.client.events(EVENTS).await;
    of_job.expect("replay").await;
    let mut of_all = server.client.events("/v1/events").await;
    let old_of_all = of_all.expect("snapshot_end").await;
    let old = of_job.expect("snapshot_end").await;
    for status in 2..5 {
        server.client.set("job", 0, "t", &json!({"status": status})).await;
    }
    let mut newest = of_job.expect("put").await;
    while newest.data["status"] != 4 {
        newest = of_job.expect("put").await;
    }
    server.kill().await;
    let slots = folder.open().await;
    let retention = Retention { feed_events: 0, ..Retention::default() };
    assert!(slots.upkeep[0].sweep(&retention).await.unwrap().events > 0);
    drop(slots);
    let server = folder.serve().await;
    let before = picture(&server).await;
    let mut bed = Bed { server, before, folder };
    let path = format!("{EVENTS}?from={}", old.token());
    assert_eq!(bed.get(&path).await.refused(410, None)["type"], "urn:highwater:gone");
    bed.get(&format!("/v1/events?from={}", old_of_all.token())).await.refused(410, None);
    // Whoever has seen everything has missed nothing.
    let mut resumed = bed.server.client.events_after(EVENTS, newest.token()).await;
    bed.brings_the_next_write(&mut resumed).await;
    bed.unharmed().await;
}

#[tokio::test]
async fn a_route_that_is_not_there() {
    let bed = Bed::new().await;
    for path in ["/nothing", "/v1", "/v1/nothing", "/v1/jobs/job/nothing", "/v2/jobs", "//", "/%2F"]
    {
        bed.raw("GET", path, "").await.refused(404, None);
    }
    bed.unharmed().await;
}

#[tokio::test]
async fn a_method_that_a_route_does_not_take() {
    let bed = Bed::new().await;
    for (method, path) in [
        ("POST", "/v1/jobs/job"),
        ("DELETE", "/v1/jobs"),
        ("POST", STATE),
        ("GET", "/v1/jobs/job/tasks/0/open"),
        ("PUT", EVENTS),
        ("BREW", "/healthz"),
    ] {
        bed.raw(method, path, "{}").await.refused(405, None);
    }
    bed.unharmed().await;
}

#[tokio::test]
async fn a_write_from_a_page_of_another_site() {
    let bed = Bed::new().await;
    let host = bed.server.address.to_string();
    for (header, value) in [
        ("origin", "https://elsewhere.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        for (method, path) in [(Method::PUT, STATE), (Method::DELETE, "/v1/jobs/job")] {
            let request = bed.server.client.request(method, path).header(header, value);
            Answer::of(request.body(r#"{"status":2}"#)).await.refused(403, None);
        }
    }
    // A page of its own may.
    let own = bed.server.client.request(Method::PUT, "/v1/jobs/job");
    let own = own.header("origin", format!("http://{host}")).body(r#"{"num_tasks":2}"#);
    Answer::of(own).await.json(200);
    bed.unharmed().await;
}
