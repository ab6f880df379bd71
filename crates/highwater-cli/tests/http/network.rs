//! The server behind a bad network, and clients that take their time.

use highwater_testkit::proxy::{Fault, FaultProxy};
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    client::{Client, Raw, state_path},
    server::{Folder, Server},
    within,
};

const EVENTS: &str = "/v1/jobs/job/events";

async fn with_job() -> (Server, Folder) {
    let folder = Folder::new();
    let server = folder.serve().await;
    server.client.create("job", 1).await;
    (server, folder)
}

/// One write, as a client sees it that cannot tell a lost request from a lost reply.
async fn try_set(client: &Client, body: &Value) -> reqwest::Result<Value> {
    let request = client.request(Method::PUT, &state_path("job", 0, "t"));
    within(async { request.body(body.to_string()).send().await?.json().await }).await
}

#[tokio::test]
async fn a_write_whose_reply_was_lost_is_found_by_its_event_id() {
    let (server, _folder) = with_job().await;
    let proxy = FaultProxy::start(server.address).await;
    let client = Client::new(proxy.address());
    let body = json!({"status": 1, "event_id": "e"});
    proxy.set(Fault::CutAfterRequest);
    try_set(&client, &body).await.unwrap_err();
    assert_eq!(proxy.strikes(), 1);
    proxy.set(Fault::None);
    let repeated = try_set(&client, &body).await.unwrap();
    assert_eq!((&repeated["applied"], &repeated["state"]["version"]), (&json!(false), &json!(1)));
}

#[tokio::test]
async fn a_write_whose_request_was_lost_is_applied_once_it_is_repeated() {
    let (server, _folder) = with_job().await;
    let proxy = FaultProxy::start(server.address).await;
    let client = Client::new(proxy.address());
    for (version, fault) in [(1, Fault::Cut), (2, Fault::Reset)] {
        let body = json!({"status": version, "event_id": version.to_string()});
        proxy.set(fault);
        try_set(&client, &body).await.unwrap_err();
        proxy.set(Fault::None);
        let written = try_set(&client, &body).await.unwrap();
        assert_eq!(
            (&written["applied"], &written["state"]["version"]),
            (&json!(true), &json!(version))
        );
    }
}

#[tokio::test]
async fn a_stream_that_breaks_resumes_without_gap_or_duplicate() {
    let (server, _folder) = with_job().await;
    let proxy = FaultProxy::start(server.address).await;
    let client = Client::new(proxy.address());
    let mut events = client.events(EVENTS).await;
    let mut last = events.expect("snapshot_end").await;
    for round in 0..10 {
        proxy.set(if round % 2 == 0 { Fault::Cut } else { Fault::Reset });
        for status in 1..=3 {
            server.client.set("job", 0, "t", &json!({"status": status})).await;
        }
        // What was on its way may still arrive, and then it counts.
        while let Ok(Some(event)) = within(events.try_next()).await {
            assert_eq!((event.name.as_str(), event.revision()), ("put", last.revision() + 1));
            last = event;
        }
        proxy.set(Fault::None);
        events = client.events_after(EVENTS, last.token()).await;
        let newest = 1 + 3 * (round + 1);
        while last.revision() < newest {
            let event = events.expect("put").await;
            assert_eq!(event.revision(), last.revision() + 1);
            last = event;
        }
    }
}

/// More than the buffers on the way hold: the server must neither keep it nor wait.
#[tokio::test]
async fn a_subscriber_that_does_not_read_delays_nobody_and_misses_nothing() {
    const WRITES: u64 = 400;
    let (server, _folder) = with_job().await;
    let mut lazy = server.client.events(EVENTS).await;
    let mut eager = server.client.events(EVENTS).await;
    for events in [&mut lazy, &mut eager] {
        events.expect("snapshot_end").await;
    }
    let filler = "x".repeat(60_000);
    for number in 1..=WRITES {
        let body = json!({"status": number, "payload": {"filler": filler}});
        server.client.set("job", 0, "t", &body).await;
        assert_eq!(eager.expect("put").await.data["status"], number);
    }
    for number in 1..=WRITES {
        assert_eq!(lazy.expect("put").await.data["status"], number);
    }
}

#[tokio::test]
async fn more_streams_than_there_are_places_are_refused_until_one_is_free() {
    let folder = Folder::new();
    let server = folder.serve_with(&["--max-streams", "2"]).await;
    server.client.create("job", 1).await;
    let mut first = server.client.events(EVENTS).await;
    first.expect("snapshot_end").await;
    let mut second = server.client.events("/v1/events").await;
    second.expect("snapshot_end").await;
    server.client.get(EVENTS).await.refused(429, None);
    server.client.get("/v1/events").await.refused(429, None);
    drop(first);
    // The server learns of it when the connection's end arrives.
    let free = async {
        loop {
            let response = server.client.request(Method::GET, EVENTS).send().await.unwrap();
            if response.status().as_u16() == 200 {
                return;
            }
        }
    };
    within(free).await;
    server.client.set("job", 0, "t", &json!({"status": 1})).await;
    second.expect("put").await;
}

#[tokio::test]
async fn more_connections_than_there_are_places_wait_for_one() {
    let folder = Folder::new();
    let server = folder.serve_with(&["--max-connections", "2"]).await;
    let one = Raw::connect(server.address).await;
    let mut other = Raw::connect(server.address).await;
    other.send("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    other.receive_until("ok").await;
    let mut third = Raw::connect(server.address).await;
    third.send("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    third.hears_nothing().await;
    drop(one);
    third.receive_until("ok").await;
}

#[tokio::test]
async fn asked_to_stop_it_lets_a_write_end_that_has_begun() {
    let (server, folder) = with_job().await;
    let body = r#"{"status":7}"#;
    let mut raw = Raw::connect(server.address).await;
    let head = format!(
        "PUT {} HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        state_path("job", 0, "t"),
        body.len()
    );
    raw.send(head).await.unwrap();
    raw.receive_until("100 Continue\r\n\r\n").await;
    server.terminate().await;
    within(async { while tokio::net::TcpStream::connect(server.address).await.is_ok() {} }).await;
    raw.send(body).await.unwrap();
    assert_eq!(raw.answer().await.expect("an answer").json(200)["applied"], true);
    assert_eq!(server.ended().await.0.code(), Some(0));
    let server = folder.serve().await;
    assert_eq!(server.client.get("/v1/jobs/job/state").await.json(200)["status"], 7);
}
