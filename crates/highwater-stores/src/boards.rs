//! The states of the jobs that are read, kept in memory and fresh by the writes themselves.
//!
//! A read of ten thousand tasks from the file takes longer than the millisecond that it may take, so
//! the first one keeps what it read, and every commit is applied to what is kept before anybody hears
//! of the commit. What is kept is bounded; a job that is not kept is read from the file.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use highwater::{
    Result,
    feed::{Published, Seq},
    jobs::{Board, Filter, Job, JobEvent, JobId, JobRef, Reading, rules},
};

/// Bytes that are kept in all.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// Commits that may pass while a job is loaded, before the load is not worth keeping.
const PENDING_EVENTS_MAX: usize = 10_000;

#[derive(Debug)]
pub(crate) struct Boards {
    kept: Mutex<Kept>,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Kept {
    by_name: HashMap<JobId, Entry>,
    bytes: usize,
    /// Counts reads, to tell which job was read last.
    reads: u64,
}

#[derive(Debug)]
enum Entry {
    /// Somebody is reading it from the file. What is committed meanwhile waits here.
    Loading {
        load: u64,
        pending: Vec<Published<JobEvent>>,
        is_spoiled: bool,
    },
    Loaded {
        job: Job,
        revision: Seq,
        board: Board,
        last_read: u64,
    },
}

/// What a reader finds.
pub(crate) enum Found {
    /// The answer.
    Reading(Result<Reading>),
    /// Nothing: read the file, and hand what you found to the load.
    Absent(Load),
    /// Nothing, and somebody else is loading it: read the file.
    Busy,
}

/// A promise to load a job. Dropped without a result, it is taken back.
pub(crate) struct Load {
    boards: Arc<Boards>,
    name: JobId,
    /// Which load this is: only its own entry is its business.
    number: u64,
}

impl Boards {
    pub(crate) fn new() -> Arc<Boards> {
        Boards::with_capacity(BYTES_MAX)
    }

    fn with_capacity(bytes_max: usize) -> Arc<Boards> {
        Arc::new(Boards { kept: Mutex::default(), bytes_max })
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn read(self: &Arc<Self>, wanted: &JobRef, filter: &Filter) -> Found {
        let mut kept = self.lock();
        kept.reads += 1;
        let now = kept.reads;
        match kept.by_name.get_mut(&wanted.id) {
            Some(Entry::Loading { .. }) => Found::Busy,
            Some(Entry::Loaded { job, revision, board, last_read }) => {
                *last_read = now;
                let resolved = rules::resolve(wanted, Some(job)).cloned();
                Found::Reading(resolved.map(|job| Reading {
                    job,
                    revision: *revision,
                    reports: board.select(filter),
                }))
            }
            None => {
                let loading = Entry::Loading { load: now, pending: Vec::new(), is_spoiled: false };
                kept.by_name.insert(wanted.id.clone(), loading);
                Found::Absent(Load {
                    boards: Arc::clone(self),
                    name: wanted.id.clone(),
                    number: now,
                })
            }
        }
    }

    /// Takes in what was committed. Called by the one writer, in the order of its commits.
    pub(crate) fn apply(&self, events: &[Published<JobEvent>]) {
        let mut kept = self.lock();
        for event in events {
            kept.apply(event);
        }
        kept.evict(self.bytes_max);
    }
}

/// About how much memory a job takes here, with or without states.
fn entry_bytes(job: &Job) -> usize {
    size_of::<Entry>() + JobEvent::Created(Arc::new(job.clone())).bytes()
}

impl Kept {
    fn apply(&mut self, published: &Published<JobEvent>) {
        let name = match &published.event {
            JobEvent::Created(job) | JobEvent::Tombstoned(job) | JobEvent::Deleted(job) => &job.id,
            JobEvent::Put(report) => &report.job,
        };
        match self.by_name.get_mut(name) {
            None | Some(Entry::Loading { is_spoiled: true, .. }) => {}
            Some(Entry::Loading { pending, is_spoiled, .. }) => {
                if pending.len() < PENDING_EVENTS_MAX {
                    pending.push(published.clone());
                } else {
                    (*pending, *is_spoiled) = (Vec::new(), true);
                }
            }
            Some(Entry::Loaded { job, revision, board, .. }) => {
                let before = board.bytes();
                let is_next =
                    job.incarnation == published.scope && published.seq == revision.next();
                match &published.event {
                    JobEvent::Put(report) if is_next => {
                        board.put(Arc::clone(report));
                    }
                    JobEvent::Tombstoned(tombstoned) if is_next => *job = Job::clone(tombstoned),
                    // Another life has begun or this one is over: forget, and read the file next time.
                    JobEvent::Put(_)
                    | JobEvent::Tombstoned(_)
                    | JobEvent::Created(_)
                    | JobEvent::Deleted(_) => {
                        self.forget(name);
                        return;
                    }
                }
                *revision = published.seq;
                self.bytes = self.bytes - before + board.bytes();
            }
        }
    }

    /// Forgets the jobs that were read longest ago until the rest fits.
    fn evict(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max {
            let loaded = self.by_name.iter().filter_map(|(name, entry)| match entry {
                Entry::Loaded { last_read, .. } => Some((*last_read, name)),
                Entry::Loading { .. } => None,
            });
            let Some(oldest) =
                loaded.min_by_key(|(last_read, _)| *last_read).map(|(_, name)| name.clone())
            else {
                return;
            };
            self.forget(&oldest);
        }
    }

