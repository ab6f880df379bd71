//! `highwater serve` as a child, in a folder of its own.

use std::{
    net::SocketAddr,
    path::Path,
    process::{ExitStatus, Stdio},
};

use highwater_stores::{Slots, StoreOptions, StoreUrls};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

use super::{client::Client, within};

const FILE: &str = "highwater.db";

/// A folder with one embedded file, which a server or this process opens, one at a time.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    /// Serves the file; ready when this returns.
    pub(crate) async fn serve(&self) -> Server {
        self.serve_with(&[]).await
    }

    pub(crate) async fn serve_with(&self, flags: &[&str]) -> Server {
        Server::start(self.0.path(), flags).await
    }

    /// The file itself, while nobody serves it.
    pub(crate) async fn open(&self) -> Slots {
        let url = format!("sqlite:{}", self.0.path().join(FILE).display());
        highwater_stores::open(&StoreUrls::all(url), StoreOptions::default()).await.unwrap()
    }
}

/// A server; killed when it is dropped, whatever happens to the test.
pub(crate) struct Server {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    pub(crate) address: SocketAddr,
    pub(crate) client: Client,
}

impl Server {
    async fn start(folder: &Path, flags: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_highwater"));
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("HIGHWATER_") {
                command.env_remove(variable);
            }
        }
        command.env("HIGHWATER_LOG", "warn");
        command.args(["serve", "--listen", "127.0.0.1:0", "--store", &format!("sqlite:{FILE}")]);
        command.args(flags).current_dir(folder).kill_on_drop(true);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = within(lines.next_line()).await.unwrap().expect("the server ended at once");
        let address = line.strip_prefix("highwater listening on http://");
        let address = address.unwrap_or_else(|| panic!("the first line is `{line}`"));
        let address = address.parse().unwrap();
        Server { child, lines, address, client: Client::new(address) }
    }

    /// Kill −9: no goodbye, nothing flushed.
    pub(crate) async fn kill(mut self) {
        within(self.child.kill()).await.unwrap();
    }

    /// Asks it to stop.
    pub(crate) async fn terminate(&self) {
        let id = self.child.id().unwrap().to_string();
        let asked = within(Command::new("kill").args(["-TERM", &id]).status()).await.unwrap();
        assert!(asked.success());
    }

    /// How it ended, once it has; and what it printed after its first line.
    pub(crate) async fn ended(mut self) -> (ExitStatus, Vec<String>) {
        let mut rest = Vec::new();
        while let Some(line) = within(self.lines.next_line()).await.unwrap() {
            rest.push(line);
        }
        (within(self.child.wait()).await.unwrap(), rest)
    }
}
