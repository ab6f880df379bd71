//! The full picture beside the lowest status, which alone can hide an error behind a warning.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Filter, Reading, Report, Status, Tag, TaskIndex,
    rules::{self, Cell, Standing},
};
use crate::{clock::Timestamp, feed::Seq};

/// How many cells (a task in a tag) stand where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Counts {
    /// Negative status, warnings apart.
    pub errors: u64,
    /// Status −2.
    pub warnings: u64,
    /// Reported as 0.
    pub not_started: u64,
    /// Any other positive status.
    pub running: u64,
    /// Done.
    pub finished: u64,
    /// Owed, and never reported.
    pub missing: u64,
}

impl Counts {
    /// All cells.
    pub fn total(&self) -> u64 {
        self.errors + self.warnings + self.not_started + self.running + self.finished + self.missing
    }

    fn count(&mut self, cell: Cell<'_>) {
        let slot = match cell.report.map(|report| report.status) {
            None => &mut self.missing,
            Some(Status::WARNING) => &mut self.warnings,
            Some(Status::NOT_STARTED) => &mut self.not_started,
            Some(Status::FINISHED) => &mut self.finished,
            Some(status) if status.is_error() => &mut self.errors,
            Some(_) => &mut self.running,
        };
        *slot += 1;
    }
}

/// One work stream, over all tasks.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TagSummary {
    /// Which.
    pub tag: Tag,
    /// Its lowest status.
    pub lowest: Status,
    /// One cell per task.
    pub counts: Counts,
}

/// One task, over all its tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TaskSummary {
    /// Which.
    pub task: TaskIndex,
    /// Its lowest status.
    pub lowest: Status,
    /// One cell per tag.
    pub counts: Counts,
}

/// Where a job, a tag or a task stands, in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Everything up to here is in it.
    pub revision: Seq,
    /// Lowest status wins.
    pub lowest: Standing,
    /// Over all cells.
    pub counts: Counts,
    /// The lowest status that is an error.
    pub worst_error: Option<Arc<Report>>,
    /// Per work stream, by name.
    pub tags: Vec<TagSummary>,
    /// Per task.
    pub tasks: Vec<TaskSummary>,
    /// Since when the job is marked as deleted.
    pub tombstoned_at: Option<Timestamp>,
}

impl Summary {
    /// Sums up a reading that was taken with `filter`.
    pub fn of(reading: &Reading, filter: &Filter) -> Summary {
        let Reading { job, revision, reports } = reading;
        let mut counts = Counts::default();
        let mut tags: BTreeMap<&Tag, (Status, Counts)> = BTreeMap::new();
        let mut tasks: Vec<TaskSummary> = Vec::new();
        rules::for_each_cell(job, filter, reports, |cell| {
            counts.count(cell);
            if let Some(tag) = cell.tag {
                let (lowest, counts) =
                    tags.entry(tag).or_insert((Status::FINISHED, Counts::default()));
                *lowest = cell.status().min(*lowest);
                counts.count(cell);
            }
            if let Some(task) = tasks.last_mut().filter(|last| last.task == cell.task) {
                task.lowest = cell.status().min(task.lowest);
                task.counts.count(cell);
            } else {
                let mut counts = Counts::default();
                counts.count(cell);
                tasks.push(TaskSummary { task: cell.task, lowest: cell.status(), counts });
            }
        });
        let tasks_selected = tasks.len() as u64;
        let tags = tags.into_iter().map(|(tag, (lowest, mut counts))| {
            // Where tags are not declared, a task that has reported elsewhere still owes this tag a state.
            counts.missing += tasks_selected - counts.total();
            let lowest = if counts.missing > 0 { lowest.min(Status::NOT_STARTED) } else { lowest };
            TagSummary { tag: tag.clone(), lowest, counts }
        });
        Summary {
            revision: *revision,
            lowest: rules::standing(job, filter, reports),
            counts,
            worst_error: rules::worst_error(reports).cloned(),
            tags: tags.collect(),
            tasks,
            tombstoned_at: job.tombstoned_at,
        }
    }
}
