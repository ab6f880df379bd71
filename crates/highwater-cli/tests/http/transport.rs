//! Clients that are slow, that leave in the middle, or that do not speak HTTP.

use std::time::Duration;

use serde_json::json;

use super::{bad_input::Bed, client::Raw, within};

const STATE: &str = "/v1/jobs/job/tasks/0/tags/t";

/// The head of a write of unknown length.
const CHUNKED_HEAD: &str =
    "PUT /v1/jobs/job/tasks/0/tags/t HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";

/// The head of a write that says to be followed by `length` bytes.
fn head(length: usize) -> String {
    format!("PUT {STATE} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n")
}

#[tokio::test]
async fn a_body_over_its_limit() {
    let bed = Bed::new().await;
    // What a payload may hold, escaped to six times its size, is more than a body may have.
    let body = json!({"status": 2, "message": "x".repeat(1_000_000)}).to_string();
    bed.raw("PUT", STATE, &body).await.refused(413, None);
    let mut chunked = Raw::connect(bed.server.address).await;
    chunked.send(CHUNKED_HEAD).await.unwrap();
    let chunk = format!("{:x}\r\n{body}\r\n", body.len());
    // The server need not listen to all of it.
    let _ = chunked.send(chunk).await;
    let _ = chunked.send("0\r\n\r\n").await;
    chunked.answer().await.expect("an answer").refused(413, None);
    bed.unharmed().await;
}

/// What has arrived is a whole write, but not the whole body.
#[tokio::test]
async fn a_body_cut_in_the_middle() {
    let bed = Bed::new().await;
    for half_way in [r#"{"status":2}"#, r#"{"status":"#] {
        let mut raw = Raw::connect(bed.server.address).await;
        raw.send(head(100)).await.unwrap();
        raw.send(half_way).await.unwrap();
        raw.finish().await;
        if let Some(answer) = raw.answer().await {
            answer.refused(400, None);
        }
        let mut chunked = Raw::connect(bed.server.address).await;
        let chunk = format!("{:x}\r\n{half_way}\r\n", half_way.len());
        chunked.send(format!("{CHUNKED_HEAD}{chunk}")).await.unwrap();
        chunked.finish().await;
        if let Some(answer) = chunked.answer().await {
            answer.refused(400, None);
        }
        let mut gone = Raw::connect(bed.server.address).await;
        gone.send(head(100)).await.unwrap();
        gone.send(half_way).await.unwrap();
        drop(gone);
    }
    bed.unharmed().await;
}

#[tokio::test]
async fn a_head_that_does_not_end() {
    let bed = Bed::with(&["--header-timeout", "1s"]).await;
    let mut events = bed.server.client.events("/v1/jobs/job/events?task=1").await;
    events.expect("snapshot_end").await;
    for beginning in ["", "P", "PUT /v1/jobs/job HTTP/1.1\r\nhos", "PRI * HTTP/2.0\r\n"] {
        let mut raw = Raw::connect(bed.server.address).await;
        raw.send(beginning).await.unwrap();
        if let Some(answer) = raw.answer().await {
            assert_eq!(answer.status, 408, "{answer:?}");
        }
    }
    // A stream that is only silent is left alone: by now it has been for longer than that.
    let mut bed = bed;
    bed.brings_the_next_write(&mut events).await;
    bed.unharmed().await;
}

/// A byte now and then keeps nothing open.
#[tokio::test]
async fn a_head_that_drips() {
    let bed = Bed::with(&["--header-timeout", "1s"]).await;
    let mut raw = Raw::connect(bed.server.address).await;
    raw.send("GET /healthz HTTP/1.1\r\nx: ").await.unwrap();
    let mut drip = tokio::time::interval(Duration::from_millis(50));
    let dripping = async {
        while raw.send("x").await.is_ok() {
            drip.tick().await;
        }
    };
    within(dripping).await;
    bed.unharmed().await;
}

#[tokio::test]
async fn a_body_that_does_not_end() {
    let bed = Bed::with(&["--body-timeout", "1s"]).await;
    let mut raw = Raw::connect(bed.server.address).await;
    raw.send(head(100)).await.unwrap();
    raw.send(r#"{"status":2}"#).await.unwrap();
    raw.answer().await.expect("an answer").refused(408, None);
    bed.unharmed().await;
}

#[tokio::test]
async fn a_connection_that_idles_after_a_request() {
    let bed = Bed::with(&["--header-timeout", "1s"]).await;
    let mut raw = Raw::connect(bed.server.address).await;
    raw.send("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    assert_eq!(raw.answer().await.unwrap().status, 200);
    bed.unharmed().await;
}

#[tokio::test]
async fn a_megabyte_of_headers() {
    let bed = Bed::new().await;
    let one = format!("x: {}\r\n", "y".repeat(1_000_000));
    let many = "x: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n".repeat(30_000);
    for headers in [one, many] {
        let mut raw = Raw::connect(bed.server.address).await;
        // The server need not listen to all of it.
        let _ = raw.send(format!("GET /healthz HTTP/1.1\r\nhost: x\r\n{headers}\r\n")).await;
        if let Some(answer) = raw.answer().await {
            assert_eq!(answer.status, 431, "{answer:?}");
        }
    }
    bed.unharmed().await;
}

#[tokio::test]
async fn bytes_that_are_no_http() {
    let bed = Bed::new().await;
    let hello_of_tls = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".as_slice();
    for bytes in [hello_of_tls, b"\0\0\0\0\r\n\r\n", b"hello\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"] {
        let mut raw = Raw::connect(bed.server.address).await;
        raw.send(bytes).await.unwrap();
        raw.finish().await;
        if let Some(answer) = raw.answer().await {
            assert!((400..600).contains(&answer.status), "{answer:?}");
        }
    }
    bed.unharmed().await;
}

/// Two lengths, or a length beside chunks, are how requests are smuggled past proxies.
#[tokio::test]
async fn a_body_of_two_lengths() {
    let bed = Bed::new().await;
    let body = r#"{"status":2}"#;
    for lengths in [
        "content-length: 12\r\ncontent-length: 11",
        "content-length: +12",
        "content-length: 12, 11",
        "transfer-encoding: identity, chunked, identity",
    ] {
        let mut raw = Raw::connect(bed.server.address).await;
        let head = format!("PUT {STATE} HTTP/1.1\r\nhost: x\r\n{lengths}\r\n\r\n");
        raw.send(format!("{head}{body}")).await.unwrap();
        raw.finish().await;
        if let Some(answer) = raw.answer().await {
            assert_eq!(answer.status, 400, "{lengths}: {answer:?}");
        }
    }
    bed.unharmed().await;
}
