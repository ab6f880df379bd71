//! Watching an aggregate: a subscription that is folded into a board, and conflated.

use std::sync::Arc;

use futures_util::FutureExt;

use super::{Board, Filter, Job, Reading, Report, Status, Subscription, Summary, rules};
use crate::{
    Error, ErrorKind, Result,
    feed::{End, Seq, Step},
    limits::CONFLATED_EVENTS_MAX,
};

/// The aggregate of what a subscription tells, live.
///
/// Changes that arrive faster than [`next`](SummaryWatch::next) is called are folded into one answer:
/// a slow watcher skips intermediate pictures and never sees an old one after a newer one.
#[derive(Debug)]
pub struct SummaryWatch {
    steps: Subscription,
    job: Job,
    filter: Filter,
    board: Board,
    revision: Seq,
    /// Whether the board is a whole picture: false while a snapshot is being replayed.
    is_whole: bool,
    /// How it ended, if that was heard together with news that had to be told first.
    over: Option<Result<()>>,
}

/// What a step did to the picture.
enum Effect {
    News,
    Nothing,
    Over(Result<()>),
}

impl SummaryWatch {
    pub(super) fn new(steps: Subscription, job: Job, filter: Filter) -> SummaryWatch {
        let (board, revision) = (Board::default(), Seq::ZERO);
        SummaryWatch { steps, job, filter, board, revision, is_whole: false, over: None }
    }

    /// The picture as soon as it differs from the last one; the first at once. `None` when the watch
    /// was closed; an error when the job was deleted or the store is lost.
    pub async fn next(&mut self) -> Option<Result<Summary>> {
        match self.reading().await {
            Ok(Some(reading)) => Some(Ok(Summary::of(&reading, &self.filter))),
            Ok(None) => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// Waits for news, takes in whatever else has arrived, and gives the picture.
    pub(super) async fn reading(&mut self) -> Result<Option<Reading>> {
        if let Some(over) = self.over.take() {
            return over.map(|()| None);
        }
        let mut taken = 0;
        let mut has_news = false;
        loop {
            let may_speak = has_news && self.is_whole;
            if may_speak && taken >= CONFLATED_EVENTS_MAX {
                return Ok(Some(self.picture()));
            }
            let step = match self.steps.next().now_or_never() {
                Some(step) => step,
                None if may_speak => return Ok(Some(self.picture())),
                None => self.steps.next().await,
            };
            let Some(delivery) = step else { return Ok(None) };
            taken += 1;
            match self.take(delivery.step) {
                Effect::News => has_news = true,
                Effect::Nothing => {}
                Effect::Over(reason) if has_news && self.is_whole => {
                    self.over = Some(reason);
                    return Ok(Some(self.picture()));
                }
                Effect::Over(reason) => return reason.map(|()| None),
            }
        }
    }

    fn picture(&self) -> Reading {
        let reports = self.board.select(&self.filter);
        Reading { job: self.job.clone(), revision: self.revision, reports }
    }

    fn take(&mut self, step: Step<Arc<Report>>) -> Effect {
        match step {
            Step::Replay(report) => {
                self.board.put(report);
                Effect::Nothing
            }
            Step::SnapshotEnd { revision, .. } => {
                self.is_whole = true;
                self.revision = revision;
                Effect::News
            }
            Step::Change(report) => {
                self.revision = report.revision;
                self.board.put(report);
                Effect::News
            }
            Step::Reset => {
                self.board.clear();
                self.is_whole = false;
                Effect::Nothing
            }
            Step::Stale | Step::Live => Effect::Nothing,
            Step::End(End::Cancelled) => Effect::Over(Ok(())),
            Step::End(End::Failed(error)) => Effect::Over(Err(error)),
            Step::End(End::Deleted) => {
                let detail = format!("job `{}` was deleted", self.job.id);
                Effect::Over(Err(Error::new(ErrorKind::NotFound, detail)))
            }
        }
    }
}

/// What a wait does when a task reports an error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnError {
    /// Ends at once, and names the task.
    #[default]
    Fail,
    /// Waits on: the task may be retried.
    Wait,
}

/// How a wait ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waited {
    /// The lowest status is there.
    Reached(rules::Standing),
    /// A task reported an error.
    Failed(Arc<Report>),
    /// Not in time; this is what held it back.
    TimedOut(rules::Standing),
}

/// Waits until the lowest status reaches `status`; `last` is where it stood when it was last seen.
pub(super) async fn until(
    watch: &mut SummaryWatch,
    status: Status,
    on_error: OnError,
    last: &mut Option<rules::Standing>,
) -> Result<Waited> {
    loop {
        let Some(reading) = watch.reading().await? else {
            return Err(Error::new(ErrorKind::Closed, "the manager was closed"));
        };
        let standing = rules::standing(&reading.job, &watch.filter, &reading.reports);
        if standing.status >= status {
            return Ok(Waited::Reached(standing));
        }
        if let (OnError::Fail, Some(error)) = (on_error, rules::worst_error(&reading.reports)) {
            return Ok(Waited::Failed(Arc::clone(error)));
        }
        *last = Some(standing);
    }
}
