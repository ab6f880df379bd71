//! Several processes and one server: what one does, the others see.

use serde_json::Value;

use crate::{Cli, Server};

fn line(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_watch_sees_what_another_process_reports() {
    let cli = Cli::served();
    cli.create_nightly();
    let watch = cli.watch_up_to_snapshot_end();
    cli.ok(&["jobs", "set", "nightly", "0", "ingest", "--status", "40", "--message", "40 %"]);
    cli.ok(&["jobs", "set", "nightly", "1", "ingest", "--finished"]);
    let first = line(&watch.next_line().unwrap());
    assert_eq!((&first["event"], &first["state"]["status"]), (&"put".into(), &40.into()));
    let second = line(&watch.next_line().unwrap());
    assert_eq!((&second["state"]["task"], &second["state"]["version"]), (&1.into(), &1.into()));
    assert!(second["token"].is_string(), "{second}");

    cli.ok(&["jobs", "delete", "nightly"]);
    let (code, rest) = watch.ended();
    assert_eq!((code, rest.len()), (Some(0), 1), "{rest:?}");
    assert_eq!(line(&rest[0])["reason"], "deleted");
}

#[test]
fn a_watch_goes_on_behind_its_token_in_another_process() {
    let cli = Cli::served();
    cli.create_nightly();
    let watch = cli.watch_up_to_snapshot_end();
    cli.ok(&["jobs", "set", "nightly", "0", "ingest", "--started"]);
    let seen = line(&watch.next_line().unwrap());
    drop(watch);
    cli.ok(&["jobs", "set", "nightly", "0", "ingest", "--finished"]);
    let watch = cli.start(&["jobs", "watch", "nightly", "--from", seen["token"].as_str().unwrap()]);
    let next = line(&watch.next_line().unwrap());
    assert_eq!((&next["event"], &next["state"]["version"]), (&"put".into(), &2.into()));
}

#[test]
fn a_watch_outlives_a_restart_of_the_server_and_misses_nothing() {
    let mut cli = Cli::served();
    cli.create_nightly();
    let watch = cli.watch_up_to_snapshot_end();
    let Server { process, url } = cli.server.take().unwrap();
    process.signal("TERM");
    assert_eq!(process.ended().0, Some(0));
    watch.line_with("\"stale\"");
    // Straight to the file, while no server has it.
    cli.ok(&["jobs", "set", "nightly", "0", "ingest", "--started"]);
    let _server = cli.serve_at(url.strip_prefix("http://").unwrap(), &[]);
    let put = line(&watch.line_with("\"put\""));
    assert_eq!((&put["state"]["task"], &put["state"]["status"]), (&0.into(), &1.into()));
}

#[test]
fn a_wait_ends_when_another_process_finishes_the_job() {
    let cli = Cli::served();
    cli.create_nightly();
    let wait = cli.start(&["jobs", "wait", "nightly", "--timeout", "1m", "-o", "json"]);
    for task in ["0", "1"] {
        cli.ok(&["jobs", "set", "nightly", task, "ingest", "--finished"]);
    }
    let (code, lines) = wait.ended();
    assert_eq!((code, lines.len()), (Some(0), 1), "{lines:?}");
    assert_eq!(line(&lines[0])["reached"], true);
}

#[test]
fn a_wait_ends_when_another_process_reports_an_error() {
    let cli = Cli::served();
    cli.create_nightly();
    let wait = cli.start(&["jobs", "wait", "nightly", "--timeout", "1m", "-o", "json"]);
    cli.ok(&["jobs", "set", "nightly", "1", "ingest", "--error", "--message", "disk full"]);
    wait.stderr_line_with("🔴 task 1 failed in tag `ingest` (error): 🔴 disk full");
    assert_eq!(wait.ended().0, Some(4));
}

#[test]
fn many_processes_report_at_once_and_none_is_lost() {
    let cli = Cli::served();
    cli.ok(&["jobs", "create", "wide", "--tasks", "8"]);
    let reports: Vec<_> = (0..8)
        .map(|task| cli.start(&["jobs", "set", "wide", &task.to_string(), "t", "--finished"]))
        .collect();
    for report in reports {
        assert_eq!(report.ended().0, Some(0));
    }
    assert_eq!(cli.json(&["jobs", "summary", "wide"])["counts"]["finished"], 8);
}
