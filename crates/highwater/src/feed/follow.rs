//! The loop around the machine: the same for every engine with a log.

use std::{sync::Arc, time::Duration};

use futures_util::stream::{self, StreamExt};

use super::{
    Delivery, End, FeedId, Fingerprint, Follow, Log, Machine, Mark, ScopeId, Start, Step, Want,
};
use crate::{
    Error, Result,
    clock::Clock,
    feed::Bell,
    limits::{READ_PAGE_EVENTS, REPLAY_PAGE_STATES, SILENT_BELL_TRUSTED},
    retry::reconnect_delay,
};

/// How often a subscription tries to reach a store that is away before it ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Patience {
    /// For as long as it takes.
    #[default]
    Endless,
    /// This many failed tries in a row.
    Tries(u32),
}

/// Reads a log for one subscriber, and tells it step by step what happened.
#[derive(Debug)]
pub struct Follower<L: Log, T, S> {
    log: L,
    feed: FeedId,
    scope: ScopeId,
    selection: Fingerprint,
    select: S,
    machine: Machine<T>,
    bell: Bell,
    clock: Arc<dyn Clock>,
    patience: Patience,
    outage: Option<Outage>,
}

/// A store that is away: since how long, and how often it was tried.
#[derive(Debug, Clone, Copy, Default)]
struct Outage {
    lasted: Duration,
    failed: u32,
}

impl<L, T, S> Follower<L, T, S>
where
    L: Log,
    T: Send + 'static,
    S: Fn(L::Item) -> Option<T> + Send + 'static,
{
    /// Registers a reader: when this returns, the boundary of its snapshot is fixed, or its token was
    /// found to be good.
    ///
    /// `select` drops what the subscriber did not ask for; `selection` is its fingerprint.
    pub async fn register(
        log: L,
        (feed, scope, selection): (FeedId, ScopeId, Fingerprint),
        start: &Start,
        patience: Patience,
        clock: Arc<dyn Clock>,
        select: S,
    ) -> Result<Follower<L, T, S>> {
        let mut machine = match start {
            Start::Snapshot => Machine::from_snapshot(),
            Start::After(token) => {
                Machine::resumed(Mark::parse(token)?.position_in(feed, scope, selection)?)
            }
        };
        // The bell before the first read, or a change slips between the two.
        let bell = log.bell(scope);
        machine.registered(log.head(scope).await?);
        let mut follower = Follower {
            log,
            feed,
            scope,
            selection,
            select,
            machine,
            bell,
            clock,
            patience,
            outage: None,
        };
        if let Start::After(_) = start {
            // Whoever resumes learns at once whether the feed still has what follows.
            follower.advance().await?;
        }
        Ok(follower)
    }

    /// As a stream.
    pub fn into_stream(self) -> Follow<T> {
        stream::unfold(self, |mut follower| async move {
            follower.next().await.map(|delivery| (delivery, follower))
        })
        .boxed()
    }

    /// The next step; `None` after the [`Step::End`].
    pub async fn next(&mut self) -> Option<Delivery<T>> {
        loop {
            if let Some((step, position)) = self.machine.pop() {
                let &mut Follower { feed, scope, selection, .. } = self;
                return Some(Delivery {
                    step,
                    mark: Some(Mark { feed, scope, selection, position }),
                });
            }
            self.bell.mute();
            match self.advance().await {
                Ok(Progress::Over) => return None,
                Ok(Progress::Moved) => {}
                Ok(Progress::CaughtUp) => self.wait_for_news().await,
                Err(error) => self.endure(error).await,
            }
        }
    }

    /// Reads what the machine wants next.
    async fn advance(&mut self) -> Result<Progress> {
        match self.machine.want() {
            Want::Nothing => return Ok(Progress::Over),
            Want::Head => {
                let head = self.log.head(self.scope).await?;
                self.store_is_back();
                self.machine.registered(head);
            }
            Want::Replay(span) => {
                let page = self.log.replay(self.scope, span, REPLAY_PAGE_STATES).await?;
                self.store_is_back();
                self.machine.replayed(page, &self.select);
            }
            Want::Changes { after } => {
                let slice = self.log.read(self.scope, after, READ_PAGE_EVENTS).await?;
                let came_back = self.store_is_back();
                if !self.machine.read(slice, &self.select) && !came_back {
                    return Ok(Progress::CaughtUp);
                }
            }
        }
        Ok(Progress::Moved)
    }

    async fn wait_for_news(&mut self) {
        let silence = self.clock.sleep(SILENT_BELL_TRUSTED);
        tokio::select! {
            biased;
            () = self.bell.rang() => {}
            () = silence => {}
        }
    }

    fn store_is_back(&mut self) -> bool {
        let was_away = self.outage.take().is_some();
        if was_away {
            tracing::info!(scope = self.scope.0, "subscription is live again");
            self.machine.say(Step::Live);
        }
        was_away
    }

    /// A read failed. Says so once, then waits before the next try, or gives up.
    async fn endure(&mut self, error: Error) {
        let is_news = self.outage.is_none();
        let outage = self.outage.get_or_insert_default();
        outage.failed += 1;
        let may_try_again = match self.patience {
            Patience::Endless => true,
            Patience::Tries(tries) => outage.failed < tries,
        };
        if !error.is_transient() || !may_try_again {
            tracing::error!(scope = self.scope.0, error = %error, "subscription ends");
            return self.machine.end(End::Failed(error));
        }
        if is_news {
            tracing::warn!(scope = self.scope.0, error = %error, "subscription is stale, trying again");
            // Said at once; the wait comes before the try after it.
            return self.machine.say(Step::Stale);
        }
        let delay = reconnect_delay(outage.lasted, fastrand::f64());
        outage.lasted += delay;
        self.clock.sleep(delay).await;
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Progress {
    Moved,
    CaughtUp,
    Over,
}
