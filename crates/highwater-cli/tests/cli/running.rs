//! A process that runs beside the test: read line by line, with a deadline, and killed at the end.

use std::{
    io::{BufRead as _, BufReader, Read},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

/// How long a test waits for a line: a busy machine is slow, and a test that hangs says nothing.
const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) struct Running {
    child: Child,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Running {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = lines(child.stdout.take().unwrap());
        let stderr = lines(child.stderr.take().unwrap());
        Running { child, stdout, stderr }
    }

    /// The next line on stdout; `None` when it has ended.
    #[track_caller]
    pub(crate) fn next_line(&self) -> Option<String> {
        next(&self.stdout)
    }

    /// Reads stdout up to a line that contains `text`.
    #[track_caller]
    pub(crate) fn line_with(&self, text: &str) -> String {
        line_with(&self.stdout, text)
    }

    /// Reads stderr up to a line that contains `text`.
    #[track_caller]
    pub(crate) fn stderr_line_with(&self, text: &str) -> String {
        line_with(&self.stderr, text)
    }

    /// All of stderr; it must be about to end.
    #[track_caller]
    pub(crate) fn stderr(&self) -> Vec<String> {
        std::iter::from_fn(|| next(&self.stderr)).collect()
    }

    /// Sends it a signal, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Waits for its end: the code, and what was left on stdout.
    #[track_caller]
    pub(crate) fn ended(mut self) -> (Option<i32>, Vec<String>) {
        let rest = std::iter::from_fn(|| self.next_line()).collect();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of a pipe, read at once: a pipe that nobody reads would block its writer.
fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

#[track_caller]
fn next(lines: &Receiver<String>) -> Option<String> {
    match lines.recv_timeout(DEADLINE) {
        Ok(line) => Some(line),
        Err(RecvTimeoutError::Disconnected) => None,
        Err(RecvTimeoutError::Timeout) => panic!("no line in {DEADLINE:?}"),
    }
}

#[track_caller]
fn line_with(lines: &Receiver<String>, text: &str) -> String {
    let mut read = Vec::new();
    while let Some(line) = next(lines) {
        if line.contains(text) {
            return line;
        }
        read.push(line);
    }
    panic!("it ended without `{text}`: {read:?}")
}
