//! `events`: the whole feed.

use serde_json::Value;

use crate::Cli;

#[test]
fn everything_that_happens_is_a_line_of_json() {
    let cli = Cli::served();
    let events = cli.start(&["events", "--domain", "jobs", "-o", "json"]);
    let next = || serde_json::from_str::<Value>(&events.next_line().unwrap()).unwrap();
    assert_eq!(next()["event"], "snapshot_end");

    cli.create_nightly();
    cli.ok(&["jobs", "set", "nightly", "1", "ingest", "--error", "--message", "disk full"]);
    cli.ok(&["jobs", "delete", "nightly"]);
    let created = next();
    assert_eq!(
        (&created["event"], &created["data"]["kind"]),
        (&"put".into(), &"job.created".into())
    );
    assert_eq!(
        (&created["data"]["domain"], &created["data"]["revision"]),
        (&"jobs".into(), &1.into())
    );
    let put = next();
    assert_eq!(put["data"]["kind"], "job.put");
    assert_eq!(put["data"]["body"]["message"], "🔴 disk full");
    let deleted = next();
    assert_eq!(deleted["data"]["kind"], "job.deleted");

    let token = created["token"].as_str().unwrap();
    let rest = cli.start(&["events", "--domain", "jobs", "-o", "json", "--from", token]);
    for expected in [&put, &deleted] {
        let line: Value = serde_json::from_str(&rest.next_line().unwrap()).unwrap();
        assert_eq!(&line, expected);
    }
    let other = cli.run(&["events", "--from", token]);
    other.refused(1, "belongs to another selection");
    events.signal("INT");
    assert_eq!(events.ended(), (Some(0), Vec::new()));
}

#[test]
fn people_get_a_line_per_event() {
    let cli = Cli::served();
    let events = cli.start(&["events"]);
    let header = events.next_line().unwrap();
    // The header says that it listens: nothing from here on is missed.
    cli.create_nightly();
    cli.ok(&["jobs", "set", "nightly", "1", "ingest", "--warning", "--message", "odd\n"]);
    let created = events.next_line().unwrap();
    assert!(created.contains("job.created") && created.ends_with("2 tasks"), "{created}");
    let put = events.next_line().unwrap();
    assert!(put.ends_with("🟡 odd\\n"), "{put}");
    for (name, value) in [("KIND", "job.put"), ("JOB", "nightly"), ("TAG", "ingest")] {
        assert_eq!(header.find(name), put.find(value), "{header}\n{put}");
    }
}

#[test]
fn only_a_domain_that_there_is() {
    Cli::new().run(&["events", "--domain", "weather"]).refused(2, "must be `jobs`");
}
