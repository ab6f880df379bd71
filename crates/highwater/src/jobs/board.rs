//! The states of a job in memory, in the order in which the rules read them.

use std::{collections::BTreeMap, sync::Arc};

use super::{Filter, Report, Tag, TaskIndex};

/// The newest report of every task and tag.
#[derive(Debug, Default, Clone)]
pub struct Board {
    reports: BTreeMap<TaskIndex, BTreeMap<Tag, Arc<Report>>>,
    len: usize,
    bytes: usize,
}

impl Board {
    /// Takes a report in; answers the one that it replaces.
    pub fn put(&mut self, report: Arc<Report>) -> Option<Arc<Report>> {
        self.bytes += report.bytes();
        let of_task = self.reports.entry(report.task).or_default();
        let replaced = of_task.insert(report.tag.clone(), report);
        match &replaced {
            Some(replaced) => self.bytes -= replaced.bytes(),
            None => self.len += 1,
        }
        replaced
    }

    /// The report of one task in one tag.
    pub fn get(&self, task: TaskIndex, tag: &Tag) -> Option<&Arc<Report>> {
        self.reports.get(&task)?.get(tag)
    }

    /// The reports that `filter` selects, by task, then by tag.
    pub fn select(&self, filter: &Filter) -> Vec<Arc<Report>> {
        let tasks = match filter.task {
            Some(task) => self.reports.range(task..=task),
            None => self.reports.range(..),
        };
        let mut selected = Vec::with_capacity(if filter.task.is_none() { self.len } else { 4 });
        for (_, of_task) in tasks {
            match &filter.tag {
                Some(tag) => selected.extend(of_task.get(tag).cloned()),
                None => selected.extend(of_task.values().cloned()),
            }
        }
        selected
    }

    /// How many reports there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// About how much memory they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Board::default();
    }
}

impl Extend<Arc<Report>> for Board {
    fn extend<I: IntoIterator<Item = Arc<Report>>>(&mut self, reports: I) {
        for report in reports {
            self.put(report);
        }
    }
}
