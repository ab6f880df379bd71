//! The full picture of a job: `summary`, and every frame of a live table.

use highwater::jobs::{self, Counts, JobId, Status, TaskSummary};
use highwater_stores::remote::wire::Summary;
use serde::Serialize;

use super::answers::{STATE_HEADER, reported_row, standing_row};
use crate::output::{Answer, table};

/// Most tasks that a table lists: a screen or two. JSON has them all.
const TABLE_TASKS_MAX: usize = 50;

/// Most tasks that a table lists which redraws itself: with the rest it fits on a small screen.
const LIVE_TASKS_MAX: usize = 12;

/// Counts for everything, per tag and per task, and the states that matter most.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct Picture {
    summary: Summary,
    #[serde(skip)]
    tasks_shown_max: usize,
}

impl Picture {
    pub(crate) fn new(job: &JobId, summary: jobs::Summary) -> Picture {
        Picture { summary: Summary::new(job, summary), tasks_shown_max: TABLE_TASKS_MAX }
    }

    /// For a table that redraws itself.
    pub(super) fn live(job: &JobId, summary: jobs::Summary) -> Picture {
        Picture { tasks_shown_max: LIVE_TASKS_MAX, ..Picture::new(job, summary) }
    }

    /// What to tell whoever sees only the table.
    pub(super) fn left_out(&self) -> Option<String> {
        let left_out = self.summary.tasks.len().saturating_sub(self.tasks_shown_max);
        let note = || format!("{left_out} more tasks are not shown, none of them lower");
        (left_out > 0).then(note)
    }

    /// All tasks if there is room, else those that hold the job back most.
    fn shown_tasks(&self) -> Vec<TaskSummary> {
        let mut tasks = self.summary.tasks.clone();
        if tasks.len() > self.tasks_shown_max {
            tasks.sort_by_key(|of| of.lowest);
            tasks.truncate(self.tasks_shown_max);
        }
        tasks
    }

    fn counts_table(&self) -> String {
        let mut rows =
            vec![counts_row("all".to_owned(), self.summary.lowest.status, &self.summary.counts)];
        let tags = self.summary.tags.iter();
        rows.extend(tags.map(|of| counts_row(format!("tag {}", of.tag), of.lowest, &of.counts)));
        let tasks = self.shown_tasks();
        let tasks = tasks.iter();
        rows.extend(tasks.map(|of| counts_row(format!("task {}", of.task), of.lowest, &of.counts)));
        table(COUNTS_HEADER, rows)
    }

    fn states_table(&self) -> String {
        let named = |name: &str, row: [String; 6]| {
            let [task, tag, status, version, at, message] = row;
            [name.to_owned(), task, tag, status, version, at, message]
        };
        let mut rows = vec![named("lowest", standing_row(&self.summary.lowest))];
        rows.extend(
            self.summary
                .worst_error
                .iter()
                .map(|report| named("worst error", reported_row(report))),
        );
        let [task, tag, status, version, at, message] = STATE_HEADER;
        table(["STATE", task, tag, status, version, at, message], rows)
    }
}

const COUNTS_HEADER: [&str; 8] =
    ["SCOPE", "LOWEST", "ERRORS", "WARNINGS", "NOT STARTED", "RUNNING", "FINISHED", "MISSING"];

fn counts_row(scope: String, lowest: Status, counts: &Counts) -> [String; 8] {
    let Counts { errors, warnings, not_started, running, finished, missing } = *counts;
    let [errors, warnings, not_started, running, finished, missing] =
        [errors, warnings, not_started, running, finished, missing].map(|count| count.to_string());
    let lowest = lowest.to_string();
    [scope, lowest, errors, warnings, not_started, running, finished, missing]
}

impl Answer for Picture {
    fn table(&self) -> String {
        format!("{}\n\n{}", self.counts_table(), self.states_table())
    }
}
