//! No room left: reads go on, writes are refused, nothing acknowledged is lost.

use std::{path::Path, process::Command, sync::Arc};

use highwater::{
    ErrorKind, Outcome,
    feed::Seq,
    jobs::{
        Draft, Filter, JobId, JobRef, JobStore, Payload, Status, Tag, TaskCount, TaskIndex, Write,
        Writer,
    },
    limits::Limits,
};
use libtest_mimic::Failed;

use super::{open, this_binary_as};

const DISK: &str = "3m";

/// A disk of our own needs a mount namespace of our own.
pub(super) fn can_run() -> Result<(), String> {
    let mut trying = Command::new("unshare");
    trying.args(["--map-root-user", "--mount", "true"]).stderr(std::process::Stdio::null());
    match trying.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("`unshare --map-root-user --mount` is not permitted here".to_owned()),
        Err(error) => Err(format!("`unshare` (Debian: util-linux) does not run: {error}")),
    }
}

pub(super) fn loses_nothing() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let mountpoint = folder.path().to_str().unwrap();
    let mut this = this_binary_as("full disk", &[mountpoint]);
    let script = format!("mount -t tmpfs -o size={DISK} none \"$1\" && exec \"$0\"");
    let mut contained = Command::new("unshare");
    contained.args(["--map-root-user", "--mount", "sh", "-c", &script]);
    contained.arg(this.get_program()).arg(mountpoint);
    contained.envs(this.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = contained.stdin(std::process::Stdio::null()).output()?;
    this.stdin(std::process::Stdio::null());
    let words = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{}: {words}", output.status).into()) }
}

fn write(number: i32) -> Write {
    let payload = format!(r#"{{"filler":"{}"}}"#, "x".repeat(2_000));
    let draft = Draft::new(Tag::new("t").unwrap(), Status(number))
        .payload(Payload::new(payload, &Limits::default()).unwrap());
    let task = TaskIndex(number.unsigned_abs() % 1_000);
    Write::new(JobRef::current(JobId::new("job").unwrap()), task, draft, Writer::Anonymous).unwrap()
}

/// How many states there are to read.
async fn states(store: &dyn JobStore) -> usize {
    let job = JobRef::current(JobId::new("job").unwrap());
    store.read(&job, &Filter::job(), Seq::ZERO).await.unwrap().reports.len()
}

pub(super) async fn child(arguments: &[&str]) {
    let folder = Path::new(arguments[0]);
    let ballast = folder.join("ballast");
    std::fs::write(&ballast, vec![0; 500_000]).unwrap();
    let path = folder.join("highwater.db");
    let store = Arc::new(open(&path).await.unwrap());
    store.open(&JobId::new("job").unwrap(), TaskCount::new(1_000).unwrap(), None).await.unwrap();
    let mut acknowledged = 0;
    let refused = loop {
        match store.set(write(acknowledged + 1)).await {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    let acknowledged = usize::try_from(acknowledged).unwrap();
    assert!((10..1_000).contains(&acknowledged), "{acknowledged} writes until the disk was full");
    assert_eq!(
        (refused.kind(), refused.outcome()),
        (ErrorKind::Full, Outcome::NotApplied),
        "{refused}"
    );
    assert!(refused.to_string().contains("Free space"), "{refused}");
    // Still so, and still readable.
    assert_eq!(store.set(write(1_000)).await.unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(states(&*store).await, acknowledged);
    std::fs::remove_file(&ballast).unwrap();
    store.set(write(1_001)).await.unwrap();
    drop(store);
    let reopened = open(&path).await.unwrap();
    assert_eq!(states(&reopened).await, acknowledged, "1,001 rewrote the state of task 1");
}
