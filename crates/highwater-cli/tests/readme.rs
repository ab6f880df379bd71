//! The examples of the README and of the pages under `docs/` that are marked `sh run`, run as they
//! are printed: only the port is another.

#![expect(clippy::unwrap_used, reason = "a test reports by panicking")]

use std::{
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

const BINARY: &str = env!("CARGO_BIN_EXE_highwater");

/// A server of the test's own, ended with it.
struct Server {
    process: Child,
    address: String,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start() -> Server {
        let folder = tempfile::tempdir().unwrap();
        let store = format!("sqlite:{}", folder.path().join("highwater.db").display());
        let mut process = Command::new(BINARY)
            .args(["serve", "--listen", "127.0.0.1:0", "--store", &store])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address =
            line.trim().strip_prefix("highwater listening on http://").unwrap().to_owned();
        Server { process, address, _folder: folder }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The pages that may have such examples.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    [root.join("README.md")].into_iter().chain(docs).collect()
}

fn examples(page: &str) -> impl Iterator<Item = &str> {
    page.split("```sh run\n").skip(1).map(|rest| rest.split("```").next().unwrap())
}

#[test]
fn every_example_runs_as_printed() {
    let mut count = 0;
    for path in pages() {
        let page = std::fs::read_to_string(&path).unwrap();
        let server = Server::start();
        for example in examples(&page) {
            run(example, &server, &path);
            count += 1;
        }
    }
    assert!(count >= 2, "only {count} examples were found");
}

fn run(example: &str, server: &Server, page: &Path) {
    let folder = Path::new(BINARY).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let script = example.replace("127.0.0.1:7171", &server.address);
    let output = Command::new("sh")
        .args(["-e", "-c", &script])
        .env("PATH", path)
        .env("HIGHWATER_SERVER", format!("http://{}", server.address))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = format!(
        "{}\n{script}\n{}{}",
        page.display(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{said}");
    // `curl` takes a refusal for an answer; the reader of an example does not.
    assert!(!said.contains("urn:highwater:"), "{said}");
}
