//! The embedded engine in real processes: killed in mid-write, refused to a second owner, out of disk.
//!
//! The binary starts itself again as the child of each trial.

#![expect(clippy::unwrap_used, reason = "a trial reports by panicking")]

mod crash;
mod full_disk;
mod lazy;
mod second_owner;

use std::{
    io::Write as _,
    path::Path,
    process::{Child, Command, Stdio},
};

use highwater_stores::sqlite::{SqliteOptions, SqliteStore};
use libtest_mimic::{Arguments, Failed, Trial};

/// Names the part that a child plays; its arguments follow in `HIGHWATER_CHILD_ARGUMENTS`.
const ROLE: &str = "HIGHWATER_CHILD";
const ARGUMENTS: &str = "HIGHWATER_CHILD_ARGUMENTS";

/// Set where every trial must run: what cannot run there is a failure, not a skip.
const REQUIRE: &str = "HIGHWATER_REQUIRE";

fn main() {
    if let Ok(role) = std::env::var(ROLE) {
        let arguments = std::env::var(ARGUMENTS).unwrap_or_default();
        let arguments: Vec<&str> = arguments.split('\n').collect();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        return match role.as_str() {
            "crash" => runtime.block_on(crash::child(&arguments)),
            "second owner" => runtime.block_on(second_owner::child(&arguments)),
            "full disk" => runtime.block_on(full_disk::child(&arguments)),
            "lazy" => runtime.block_on(lazy::child(&arguments)),
            role => panic!("no such role: {role}"),
        };
    }
    let can_mount = full_disk::can_run();
    if let Err(reason) = &can_mount {
        eprintln!("SKIPPED: a_full_disk_refuses_writes_and_loses_nothing: {reason}");
    }
    let skip_full_disk = can_mount.is_err() && std::env::var_os(REQUIRE).is_none();
    let trials = vec![
        Trial::test("sqlite::thirty_kills_lose_and_double_nothing", crash::thirty_kills),
        Trial::test(
            "sqlite::a_second_owner_fails_at_once_and_is_told_why",
            second_owner::is_refused,
        ),
        Trial::test(
            "sqlite::a_full_disk_refuses_writes_and_loses_nothing",
            full_disk::loses_nothing,
        )
        .with_ignored_flag(skip_full_disk),
        Trial::test(
            "sqlite::subscribers_that_are_never_polled_cost_bounded_memory",
            lazy::is_bounded,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// This binary again, in another role.
fn this_binary_as(role: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(ROLE, role).env(ARGUMENTS, arguments.join("\n"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

async fn open(path: impl AsRef<Path>) -> highwater::Result<SqliteStore> {
    SqliteStore::open(path.as_ref(), SqliteOptions::default()).await
}

/// Tells the parent something, at once.
fn say(line: &str) {
    let mut stdout = std::io::stdout().lock();
    // A parent that is gone does not listen any more.
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

/// Ends its child, whatever happens to the trial.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> Result<T, Failed> {
    Ok(tokio::runtime::Runtime::new()?.block_on(future))
}
