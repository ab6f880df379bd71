//! The settings of a server. This definition is the only one: flags, variables, keys of the file,
//! defaults, help and `config show` are all read from it.

mod file;
mod resolve;

use std::{net::SocketAddr, path::PathBuf};

use clap::{ArgAction, Args, ValueEnum, value_parser};
use highwater::{limits::Limits, retention::Retention};
use highwater_server::ServerOptions;
use highwater_stores::{StoreOptions, StoreUrls};

pub(crate) use resolve::{Origin, Resolved};

use crate::{
    logs,
    quantity::{Bytes, Keep, TimeSpan},
};

/// Settings, and the file that more of them are read from.
#[derive(Debug, Clone, Args)]
pub(crate) struct Given {
    /// Reads settings from this file (TOML): the flags' names with underscores, as in
    /// `feed_retention = "7d"`
    #[arg(long, env = "HIGHWATER_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

/// Every setting of a server.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub(crate) struct Settings {
    /// Where to listen; port 0 picks a free one
    #[arg(long, env = "HIGHWATER_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:7171",
        value_parser = address)]
    pub(crate) listen: SocketAddr,
    /// Fills every slot that has no store of its own
    #[arg(
        long,
        env = "HIGHWATER_STORE",
        value_name = "URL",
        default_value = "sqlite:highwater.db",
        hide_env_values = true
    )]
    pub(crate) store: String,
    /// Fills the slot of jobs [default: the store]
    #[arg(long, env = "HIGHWATER_JOBS_STORE", value_name = "URL", hide_env_values = true)]
    pub(crate) jobs_store: Option<String>,

    /// How logs are written to stderr
    #[arg(long, env = "HIGHWATER_LOG_FORMAT", value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) log_format: LogFormat,
    /// Which logs: error, warn, info, debug or trace, also by module
    #[arg(long, env = "HIGHWATER_LOG", value_name = "LEVEL", default_value = "info",
        value_parser = logs::check_levels)]
    pub(crate) log: String,

    /// How long events stay in the feed
    #[arg(long, env = "HIGHWATER_FEED_RETENTION", value_name = "DURATION",
        default_value_t = TimeSpan(Retention::default().feed_age), value_parser = TimeSpan::positive)]
    pub(crate) feed_retention: TimeSpan,
    /// How many events stay in the feed
    #[arg(long, env = "HIGHWATER_FEED_EVENTS", value_name = "N",
        default_value_t = Retention::default().feed_events, value_parser = value_parser!(u64).range(1..))]
    pub(crate) feed_events: u64,
    /// Erases a job this long after its last change if it is finished or deleted; `off`: never
    #[arg(long, env = "HIGHWATER_JOBS_RETENTION", value_name = "DURATION",
        default_value_t = Keep::from(Retention::default().ended_jobs))]
    pub(crate) jobs_retention: Keep,
    /// Largest payload of a state: bytes, or as in 64KiB or 1MiB
    #[arg(long, env = "HIGHWATER_PAYLOAD_LIMIT", value_name = "SIZE",
        default_value_t = Bytes(Limits::default().payload_bytes_max))]
    pub(crate) payload_limit: Bytes,

    /// Most connections at a time; more wait
    #[arg(long, env = "HIGHWATER_MAX_CONNECTIONS", value_name = "N",
        default_value_t = ServerOptions::default().connections_max as u64,
        value_parser = value_parser!(u64).range(1..))]
    pub(crate) max_connections: u64,
    /// Most event streams at a time; more are refused
    #[arg(long, env = "HIGHWATER_MAX_STREAMS", value_name = "N",
        default_value_t = ServerOptions::default().streams_max as u64,
        value_parser = value_parser!(u64).range(1..))]
    pub(crate) max_streams: u64,
    /// How long a client may take to send the head of a request
    #[arg(long, env = "HIGHWATER_HEADER_TIMEOUT", value_name = "DURATION",
        default_value_t = TimeSpan(ServerOptions::default().header_timeout),
        value_parser = TimeSpan::positive)]
    pub(crate) header_timeout: TimeSpan,
    /// How long a client may take to send a body
    #[arg(long, env = "HIGHWATER_BODY_TIMEOUT", value_name = "DURATION",
        default_value_t = TimeSpan(ServerOptions::default().body_timeout),
        value_parser = TimeSpan::positive)]
    pub(crate) body_timeout: TimeSpan,
    /// How long requests may go on after the server was told to stop
    #[arg(long, env = "HIGHWATER_DRAIN_TIMEOUT", value_name = "DURATION",
        default_value_t = TimeSpan(ServerOptions::default().drain_timeout))]
    pub(crate) drain_timeout: TimeSpan,

    /// Listens beyond this machine without TLS
    // With a value, so that a flag can also take back what a file says.
    #[arg(long, env = "HIGHWATER_INSECURE", value_name = "BOOL", action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value_t = false)]
    pub(crate) insecure: bool,
}

