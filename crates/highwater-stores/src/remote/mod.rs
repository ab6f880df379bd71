//! Another Highwater server as an engine, and the language that it speaks.
//!
//! A call is one request, made once: whoever calls decides whether to try again. A subscription is a
//! stream of server-sent events (`connection.rs`, `parser.rs`) that is taken up again where it broke (`sse.rs`).

mod connection;
mod error;
mod events;
mod http;
mod jobs;
mod parser;
#[cfg(test)]
mod scripted;
mod sse;
pub mod wire;

use std::{sync::Arc, time::Duration};

use highwater::{
    Error, ErrorKind, Result,
    clock::{Clock, SystemClock},
};
use reqwest::Url;

use self::http::Http;

/// How long a call may take unless [`RemoteOptions`] says otherwise.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a connection may take to come about unless [`RemoteOptions`] says otherwise: a host that
/// is there answers at once, also around the globe.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Keeps everything on another Highwater server. Clones share their connections.
#[derive(Debug, Clone)]
pub struct RemoteStore {
    http: Arc<Http>,
}

/// What a remote store can be told when it is opened.
#[derive(Debug, Clone)]
pub struct RemoteOptions {
    /// How long a call may take, from its beginning to the last byte of its answer.
    pub call_timeout: Duration,
    /// How long a connection may take to come about. A call that fails here was never sent.
    pub connect_timeout: Duration,
    /// Measures the waits: deadlines, silence, and the time between two tries to connect again.
    pub clock: Arc<dyn Clock>,
}

impl Default for RemoteOptions {
    fn default() -> RemoteOptions {
        RemoteOptions {
            call_timeout: CALL_TIMEOUT,
            connect_timeout: CONNECT_TIMEOUT,
            clock: Arc::new(SystemClock),
        }
    }
}

impl RemoteStore {
    /// The store of the server at `url`, which is `http://HOST` or `http://HOST:PORT`. Connects when
    /// it is first used: the server need not be there yet.
    pub fn open(url: &str, options: RemoteOptions) -> Result<RemoteStore> {
        let address = address(url)?;
        Ok(RemoteStore { http: Arc::new(Http::new(address, options)?) })
    }
}

/// The server's address without a slash at its end; refuses a URL that says more, or less.
fn address(url: &str) -> Result<String> {
    let refuse = |rule: &str| Err(Error::invalid("store", url, rule));
    let Ok(parsed) = Url::parse(url) else {
        return refuse("must be a URL such as `http://127.0.0.1:7171`");
    };
    if !parsed.username().is_empty() || parsed.password().is_some() {
        // Without the value: it may be a secret.
        let detail = "store must not have a name or a password in its URL";
        return Err(Error::new(ErrorKind::Invalid, detail).with_field("store"));
    }
    match parsed.scheme() {
        "http" => {}
        "https" => {
            let detail = format!(
                "this build has no TLS, which `{url}` needs: use `http://` over a network you trust, or a \
                 proxy that adds TLS"
            );
            return Err(Error::new(ErrorKind::Unsupported, detail));
        }
        _ => return refuse("must begin with `http://`"),
    }
    if parsed.path() != "/" || parsed.query().is_some() || parsed.fragment().is_some() {
        return refuse("must end behind the host or the port");
    }
    Ok(parsed.as_str().trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_scheme_a_host_and_a_port() {
        let cases = [
            ("http://127.0.0.1:7171", "http://127.0.0.1:7171"),
            ("http://127.0.0.1:7171/", "http://127.0.0.1:7171"),
            ("http://Example.com", "http://example.com"),
            ("http://[::1]:80", "http://[::1]"),
        ];
        for (url, expected) in cases {
            assert_eq!(address(url).unwrap(), expected);
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_reason() {
        let cases = [
            ("", "must be a URL"),
            ("http://", "must be a URL"),
            ("http://host:99999", "must be a URL"),
            ("127.0.0.1:7171", "must be a URL"),
            ("ftp://host", "must begin with `http://`"),
            ("http://host/v1", "must end behind the host"),
            ("http://host/?a=b", "must end behind the host"),
            ("http://host/#a", "must end behind the host"),
        ];
        for (url, why) in cases {
            let error = address(url).unwrap_err();
            assert!(error.to_string().contains(why), "{url}: {error}");
            assert_eq!((error.kind(), error.field()), (ErrorKind::Invalid, Some("store")));
        }
    }

    #[test]
    fn a_password_is_refused_and_not_shown() {
        let error = address("http://me:secret@host").unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }

    #[test]
    fn there_is_no_tls_in_this_build() {
        let error = address("https://host").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn a_store_opens_while_its_server_is_away() {
        assert!(RemoteStore::open("http://127.0.0.1:1", RemoteOptions::default()).is_ok());
    }
}
