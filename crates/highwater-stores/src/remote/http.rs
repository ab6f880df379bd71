//! Requests: one per call, each with a deadline.

use std::{future::Future, sync::Arc, time::Duration};

use highwater::{Error, ErrorKind, Result, clock::Clock};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{
    Method, RequestBuilder, Response,
    header::{ACCEPT, CONTENT_TYPE},
    redirect,
};
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use super::{RemoteOptions, error::Call};

/// How long a connection is kept for the next call. Less than the 10 s after which the server closes
/// it: a request that crosses the goodbye on its way is lost.
const IDLE_CONNECTION_KEPT: Duration = Duration::from_secs(5);

/// Calls under way at a time, each on a connection of its own; more wait for their turn. Enough to
/// keep a server busy, and few enough that a burst does not use up the file descriptors of either.
const CALLS_MAX: usize = 256;

/// Everything that is not unreserved (RFC 3986) is encoded in a segment of a path.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// One server, and the connections to it.
#[derive(Debug)]
pub(super) struct Http {
    client: reqwest::Client,
    address: String,
    call_timeout: Duration,
    clock: Arc<dyn Clock>,
    turns: Semaphore,
}

impl Http {
    /// `address` has no slash at its end.
    pub(super) fn new(address: String, options: RemoteOptions) -> Result<Http> {
        let RemoteOptions { call_timeout, connect_timeout, clock } = options;
        let client = reqwest::Client::builder()
            .connect_timeout(connect_timeout)
            .pool_idle_timeout(IDLE_CONNECTION_KEPT)
            // An address names the server, and nothing between us and it.
            .no_proxy()
            .redirect(redirect::Policy::none())
            // Whether to try again is for the caller to say.
            .retry(reqwest::retry::never())
            .build()
            .map_err(|error| {
                let detail = format!("cannot make a client for {address}");
                Error::new(ErrorKind::Unsupported, detail).with_source(error)
            })?;
        Ok(Http { client, address, call_timeout, clock, turns: Semaphore::new(CALLS_MAX) })
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// What to say of an operation that fails.
    pub(super) fn call(&self, operation: &'static str) -> Call<'_> {
        Call { operation, address: &self.address }
    }

    /// A request to `/v1` and a path of these segments.
    pub(super) fn request(&self, method: Method, segments: &[&str]) -> RequestBuilder {
        self.client.request(method, format!("{}{}", self.address, path(segments)))
    }

    /// Makes a request, and reads its answer.
    pub(super) async fn answer<T: DeserializeOwned>(
        &self,
        operation: &'static str,
        request: RequestBuilder,
    ) -> Result<T> {
        let call = self.call(operation);
        let turn = async { Ok(self.turns.acquire().await.ok()) };
        let _turn = self.in_time(turn, || call.crowded(CALLS_MAX)).await?;
        let answer = async {
            let response = accepted(call, request).await?;
            let body = response.bytes().await.map_err(|error| call.translate(error))?;
            serde_json::from_slice(&body).map_err(|error| call.unreadable(error))
        };
        self.in_time(answer, || call.timed_out(self.call_timeout)).await
    }

    /// Makes a request that is answered by a stream of events; done when the stream begins.
    pub(super) async fn stream(
        &self,
        operation: &'static str,
        request: RequestBuilder,
    ) -> Result<Response> {
        let call = self.call(operation);
        let request = request.header(ACCEPT, EVENT_STREAM);
        let late = || call.timed_out(self.call_timeout);
        let response = self.in_time(accepted(call, request), late).await?;
        if is_of_type(&response, EVENT_STREAM) { Ok(response) } else { Err(call.no_stream()) }
    }

    async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T>>,
        late: impl FnOnce() -> Error,
    ) -> Result<T> {
        tokio::select! {
            biased;
            done = work => done,
            () = self.clock.sleep(self.call_timeout) => Err(late()),
        }
    }
}

const EVENT_STREAM: &str = "text/event-stream";
const PROBLEM: &str = "application/problem+json";

/// Sends a request, and turns an answer that is a refusal into an error.
async fn accepted(call: Call<'_>, request: RequestBuilder) -> Result<Response> {
    let response = request.send().await.map_err(|error| call.translate(error))?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let problem = if is_of_type(&response, PROBLEM) {
        // One that breaks off still leaves the status to go by.
        response.bytes().await.ok().and_then(|body| serde_json::from_slice(&body).ok())
    } else {
        None
    };
    Err(call.refused(status, problem))
}

fn is_of_type(response: &Response, wanted: &str) -> bool {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next()).unwrap_or_default();
    essence.trim().eq_ignore_ascii_case(wanted)
}

fn path(segments: &[&str]) -> String {
    let mut path = String::from("/v1");
    for segment in segments {
        path.push('/');
        path.extend(utf8_percent_encode(segment, ENCODED));
    }
    path
}

#[cfg(test)]
mod tests {
    use highwater_testkit::clock::ManualClock;

    use super::*;

    #[test]
    fn a_segment_is_encoded_but_for_what_is_unreserved() {
        assert_eq!(path(&["jobs", "a/b"]), "/v1/jobs/a%2Fb");
        assert_eq!(path(&["0-x_~.A", "%", "ü ?#"]), "/v1/0-x_~.A/%25/%C3%BC%20%3F%23");
    }

    #[test]
    fn an_odd_name_reaches_the_wire_as_it_is_encoded() {
        let http = Http::new("http://host:1".to_owned(), RemoteOptions::default()).unwrap();
        for name in ["...", "%2e%2e", "a\\b", "a;b", " ", "日本", "+", "'\"<>`{}|^"] {
            let request = http.request(Method::GET, &["jobs", name, "states"]).build().unwrap();
            assert_eq!(request.url().path(), path(&["jobs", name, "states"]));
            assert_eq!(request.url().query(), None);
        }
    }

    #[tokio::test]
    async fn a_call_whose_turn_does_not_come_was_not_sent() {
        let clock = Arc::new(ManualClock::default());
        let options = RemoteOptions { clock: clock.clone(), ..RemoteOptions::default() };
        let http = Http::new("http://host:1".to_owned(), options).unwrap();
        let _all = http.turns.acquire_many(u32::try_from(CALLS_MAX).unwrap()).await.unwrap();
        let call = http.answer::<()>("list jobs", http.request(Method::GET, &["jobs"]));
        let time_passes = async { clock.advance(http.call_timeout) };
        let (answered, ()) = tokio::join!(call, time_passes);
        assert_eq!(answered.unwrap_err().kind(), ErrorKind::Busy);
    }
}
