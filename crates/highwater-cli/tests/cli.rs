//! The real binary on a real file: what it prints, where, and how it exits.
#![expect(clippy::unwrap_used, reason = "a test reports by panicking, its helpers included")]

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Output, Stdio},
};

use serde_json::Value;

/// A folder of its own for every test, and the command line run in it.
struct Cli {
    folder: tempfile::TempDir,
}

/// What one run left.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Cli {
    fn new() -> Cli {
        Cli { folder: tempfile::tempdir().unwrap() }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
        command.args(args).current_dir(self.folder.path());
        for variable in ["HIGHWATER_STORE", "HIGHWATER_LOG"] {
            command.env_remove(variable);
        }
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        let Output { status, stdout, stderr } = self.command(args).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }

    /// Runs what must succeed.
    #[track_caller]
    fn ok(&self, args: &[&str]) -> Ran {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(0), "{args:?}: {ran:?}");
        ran
    }

    /// The one JSON value that a run must print; exit 0.
    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        self.ok(&[args, &["-o", "json"]].concat()).json()
    }

    /// A job of two tasks that both owe `ingest`.
    fn with_job() -> Cli {
        let cli = Cli::new();
        cli.ok(&["jobs", "create", "nightly", "--tasks", "2", "--tag", "ingest"]);
        cli
    }

    /// Starts a watch and reads it up to the end of its snapshot.
    fn watch_up_to_snapshot_end(&self) -> (Child, BufReader<impl Read + use<>>) {
        let mut command = self.command(&["jobs", "watch", "nightly"]);
        let mut watch = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(watch.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("snapshot_end") {
            line.clear();
            assert_ne!(lines.read_line(&mut line).unwrap(), 0, "the watch ended");
        }
        (watch, lines)
    }
}

impl Ran {
    #[track_caller]
    fn json(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "{self:?}");
        serde_json::from_str(&self.stdout).unwrap()
    }

    #[track_caller]
    fn json_lines(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// It was refused: the code, the reason behind its mark on stderr, and nothing on stdout.
    #[track_caller]
    fn refused(&self, code: i32, why: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.stderr.starts_with("🔴 ") && self.stderr.contains(why), "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
    }
}

#[test]
fn a_job_from_its_creation_to_its_deletion() {
    let cli = Cli::new();
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
    assert_eq!(listed[0]["job"], "nightly");
    assert_eq!(cli.json(&["jobs", "delete", "nightly"])["outcome"], "done");
    assert_eq!(cli.json(&["jobs", "list", "--all"]), Value::Array(Vec::new()));
    cli.run(&["jobs", "get", "nightly"]).refused(1, "job `nightly` does not exist");
}

#[test]
fn tables_are_for_people() {
    let cli = Cli::with_job();
    let set = ["jobs", "set", "nightly", "0", "ingest", "--warning", "--message", "odd\n\u{1b}[2J"];
    let table = cli.ok(&set).stdout;
    assert!(table.starts_with("TASK  TAG     STATUS"), "{table}");
    assert!(table.contains("🟡 odd\\n\\u{1b}[2J"), "{table}");

    let summary = cli.ok(&["jobs", "summary", "nightly"]).stdout;
    let of_task_1 = summary.lines().find(|line| line.starts_with("task 1")).unwrap();
    assert_eq!(of_task_1.split_whitespace().last(), Some("1"), "missing: {summary}");
    assert!(cli.ok(&["jobs", "list"]).stdout.starts_with("JOB"));
}

#[test]
fn a_table_of_many_tasks_shows_those_that_hold_it_back() {
    let cli = Cli::new();
    cli.ok(&["jobs", "create", "wide", "--tasks", "60"]);
    cli.ok(&["jobs", "set", "wide", "59", "t", "--error", "--message", "lost"]);
    let summary = cli.ok(&["jobs", "summary", "wide"]);
    assert!(summary.stdout.contains("task 59 ") && !summary.stdout.contains("task 58 "));
    assert!(summary.stderr.contains("10 more tasks are not shown"), "{summary:?}");
    let whole = cli.json(&["jobs", "summary", "wide"]);
    assert_eq!(whole["tasks"].as_array().unwrap().len(), 60);
}

