//! Where does every task of this job stand?
//!
//! A job is split over tasks on many machines. Every task reports its state per tag (a work stream
//! such as `ingest` or `export`); anybody can ask where the job is, or follow every change.
//! Workers hold a [`Manager`]; engines implement [`JobStore`]; the rules of both are in [`rules`].

mod board;
mod keys;
mod manager;
mod report;
pub mod rules;
mod store;
mod subscription;
mod summary;
mod viewer;
mod watch;

pub use board::Board;
pub use keys::{Epoch, EventId, JobId, Status, Tag, TaskCount, TaskIndex, Version};
pub use manager::{Manager, ManagerOptions};
pub use report::{Draft, Job, JobEvent, JobRef, Life, Payload, Report};
pub use store::{
    Created, Deleted, Deletion, Filter, FollowRequest, JobStore, ListJobs, Reading, Shown, Write,
    Writer, Written,
};
pub use subscription::Subscription;
pub use summary::{Counts, Summary, TagSummary, TaskSummary};
pub use viewer::Viewer;
pub use watch::{OnError, SummaryWatch, Waited};
