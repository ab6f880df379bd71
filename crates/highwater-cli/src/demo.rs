//! A show: four workers report, one of them fails and is restarted, and a viewer follows.

use std::{
    io::{self, IsTerminal},
    sync::Arc,
    time::Duration,
};

use highwater::{
    Error, ErrorKind, Result,
    clock::{Clock, SystemClock},
    feed::{Delivery, End, Step},
    jobs::{
        Board, Draft, Filter, JobId, JobStore, Manager, ManagerOptions, Report, Status, Tag,
        TaskCount, Viewer, rules,
    },
};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget};
use tokio::task::JoinSet;

use crate::{
    Exit, Globals,
    jobs::{
        picture::Picture,
        watch::{Line, style},
    },
    output::{self, Audience, Format},
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  highwater demo
  highwater demo -o json
  highwater demo --server http://127.0.0.1:7171   # others can watch it there
  highwater demo --store sqlite:demo.db           # keeps the job, to look at it later

Without --server and --store (and their variables) it works in a temporary file that is removed at
the end.";

const TAGS: [&str; 2] = ["ingest", "export"];

/// What befalls a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fortune {
    Smooth,
    /// It has something to say in its first tag, and goes on.
    Warns,
    /// It fails in its second tag, and a new process takes its task over.
    FailsOnce,
}

/// Every task's fortune and the pause between two of its reports; the slowest makes the show last
/// about five seconds.
const CAST: [(Fortune, Duration); 4] = [
    (Fortune::Smooth, Duration::from_millis(300)),
    (Fortune::FailsOnce, Duration::from_millis(330)),
    (Fortune::Warns, Duration::from_millis(360)),
    (Fortune::Smooth, Duration::from_millis(420)),
];

pub(crate) async fn run(globals: &Globals) -> Result<Exit> {
    output::until_interrupted(show(globals)).await
}

async fn show(globals: &Globals) -> Result<Exit> {
    let store = globals.place.open_or("sqlite::memory:").await?.jobs;
    // A name of its own, because the store that was named may have seen the show before.
    let id = JobId::new(format!("demo-{}", SystemClock.now().as_micros()))?;
    let tags = TAGS.iter().map(Tag::new).collect::<Result<Vec<_>>>()?;
    let num_tasks = TaskCount::new(u32::try_from(CAST.len()).unwrap_or(u32::MAX))?;
    store.open(&id, num_tasks, Some(&tags)).await?;
    output::note(&format!("job `{id}`: {} tasks, tags {}", CAST.len(), TAGS.join(" and ")));

    let viewer = Viewer::open(Arc::clone(&store), id.clone()).await?;
    let mut workers = JoinSet::new();
    for (task, (fortune, pause)) in (0..).zip(CAST) {
        let (store, id, tags) = (Arc::clone(&store), id.clone(), tags.clone());
        workers.spawn(Worker { store, id, task, tags, fortune, pause }.work());
    }
    let screen = Screen::new(globals.output, &viewer);
    let (audience, ()) = tokio::try_join!(follow(&viewer, &screen), all_done(workers))?;
    // The bars draw their last frame, and leave what is below it to the table.
    drop(screen);
    if audience == Audience::Listening {
        let summary = viewer.summary(&Filter::job()).await?;
        output::show(globals.output, &Picture::new(&id, summary))?;
    }
    Ok(Exit::Done)
}

async fn all_done(mut workers: JoinSet<Result<()>>) -> Result<()> {
    while let Some(worker) = workers.join_next().await {
        worker.map_err(|error| {
            Error::new(ErrorKind::Closed, "a worker of the demo stopped").with_source(error)
        })??;
    }
    Ok(())
}

/// One task on one machine.
struct Worker {
    store: Arc<dyn JobStore>,
    id: JobId,
    task: u32,
    tags: Vec<Tag>,
    fortune: Fortune,
    pause: Duration,
}

