//! `highwater jobs`: thin verbs over the port and over [`Viewer`]. None of them takes an epoch: to
//! look at a job, or to report by hand, must never shut a worker out.

mod answers;
pub(crate) mod picture;
mod set;
mod wait;
pub(crate) mod watch;

use clap::{Args, Subcommand};
use highwater::{
    Result,
    clock::SystemClock,
    jobs::{
        Created, Deleted, Deletion, Filter, JobId, JobRef, ListJobs, Shown, Tag, TaskCount,
        TaskIndex, Viewer,
    },
    retry,
};
use highwater_stores::remote::wire;

use crate::{Exit, Globals, output};

/// What to do with jobs.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Creates a job, or finds it: what is stored wins
    #[command(after_help = CREATE_EXAMPLES)]
    Create(Create),
    /// Reports a state by hand
    #[command(after_help = set::EXAMPLES)]
    Set(set::Set),
    /// Where a job, a task or a tag stands: the lowest status wins
    #[command(after_help = GET_EXAMPLES)]
    Get(Look),
    /// The full picture: counts, the worst error, per tag and per task
    #[command(after_help = SUMMARY_EXAMPLES)]
    Summary(Look),
    /// Follows a job live, until it is deleted or Ctrl-C
    #[command(after_help = watch::EXAMPLES)]
    Watch(watch::Watch),
    /// Waits until a job is finished, or has got that far
    #[command(after_help = wait::EXAMPLES)]
    Wait(wait::Wait),
    /// Lists jobs by name
    #[command(after_help = LIST_EXAMPLES)]
    List(List),
    /// Deletes a job with all its states, or marks it as deleted
    #[command(after_help = DELETE_EXAMPLES)]
    Delete(Delete),
}

const CREATE_EXAMPLES: &str = "\
Examples:
  highwater jobs create nightly --tasks 4
  highwater jobs create nightly --tasks 4 --tag ingest --tag export   # every task owes both";

const GET_EXAMPLES: &str = "\
Examples:
  highwater jobs get nightly
  highwater jobs get nightly --task 2 --tag ingest -o json";

const SUMMARY_EXAMPLES: &str = "\
Examples:
  highwater jobs summary nightly
  highwater jobs summary nightly --tag ingest
  highwater jobs summary nightly -o json | jq .counts";

const LIST_EXAMPLES: &str = "\
Examples:
  highwater jobs list --prefix nightly-
  highwater jobs list --limit 20 --after nightly-2024-06-01
  highwater jobs list --tombstoned -o json";

const DELETE_EXAMPLES: &str = "\
Examples:
  highwater jobs delete nightly               # gone; the name is free again
  highwater jobs delete nightly --tombstone   # can be read, not written";

#[derive(Debug, Args)]
pub(crate) struct Create {
    /// The job's name
    job: String,
    /// How many tasks it is split over
    #[arg(long, value_name = "N")]
    tasks: u32,
    /// Declares a tag: the job then has no others, and every task owes a state in each
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
}

/// What to look at.
#[derive(Debug, Args)]
pub(crate) struct Look {
    /// The job's name
    job: String,
    #[command(flatten)]
    selection: Selection,
}

/// Which states of a job are meant.
#[derive(Debug, Args)]
pub(crate) struct Selection {
    /// Only this task, from 0
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    task: Option<u32>,
    /// Only this tag
    #[arg(long)]
    tag: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only names that begin like this
    #[arg(long, default_value = "")]
    prefix: String,
    /// Only jobs that are marked as deleted
    #[arg(long, conflicts_with = "all")]
    tombstoned: bool,
    /// Jobs that are marked as deleted, too
    #[arg(long)]
    all: bool,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = ListJobs::default().limit)]
    limit: usize,
    /// Only names behind this one: the next page
    #[arg(long, value_name = "JOB")]
    after: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// The job's name
    job: String,
    /// Only marks it: it can be read, and not be written or opened
    #[arg(long)]
    tombstone: bool,
}

