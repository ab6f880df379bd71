//! Everything has a limit: its unit is in its name, its reason beside it.

use std::time::Duration;

/// Longest job id. With a tag and a task it still makes one key in every engine.
pub const JOB_ID_BYTES_MAX: usize = 256;

/// Longest tag. A task and a tag make one Firestore document id, `{task}-{tag}`.
pub const TAG_BYTES_MAX: usize = 256;

/// Longest event id: four UUIDs and their separators fit.
pub const EVENT_ID_BYTES_MAX: usize = 256;

/// Longest message: an error with its whole chain fits; a log file does not.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024;

/// Largest payload unless [`Limits`] says otherwise: state is a note about the work, not the work.
pub const PAYLOAD_BYTES_MAX: usize = 64 * 1024;

/// Deepest nesting of a payload: whoever reads it back may have a parser that gives up at 128.
pub const PAYLOAD_DEPTH_MAX: usize = 100;

/// Most tasks of a job: a summary lists every one of them.
pub const TASKS_MAX: u32 = 1_000_000;

/// Most declared tags of a job: with them every task owes a state per tag.
pub const DECLARED_TAGS_MAX: usize = 1_000;

/// Most cells (a task in a declared tag) of a job: every reading of the whole visits each of them.
pub const DECLARED_CELLS_MAX: u64 = 1_000_000;

/// Most jobs in one page of a listing.
pub const LIST_JOBS_MAX: usize = 1_000;

/// States read at a time while a snapshot is replayed: one page is short enough that nobody waits
/// for it, and long enough that 100,000 states take few round trips.
pub const REPLAY_PAGE_STATES: usize = 1_000;

/// Changes read at a time by a subscriber that is behind.
pub const READ_PAGE_EVENTS: usize = 256;

/// Newest events of a scope that subscribers share in memory.
pub const TAIL_EVENTS_MAX: usize = 1_024;

/// Bytes of events that all tails together keep; past it the tail that grows gives up its oldest.
pub const TAIL_BYTES_MAX: usize = 32 * 1024 * 1024;

/// How long a subscriber trusts a silent bell before it looks for itself.
pub const SILENT_BELL_TRUSTED: Duration = Duration::from_secs(30);

/// Changes that a conflating watcher takes in before it speaks, so that a nonstop writer cannot
/// keep it silent.
pub const CONFLATED_EVENTS_MAX: usize = 1_024;

const TASK_DIGITS_MAX: usize = 10; // u32::MAX has ten digits.
const PERCENT_ENCODED: usize = 3; // One byte becomes at most `%2F`.
const FIRESTORE_ID_BYTES_MAX: usize = 1_500; // Firestore's documented limit for a document id.

const _: () = assert!(
    TASK_DIGITS_MAX + "-".len() + PERCENT_ENCODED * TAG_BYTES_MAX <= FIRESTORE_ID_BYTES_MAX
);

/// The limits that a deployment may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest payload of a state, in bytes of JSON.
    pub payload_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { payload_bytes_max: PAYLOAD_BYTES_MAX }
    }
}
