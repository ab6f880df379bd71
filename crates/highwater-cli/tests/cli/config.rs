//! `config show`: values, and where they come from.

use serde_json::{Value, json};

use crate::{Cli, Ran};

impl Cli {
    /// Writes a file of settings.
    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }
}

#[track_caller]
fn check(shown: &Value, setting: &str, value: impl Into<Value>, source: &str) {
    assert_eq!(shown[setting], json!({ "value": value.into(), "source": source }), "{setting}");
}

#[test]
fn a_flag_wins_over_a_variable_over_the_file_over_the_default() {
    let cli = Cli::new();
    cli.write(
        "highwater.toml",
        "feed_events = 1\nmax_streams = 1\ndrain_timeout = '1s'\ninsecure = true\nstore = 'memory:'",
    );
    let show = ["config", "show", "-o", "json", "--feed-events", "3", "--insecure=false"];
    let variables = [
        ("HIGHWATER_CONFIG", "highwater.toml"),
        ("HIGHWATER_FEED_EVENTS", "2"),
        ("HIGHWATER_MAX_STREAMS", "2"),
        ("HIGHWATER_LOG", "debug"),
    ];
    let shown = Ran::of(cli.bare(&show).envs(variables)).json();
    check(&shown, "feed_events", 3, "flag");
    check(&shown, "insecure", false, "flag");
    check(&shown, "max_streams", 2, "environment");
    check(&shown, "log", "debug", "environment");
    check(&shown, "drain_timeout", "1s", "file");
    check(&shown, "store", "memory:", "file");
    check(&shown, "payload_limit", "64KiB", "default");
    check(&shown, "jobs_store", Value::Null, "default");
}

#[test]
fn a_store_before_the_command_is_a_flag_too() {
    let cli = Cli::new();
    let show = ["--store", "memory:", "config", "show", "-o", "json"];
    check(&Ran::of(&mut cli.bare(&show)).json(), "store", "memory:", "flag");
    check(&cli.json(&["config", "show"]), "store", "sqlite:highwater.db", "environment");
}

#[test]
fn a_table_shows_everything_but_passwords() {
    let cli = Cli::new();
    let show = ["config", "show", "--jobs-store", "postgres://user:secret@host/db"];
    for format in ["table", "json"] {
        let shown = cli.ok(&[&show[..], &["-o", format]].concat()).stdout;
        assert!(shown.contains("postgres://user:***@host/db"), "{shown}");
        assert!(!shown.contains("secret"), "{shown}");
    }
    let table = cli.ok(&["config", "show"]).stdout;
    assert!(table.starts_with("SETTING "), "{table}");
    let listen = table.lines().find(|line| line.starts_with("listen ")).unwrap();
    assert_eq!(
        listen.split_whitespace().collect::<Vec<_>>(),
        ["listen", "127.0.0.1:7171", "default"]
    );
    let help =
        cli.command(&["serve", "--help"]).env("HIGHWATER_STORE", "redis://:secret@h").output();
    assert!(!String::from_utf8(help.unwrap().stdout).unwrap().contains("secret"));
}

#[test]
fn a_wrong_file_is_refused_with_its_name_the_key_and_the_rule() {
    let cli = Cli::new();
    for (text, why) in [
        ("stor = 'memory:'", "wrong.toml: `stor` is no setting: there are listen, store, "),
        ("feed_events = 'many'", "wrong.toml: `feed_events` must be a whole number"),
        ("feed_retention = 'soon'", "wrong.toml: `feed_retention` = \"soon\" is refused: must be"),
        ("listen =", "wrong.toml: line 1: "),
    ] {
        cli.write("wrong.toml", text);
        for command in [&["config", "show"][..], &["serve"]] {
            cli.run(&[command, &["--config", "wrong.toml"]].concat()).refused(2, why);
        }
    }
    cli.run(&["serve", "--config", "none.toml"])
        .refused(2, "settings from none.toml: No such file");
}
