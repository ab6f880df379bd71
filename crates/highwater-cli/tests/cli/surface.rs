//! What does not depend on jobs: usage, where the state is, help, completions.

use std::net::TcpListener;

use crate::{Cli, Ran};

#[test]
fn a_file_that_another_process_uses_is_refused() {
    let cli = Cli::new();
    cli.create_nightly();
    let watch = cli.watch_up_to_snapshot_end();
    cli.run(&["jobs", "list"]).refused(1, "`highwater.db` is in use by process");
    drop(watch);
    cli.ok(&["jobs", "list"]);
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
fn a_server_and_a_store_exclude_each_other() {
    let cli = Cli::new();
    let list = ["jobs", "list", "--server", "http://127.0.0.1:1", "--store", "sqlite:highwater.db"];
    Ran::of(&mut cli.bare(&list)).refused(2, "--server and --store exclude each other");
    let variables = [("HIGHWATER_SERVER", "http://127.0.0.1:1"), ("HIGHWATER_STORE", "memory:")];
    let by_variables = Ran::of(cli.bare(&["jobs", "list"]).envs(variables));
    by_variables.refused(2, "say which with --server or --store");
    // A flag is nearer to the user than a variable.
    let by_flag = Ran::of(cli.bare(&["jobs", "list", "--store", "memory:"]).envs(variables));
    assert_eq!(by_flag.code, Some(0), "{by_flag:?}");
    cli.run(&["jobs", "list", "--server", "localhost:7171"]).refused(2, "must begin with http://");
}

#[test]
fn a_server_that_is_not_there_is_said_so_with_what_to_do() {
    let cli = Cli::new();
    // A port that was free a moment ago.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = format!("http://{address}");
    for args in [&["jobs", "list"][..], &["jobs", "get", "j"], &["jobs", "watch", "j"], &["events"]]
    {
        let ran = Ran::of(cli.bare(args).env("HIGHWATER_SERVER", &server));
        ran.refused(
            1,
            &format!("no server at {server}; start one with `highwater serve`, or name a"),
        );
    }
}

#[test]
fn the_demo_needs_nothing_and_leaves_nothing() {
    let cli = Cli::new();
    let ran = Ran::of(&mut cli.bare(&["demo"]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("task 1  export: 🔴 disk full"), "{ran:?}");
    assert_eq!(std::fs::read_dir(cli.folder.path()).unwrap().count(), 0);
}

#[test]
fn every_verb_has_an_example() {
    let cli = Cli::new();
    for verb in ["create", "set", "get", "summary", "watch", "wait", "list", "delete"] {
        let help = cli.ok(&["jobs", verb, "--help"]).stdout;
        assert!(help.contains(&format!("\n  highwater jobs {verb} ")), "{help}");
    }
    for command in ["serve", "events", "demo", "config show", "completions"] {
        let words: Vec<_> = command.split(' ').chain(["--help"]).collect();
        let help = cli.ok(&words).stdout;
        assert!(help.contains(&format!("\n  highwater {command}")), "{help}");
    }
}

#[test]
fn completions_know_the_verbs() {
    let cli = Cli::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        assert!(cli.ok(&["completions", shell]).stdout.contains("summary"), "{shell}");
    }
}
