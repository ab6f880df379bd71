//! The command line of Highwater.
//!
//! Data goes to stdout, everything else to stderr; the exit code says how it ended.

mod demo;
mod jobs;
mod logs;
mod output;
mod store;

use std::{error::Error as _, process::ExitCode};

use clap::{CommandFactory, Parser, Subcommand, error::ErrorKind as UsageKind};
use highwater::{Error, Outcome, Result};

use crate::output::Format;

/// Where does every task of a job stand? Ask, follow, wait.
#[derive(Debug, Parser)]
#[command(name = "highwater", version, after_help = EXIT_CODES)]
struct Cli {
    #[command(flatten)]
    globals: Globals,

    #[command(subcommand)]
    command: Command,
}

/// What every command can be told.
#[derive(Debug, clap::Args)]
struct Globals {
    #[command(flatten)]
    store: store::StoreFlag,

    /// For people, or for programs
    #[arg(short, long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Jobs: create, report, ask, follow, wait
    #[command(subcommand)]
    Jobs(jobs::Verb),

    /// Shows what Highwater does, in five seconds, and needs nothing
    #[command(after_help = demo::EXAMPLES)]
    Demo,

    /// Prints a script that completes commands in a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done            3  not yet
  1  error           4  failed
  2  wrong usage     5  timed out

Logs go to stderr; HIGHWATER_LOG sets their level (default: warn).";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  highwater completions bash > ~/.local/share/bash-completion/completions/highwater
  highwater completions fish > ~/.config/fish/completions/highwater.fish";

/// How a command ended that was no error. What a script decides by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    Done = 0,
    Failed = 4,
    TimedOut = 5,
}

const EXIT_ERROR: u8 = 1;
const EXIT_USAGE: u8 = 2;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    logs::start();
    match run(cli).await {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(error) => {
            output::note(&explained(&error));
            ExitCode::from(EXIT_ERROR)
        }
    }
}

async fn run(cli: Cli) -> Result<Exit> {
    let Cli { globals, command } = cli;
    match command {
        Command::Jobs(verb) => verb.run(&globals).await,
        Command::Demo => demo::run(&globals).await,
        Command::Completions { shell } => {
            // Into memory first: clap's own writing panics when the pipe is closed.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "highwater", &mut script);
            output::write(&script)?;
            Ok(Exit::Done)
        }
    }
}

/// Prints what clap has to say: help and version are answers, the rest is a mistake.
fn usage(error: &clap::Error) -> ExitCode {
    let is_mistake = error.use_stderr();
    if is_mistake && error.kind() != UsageKind::DisplayHelpOnMissingArgumentOrSubcommand {
        output::mark("🔴 ");
    }
    // Nobody is left to tell when even this cannot be written.
    let _ = error.print();
    ExitCode::from(if is_mistake { EXIT_USAGE } else { Exit::Done as u8 })
}

/// The error with everything that caused it, in one line, and a second one if it matters.
fn explained(error: &Error) -> String {
    let mut text = format!("🔴 {error}");
    let mut cause = error.source();
    while let Some(source) = cause {
        text = format!("{text}: {source}");
        cause = source.source();
    }
    match error.outcome() {
        Outcome::NotApplied => text,
        Outcome::Unknown => format!("{text}\nit is not known whether this was done: look first"),
    }
}
