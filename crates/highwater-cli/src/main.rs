//! The command line of Highwater.
//!
//! Data goes to stdout, everything else to stderr; the exit code says how it ended.

mod config;
mod demo;
mod events;
mod jobs;
mod logs;
mod output;
mod place;
mod quantity;
mod redact;
mod serve;
mod settings;

use std::{error::Error as _, future::Future, process::ExitCode};

use clap::{
    ArgMatches, CommandFactory, FromArgMatches as _, Parser, Subcommand,
    error::ErrorKind as UsageKind,
};
use highwater::{Error, ErrorKind, Outcome, Result};
use tokio::runtime;

use crate::{
    output::Format,
    place::{Place, PlaceFlags},
    settings::{Given, Resolved},
};

/// Where does every task of a job stand? Ask, follow, wait.
#[derive(Debug, Parser)]
#[command(name = "highwater", version, after_help = EXIT_CODES)]
struct Cli {
    #[command(flatten)]
    place: PlaceFlags,

    /// For people, or for programs
    #[arg(short, long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,

    #[command(subcommand)]
    command: Command,
}

/// What every command can be told.
#[derive(Debug)]
struct Globals {
    place: Place,
    output: Format,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Jobs: create, report, ask, follow, wait
    #[command(subcommand)]
    Jobs(jobs::Verb),

    /// Follows everything that happens
    #[command(after_help = events::EXAMPLES)]
    Events(events::Events),

    /// Runs the server
    #[command(after_help = serve::EXAMPLES, arg = serve::no_server())]
    Serve(Given),

    /// The settings of the server
    #[command(subcommand)]
    Config(config::Verb),

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

Commands talk to the server at --server, or straight to a store with --store.
Logs go to stderr; HIGHWATER_LOG sets their level (default: warn; of the server: info).";

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

/// Why a command did nothing, or not all of it.
enum Failed {
    Usage(clap::Error),
    Call(Error),
}

impl From<clap::Error> for Failed {
    fn from(error: clap::Error) -> Failed {
        Failed::Usage(error)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Call(error)
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(exit) => ExitCode::from(exit as u8),
        Err(Failed::Usage(error)) => usage(&error),
        Err(Failed::Call(error)) => {
            output::note(&explained(&error));
            ExitCode::from(EXIT_ERROR)
        }
    }
}

fn run() -> Result<Exit, Failed> {
    let mut definition = Cli::command();
    let matches = definition.try_get_matches_from_mut(std::env::args_os())?;
    let Cli { place, output, command } = Cli::from_arg_matches(&matches)?;
    match command {
        Command::Serve(given) => {
            let settings =
                Resolved::new(innermost(&matches), given.config.as_deref())?.settings()?;
            settings.check()?;
            logs::start_as(&settings.log, settings.log_format);
            let served = block_on(runtime::Builder::new_multi_thread(), serve::run(settings));
            Ok(served?)
        }
        Command::Config(config::Verb::Show(given)) => {
            let resolved = Resolved::new(innermost(&matches), given.config.as_deref())?;
            output::show(output, &config::Shown(&resolved))?;
            Ok(Exit::Done)
        }
        Command::Completions { shell } => {
            // Into memory first: clap's own writing panics when the pipe is closed.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut definition, "highwater", &mut script);
            output::write(&script)?;
            Ok(Exit::Done)
        }
        Command::Jobs(verb) => {
            let globals = globals(place, output, &matches)?;
            talk(&globals.place, verb.run(&globals))
        }
        Command::Events(events) => {
            let globals = globals(place, output, &matches)?;
            talk(&globals.place, events.run(&globals))
        }
        Command::Demo => {
            let globals = globals(place, output, &matches)?;
            talk(&globals.place, demo::run(&globals))
        }
    }
}

fn globals(
    place: PlaceFlags,
    output: Format,
    matches: &ArgMatches,
) -> Result<Globals, clap::Error> {
    let unclear = |why| Cli::command().error(UsageKind::ArgumentConflict, why);
    Ok(Globals { place: Place::chosen(place, matches).map_err(unclear)?, output })
}

/// Where the settings are: a command's own flags are in the matches of the last verb.
fn innermost(mut matches: &ArgMatches) -> &ArgMatches {
    while let Some((_, inner)) = matches.subcommand() {
        matches = inner;
    }
    matches
}

/// Runs a command that talks to a server or to a store; one thread does.
fn talk(place: &Place, command: impl Future<Output = Result<Exit>>) -> Result<Exit, Failed> {
    logs::start();
    let done = block_on(runtime::Builder::new_current_thread(), command);
    Ok(done.map_err(|error| place.advise(error))?)
}

fn block_on(
    mut runtime: runtime::Builder,
    command: impl Future<Output = Result<Exit>>,
) -> Result<Exit> {
    let runtime = runtime.enable_all().build().map_err(|error| {
        Error::new(ErrorKind::Unavailable, "cannot start any threads").with_source(error)
    })?;
    runtime.block_on(command)
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
