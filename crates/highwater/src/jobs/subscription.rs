//! What a subscriber holds.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::{Stream, StreamExt};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::Report;
use crate::feed::{Delivery, End, Follow, Mark, Step};

/// Snapshot, marker, then every change, pulled by the subscriber at its own pace.
///
/// Nothing is buffered for it and nobody waits for it; dropping it frees everything at once. The last
/// step is a [`Step::End`], which says why it ended.
pub struct Subscription {
    /// `None` once the end was told.
    steps: Option<Follow<Arc<Report>>>,
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
    mark: Option<Mark>,
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription").field("mark", &self.mark).finish_non_exhaustive()
    }
}

impl Subscription {
    pub(super) fn new(steps: Follow<Arc<Report>>, closed: CancellationToken) -> Subscription {
        Subscription { steps: Some(steps), closed: Box::pin(closed.cancelled_owned()), mark: None }
    }

    /// The next step; `None` after the end.
    pub async fn next(&mut self) -> Option<Delivery<Arc<Report>>> {
        StreamExt::next(self).await
    }
}

impl Stream for Subscription {
    type Item = Delivery<Arc<Report>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let Some(steps) = &mut this.steps else { return Poll::Ready(None) };
        if this.closed.as_mut().poll(context).is_ready() {
            this.steps = None;
            return Poll::Ready(Some(Delivery {
                step: Step::End(End::Cancelled),
                mark: this.mark,
            }));
        }
        let polled = steps.poll_next_unpin(context);
        match &polled {
            Poll::Ready(Some(delivery)) => {
                this.mark = delivery.mark;
                if matches!(delivery.step, Step::End(_)) {
                    this.steps = None;
                }
            }
            Poll::Ready(None) => this.steps = None,
            Poll::Pending => {}
        }
        polled
    }
}
