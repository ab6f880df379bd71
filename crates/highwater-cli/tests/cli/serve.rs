//! `serve`: how it starts, what it refuses, and how it ends.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use serde_json::Value;

use crate::{Cli, Server};

#[test]
fn it_says_when_it_is_ready_and_what_it_uses() {
    let cli = Cli::new();
    let Server { process, url } = cli.serve(&["--store", "sqlite:state.db"]);
    process.stderr_line_with("jobs are kept in sqlite:state.db");
    assert!(cli.folder.path().join("state.db").exists());
    process.signal("TERM");
    process.stderr_line_with("SIGTERM: stopping");
    assert_eq!(process.ended(), (Some(0), Vec::new()), "{url}");
}

#[test]
fn an_interrupt_ends_it_well_too() {
    let Server { process, .. } = Cli::new().serve(&["--log", "warn"]);
    process.signal("INT");
    assert_eq!(process.ended(), (Some(0), Vec::new()));
}

#[test]
fn what_was_written_is_there_after_a_restart() {
    let mut cli = Cli::served();
    cli.create_nightly();
    let Server { process, .. } = cli.server.take().unwrap();
    process.signal("TERM");
    assert_eq!(process.ended().0, Some(0));
    assert_eq!(cli.json(&["jobs", "get", "nightly"])["job"], "nightly");
}

const BODY: &str = r#"{"num_tasks":3}"#;

/// A request that the server has begun to read, and that will not end by itself.
fn begin_request(url: &str) -> TcpStream {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).unwrap();
    let head = format!(
        "PUT /v1/jobs/slow HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\n\
         content-length: {}\r\nexpect: 100-continue\r\n\r\n",
        BODY.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = [0; "HTTP/1.1 100 Continue\r\n\r\n".len()];
    stream.read_exact(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 100"), "{answer:?}");
    stream
}

#[test]
fn a_request_under_way_is_finished_first() {
    let Server { process, url } = Cli::new().serve(&["--drain-timeout", "30s"]);
    let mut request = begin_request(&url);
    process.signal("TERM");
    process.stderr_line_with("SIGTERM: stopping");
    request.write_all(BODY.as_bytes()).unwrap();
    let mut answer = String::new();
    request.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    assert_eq!(process.ended().0, Some(0));
}

#[test]
fn a_second_signal_does_not_wait() {
    let Server { process, url } =
        Cli::new().serve(&["--drain-timeout", "10m", "--body-timeout", "10m"]);
    let _request = begin_request(&url);
    process.signal("TERM");
    process.stderr_line_with("SIGTERM: stopping");
    process.signal("TERM");
    process.stderr_line_with("🔴 stopped at once");
    assert_eq!(process.ended().0, Some(1));
}

#[test]
fn a_port_that_others_can_reach_must_be_meant() {
    let cli = Cli::new();
    cli.run(&["serve", "--listen", "0.0.0.0:0"]).refused(2, "pass --insecure");
    assert_eq!(std::fs::read_dir(cli.folder.path()).unwrap().count(), 0);
    let args = ["serve", "--listen", "0.0.0.0:0", "--insecure", "--store", "sqlite::memory:"];
    let first = cli.start(&args).next_line().unwrap();
    assert!(first.starts_with("highwater listening on http://0.0.0.0:"), "{first}");
}

#[test]
fn a_file_and_a_port_belong_to_one_server() {
    let cli = Cli::served();
    let url = &cli.server.as_ref().unwrap().url;
    let twice = cli.run(&["serve", "--listen", "127.0.0.1:0"]);
    twice.refused(1, "`highwater.db` is in use by process");
    let address = url.strip_prefix("http://").unwrap();
    let elsewhere =
        cli.run(&["serve", "--listen", address, "--store", "memory:", "--log", "error"]);
    elsewhere.refused(1, &format!("cannot listen on {address}: "));
}

#[test]
fn a_server_does_not_talk_to_a_server() {
    let cli = Cli::new();
    for command in [&["serve"][..], &["config", "show"]] {
        let args = [command, &["--server", "http://127.0.0.1:1"]].concat();
        cli.run(&args).refused(2, "this command does not talk to a server");
    }
}

#[test]
fn logs_can_be_json() {
    let Server { process, .. } = Cli::new().serve(&["--log-format", "json"]);
    let line: Value = serde_json::from_str(&process.stderr_line_with("jobs are kept")).unwrap();
    assert_eq!(line["level"], "INFO");
    assert_eq!(line["message"], "jobs are kept in sqlite:highwater.db");
}

#[test]
fn a_file_of_settings_is_obeyed() {
    let cli = Cli::new();
    let text = "store = 'sqlite:from-file.db'\npayload_limit = 8";
    std::fs::write(cli.folder.path().join("highwater.toml"), text).unwrap();
    let cli = Cli { server: Some(cli.serve(&["--config", "highwater.toml"])), ..cli };
    cli.create_nightly();
    assert!(cli.folder.path().join("from-file.db").exists());
    let set = ["jobs", "set", "nightly", "0", "ingest", "--started", "--payload"];
    cli.ok(&[&set[..], &["{\"a\":1}"]].concat());
    let large = cli.run(&[&set[..], &["{\"a\":1234}"]].concat());
    large.refused(1, "must have at most 8 bytes");
}

#[test]
fn the_limit_of_a_payload_is_the_servers() {
    let cli = Cli::new();
    let cli = Cli { server: Some(cli.serve(&["--payload-limit", "1MiB"])), ..cli };
    cli.create_nightly();
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(100_000));
    cli.ok(&["jobs", "set", "nightly", "0", "ingest", "--started", "--payload", &large]);
}