impl Verb {
    /// Does it.
    pub(crate) async fn run(self, globals: &Globals) -> Result<Exit> {
        match self {
            Verb::Create(create) => create.run(globals).await,
            Verb::Set(set) => set.run(globals).await,
            Verb::Get(look) => look.get(globals).await,
            Verb::Summary(look) => look.summary(globals).await,
            Verb::Watch(watch) => watch.run(globals).await,
            Verb::Wait(wait) => wait.run(globals).await,
            Verb::List(list) => list.run(globals).await,
            Verb::Delete(delete) => delete.run(globals).await,
        }
    }
}

impl Create {
    async fn run(self, globals: &Globals) -> Result<Exit> {
        let (id, num_tasks) = (JobId::new(self.job)?, TaskCount::new(self.tasks)?);
        let tags = self.tags.into_iter().map(Tag::new).collect::<Result<Vec<_>>>()?;
        let tags = (!tags.is_empty()).then_some(tags);
        let store = globals.place.jobs().await?;
        let opening =
            retry::idempotent(&SystemClock, |_| store.open(&id, num_tasks, tags.as_deref()));
        let (job, created) = opening.await?;
        if created == Created::Existing {
            output::note(&format!("job `{id}` was there before: what is stored wins"));
        }
        output::show(globals.output, &wire::OpenedJob::new(job, created))?;
        Ok(Exit::Done)
    }
}

impl Selection {
    fn filter(&self) -> Result<Filter> {
        let tag = self.tag.as_ref().map(Tag::new).transpose()?;
        Ok(Filter { task: self.task.map(TaskIndex), tag })
    }
}

impl Look {
    /// The job to look at, and what to look at in it. Input is checked before a store is opened.
    async fn open(&self, globals: &Globals) -> Result<(Viewer, Filter)> {
        let (id, filter) = (JobId::new(&self.job)?, self.selection.filter()?);
        let viewer = Viewer::open(globals.place.jobs().await?, id).await?;
        Ok((viewer, filter))
    }

    async fn get(self, globals: &Globals) -> Result<Exit> {
        let (viewer, filter) = self.open(globals).await?;
        let standing = viewer.get_state(&filter).await?;
        output::show(globals.output, &wire::Standing::new(&viewer.job().id, standing))?;
        Ok(Exit::Done)
    }

    async fn summary(self, globals: &Globals) -> Result<Exit> {
        let (viewer, filter) = self.open(globals).await?;
        let summary = viewer.summary(&filter).await?;
        let answer = picture::Picture::new(&viewer.job().id, summary);
        output::show(globals.output, &answer)?;
        if let (output::Format::Table, Some(left_out)) = (globals.output, answer.left_out()) {
            output::note(&format!("{left_out}; `-o json` has all"));
        }
        Ok(Exit::Done)
    }
}

impl List {
    async fn run(self, globals: &Globals) -> Result<Exit> {
        let shown = match (self.tombstoned, self.all) {
            (true, _) => Shown::Tombstoned,
            (_, true) => Shown::All,
            (false, false) => Shown::Alive,
        };
        let after = self.after.map(JobId::new).transpose()?;
        let query = ListJobs { prefix: self.prefix, shown, after, limit: self.limit };
        query.check()?;
        let store = globals.place.jobs().await?;
        let jobs = retry::idempotent(&SystemClock, |_| store.list(&query)).await?;
        let page = wire::JobsPage::new(jobs, query.limit);
        output::show(globals.output, &page)?;
        if let Some(next) = &page.next {
            output::note(&format!("there may be more: --after '{next}'"));
        }
        Ok(Exit::Done)
    }
}

impl Delete {
    async fn run(self, globals: &Globals) -> Result<Exit> {
        let id = JobId::new(self.job)?;
        let how = if self.tombstone { Deletion::Tombstone } else { Deletion::Erase };
        let store = globals.place.jobs().await?;
        // Once: a second try could not tell its own first one from somebody else's.
        let deleted = store.delete(&JobRef::current(id.clone()), how).await?;
        if deleted == Deleted::Already {
            output::note(&format!("job `{id}` was marked as deleted before"));
        }
        output::show(globals.output, &answers::Removed::new(&id, how, deleted))?;
        Ok(Exit::Done)
    }
}
