//! A server under test: a child of ours, in a folder of its own, ended with its handle.

#[cfg(feature = "peers")]
mod polled;

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::Result;
#[cfg(feature = "peers")]
pub(crate) use polled::free_address;

/// The program of a server.
#[derive(Debug, Clone)]
pub(crate) struct Program(PathBuf);

impl Program {
    pub(crate) fn at(path: PathBuf) -> Program {
        Program(path)
    }

    /// The first of `places` that has the file, then the folders of `PATH`.
    pub(crate) fn find(name: &str, places: &[PathBuf]) -> Option<Program> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders: Vec<_> = std::env::split_paths(&path).collect();
        let mut candidates = places.iter().chain(&folders).map(|folder| folder.join(name));
        candidates.find(|candidate| candidate.is_file()).map(Program)
    }

    pub(crate) fn command(&self) -> Command {
        Command::new(&self.0)
    }

    /// The first line of what it says of itself.
    pub(crate) fn version(&self) -> Result<String> {
        let output = self.command().arg("--version").output()?;
        let text = String::from_utf8(output.stdout)?;
        Ok(text.lines().next().unwrap_or("unknown").to_owned())
    }

    pub(crate) fn size(&self) -> Result<Bytes> {
        Ok(Bytes(fs::metadata(&self.0)?.len()))
    }
}

/// A size, printed in MB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bytes(pub(crate) u64);

impl std::fmt::Display for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{} MB", self.0 / 1_000_000, self.0 / 100_000 % 10)
    }
}

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    begun: Instant,
    log: PathBuf,
    /// From the start of the process until it was ready.
    pub(crate) ready_after: Duration,
}

impl Server {
    /// Starts a server that can be asked whether it is ready; what it says goes to a file in `folder`.
    pub(crate) fn start(mut command: Command, folder: &Path) -> Result<Server> {
        let log = folder.join("log");
        let file = File::create(&log)?;
        command.stdin(Stdio::null()).stderr(file.try_clone()?);
        let begun = Instant::now();
        let child = command.spawn()?;
        Ok(Server { child, begun, log, ready_after: Duration::ZERO })
    }

    /// Waits for the first line on standard output, which the command must have piped.
    pub(crate) fn first_line(&mut self) -> Result<String> {
        // The pipe stays with the child, so that later lines break nothing.
        let output = self.child.stdout.as_mut().ok_or("standard output is not piped")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        if line.is_empty() {
            return Err(self.failure());
        }
        self.ready_after = self.begun.elapsed();
        Ok(line)
    }

    fn failure(&self) -> Box<dyn std::error::Error + Send + Sync> {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let last: Vec<_> = log.lines().rev().take(5).collect();
        let last: Vec<_> = last.into_iter().rev().collect();
        format!("the server does not start: {}", last.join("\n")).into()
    }

    /// Since the process was started.
    pub(crate) fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    /// `VmRSS`: what it holds in memory, its own and mapped files.
    pub(crate) fn resident(&self) -> Result<Bytes> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")).ok_or("no VmRSS")?;
        Ok(Bytes(kib.parse::<u64>()? * 1_024))
    }

    /// Processor time that it has used.
    pub(crate) fn processor_time(&self) -> Result<Duration> {
        processor_time(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; that showed elsewhere.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processor time that a process has used, of its user and its system.
pub(crate) fn processor_time(process: u32) -> Result<Duration> {
    let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name in parentheses may hold anything; after it come the state and then numbers.
    let (_, numbers) = text.rsplit_once(')').ok_or("no name in /proc/PID/stat")?;
    let ticks = numbers.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
    let ticks: u64 = ticks.sum::<std::result::Result<u64, _>>()?;
    let per_second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_secs(1) * u32::try_from(ticks)? / u32::try_from(per_second)?)
}

/// `--name=value`, with a value that may be a path.
pub(crate) fn flag(name: &str, value: impl AsRef<OsStr>) -> std::ffi::OsString {
    let mut flag = std::ffi::OsString::from(name);
    flag.push("=");
    flag.push(value);
    flag
}
