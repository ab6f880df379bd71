//! Where the state is: behind a server, or in a store. The one place that opens it.

use std::{error::Error as _, sync::Arc};

use clap::{ArgMatches, Args, parser::ValueSource};
use highwater::{Error, ErrorKind, Result, jobs::JobStore, limits::Limits};
use highwater_stores::{Slots, StoreOptions, StoreUrls};

use crate::redact;

/// The server that is asked unless another place is named.
const DEFAULT_SERVER: &str = "http://127.0.0.1:7171";

/// How the user names the place.
#[derive(Debug, Args)]
pub(crate) struct PlaceFlags {
    // No default of clap's: the demo must know whether a place was named.
    #[arg(long, env = "HIGHWATER_SERVER", global = true, value_name = "URL", value_parser = http,
        hide_env_values = true, help = format!("Talk to this server [default: {DEFAULT_SERVER}]"))]
    server: Option<String>,
    /// Talk straight to this store, without a server: sqlite:FILE
    #[arg(
        long,
        env = "HIGHWATER_STORE",
        global = true,
        value_name = "URL",
        hide_env_values = true
    )]
    store: Option<String>,
}

fn http(url: &str) -> Result<String, String> {
    if url.starts_with("http://") || url.starts_with("https://") {
        return Ok(url.to_owned());
    }
    Err(format!("must begin with http:// or https://, as in {DEFAULT_SERVER}"))
}

/// Where the state is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Behind this server.
    Server(String),
    /// In this store, which nobody else may be using.
    Store(String),
    /// The user named none.
    Unnamed,
}

impl Place {
    /// The place that is meant, or why that is not clear. A flag wins over a variable.
    pub(crate) fn chosen(flags: PlaceFlags, matches: &ArgMatches) -> Result<Place, &'static str> {
        let named = |name, url| match matches.value_source(name) {
            Some(ValueSource::CommandLine) => Named::ByFlag(url),
            Some(_) | None => Named::ByVariable(url),
        };
        let server = flags.server.map(|url| named("server", url));
        choose(server, flags.store.map(|url| named("store", url)))
    }

    /// The jobs of this place.
    pub(crate) async fn jobs(&self) -> Result<Arc<dyn JobStore>> {
        Ok(self.open().await?.jobs)
    }

    /// Everything at this place; the default server if none was named.
    pub(crate) async fn open(&self) -> Result<Slots> {
        self.open_or(DEFAULT_SERVER).await
    }

    /// Everything at this place; another default if none was named.
    pub(crate) async fn open_or(&self, default: &str) -> Result<Slots> {
        let url = match self {
            Place::Server(url) | Place::Store(url) => url,
            Place::Unnamed => default,
        };
        highwater_stores::open(&StoreUrls::all(url), StoreOptions::default()).await
    }

    /// What a state may hold here. A server has limits of its own, and says so.
    pub(crate) fn limits(&self) -> Limits {
        match self {
            Place::Server(_) | Place::Unnamed => Limits { payload_bytes_max: usize::MAX },
            Place::Store(_) => Limits::default(),
        }
    }

    /// The error with what to do about it, if it is that nobody answers.
    pub(crate) fn advise(&self, error: Error) -> Error {
        let url = match self {
            Place::Server(url) => url,
            Place::Unnamed => DEFAULT_SERVER,
            Place::Store(_) => return error,
        };
        // What a server answers comes without a source; with one, the connection itself failed.
        if error.kind() != ErrorKind::Unavailable || error.source().is_none() {
            return error;
        }
        let url = redact::url(url);
        let detail = format!(
            "no server at {url}; start one with `highwater serve`, or name a store with --store"
        );
        Error::new(ErrorKind::Unavailable, detail).with_source(error)
    }
}

/// How a URL was named.
#[derive(Debug, Clone)]
enum Named {
    ByFlag(String),
    ByVariable(String),
}

impl Named {
    fn url(self) -> String {
        let (Named::ByFlag(url) | Named::ByVariable(url)) = self;
        url
    }
}

/// Of a server and a store the one that is meant.
fn choose(server: Option<Named>, store: Option<Named>) -> Result<Place, &'static str> {
    match (server, store) {
        (None, None) => Ok(Place::Unnamed),
        (Some(server), None) => Ok(Place::Server(server.url())),
        (None, Some(store)) => Ok(Place::Store(store.url())),
        (Some(Named::ByFlag(url)), Some(Named::ByVariable(_))) => Ok(Place::Server(url)),
        (Some(Named::ByVariable(_)), Some(Named::ByFlag(url))) => Ok(Place::Store(url)),
        (Some(Named::ByFlag(_)), Some(Named::ByFlag(_))) => {
            Err("--server and --store exclude each other")
        }
        (Some(Named::ByVariable(_)), Some(Named::ByVariable(_))) => Err(
            "HIGHWATER_SERVER and HIGHWATER_STORE are both set: say which with --server or --store",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_wins_over_a_variable_and_two_alike_are_refused() {
        let flag = |url: &str| Some(Named::ByFlag(url.to_owned()));
        let variable = |url: &str| Some(Named::ByVariable(url.to_owned()));
        let (server, store) = (Place::Server("s".to_owned()), Place::Store("f".to_owned()));
        for (by_server, by_store, expected) in [
            (None, None, Some(&Place::Unnamed)),
            (flag("s"), None, Some(&server)),
            (variable("s"), None, Some(&server)),
            (None, variable("f"), Some(&store)),
            (flag("s"), variable("f"), Some(&server)),
            (variable("s"), flag("f"), Some(&store)),
            (flag("s"), flag("f"), None),
            (variable("s"), variable("f"), None),
        ] {
            let chosen = choose(by_server.clone(), by_store.clone());
            assert_eq!(chosen.as_ref().ok(), expected, "{by_server:?} {by_store:?}");
        }
    }

    #[test]
    fn a_server_is_named_by_an_http_url() {
        assert!(http("http://127.0.0.1:7171").is_ok() && http("https://h").is_ok());
        assert!(http("localhost:7171").is_err() && http("sqlite:highwater.db").is_err());
    }
}
