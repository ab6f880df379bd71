//! A subscription over HTTP: a stream of events, taken up again where it broke.

use std::{
    collections::VecDeque,
    mem::{replace, take},
    sync::Arc,
    time::Duration,
};

use futures_util::stream::{self, StreamExt as _};
use highwater::{
    Error, ErrorKind, Result,
    feed::{Delivery, End, Follow, Mark, Patience, Start, Step, Token},
    jobs::Life,
    retry::reconnect_delay,
};
use reqwest::Method;
use serde::de::DeserializeOwned;

use super::{
    connection::{Connection, step},
    http::Http,
    parser::Heard,
};

/// What is followed.
#[derive(Debug)]
pub(super) struct Topic {
    /// For the texts of errors, such as `follow a job`.
    pub(super) operation: &'static str,
    /// Where its stream is, as segments of a path.
    pub(super) path: Vec<String>,
    /// What is asked of it.
    pub(super) query: Vec<(&'static str, String)>,
    /// Which life of a thing it is; `None` for what is never deleted.
    pub(super) life: Option<Life>,
}

impl Topic {
    async fn connect(&self, http: &Http, from: Option<&Token>) -> Result<Connection> {
        let path: Vec<_> = self.path.iter().map(String::as_str).collect();
        let mut request = http.request(Method::GET, &path).query(&self.query);
        if let Some(Life::Exactly(incarnation)) = self.life {
            request = request.query(&[("incarnation", incarnation.0)]);
        }
        if let Some(token) = from {
            request = request.query(&[("from", token.as_str())]);
        }
        http.stream(self.operation, request).await.map(Connection::new)
    }
}

/// Follows a topic for one subscriber. What it is told is `T`, as the server spells it in JSON.
#[derive(Debug)]
pub(super) struct Listener<T> {
    http: Arc<Http>,
    topic: Topic,
    patience: Patience,
    /// Behind which token to resume; `None` begins with a snapshot.
    from: Option<Token>,
    /// Where the subscriber stands.
    mark: Option<Mark>,
    link: Link,
    outage: Option<Outage>,
    /// Whether the last that the subscriber heard of the store is that it is away.
    is_stale: bool,
    /// What to tell the subscriber before anything else.
    said: VecDeque<Step<T>>,
}

#[derive(Debug)]
enum Link {
    Up(Box<Connection>),
    Down {
        /// To be waited before the next try.
        delay: Duration,
    },
    Over,
}

/// A server that is away: since how long, and how often it was tried.
#[derive(Debug, Clone, Copy, Default)]
struct Outage {
    lasted: Duration,
    failed: u32,
}

impl<T: DeserializeOwned + Send + 'static> Listener<T> {
    /// Registers at the server: it has answered with the stream when this returns.
    pub(super) async fn follow(
        http: Arc<Http>,
        topic: Topic,
        start: Start,
        patience: Patience,
    ) -> Result<Follow<T>> {
        let from = match start {
            Start::Snapshot => None,
            Start::After(token) => Some(token),
        };
        let mut listener = Listener {
            http,
            topic,
            patience,
            mark: from.as_ref().and_then(|token| Mark::parse(token).ok()),
            from,
            link: Link::Down { delay: Duration::ZERO },
            outage: None,
            is_stale: false,
            said: VecDeque::new(),
        };
        listener.connect().await?;
        // Nothing happens while nobody polls it, but that a few chunks are fetched.
        let steps = stream::unfold(listener, |mut listener| async move {
            listener.next().await.map(|delivery| (delivery, listener))
        });
        Ok(steps.boxed())
    }

