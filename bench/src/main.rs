//! Benchmarks of Highwater: jobs on the embedded engine, beside the least that the machine would need
//! for the same; and the server over the network, beside its peers. Prints Markdown; what it says on the way goes to standard error.

mod aggregate;
mod baseline;
mod deliver;
mod fixture;
mod machine;
mod marker;
mod pace;
mod peers;
mod report;
mod writes;

use std::{error::Error, path::PathBuf, time::Duration};

use clap::{Parser, Subcommand};

use fixture::Plan;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Debug, Parser)]
#[command(version, about)]
struct Options {
    #[command(subcommand)]
    measure: Measure,
    /// How long each measurement lasts; 5, or 1 with --quick.
    #[arg(long, global = true)]
    seconds: Option<u64>,
    /// Short and small: shows that everything works, not how fast it is.
    #[arg(long, global = true)]
    quick: bool,
    /// Where the data goes while it runs. By default the target folder: `/tmp` may be no disk.
    #[arg(long, global = true, value_name = "PATH")]
    dir: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, Subcommand)]
enum Measure {
    /// Everything in this process.
    All,
    /// Durable writes per second.
    Writes,
    /// From a write to its subscribers.
    Deliver,
    /// From the beginning of a subscription to its marker.
    Marker,
    /// Where a job of many tasks stands.
    Aggregate,
    /// The server over the network, beside etcd and NATS; they need `--features peers`.
    Peers,
    /// What `peers` holds the servers against, as a process of its own.
    #[command(hide = true, name = peers::bare::COMMAND)]
    PassOn,
}

#[tokio::main]
async fn main() -> Result<()> {
    let Options { measure, seconds, quick, dir } = Options::parse();
    if let Measure::PassOn = measure {
        return peers::bare::pass_on().await;
    }
    let parent = dir.map_or_else(target_folder, Ok)?;
    let folder = tempfile::Builder::new().prefix("highwater-bench-").tempdir_in(parent)?;
    let plan = if quick { Plan::quick(folder.path()) } else { Plan::full(folder.path()) };
    let plan = match seconds {
        Some(seconds) => Plan { span: Duration::from_secs(seconds), ..plan },
        None => plan,
    };
    machine::describe(&plan)?;
    match measure {
        Measure::All => {
            writes::measure(&plan).await?;
            deliver::measure(&plan).await?;
            marker::measure(&plan).await?;
            aggregate::measure(&plan).await?;
        }
        Measure::Writes => writes::measure(&plan).await?,
        Measure::Deliver => deliver::measure(&plan).await?,
        Measure::Marker => marker::measure(&plan).await?,
        Measure::Aggregate => aggregate::measure(&plan).await?,
        Measure::Peers => peers::measure(&plan).await?,
        Measure::PassOn => {} // Was done above: it measures nothing.
    }
    Ok(())
}

/// The folder that holds `release/highwater-bench`.
pub(crate) fn target_folder() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let folder = program.ancestors().nth(2).ok_or("this program lies in no target folder")?;
    Ok(folder.to_owned())
}
