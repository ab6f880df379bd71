//! The real binary: what it prints, where, and how it exits; on a file of its own, and through a
//! real server.
#![expect(clippy::unwrap_used, reason = "a test reports by panicking, its helpers included")]

mod config;
mod events;
mod jobs;
mod live;
mod running;
mod serve;
mod surface;

use std::process::{Command, Output};

use serde_json::Value;

use running::Running;

/// A folder of its own for every test, and the command line run in it.
struct Cli {
    folder: tempfile::TempDir,
    server: Option<Server>,
}

/// A server that runs beside the test.
struct Server {
    process: Running,
    url: String,
}

/// What one run left.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Cli {
    /// Talks straight to `highwater.db` in its folder.
    fn new() -> Cli {
        Cli { folder: tempfile::tempdir().unwrap(), server: None }
    }

    /// Talks to a server, which has that file.
    fn served() -> Cli {
        let cli = Cli::new();
        let server = cli.serve(&[]);
        Cli { server: Some(server), ..cli }
    }

    /// Starts a server in the folder, on a free port, and waits until it is ready.
    fn serve(&self, args: &[&str]) -> Server {
        self.serve_at("127.0.0.1:0", args)
    }

    fn serve_at(&self, address: &str, args: &[&str]) -> Server {
        let args = [&["serve", "--listen", address], args].concat();
        let process = Running::start(&mut self.bare(&args));
        let first = process.next_line().unwrap_or_else(|| panic!("{:?}", process.stderr()));
        let url = first.strip_prefix("highwater listening on ").unwrap().to_owned();
        assert!(url.starts_with("http://127.0.0.1:"), "{first}");
        Server { process, url }
    }

    /// A command without any variable of ours.
    fn bare(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
        command.args(args).current_dir(self.folder.path());
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("HIGHWATER_") {
                command.env_remove(variable);
            }
        }
        command
    }

    /// A command that knows where the state is.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.bare(args);
        match &self.server {
            Some(server) => command.env("HIGHWATER_SERVER", &server.url),
            None => command.env("HIGHWATER_STORE", "sqlite:highwater.db"),
        };
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        Ran::of(&mut self.command(args))
    }

    /// Starts what goes on beside the test.
    fn start(&self, args: &[&str]) -> Running {
        Running::start(&mut self.command(args))
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
    fn create_nightly(&self) {
        self.ok(&["jobs", "create", "nightly", "--tasks", "2", "--tag", "ingest"]);
    }

    /// Starts a watch and reads it up to the end of its snapshot.
    fn watch_up_to_snapshot_end(&self) -> Running {
        let watch = self.start(&["jobs", "watch", "nightly"]);
        watch.line_with("snapshot_end");
        watch
    }
}

impl Ran {
    fn of(command: &mut Command) -> Ran {
        let Output { status, stdout, stderr } = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }

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
