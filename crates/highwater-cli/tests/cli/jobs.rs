//! The verbs of jobs, each test twice: on a file, and through a server. Nobody can tell which.

use serde_json::{Value, json};

use crate::Cli;

macro_rules! both_ways {
    ($($test:ident),* $(,)?) => {
        mod on_a_file {
            $(#[test] fn $test() { super::$test(&crate::Cli::new()); })*
        }
        mod through_a_server {
            $(#[test] fn $test() { super::$test(&crate::Cli::served()); })*
        }
    };
}

both_ways![
    a_job_from_its_creation_to_its_deletion,
    tables_are_for_people,
    a_table_of_many_tasks_shows_those_that_hold_it_back,
    a_wait_that_fails_names_the_task,
    a_wait_that_times_out_says_what_blocks,
    a_warning_and_a_lower_goal_do_not_fail_a_wait,
    the_same_event_id_is_written_once,
    a_job_that_is_marked_as_deleted_can_be_read_and_not_written,
    pages_of_a_list_follow_each_other,
    a_watch_tells_every_step_and_resumes_behind_any_of_them,
    ctrl_c_ends_a_watch_well,
    nobody_reading_is_no_reason_to_panic,
    a_failed_wait_fails_although_nobody_reads,
    input_that_breaks_a_rule_is_refused_with_the_reason,
    the_demo_ends_by_itself_with_everything_finished,
];

fn a_job_from_its_creation_to_its_deletion(cli: &Cli) {
    let created = cli.json(&["jobs", "create", "nightly", "--tasks", "2", "--tag", "ingest"]);
    assert_eq!(created["created"], true);
    assert_eq!(created["num_tasks"], 2);

    let again = cli.ok(&["jobs", "create", "nightly", "--tasks", "9", "-o", "json"]);
    assert_eq!((&again.json()["created"], &again.json()["num_tasks"]), (&false.into(), &2.into()));
    assert!(again.stderr.contains("what is stored wins"), "{again:?}");

    let set = cli.json(&["jobs", "set", "nightly", "0", "ingest", "--started"]);
    assert_eq!((&set["applied"], &set["state"]["version"]), (&true.into(), &1.into()));
    assert_eq!(set["state"]["message"], "🟢 Started");

    let silent = cli.json(&["jobs", "get", "nightly"]);
    assert_eq!((&silent["synthesized"], &silent["task"]), (&true.into(), &1.into()));
    let reported = cli.json(&["jobs", "get", "nightly", "--task", "0", "--tag", "ingest"]);
    assert_eq!((&reported["synthesized"], &reported["status"]), (&false.into(), &1.into()));

    let failing = ["jobs", "set", "nightly", "1", "ingest", "--error", "--code", "-7"];
    cli.ok(&[&failing[..], &["--message", "disk full"]].concat());
    let summary = cli.json(&["jobs", "summary", "nightly"]);
    assert_eq!(
        (&summary["counts"]["errors"], &summary["counts"]["running"]),
        (&1.into(), &1.into())
    );
    assert_eq!(summary["worst_error"]["message"], "🔴 disk full");
    assert_eq!(summary["tasks"].as_array().unwrap().len(), 2);

    for task in ["0", "1"] {
        cli.ok(&["jobs", "set", "nightly", task, "ingest", "--finished"]);
    }
    let waited = cli.json(&["jobs", "wait", "nightly"]);
    assert_eq!((&waited["reached"], &waited["state"]["status"]), (&true.into(), &i32::MAX.into()));

    let listed = cli.json(&["jobs", "list", "--prefix", "night"]);
    assert_eq!(listed["jobs"][0]["job"], "nightly");
    assert_eq!(cli.json(&["jobs", "delete", "nightly"])["deleted"], "done");
    assert_eq!(cli.json(&["jobs", "list", "--all"]), json!({ "jobs": [] }));
    cli.run(&["jobs", "get", "nightly"]).refused(1, "job `nightly` does not exist");
}

fn tables_are_for_people(cli: &Cli) {
    cli.create_nightly();
    let set = ["jobs", "set", "nightly", "0", "ingest", "--warning", "--message", "odd\n\u{1b}[2J"];
    let table = cli.ok(&set).stdout;
    assert!(table.starts_with("TASK  TAG     STATUS"), "{table}");
    assert!(table.contains("🟡 odd\\n\\u{1b}[2J"), "{table}");

    let summary = cli.ok(&["jobs", "summary", "nightly"]).stdout;
    let of_task_1 = summary.lines().find(|line| line.starts_with("task 1")).unwrap();
    assert_eq!(of_task_1.split_whitespace().last(), Some("1"), "missing: {summary}");
    assert!(cli.ok(&["jobs", "list"]).stdout.starts_with("JOB"));
}

fn a_table_of_many_tasks_shows_those_that_hold_it_back(cli: &Cli) {
    cli.ok(&["jobs", "create", "wide", "--tasks", "60"]);
    cli.ok(&["jobs", "set", "wide", "59", "t", "--error", "--message", "lost"]);
    let summary = cli.ok(&["jobs", "summary", "wide"]);
    assert!(summary.stdout.contains("task 59 ") && !summary.stdout.contains("task 58 "));
    assert!(summary.stderr.contains("10 more tasks are not shown"), "{summary:?}");
    let whole = cli.json(&["jobs", "summary", "wide"]);
    assert_eq!(whole["tasks"].as_array().unwrap().len(), 60);
}

fn a_wait_that_fails_names_the_task(cli: &Cli) {
    cli.create_nightly();
    cli.ok(&["jobs", "set", "nightly", "1", "ingest", "--error", "--message", "disk full"]);
    let ran = cli.run(&["jobs", "wait", "nightly", "-o", "json"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert_eq!((&ran.json()["reached"], &ran.json()["failed"]["task"]), (&false.into(), &1.into()));
    assert!(ran.stderr.starts_with("🔴 task 1 failed in tag `ingest`"), "{ran:?}");
}

fn a_wait_that_times_out_says_what_blocks(cli: &Cli) {
    cli.create_nightly();
    cli.ok(&["jobs", "set", "nightly", "0", "ingest", "--finished"]);
    cli.ok(&["jobs", "set", "nightly", "1", "ingest", "--error", "--message", "disk full"]);
    let wait = ["jobs", "wait", "nightly", "--keep-waiting-on-error", "--timeout", "1s"];
    let ran = cli.run(&[&wait[..], &["-o", "json"]].concat());
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert_eq!(
        (&ran.json()["reached"], &ran.json()["blocking"]["task"]),
        (&false.into(), &1.into())
    );
    assert!(ran.stderr.contains("timed out after 1s: task 1 in tag `ingest`"), "{ran:?}");
}

fn a_warning_and_a_lower_goal_do_not_fail_a_wait(cli: &Cli) {
    cli.create_nightly();
    cli.ok(&["jobs", "set", "nightly", "0", "ingest", "--status", "40"]);
    cli.ok(&["jobs", "wait", "nightly", "--task", "0", "--status", "40"]);
    cli.ok(&["jobs", "wait", "nightly", "--task", "0", "--status", "started"]);
    cli.ok(&["jobs", "set", "nightly", "0", "ingest", "--warning"]);
    cli.ok(&["jobs", "wait", "nightly", "--task", "0", "--status", "-2"]);
}

fn the_same_event_id_is_written_once(cli: &Cli) {
    cli.create_nightly();
    let set = ["jobs", "set", "nightly", "0", "ingest", "--finished", "--event-id", "load-42"];
    let payload = ["--payload", "{\n\"rows\": 1}", "--schema-version", "3", "-o", "json"];
    let first = cli.ok(&[&set[..], &payload].concat()).json();
    assert_eq!((&first["applied"], &first["state"]["payload"]["rows"]), (&true.into(), &1.into()));
    assert_eq!(first["state"]["schema_version"], 3);
    let second = cli.ok(&[&set[..], &payload].concat());
    assert_eq!(second.json()["applied"], false);
    assert_eq!(second.json()["state"], first["state"]);
    assert!(second.stderr.contains("nothing changed"), "{second:?}");
    cli.run(&set).refused(1, "event_id `load-42` was used before");
}

fn a_job_that_is_marked_as_deleted_can_be_read_and_not_written(cli: &Cli) {
    cli.create_nightly();
    assert_eq!(cli.json(&["jobs", "delete", "nightly", "--tombstone"])["deleted"], "done");
    assert_eq!(cli.json(&["jobs", "delete", "nightly", "--tombstone"])["deleted"], "already");
    assert!(cli.json(&["jobs", "get", "nightly"])["tombstoned_at"].is_string());
    let names = |args: &[&str]| cli.json(args)["jobs"].as_array().unwrap().len();
    assert_eq!(names(&["jobs", "list"]), 0);
    assert_eq!(names(&["jobs", "list", "--tombstoned"]), 1);
    assert_eq!(names(&["jobs", "list", "--all"]), 1);
    let set = cli.run(&["jobs", "set", "nightly", "0", "ingest", "--started"]);
    set.refused(1, "is marked as deleted since");
}

fn pages_of_a_list_follow_each_other(cli: &Cli) {
    for job in ["a", "b", "c"] {
        cli.ok(&["jobs", "create", job, "--tasks", "1"]);
    }
    let first = cli.ok(&["jobs", "list", "--limit", "2", "-o", "json"]);
    assert_eq!(first.json()["jobs"][1]["job"], "b");
    assert_eq!(first.json()["next"], "b");
    assert!(first.stderr.contains("--after 'b'"), "{first:?}");
    let second = cli.ok(&["jobs", "list", "--limit", "2", "--after", "b", "-o", "json"]);
    assert_eq!(second.json()["jobs"][0]["job"], "c");
    assert!(second.json().get("next").is_none() && second.stderr.is_empty(), "{second:?}");
}

fn a_watch_tells_every_step_and_resumes_behind_any_of_them(cli: &Cli) {
    cli.create_nightly();
    let payload = ["--payload", "{\n\n}"];
    cli.ok(&[&["jobs", "set", "nightly", "0", "ingest", "--started"][..], &payload].concat());
    cli.ok(&["jobs", "set", "nightly", "1", "ingest", "--started"]);
    cli.ok(&["jobs", "delete", "nightly", "--tombstone"]);

    let events = |lines: &[Value]| -> Vec<String> {
        lines.iter().map(|line| line["event"].as_str().unwrap().to_owned()).collect()
    };
    let watch = cli.ok(&["jobs", "watch", "nightly"]);
    let lines = watch.json_lines();
    assert_eq!(events(&lines), ["replay", "replay", "snapshot_end", "end"]);
    assert_eq!((&lines[2]["count"], &lines[3]["reason"]), (&2.into(), &"deleted".into()));
    assert!(watch.stderr.contains("job `nightly` was deleted"), "{watch:?}");

    let token = lines[0]["token"].as_str().unwrap();
    let rest = cli.ok(&["jobs", "watch", "nightly", "-o", "json", "--from", token]);
    assert_eq!(rest.json_lines(), lines[1..]);
    let elsewhere = cli.run(&["jobs", "watch", "nightly", "--task", "0", "--from", token]);
    elsewhere.refused(1, "belongs to another selection");
    cli.run(&["jobs", "watch", "nightly", "--from", "x"]).refused(1, "token is damaged");
}

fn ctrl_c_ends_a_watch_well(cli: &Cli) {
    cli.create_nightly();
    let watch = cli.watch_up_to_snapshot_end();
    watch.signal("INT");
    assert_eq!(watch.ended(), (Some(0), Vec::new()));
}

fn nobody_reading_is_no_reason_to_panic(cli: &Cli) {
    cli.create_nightly();
    for args in [&["jobs", "summary", "nightly"][..], &["completions", "bash"], &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = cli.command(args).stdout(writer).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), stderr.as_str()), (Some(0), ""), "{args:?}");
    }
}

fn a_failed_wait_fails_although_nobody_reads(cli: &Cli) {
    cli.create_nightly();
    cli.ok(&["jobs", "set", "nightly", "1", "ingest", "--error"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let wait = cli.command(&["jobs", "wait", "nightly"]).stdout(writer).output().unwrap();
    assert_eq!(wait.status.code(), Some(4));
}

fn input_that_breaks_a_rule_is_refused_with_the_reason(cli: &Cli) {
    cli.create_nightly();
    let cases: [(&[&str], &str); 12] = [
        (&["create", "", "--tasks", "1"], "job `` must not be empty"),
        (&["create", "x", "--tasks", "0"], "num_tasks `0` must be between 1 and"),
        (&["create", "x", "--tasks", "1", "--tag", ".."], "tag `..` must not be"),
        (&["get", "a\nb"], "control characters"),
        (&["get", "nope"], "job `nope` does not exist"),
        (&["get", "nightly", "--task", "2"], "task `2` must be below the number of tasks"),
        (&["watch", "nightly", "--tag", "export"], "must be one of the declared tags"),
        (&["set", "nightly", "0", "export", "--started"], "must be one of the declared tags"),
        (&["set", "nightly", "0", "ingest", "--error", "--code", "-2"], "must be negative and not"),
        (&["set", "nightly", "0", "ingest", "--started", "--payload", "{"], "must be JSON: EOF"),
        (&["set", "nightly", "0", "ingest", "--started", "--epoch", "1"], "was never given out"),
        (&["list", "--limit", "0"], "limit `0` must be between"),
    ];
    for (args, why) in cases {
        cli.run(&[&["jobs"], args].concat()).refused(1, why);
    }
    let silence = ["jobs", "set", "nightly", "0", "ingest", "--status", "0", "--message", "hm"];
    cli.run(&silence).refused(1, "must be empty while the status is 0");
}

fn the_demo_ends_by_itself_with_everything_finished(cli: &Cli) {
    let lines = cli.ok(&["demo", "-o", "json"]).json_lines();
    let (summary, steps) = lines.split_last().unwrap();
    assert_eq!(
        (&summary["counts"]["finished"], &summary["counts"]["errors"]),
        (&8.into(), &0.into())
    );
    let statuses = |wanted: i32| steps.iter().filter(move |step| step["state"]["status"] == wanted);
    assert_eq!((statuses(-1).count(), statuses(-2).count()), (1, 1));
    // Where a place was named, the job stays.
    let listed = cli.json(&["jobs", "list"]);
    assert_eq!(listed["jobs"][0]["job"], summary["job"]);
}
