//! What a subscriber was told, and the checks over it, each in linear time.

use std::{collections::HashMap, sync::Arc};

use highwater::{
    feed::{Delivery, End, Seq, Step, Token},
    jobs::{Report, Subscription, Tag, TaskIndex},
};

/// One step as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// A state of the snapshot.
    Replay(Arc<Report>),
    /// The marker.
    SnapshotEnd {
        /// The boundary.
        revision: Seq,
        /// How many were replayed.
        count: u64,
    },
    /// A change.
    Change(Arc<Report>),
    /// The store is away.
    Stale,
    /// It is back.
    Live,
    /// All over again.
    Reset,
    /// Why it ended.
    End(&'static str),
}

impl From<Step<Arc<Report>>> for Told {
    fn from(step: Step<Arc<Report>>) -> Told {
        match step {
            Step::Replay(report) => Told::Replay(report),
            Step::SnapshotEnd { revision, count } => Told::SnapshotEnd { revision, count },
            Step::Change(report) => Told::Change(report),
            Step::Stale => Told::Stale,
            Step::Live => Told::Live,
            Step::Reset => Told::Reset,
            Step::End(End::Cancelled) => Told::End("cancelled"),
            Step::End(End::Deleted) => Told::End("deleted"),
            Step::End(End::Failed(_)) => Told::End("failed"),
        }
    }
}

/// Everything one subscriber was told, with the token of every step.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// In order.
    pub steps: Vec<Told>,
    /// One per step.
    pub tokens: Vec<Option<Token>>,
}

impl History {
    /// Remembers one step.
    pub fn push(&mut self, delivery: Delivery<Arc<Report>>) {
        self.tokens.push(delivery.token());
        self.steps.push(Told::from(delivery.step));
    }

    /// Remembers what `subscription` tells, until `is_enough`, or until it ends.
    pub async fn follow(
        &mut self,
        subscription: &mut Subscription,
        mut is_enough: impl FnMut(&Told) -> bool,
    ) {
        while let Some(delivery) = subscription.next().await {
            self.push(delivery);
            if self.steps.last().is_some_and(&mut is_enough) {
                return;
            }
        }
    }

    /// Remembers what `subscription` tells, up to the change or the boundary at `revision`.
    pub async fn follow_to(&mut self, subscription: &mut Subscription, revision: Seq) {
        let is_there = |told: &Told| match told {
            Told::Change(report) => report.revision >= revision,
            Told::SnapshotEnd { revision: boundary, .. } => *boundary >= revision,
            Told::Replay(_) | Told::Stale | Told::Live | Told::Reset | Told::End(_) => false,
        };
        self.follow(subscription, is_there).await;
    }

    /// The reports that were told, replayed ones first.
    pub fn reports(&self) -> impl Iterator<Item = &Arc<Report>> {
        self.steps.iter().filter_map(|told| match told {
            Told::Replay(report) | Told::Change(report) => Some(report),
            Told::SnapshotEnd { .. } | Told::Stale | Told::Live | Told::Reset | Told::End(_) => {
                None
            }
        })
    }

    /// Checks the protocol of one subscription that has not been reset: the snapshot in the order of
    /// revisions, one marker with the right count, changes behind its boundary, and per key strictly
    /// increasing versions.
    pub fn check_protocol(&self) -> Result<(), String> {
        let mut versions: HashMap<(TaskIndex, &Tag), u64> = HashMap::new();
        let (mut last, mut replayed, mut boundary) = (Seq::ZERO, 0_u64, None);
        for (index, told) in self.steps.iter().enumerate() {
            match told {
                Told::Replay(_) if boundary.is_some() => {
                    return Err(format!("step {index}: replay behind the marker"));
                }
                Told::Change(_) if boundary.is_none() => {
                    return Err(format!("step {index}: change before the marker"));
                }
                Told::Replay(report) | Told::Change(report) => {
                    if report.revision <= last {
                        return Err(format!(
                            "step {index}: revision {} after {last}",
                            report.revision
                        ));
                    }
                    last = report.revision;
                    replayed += u64::from(boundary.is_none());
                    let version = versions.entry((report.task, &report.tag)).or_default();
                    if report.version.0 <= *version {
                        return Err(format!(
                            "step {index}: version {} after {version}",
                            report.version
                        ));
                    }
                    *version = report.version.0;
                }
                Told::SnapshotEnd { revision, count } => {
                    if boundary.replace(*revision).is_some() {
                        return Err(format!("step {index}: a second marker"));
                    }
                    if *count != replayed || *revision < last {
                        return Err(format!(
                            "step {index}: the marker says {count} up to {revision}, not {replayed} up to {last}"
                        ));
                    }
                    last = *revision;
                }
                Told::Reset => return Err(format!("step {index}: reset")),
                Told::Stale | Told::Live | Told::End(_) => {}
            }
        }
        if boundary.is_none() { Err("no marker".to_owned()) } else { Ok(()) }
    }

    /// Checks that every change up to `head` was told: behind the marker no revision is left out, and
    /// before it every key was told at its version at the boundary. `log` is every write there was,
    /// in the order of revisions.
    pub fn check_is_complete(&self, log: &[Arc<Report>]) -> Result<(), String> {
        self.check_protocol()?;
        let boundary = self.steps.iter().find_map(|told| match told {
            Told::SnapshotEnd { revision, .. } => Some(*revision),
            Told::Replay(_)
            | Told::Change(_)
            | Told::Stale
            | Told::Live
            | Told::Reset
            | Told::End(_) => None,
        });
        let boundary = boundary.unwrap_or(Seq::ZERO);
        let mut newest: HashMap<(TaskIndex, &Tag), &Report> = HashMap::new();
        for report in self.reports() {
            newest.insert((report.task, &report.tag), report);
        }
        let mut told = self.steps.iter().filter_map(|told| match told {
            Told::Change(report) => Some(report),
            Told::Replay(_)
            | Told::SnapshotEnd { .. }
            | Told::Stale
            | Told::Live
            | Told::Reset
            | Told::End(_) => None,
        });
        for written in log.iter().filter(|written| written.revision > boundary) {
            match told.next() {
                Some(report) if report == written => {}
                Some(report) => {
                    return Err(format!(
                        "told {} where {} was written",
                        report.revision, written.revision
                    ));
                }
                None => return Err(format!("{} was never told", written.revision)),
            }
        }
        if let Some(report) = told.next() {
            return Err(format!("{} was told and never written", report.revision));
        }
        for written in log {
            let key = (written.task, &written.tag);
            if newest.get(&key).is_none_or(|report| report.version < written.version) {
                return Err(format!(
                    "task {} tag `{}` was never told at {}",
                    written.task, written.tag, written.version
                ));
            }
        }
        Ok(())
    }
}