    /// The next step; `None` after the [`Step::End`].
    async fn next(&mut self) -> Option<Delivery<T>> {
        loop {
            if let Some(step) = self.said.pop_front() {
                return Some(Delivery { step, mark: self.mark });
            }
            let call = self.http.call(self.topic.operation);
            let moved = match &mut self.link {
                Link::Over => return None,
                Link::Down { delay } => {
                    let delay = take(delay);
                    if !delay.is_zero() {
                        self.http.clock().sleep(delay).await;
                    }
                    self.connect().await
                }
                Link::Up(connection) => match connection.hear(call, self.http.clock()).await {
                    Ok(heard) => self.take(heard),
                    Err(error) => Err(error),
                },
            };
            if let Err(error) = moved {
                self.endure(error);
            }
        }
    }

    /// Opens the stream behind the last token. One that the feed was trimmed past begins anew.
    async fn connect(&mut self) -> Result<()> {
        let mut is_trimmed = false;
        let connection = match self.topic.connect(&self.http, self.from.as_ref()).await {
            Err(error) if error.kind() == ErrorKind::Gone && self.from.is_some() => {
                is_trimmed = true;
                self.topic.connect(&self.http, None).await?
            }
            result => result?,
        };
        self.link = Link::Up(Box::new(connection));
        if take(&mut self.is_stale) {
            tracing::info!(server = self.http.address(), "subscription is live again");
            self.said.push_back(Step::Live);
        }
        if is_trimmed {
            self.from = None;
            self.said.push_back(Step::Reset);
        }
        Ok(())
    }

    /// Something was heard: the server is there.
    fn take(&mut self, heard: Heard) -> Result<()> {
        let Heard::Event(event) = heard else {
            self.outage = None;
            return Ok(());
        };
        let call = self.http.call(self.topic.operation);
        let step = step(call, &event)?;
        if matches!(step, Step::End(End::Cancelled)) {
            // No sign of life: a server that says goodbye to everybody who comes is not there.
            return Err(call.going_away());
        }
        self.outage = None;
        if let Some(id) = event.id {
            self.remember(Token::from_text(id));
        }
        let is_news = match step {
            Step::Stale => !replace(&mut self.is_stale, true),
            Step::Live => take(&mut self.is_stale),
            Step::Replay(_) | Step::SnapshotEnd { .. } | Step::Change(_) | Step::Reset => true,
            Step::End(_) => {
                self.link = Link::Over;
                true
            }
        };
        if is_news {
            self.said.push_back(step);
        }
        Ok(())
    }

    fn remember(&mut self, token: Token) {
        self.mark = Mark::parse(&token).ok();
        if let (Some(mark), Some(Life::Current)) = (self.mark, self.topic.life) {
            // From here on it is this life: a later one of the same name is something else.
            self.topic.life = Some(Life::Exactly(mark.scope));
        }
        self.from = Some(token);
    }

    /// The link broke, or was not to be had. Says so once, then tries again: at once, later with
    /// growing waits. The first sign of life on a new link ends the outage; that it was opened does
    /// not, or a server that closes every stream would be called without a pause.
    fn endure(&mut self, error: Error) {
        let server = self.http.address();
        if self.topic.life.is_some() && error.kind() == ErrorKind::NotFound {
            return self.end(End::Deleted);
        }
        let is_first = self.outage.is_none();
        let outage = self.outage.get_or_insert_default();
        outage.failed += 1;
        let may_try_again = match self.patience {
            Patience::Endless => true,
            Patience::Tries(tries) => outage.failed < tries,
        };
        if !error.is_transient() || !may_try_again {
            tracing::error!(server, error = %error, "subscription ends");
            return self.end(End::Failed(error));
        }
        let delay =
            if is_first { Duration::ZERO } else { reconnect_delay(outage.lasted, fastrand::f64()) };
        outage.lasted += delay;
        self.link = Link::Down { delay };
        if !replace(&mut self.is_stale, true) {
            tracing::warn!(server, error = %error, "subscription is stale, trying again");
            self.said.push_back(Step::Stale);
        }
    }

    fn end(&mut self, end: End) {
        self.link = Link::Over;
        self.said.push_back(Step::End(end));
    }
}

#[cfg(test)]
#[path = "sse_tests.rs"]
mod tests;