impl Worker {
    async fn work(self) -> Result<()> {
        let mut manager = self.open().await?;
        for (tag, is_first) in self.tags.iter().zip([true, false]) {
            manager.set_started(tag.clone(), "").await?;
            self.advance(&manager, tag, &[20, 40]).await?;
            match self.fortune {
                Fortune::Warns if is_first => {
                    manager.set_warning(tag.clone(), "3 of 120 files skipped").await?;
                    self.rest().await;
                }
                Fortune::FailsOnce if !is_first => {
                    manager.set_error(tag.clone(), "disk full").await?;
                    self.rest().await;
                    // The restarted process: from here on the old one could write no more.
                    manager = self.open().await?;
                    manager.set_started(tag.clone(), "🟢 Started again").await?;
                    self.advance(&manager, tag, &[40]).await?;
                }
                Fortune::Smooth | Fortune::Warns | Fortune::FailsOnce => {}
            }
            self.advance(&manager, tag, &[60, 80]).await?;
            manager.set_finished(tag.clone(), "").await?;
        }
        Ok(())
    }

    async fn open(&self) -> Result<Manager> {
        let (store, id) = (Arc::clone(&self.store), self.id.clone());
        // The job is there, so its own number of tasks wins over this one.
        Manager::open(store, id, self.task, 1, ManagerOptions::default()).await
    }

    async fn advance(&self, manager: &Manager, tag: &Tag, percents: &[i32]) -> Result<()> {
        for &percent in percents {
            self.rest().await;
            let message = format!("{} of 120 files", 120 * percent / 100);
            manager.set_state(Draft::new(tag.clone(), Status(percent)).message(message)).await?;
        }
        self.rest().await;
        Ok(())
    }

    async fn rest(&self) {
        SystemClock.sleep(self.pause).await;
    }
}

/// Shows every change until the last task is done.
async fn follow(viewer: &Viewer, screen: &Screen) -> Result<Audience> {
    let mut steps = viewer.subscribe(Filter::job()).await?;
    let mut board = Board::default();
    while let Some(delivery) = steps.next().await {
        if let Step::Replay(report) | Step::Change(report) = &delivery.step {
            board.put(Arc::clone(report));
        }
        if screen.show(&delivery, &board)? == Audience::Gone {
            return Ok(Audience::Gone);
        }
        let reports = board.select(&Filter::job());
        if rules::standing(viewer.job(), &Filter::job(), &reports).status == Status::FINISHED {
            break;
        }
        if let Step::End(End::Failed(error)) = delivery.step {
            return Err(error);
        }
    }
    Ok(Audience::Listening)
}

/// Where the show is seen.
enum Screen {
    Bars(Vec<ProgressBar>),
    Lines,
    Json,
}

impl Screen {
    fn new(format: Format, viewer: &Viewer) -> Screen {
        match format {
            Format::Json => Screen::Json,
            Format::Table if !io::stdout().is_terminal() => Screen::Lines,
            Format::Table => {
                let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stdout());
                let bar = |task| {
                    let bar = bars.add(ProgressBar::new(100 * TAGS.len() as u64));
                    bar.set_style(style("{prefix} {bar:32} {percent:>3} %  {msg}"));
                    bar.set_prefix(format!("task {task}"));
                    bar
                };
                Screen::Bars(viewer.job().num_tasks.tasks().map(bar).collect())
            }
        }
    }

    fn show(&self, delivery: &Delivery<Arc<Report>>, board: &Board) -> Result<Audience> {
        let news = match &delivery.step {
            Step::Replay(report) | Step::Change(report) => Some(report),
            Step::SnapshotEnd { .. } | Step::Stale | Step::Live | Step::Reset | Step::End(_) => {
                None
            }
        };
        match (self, news) {
            (Screen::Json, _) => output::json_line(&Line::of(delivery)),
            (Screen::Lines, Some(report)) => {
                output::line(format!("task {}  {}", report.task, said(report)))
            }
            (Screen::Bars(bars), Some(report)) => {
                if let Some(bar) = bars.get(report.task.0 as usize) {
                    let filter = Filter::job().task(report.task);
                    let percents = board.select(&filter).into_iter();
                    bar.set_position(percents.map(|report| percent(report.status)).sum());
                    bar.set_message(said(report));
                }
                Ok(Audience::Listening)
            }
            (Screen::Lines | Screen::Bars(_), None) => Ok(Audience::Listening),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        match self {
            // The last frame stays, whether the show ended or was interrupted.
            Screen::Bars(bars) => bars.iter().for_each(ProgressBar::abandon),
            Screen::Lines | Screen::Json => {}
        }
    }
}

fn said(report: &Report) -> String {
    format!("{}: {}", report.tag, report.message)
}

/// How much of its work a status of this show stands for.
fn percent(status: Status) -> u64 {
    u64::try_from(status.0.clamp(0, 100)).unwrap_or(0)
}
