//! An open stream of events, and what its events say.

use std::time::Duration;

use bytes::Bytes;
use highwater::{
    Result,
    clock::Clock,
    feed::{End, Step},
};
use reqwest::Response;
use serde::de::DeserializeOwned;
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    error::Call,
    parser::{Event, Heard, Parser},
    wire::{EndReason, Ended, SnapshotEnd},
};

/// How long a stream may be silent before it is given up: the server shows every 10 s that it is
/// there, so this is three times in a row that it did not.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Chunks that are fetched before they are asked for. The server sends an event per chunk, and hyper
/// hands out one at a time: without these, whoever takes in "whatever has arrived" gets one event.
const CHUNKS_AHEAD_MAX: usize = 64;

/// An open stream. Dropping it closes the connection.
#[derive(Debug)]
pub(super) struct Connection {
    chunks: mpsc::Receiver<reqwest::Result<Bytes>>,
    /// What has arrived and was not read yet.
    rest: Bytes,
    parser: Parser,
    /// The one task that fetches: it ends with the connection.
    _fetching: JoinSet<()>,
}

impl Connection {
    pub(super) fn new(response: Response) -> Connection {
        let (sender, chunks) = mpsc::channel(CHUNKS_AHEAD_MAX);
        let mut fetching = JoinSet::new();
        fetching.spawn(fetch(response, sender));
        Connection { chunks, rest: Bytes::new(), parser: Parser::default(), _fetching: fetching }
    }

    /// The next event or sign of life; an error once there is none to come.
    pub(super) async fn hear(&mut self, call: Call<'_>, clock: &dyn Clock) -> Result<Heard> {
        loop {
            let heard = self.parser.read(&mut self.rest);
            if let Some(heard) = heard.map_err(|error| call.garbled(error))? {
                return Ok(heard);
            }
            tokio::select! {
                // What has arrived comes first: a subscriber that was away for long is not silence.
                biased;
                chunk = self.chunks.recv() => match chunk {
                    Some(Ok(chunk)) => self.rest = chunk,
                    Some(Err(error)) => return Err(call.translate(error)),
                    None => return Err(call.cut()),
                },
                () = clock.sleep(SILENCE_MAX) => return Err(call.silent(SILENCE_MAX)),
            }
        }
    }
}

async fn fetch(mut response: Response, chunks: mpsc::Sender<reqwest::Result<Bytes>>) {
    while let Some(chunk) = response.chunk().await.transpose() {
        let is_last = chunk.is_err();
        if chunks.send(chunk).await.is_err() || is_last {
            return;
        }
    }
}

/// What an event says.
pub(super) fn step<T: DeserializeOwned>(call: Call<'_>, event: &Event) -> Result<Step<T>> {
    fn parse<V: DeserializeOwned>(call: Call<'_>, event: &Event) -> Result<V> {
        // From the text itself: JSON that is kept as it came allows no detour.
        serde_json::from_str(&event.data).map_err(|error| call.garbled(error))
    }
    Ok(match event.name.as_str() {
        "replay" => Step::Replay(parse(call, event)?),
        "put" => Step::Change(parse(call, event)?),
        "snapshot_end" => {
            let SnapshotEnd { revision, count } = parse(call, event)?;
            Step::SnapshotEnd { revision, count }
        }
        "stale" => Step::Stale,
        "live" => Step::Live,
        "reset" => Step::Reset,
        "end" => Step::End(end(call, parse(call, event)?)),
        unknown => return Err(call.unknown_event(unknown)),
    })
}

fn end(call: Call<'_>, Ended { reason, problem }: Ended) -> End {
    match (reason, problem) {
        (EndReason::Cancelled, _) => End::Cancelled,
        (EndReason::Deleted, _) => End::Deleted,
        (EndReason::Failed, Some(problem)) => End::Failed(problem.into_error()),
        (EndReason::Failed, None) => End::Failed(call.cut()),
    }
}