/// Who reads the logs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// People
    #[default]
    Text,
    /// Programs: one JSON object per line
    Json,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "must be an address and a port, as in 127.0.0.1:7171".to_owned())
}

impl Settings {
    /// Refuses what would show everything to everybody by mistake.
    pub(crate) fn check(&self) -> Result<(), clap::Error> {
        if self.insecure || self.listen.ip().is_loopback() {
            return Ok(());
        }
        Err(refused(&format!(
            "{} is open to other machines, and there is no TLS: pass --insecure if a proxy or the \
             network protects it, or listen on 127.0.0.1",
            self.listen
        )))
    }

    pub(crate) fn store_urls(&self) -> StoreUrls {
        StoreUrls { store: self.store.clone(), jobs: self.jobs_store.clone() }
    }

    pub(crate) fn store_options(&self) -> StoreOptions {
        let retention = Retention {
            feed_age: self.feed_retention.0,
            feed_events: self.feed_events,
            ended_jobs: self.jobs_retention.into(),
        };
        StoreOptions { retention, ..StoreOptions::default() }
    }

    pub(crate) fn server_options(&self) -> ServerOptions {
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        ServerOptions {
            limits: Limits { payload_bytes_max: self.payload_limit.0 },
            connections_max: count(self.max_connections),
            streams_max: count(self.max_streams),
            header_timeout: self.header_timeout.0,
            body_timeout: self.body_timeout.0,
            drain_timeout: self.drain_timeout.0,
        }
    }
}

/// A mistake in the settings; as wrong as a flag that cannot be read.
fn refused(why: &str) -> clap::Error {
    clap::Error::raw(clap::error::ErrorKind::ValueValidation, format!("{why}\n"))
}

/// The settings alone, as a command line of their own. It does not look at the environment.
fn definition() -> clap::Command {
    let command = clap::Command::new("settings").no_binary_name(true);
    Settings::augment_args(command).mut_args(|arg| arg.env(clap::builder::Resettable::Reset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_has_one_name_in_three_spellings() {
        let command = Settings::augment_args(clap::Command::new("settings"));
        for arg in command.get_arguments() {
            let key = arg.get_id().as_str();
            let variable = format!("HIGHWATER_{}", key.to_uppercase());
            assert_eq!(arg.get_long(), Some(key.replace('_', "-").as_str()));
            assert_eq!(arg.get_env().and_then(|name| name.to_str()), Some(variable.as_str()));
            assert!(arg.get_help().is_some(), "{key}");
        }
    }

    #[test]
    fn what_is_open_to_others_must_be_meant() {
        let settings = |text: &[&str]| {
            let matches = definition().try_get_matches_from(text).unwrap();
            <Settings as clap::FromArgMatches>::from_arg_matches(&matches).unwrap()
        };
        assert!(settings(&[]).check().is_ok());
        assert!(settings(&["--listen=[::1]:80"]).check().is_ok());
        let why = settings(&["--listen=0.0.0.0:80"]).check().unwrap_err();
        assert!(why.to_string().contains("--insecure"), "{why}");
        assert!(settings(&["--listen=0.0.0.0:80", "--insecure"]).check().is_ok());
        assert!(settings(&["--listen=0.0.0.0:80", "--insecure=false"]).check().is_err());
    }
}
