//! Every route, every kind of event, and how the server begins and ends.

use reqwest::{Method, header::ACCEPT};
use serde_json::{Value, json};

use super::{
    client::{Answer, Client, Events},
    server::{Folder, Server},
};

async fn serve() -> (Server, Folder) {
    let folder = Folder::new();
    (folder.serve().await, folder)
}

/// A server with a job of two tasks, of which one has started.
async fn with_job() -> (Server, Folder) {
    let (server, folder) = serve().await;
    server.client.create("job", 2).await;
    server.client.set("job", 0, "t", &json!({"set": "started"})).await;
    (server, folder)
}

#[tokio::test]
async fn a_job_is_created_once_and_what_is_stored_wins() {
    let (server, _folder) = serve().await;
    let client = &server.client;
    let created = client.put("/v1/jobs/job", r#"{"num_tasks":2,"tags":["t"]}"#).await.json(201);
    assert_eq!(created["job"], "job");
    assert_eq!(created["num_tasks"], 2);
    assert_eq!(created["created"], true);
    assert!(created["incarnation"].is_u64());
    assert!(created["created_at"].as_str().is_some_and(|time| time.ends_with('Z')), "{created}");
    let found = client.put("/v1/jobs/job", r#"{"num_tasks":7}"#).await.json(200);
    assert_eq!(found["created"], false);
    for field in ["num_tasks", "incarnation", "created_at", "tags"] {
        assert_eq!(found[field], created[field]);
    }
    let shown = client.get("/v1/jobs/job").await.json(200);
    assert_eq!(shown["num_tasks"], 2);
    client.get("/v1/jobs/another").await.refused(404, None);
}

#[tokio::test]
async fn jobs_are_listed_in_pages() {
    let (server, _folder) = serve().await;
    for name in ["b", "a", "c"] {
        server.client.create(name, 1).await;
    }
    let mut names = Vec::new();
    let mut path = "/v1/jobs?limit=2".to_owned();
    loop {
        let page = server.client.get(&path).await.json(200);
        let jobs = page["jobs"].as_array().unwrap();
        assert!(jobs.len() <= 2, "{page}");
        names.extend(jobs.iter().map(|job| job["job"].as_str().unwrap().to_owned()));
        match page.get("next").and_then(Value::as_str) {
            Some(next) => path = format!("/v1/jobs?limit=2&after={next}"),
            None => break,
        }
    }
    assert_eq!(names, ["a", "b", "c"]);
}

#[tokio::test]
async fn a_write_answers_with_its_state_and_repeats_nothing() {
    let (server, _folder) = with_job().await;
    let body = json!({"status": 5, "message": "half", "payload": {"n": 1}, "event_id": "e", "schema_version": 2});
    let first = server.client.set("job", 1, "t", &body).await;
    assert_eq!(first["applied"], true);
    assert_eq!(first["revision"], 3);
    let state = &first["state"];
    assert_eq!((&state["status"], &state["version"]), (&json!(5), &json!(1)));
    assert_eq!((&state["message"], &state["payload"]), (&json!("half"), &json!({"n": 1})));
    assert_eq!((&state["event_id"], &state["schema_version"]), (&json!("e"), &json!(2)));
    let again = server.client.set("job", 1, "t", &body).await;
    assert_eq!(again["applied"], false);
    assert_eq!((&again["state"], &again["revision"]), (state, &first["revision"]));
}

#[tokio::test]
async fn words_set_their_statuses() {
    let (server, _folder) = with_job().await;
    let words = [("started", 1), ("finished", i32::MAX), ("error", -1), ("warning", -2)];
    for (word, status) in words {
        let written = server.client.set("job", 0, "t", &json!({"set": word})).await;
        assert_eq!(written["state"]["status"], status);
    }
    let coded = server.client.set("job", 0, "t", &json!({"set": "error", "code": -7})).await;
    assert_eq!(coded["state"]["status"], -7);
}

#[tokio::test]
async fn the_lowest_state_wins_and_silence_is_synthesized() {
    let (server, _folder) = with_job().await;
    let client = &server.client;
    let silent = client.get("/v1/jobs/job/state").await.json(200);
    assert_eq!((&silent["task"], &silent["status"]), (&json!(1), &json!(0)));
    assert_eq!(silent["synthesized"], true);
    let written = client.set("job", 1, "t", &json!({"set": "finished"})).await;
    let path = format!("/v1/jobs/job/state?min_revision={}", written["revision"]);
    let standing = client.get(&path).await.json(200);
    assert_eq!((&standing["task"], &standing["status"]), (&json!(0), &json!(1)));
    assert_eq!(standing["synthesized"], false);
    let one = client.get("/v1/jobs/job/state?task=1&tag=t").await.json(200);
    assert_eq!(one["status"], i32::MAX);
}

#[tokio::test]
async fn a_summary_is_one_answer_or_a_stream() {
    let (server, _folder) = with_job().await;
    let summary = server.client.get("/v1/jobs/job/summary").await.json(200);
    assert_eq!(summary["counts"]["running"], 1, "{summary}");
    assert_eq!(summary["lowest"]["task"], 1, "{summary}");
    assert_eq!(summary["tasks"].as_array().map(Vec::len), Some(2), "{summary}");
    let request = server.client.request(Method::GET, "/v1/jobs/job/summary");
    let mut live = Events::of(request.header(ACCEPT, "text/event-stream")).await;
    assert_eq!(live.expect("summary").await.data, summary);
    server.client.set("job", 1, "t", &json!({"set": "error", "message": "no"})).await;
    let failed = live.expect("summary").await.data;
    assert_eq!(failed["counts"]["errors"], 1, "{failed}");
    assert_eq!(failed["worst_error"]["task"], 1, "{failed}");
    server.client.delete("/v1/jobs/job").await.json(200);
    assert_eq!(live.expect("end").await.data["reason"], "deleted");
    live.expect_nothing_more().await;
}

#[tokio::test]
async fn a_wait_ends_when_the_status_is_reached() {
    let (server, _folder) = with_job().await;
    let client = server.client.clone();
    let wait = tokio::spawn(async move { client.get("/v1/jobs/job/wait?timeout=1m").await });
    for task in 0..2 {
        server.client.set("job", task, "t", &json!({"set": "finished"})).await;
    }
    let ended = wait.await.unwrap().json(200);
    assert_eq!(ended["reached"], true, "{ended}");
    assert_eq!(ended["state"]["status"], i32::MAX, "{ended}");
}

#[tokio::test]
async fn a_wait_that_times_out_names_what_blocks_it() {
    let (server, _folder) = with_job().await;
    let ended = server.client.get("/v1/jobs/job/wait?status=finished&timeout=50ms").await;
    let ended = ended.json(200);
    assert_eq!(ended["reached"], false, "{ended}");
    assert_eq!(ended["blocking"]["task"], 1, "{ended}");
    let started = server.client.get("/v1/jobs/job/wait?status=started&task=0&timeout=50ms").await;
    assert_eq!(started.json(200)["reached"], true);
}

#[tokio::test]
async fn a_wait_fails_fast_and_names_the_task() {
    let (server, _folder) = with_job().await;
    server.client.set("job", 1, "t", &json!({"set": "error"})).await;
    let ended = server.client.get("/v1/jobs/job/wait?timeout=1m").await.json(200);
    assert_eq!(ended["reached"], false, "{ended}");
    assert_eq!(ended["failed"]["task"], 1, "{ended}");
}

#[tokio::test]
async fn a_stream_has_the_past_a_marker_and_every_change() {
    let (server, _folder) = with_job().await;
    let mut events = server.client.events("/v1/jobs/job/events").await;
    let replayed = events.expect("replay").await;
    assert_eq!((&replayed.data["task"], &replayed.data["status"]), (&json!(0), &json!(1)));
    let marker = events.expect("snapshot_end").await;
    assert_eq!(marker.data, json!({"revision": 2, "count": 1}));
    let written = server.client.set("job", 1, "t", &json!({"status": 3})).await;
    assert_eq!(events.expect("put").await.data, written["state"]);
    server.client.delete("/v1/jobs/job").await.json(200);
    assert_eq!(events.expect("end").await.data["reason"], "deleted");
    events.expect_nothing_more().await;
}

#[tokio::test]
async fn a_stream_of_one_task_and_tag_has_no_other() {
    let (server, _folder) = with_job().await;
    let mut events = server.client.events("/v1/jobs/job/events?task=1&tag=u").await;
    assert_eq!(events.expect("snapshot_end").await.data["count"], 0);
    for (task, tag) in [(0, "u"), (1, "t"), (1, "u")] {
        server.client.set("job", task, tag, &json!({"status": 3})).await;
    }
    let put = events.expect("put").await;
    assert_eq!((&put.data["task"], &put.data["tag"]), (&json!(1), &json!("u")));
}

/// From every place in a stream, both ways to resume give what came behind it.
#[tokio::test]
async fn a_stream_resumes_behind_any_of_its_events() {
    const PATH: &str = "/v1/jobs/job/events";
    let (server, _folder) = with_job().await;
    server.client.set("job", 1, "t", &json!({"status": 2})).await;
    let mut events = server.client.events(PATH).await;
    let mut told = Vec::new();
    for name in ["replay", "replay", "snapshot_end"] {
        told.push(events.expect(name).await);
    }
    for status in 3..6 {
        server.client.set("job", 1, "t", &json!({"status": status})).await;
        told.push(events.expect("put").await);
    }
    // Behind the first replay, the second state has been rewritten: it comes live only.
    let mut resumed = server.client.events_after(PATH, told[0].token()).await;
    assert_eq!(resumed.expect("snapshot_end").await.data["count"], 1);
    for (behind, event) in told.iter().enumerate().skip(2) {
        let by_query = format!("{PATH}?from={}", event.token());
        for mut resumed in [
            server.client.events_after(PATH, event.token()).await,
            server.client.events(&by_query).await,
        ] {
            for expected in &told[behind + 1..] {
                let put = resumed.expect("put").await;
                assert_eq!((&put.data, &put.token), (&expected.data, &expected.token));
            }
        }
    }
}

#[tokio::test]
async fn a_browser_that_reconnects_goes_on_behind_its_header_and_not_its_query() {
    let (server, _folder) = with_job().await;
    let mut events = server.client.events("/v1/jobs/job/events?task=1").await;
    let first = events.expect("snapshot_end").await;
    for status in 2..4 {
        server.client.set("job", 1, "t", &json!({"status": status})).await;
    }
    let newer = events.expect("put").await;
    let path = format!("/v1/jobs/job/events?task=1&from={}", first.token());
    let mut resumed = server.client.events_after(&path, newer.token()).await;
    assert_eq!(resumed.expect("put").await.data["status"], 3);
}

#[tokio::test]
async fn the_whole_feed_has_every_job_in_order_and_resumes() {
    let (server, _folder) = serve().await;
    let mut events = server.client.events("/v1/events").await;
    let begin = events.expect("snapshot_end").await;
    for name in ["a", "b", "c"] {
        server.client.create(name, 1).await;
        server.client.set(name, 0, "t", &json!({"status": 1})).await;
    }
    server.client.delete("/v1/jobs/b?tombstone=true").await.json(200);
    server.client.delete("/v1/jobs/a").await.json(200);
    let mut told = Vec::new();
    for _ in 0..8 {
        told.push(events.expect("put").await);
    }
    let kinds: Vec<_> = told
        .iter()
        .map(|event| (event.data["kind"].as_str().unwrap(), event.data["body"]["job"].as_str()))
        .collect();
    let expected = [
        ("job.created", Some("a")),
        ("job.put", Some("a")),
        ("job.created", Some("b")),
        ("job.put", Some("b")),
        ("job.created", Some("c")),
        ("job.put", Some("c")),
        ("job.tombstoned", Some("b")),
        ("job.deleted", Some("a")),
    ];
    assert_eq!(kinds, expected);
    for (event, next) in told.iter().zip(&told[1..]) {
        assert_eq!(next.revision(), event.revision() + 1, "dense over all jobs");
        assert_eq!(event.data["domain"], "jobs");
    }
    let mut from_the_start = server.client.events_after("/v1/events", begin.token()).await;
    let by_query = format!("/v1/events?domain=jobs&from={}", told[3].token());
    for expected in &told {
        let event = from_the_start.expect("put").await;
        assert_eq!((&event.data, &event.token), (&expected.data, &expected.token));
    }
    // A token belongs to its selection.
    server.client.get(&by_query).await.refused(400, None);
    let path = format!("/v1/events?from={}", told[3].token());
    assert_eq!(server.client.events(&path).await.expect("put").await.data, told[4].data);
}

#[tokio::test]
async fn a_tombstoned_job_can_be_read_and_not_written() {
    let (server, _folder) = with_job().await;
    let client = &server.client;
    let mut events = client.events("/v1/jobs/job/events").await;
    events.expect("replay").await;
    events.expect("snapshot_end").await;
    assert_eq!(client.delete("/v1/jobs/job?tombstone=true").await.json(200)["deleted"], "done");
    assert_eq!(events.expect("end").await.data["reason"], "deleted");
    client.put("/v1/jobs/job/tasks/0/tags/t", r#"{"status":2}"#).await.refused(409, None);
    client.put("/v1/jobs/job", r#"{"num_tasks":2}"#).await.refused(409, None);
    client.post("/v1/jobs/job/tasks/0/open").await.refused(409, None);
    let standing = client.get("/v1/jobs/job/state?task=0").await.json(200);
    assert_eq!(standing["status"], 1);
    assert!(standing["tombstoned_at"].is_string(), "{standing}");
    assert_eq!(client.delete("/v1/jobs/job?tombstone=true").await.json(200)["deleted"], "already");
    client.delete("/v1/jobs/job").await.json(200);
    client.get("/v1/jobs/job").await.refused(404, None);
    client.delete("/v1/jobs/job").await.refused(404, None);
}

#[tokio::test]
async fn it_is_alive_and_ready() {
    let (server, _folder) = serve().await;
    assert_eq!(server.client.get("/healthz").await.status, 200);
    server.client.get("/readyz").await.json(200);
}

#[tokio::test]
async fn metrics_are_named_alike_and_tell_no_ids() {
    const JOB: &str = "secret-job";
    const TAG: &str = "secret-tag";
    let (server, _folder) = serve().await;
    let client = &server.client;
    client.create(JOB, 1).await;
    let mut events = client.events(&format!("/v1/jobs/{JOB}/events?tag={TAG}")).await;
    events.expect("snapshot_end").await;
    client.set(JOB, 0, TAG, &json!({"status": 1, "event_id": "secret-event"})).await;
    events.expect("put").await;
    client.get("/v1/jobs/secret-nobody").await.refused(404, None);
    client.get("/secret-route").await.refused(404, None);
    // Any token can be a method: it must not make a time series.
    let made_up = client.request(Method::from_bytes(b"SECRET-METHOD").unwrap(), "/v1/jobs");
    Answer::of(made_up).await.refused(405, None);
    let metrics = client.get("/metrics").await;
    assert_eq!(metrics.status, 200);
    assert!(metrics.content_type.starts_with("text/plain"), "{}", metrics.content_type);
    let series = metrics.body.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let mut count = 0;
    for line in series {
        assert!(line.starts_with("highwater_"), "{line}");
        assert!(!line.to_lowercase().contains("secret"), "{line}");
        count += 1;
    }
    assert!(count > 10, "{}", metrics.body);
}

#[tokio::test]
async fn the_description_has_every_route() {
    let (server, _folder) = serve().await;
    let description = server.client.get("/openapi.json").await.json(200);
    let routes = [
        ("put", "/v1/jobs/{job}"),
        ("get", "/v1/jobs"),
        ("get", "/v1/jobs/{job}"),
        ("delete", "/v1/jobs/{job}"),
        ("put", "/v1/jobs/{job}/tasks/{task}/tags/{tag}"),
        ("post", "/v1/jobs/{job}/tasks/{task}/open"),
        ("get", "/v1/jobs/{job}/state"),
        ("get", "/v1/jobs/{job}/summary"),
        ("get", "/v1/jobs/{job}/wait"),
        ("get", "/v1/jobs/{job}/events"),
        ("get", "/v1/events"),
        ("get", "/healthz"),
        ("get", "/readyz"),
        ("get", "/metrics"),
    ];
    for (method, path) in routes {
        assert!(description["paths"][path][method].is_object(), "{method} {path} is missing");
    }
}

#[tokio::test]
async fn asked_to_stop_it_says_goodbye_and_exits_well() {
    let (server, folder) = with_job().await;
    let mut of_job = server.client.events("/v1/jobs/job/events").await;
    of_job.expect("replay").await;
    let marker = of_job.expect("snapshot_end").await;
    let mut of_all = server.client.events("/v1/events").await;
    of_all.expect("snapshot_end").await;
    let request = server.client.request(Method::GET, "/v1/jobs/job/summary");
    let mut summary = Events::of(request.header(ACCEPT, "text/event-stream")).await;
    summary.expect("summary").await;
    server.terminate().await;
    for mut events in [of_job, of_all, summary] {
        assert_eq!(events.expect("end").await.data["reason"], "cancelled");
        events.expect_nothing_more().await;
    }
    let (status, rest) = server.ended().await;
    assert_eq!(status.code(), Some(0));
    assert_eq!(rest, [] as [&str; 0], "only the first line is for stdout");
    // Another one goes on where it stopped.
    let server = folder.serve().await;
    let mut resumed = server.client.events_after("/v1/jobs/job/events", marker.token()).await;
    server.client.set("job", 1, "t", &json!({"status": 2})).await;
    assert_eq!(resumed.expect("put").await.revision(), 3);
}

#[tokio::test]
async fn asked_to_stop_it_answers_those_who_wait() {
    let (server, _folder) = with_job().await;
    let client: Client = server.client.clone();
    // The wait is under way once its subscription is.
    let wait = tokio::spawn(async move { client.get("/v1/jobs/job/wait?timeout=1h").await });
    wait_for_subscriber(&server.client).await;
    server.terminate().await;
    wait.await.unwrap().refused(503, None);
    assert_eq!(server.ended().await.0.code(), Some(0));
}

/// Ready when the metrics show a subscription.
async fn wait_for_subscriber(client: &Client) {
    super::within(async {
        loop {
            let metrics = client.get("/metrics").await.body;
            let mut lines = metrics.lines();
            if lines
                .any(|line| line.starts_with("highwater_jobs_subscribers{") && line.ends_with(" 1"))
            {
                return;
            }
        }
    })
    .await;
}
