//! `highwater serve`: opens the stores, binds the port, and hands both to the server.

mod signals;

use clap::Arg;
use highwater::{Error, ErrorKind, Result};
use highwater_stores::StoreUrls;
use tokio::{net::TcpListener, sync::oneshot};

use crate::{EXIT_ERROR, Exit, output, redact, settings::Settings};
use signals::Signals;

pub(crate) const EXAMPLES: &str = "\
Examples:
  highwater serve                                     # on 127.0.0.1:7171, in highwater.db
  highwater serve --listen 127.0.0.1:0 --store sqlite:/var/lib/highwater/state.db
  highwater serve --config /etc/highwater.toml --log-format json
  highwater serve --listen 0.0.0.0:7171 --insecure    # behind a proxy that does TLS
  HIGHWATER_FEED_RETENTION=30d highwater serve

A flag wins over a variable, a variable over the file, the file over the default; `highwater config
show` tells which one it was. Once it is ready it prints `highwater listening on http://ADDRESS`.
SIGTERM and Ctrl-C let requests under way end (--drain-timeout); a second one exits at once, with 1.";

/// Takes the place of the global `--server`, which has no meaning for a command that is one.
pub(crate) fn no_server() -> Arg {
    let refuse = |_: &str| Err::<String, _>("this command does not talk to a server");
    Arg::new("server").long("server").hide(true).value_parser(refuse)
}

/// Serves until a signal.
pub(crate) async fn run(settings: Settings) -> Result<Exit> {
    // Signals first: one that comes while a store is being opened must not be lost.
    let mut signals = Signals::listen()?;
    let urls = settings.store_urls();
    let slots = highwater_stores::open(&urls, settings.store_options()).await?;
    let listener = TcpListener::bind(settings.listen).await.map_err(|error| {
        let detail = format!("cannot listen on {}", settings.listen);
        Error::new(ErrorKind::Unavailable, detail).with_source(error)
    })?;
    let address = listener.local_addr().map_err(|error| {
        Error::new(ErrorKind::Unavailable, "the port has no address").with_source(error)
    })?;
    for (slot, url) in filled(&urls) {
        tracing::info!("{slot} are kept in {}", redact::url(url));
    }
    // Whether anybody reads it is not the server's business.
    output::line(format!("highwater listening on http://{address}"))?;

    let (stop, stopped) = oneshot::channel();
    let watcher = tokio::spawn(async move {
        let signal = signals.next().await;
        tracing::info!("{signal}: stopping; a second signal exits at once");
        // Nobody listens if the server has ended by itself, and then there is nothing to stop.
        let _ = stop.send(());
        signals.next().await;
        output::note("🔴 stopped at once: requests under way were cut off");
        std::process::exit(i32::from(EXIT_ERROR));
    });
    let shutdown = async {
        // An error is a watcher that is gone: without one, nothing else could stop the server.
        let _ = stopped.await;
    };
    let served =
        highwater_server::serve(listener, slots, settings.server_options(), shutdown).await;
    watcher.abort();
    served.map(|()| Exit::Done)
}

/// Which store fills which slot.
fn filled(urls: &StoreUrls) -> [(&'static str, &str); 1] {
    let StoreUrls { store, jobs } = urls;
    [("jobs", jobs.as_ref().unwrap_or(store))]
}
