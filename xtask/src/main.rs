//! What is done to the repository: `cargo xtask test`, `cargo xtask tidy`.

mod test;
mod tidy;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Parser, Subcommand};

/// What is done to the repository
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Formatting, lints, documentation, house rules and all tests, with one summary at the end
    Test,
    /// The house rules alone
    Tidy,
}

fn main() -> ExitCode {
    let is_fine = match Cli::parse().task {
        Task::Test => test::run(&root()),
        Task::Tidy => tidy::run(&root()),
    };
    if is_fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The folder of the workspace.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}
