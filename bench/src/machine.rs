//! What the figures were measured on.

use std::{
    fs::{self, File},
    io::Write as _,
    process::Command,
    time::Instant,
};

use highwater::clock::{Clock as _, SystemClock};

use crate::{Result, fixture::Plan, report::Latencies};

const SYNCS: usize = 200;
const PAGE_BYTES: usize = 4_096;

/// Prints the header of a run.
pub(crate) fn describe(plan: &Plan) -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let optimised = if cfg!(debug_assertions) { " (a debug build: not for comparing)" } else { "" };
    let sync = sync_latencies(plan)?;
    let features = if cfg!(feature = "peers") { " --features peers" } else { "" };
    println!(
        "- command: `cargo run --release -p highwater-bench{features} -- {}`",
        arguments.join(" ")
    );
    println!("- date: {}", SystemClock.now());
    println!("- CPU: {}, {} cores", cpu_model(), std::thread::available_parallelism()?);
    println!("- kernel: {}", first_line("/proc/sys/kernel/osrelease"));
    println!("- load average at the start: {}", first_line("/proc/loadavg"));
    println!("- compiler: {}{optimised}", compiler());
    println!("- SQLite: {}, WAL, `synchronous = FULL`", rusqlite::version());
    println!("- 4 KiB write + fdatasync: p50 {}, p99 {}", sync.p50(), sync.p99());
    println!("- each measurement: {} s", plan.span.as_secs());
    Ok(())
}

fn first_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_owned()
}

fn cpu_model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name"));
    model.map_or("unknown", |rest| rest.trim_start_matches([':', ' ', '\t'])).to_owned()
}

fn compiler() -> String {
    let output = Command::new("rustc").arg("--version").output();
    let version = output.ok().filter(|output| output.status.success());
    let version = version.and_then(|output| String::from_utf8(output.stdout).ok());
    version.map_or_else(|| "unknown".to_owned(), |version| version.trim().to_owned())
}

fn sync_latencies(plan: &Plan) -> Result<Latencies> {
    let mut file = File::create(plan.folder.join("sync"))?;
    let mut latencies = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let begun = Instant::now();
        file.write_all(&[1; PAGE_BYTES])?;
        file.sync_data()?;
        latencies.push(begun.elapsed());
    }
    Latencies::of(latencies)
}