#[test]
fn a_wait_that_fails_names_the_task() {
    let cli = Cli::with_job();
    cli.ok(&["jobs", "set", "nightly", "1", "ingest", "--error", "--message", "disk full"]);
    let ran = cli.run(&["jobs", "wait", "nightly", "-o", "json"]);
    assert_eq!(ran.code, Some(4), "{ran:?}");
    assert_eq!((&ran.json()["reached"], &ran.json()["failed"]["task"]), (&false.into(), &1.into()));
    assert!(ran.stderr.starts_with("🔴 task 1 failed in tag `ingest`"), "{ran:?}");
}

#[test]
fn a_wait_that_times_out_says_what_blocks() {
    let cli = Cli::with_job();
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

#[test]
fn a_warning_and_a_lower_goal_do_not_fail_a_wait() {
    let cli = Cli::with_job();
    cli.ok(&["jobs", "set", "nightly", "0", "ingest", "--status", "40"]);
    cli.ok(&["jobs", "wait", "nightly", "--task", "0", "--status", "40"]);
    cli.ok(&["jobs", "wait", "nightly", "--task", "0", "--status", "started"]);
    cli.ok(&["jobs", "set", "nightly", "0", "ingest", "--warning"]);
    cli.ok(&["jobs", "wait", "nightly", "--task", "0", "--status", "-2"]);
}

#[test]
fn the_same_event_id_is_written_once() {
    let cli = Cli::with_job();
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

#[test]
fn a_job_that_is_marked_as_deleted_can_be_read_and_not_written() {
    let cli = Cli::with_job();
    assert_eq!(cli.json(&["jobs", "delete", "nightly", "--tombstone"])["outcome"], "done");
    assert_eq!(cli.json(&["jobs", "delete", "nightly", "--tombstone"])["outcome"], "already");
    assert!(cli.json(&["jobs", "get", "nightly"])["tombstoned_at"].is_string());
    let names = |args: &[&str]| cli.json(args).as_array().unwrap().len();
    assert_eq!(names(&["jobs", "list"]), 0);
    assert_eq!(names(&["jobs", "list", "--tombstoned"]), 1);
    assert_eq!(names(&["jobs", "list", "--all"]), 1);
    let set = cli.run(&["jobs", "set", "nightly", "0", "ingest", "--started"]);
    set.refused(1, "is marked as deleted since");
}

#[test]
fn pages_of_a_list_follow_each_other() {
    let cli = Cli::new();
    for job in ["a", "b", "c"] {
        cli.ok(&["jobs", "create", job, "--tasks", "1"]);
    }
    let first = cli.ok(&["jobs", "list", "--limit", "2", "-o", "json"]);
    assert_eq!(first.json()[1]["job"], "b");
    assert!(first.stderr.contains("--after 'b'"), "{first:?}");
    let second = cli.ok(&["jobs", "list", "--limit", "2", "--after", "b", "-o", "json"]);
    assert_eq!(second.json()[0]["job"], "c");
    assert_eq!(second.stderr, "");
}

#[test]
fn a_watch_tells_every_step_and_resumes_behind_any_of_them() {
    let cli = Cli::with_job();
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

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_watch_well() {
    let cli = Cli::with_job();
    let (mut watch, mut rest) = cli.watch_up_to_snapshot_end();
    let interrupt = Command::new("sh").args(["-c", &format!("kill -INT {}", watch.id())]).status();
    assert!(interrupt.unwrap().success());
    assert_eq!(watch.wait().unwrap().code(), Some(0));
    let mut line = String::new();
    assert_eq!(rest.read_line(&mut line).unwrap(), 0, "{line}");
}

#[test]
fn a_file_that_another_process_uses_is_refused() {
    let cli = Cli::with_job();
    let (mut watch, _rest) = cli.watch_up_to_snapshot_end();
    let ran = cli.run(&["jobs", "list"]);
    watch.kill().unwrap();
    watch.wait().unwrap();
    ran.refused(1, "highwater.db");
    cli.ok(&["jobs", "list"]);
}

#[test]
fn nobody_reading_is_no_reason_to_panic() {
    let cli = Cli::with_job();
    for args in [&["jobs", "summary", "nightly"][..], &["completions", "bash"], &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = cli.command(args).stdout(writer).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), stderr.as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn a_failed_wait_fails_although_nobody_reads() {
    let cli = Cli::with_job();
    cli.ok(&["jobs", "set", "nightly", "1", "ingest", "--error"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let wait = cli.command(&["jobs", "wait", "nightly"]).stdout(writer).output().unwrap();
    assert_eq!(wait.status.code(), Some(4));
}

#[test]
fn input_that_breaks_a_rule_is_refused_with_the_reason() {
    let cli = Cli::with_job();
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

#[test]
fn wrong_usage_exits_2_and_opens_no_store() {
    let cli = Cli::new();
    let cases: [(&[&str], &str); 7] = [
        (&["jobs", "set", "j", "0", "t"], "required arguments were not provided"),
        (&["jobs", "set", "j", "0", "t", "--started", "--finished"], "cannot be used with"),
        (&["jobs", "set", "j", "0", "t", "--started", "--code", "-3"], "cannot be used with"),
        (&["jobs", "set", "j", "-1", "t", "--started"], "-1 is not in 0.."),
        (&["jobs", "wait", "j", "--timeout", "30"], "such as 500ms, 30s"),
        (&["jobs", "wait", "j", "--status", "done"], "`started`, `finished` or a 32-bit number"),
        (&["jobs", "list", "--all", "--tombstoned"], "cannot be used with"),
    ];
    for (args, why) in cases {
        cli.run(args).refused(2, why);
    }
    assert_eq!(cli.run(&["jobs"]).code, Some(2));
    assert_eq!(std::fs::read_dir(cli.folder.path()).unwrap().count(), 0);
}

#[test]
fn a_store_is_named_by_flag_or_by_variable() {
    let cli = Cli::new();
    let create = ["jobs", "create", "j", "--tasks", "1"];
    let by_variable = cli.command(&create).env("HIGHWATER_STORE", "sqlite:other.db").output();
    assert!(by_variable.unwrap().status.success());
    assert_eq!(cli.json(&["--store", "sqlite:other.db", "jobs", "get", "j"])["job"], "j");
    cli.run(&["jobs", "get", "j"]).refused(1, "job `j` does not exist");
    cli.run(&["jobs", "list", "--store", "redis://x"]).refused(1, "no `redis:` engine");
    cli.run(&["jobs", "list", "--store", "sqlite:no/such/h.db"]).refused(1, "No such file");
}

#[test]
fn every_verb_has_an_example() {
    let cli = Cli::new();
    for verb in ["create", "set", "get", "summary", "watch", "wait", "list", "delete"] {
        let help = cli.ok(&["jobs", verb, "--help"]).stdout;
        assert!(help.contains(&format!("\n  highwater jobs {verb} ")), "{help}");
    }
}

#[test]
fn completions_know_the_verbs() {
    let cli = Cli::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        assert!(cli.ok(&["completions", shell]).stdout.contains("summary"), "{shell}");
    }
}

#[test]
fn the_demo_ends_by_itself_with_everything_finished() {
    let cli = Cli::new();
    let lines = cli.ok(&["demo", "-o", "json"]).json_lines();
    let (summary, steps) = lines.split_last().unwrap();
    assert_eq!(
        (&summary["counts"]["finished"], &summary["counts"]["errors"]),
        (&8.into(), &0.into())
    );
    let statuses = |wanted: i32| steps.iter().filter(move |step| step["state"]["status"] == wanted);
    assert_eq!((statuses(-1).count(), statuses(-2).count()), (1, 1));
    assert_eq!(std::fs::read_dir(cli.folder.path()).unwrap().count(), 0);
}