    /// Takes the entry of a load out, if it is still its own.
    fn take(&mut self, by: &Load) -> Option<Entry> {
        match self.by_name.get(&by.name) {
            Some(Entry::Loading { load, .. }) if *load == by.number => {
                self.by_name.remove(&by.name)
            }
            Some(_) | None => None,
        }
    }

    fn forget(&mut self, name: &JobId) {
        if let Some(Entry::Loaded { job, board, .. }) = self.by_name.remove(name) {
            self.bytes -= board.bytes() + entry_bytes(&job);
        }
    }
}

impl Load {
    /// Keeps a reading of the whole job, brought up to date with what was committed since.
    pub(crate) fn keep(self, reading: &Reading) {
        let mut kept = self.boards.lock();
        let Some(Entry::Loading { pending, is_spoiled: false, .. }) = kept.take(&self) else {
            return;
        };
        let mut board = Board::default();
        board.extend(reading.reports.iter().cloned());
        let (job, revision, last_read) = (reading.job.clone(), reading.revision, kept.reads);
        kept.bytes += board.bytes() + entry_bytes(&job);
        kept.by_name.insert(self.name.clone(), Entry::Loaded { job, revision, board, last_read });
        for event in pending
            .iter()
            .filter(|event| event.scope != reading.job.incarnation || event.seq > revision)
        {
            kept.apply(event);
        }
        kept.evict(self.boards.bytes_max);
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.boards.lock().take(self);
    }
}

#[cfg(test)]
mod tests {
    use highwater::{
        clock::Timestamp,
        feed::ScopeId,
        jobs::{Draft, Life, Status, Tag, TaskCount, TaskIndex, Version, Write, Writer},
    };

    use super::*;

    const LIFE: ScopeId = ScopeId(1);

    fn job() -> Job {
        Job {
            id: JobId::new("job").unwrap(),
            num_tasks: TaskCount::new(10).unwrap(),
            incarnation: LIFE,
            created_at: Timestamp::from_micros(0),
            tags: None,
            tombstoned_at: None,
        }
    }

    fn put(seq: u64, status: i32) -> Published<JobEvent> {
        let draft = Draft::new(Tag::new("t").unwrap(), Status(status));
        let write =
            Write::new(JobRef::from(&job()), TaskIndex(0), draft, Writer::Anonymous).unwrap();
        let report = write.report(Version(seq), Seq(seq), Timestamp::from_micros(0));
        let event = JobEvent::Put(Arc::new(report));
        Published { scope: LIFE, seq: Seq(seq), bytes: event.bytes(), is_last: false, event }
    }

    fn reading(revision: u64, event: &Published<JobEvent>) -> Reading {
        let reports = Filter::job().pick(event.event.clone()).into_iter().collect();
        Reading { job: job(), revision: Seq(revision), reports }
    }

    fn load(boards: &Arc<Boards>) -> Load {
        match boards.read(&JobRef::current(job().id), &Filter::job()) {
            Found::Absent(load) => load,
            Found::Reading(_) | Found::Busy => panic!("the job is kept, or being loaded"),
        }
    }

    /// The revision and the status of task 0, if the job is kept.
    fn kept(boards: &Arc<Boards>) -> Option<(u64, i32)> {
        match boards.read(&JobRef::current(job().id), &Filter::job()) {
            Found::Reading(reading) => {
                let reading = reading.unwrap();
                Some((reading.revision.0, reading.reports[0].status.0))
            }
            Found::Absent(_) | Found::Busy => None,
        }
    }

    #[test]
    fn a_commit_during_a_load_is_not_lost() {
        let boards = Boards::new();
        let loading = load(&boards);
        boards.apply(&[put(3, 30), put(4, 40)]);
        loading.keep(&reading(3, &put(3, 30)));
        assert_eq!(kept(&boards), Some((4, 40)));
        boards.apply(&[put(5, 50)]);
        assert_eq!(kept(&boards), Some((5, 50)));
    }

    #[test]
    fn a_gap_is_forgotten_not_guessed() {
        let boards = Boards::new();
        load(&boards).keep(&reading(3, &put(3, 30)));
        boards.apply(&[put(5, 50)]);
        assert_eq!(kept(&boards), None);
    }

    #[test]
    fn a_load_that_was_given_up_does_not_touch_the_next() {
        let boards = Boards::new();
        let first = load(&boards);
        boards.lock().by_name.clear();
        let second = load(&boards);
        boards.apply(&[put(4, 40)]);
        // It read the file before 4, and its entry saw nothing.
        first.keep(&reading(3, &put(3, 30)));
        assert_eq!(kept(&boards), None);
        second.keep(&reading(4, &put(4, 40)));
        assert_eq!(kept(&boards), Some((4, 40)));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let boards = Boards::with_capacity(10);
        load(&boards).keep(&reading(3, &put(3, 30)));
        assert_eq!(kept(&boards), None);
        assert_eq!(boards.lock().bytes, 0);
    }

    #[test]
    fn a_handle_of_an_earlier_life_is_refused_from_memory_too() {
        let boards = Boards::new();
        load(&boards).keep(&reading(3, &put(3, 30)));
        let earlier = JobRef { id: job().id, life: Life::Exactly(ScopeId(0)) };
        assert!(matches!(boards.read(&earlier, &Filter::job()), Found::Reading(Err(_))));
    }
}
