//! Following a job: a table that redraws itself, or one JSON line per step.

use std::{
    io::{self, IsTerminal},
    sync::Arc,
    time::Duration,
};

use clap::Args;
use highwater::{
    ErrorKind, Result,
    feed::{Delivery, End, Seq, Start, Step, Token},
    jobs::{Filter, Report, Viewer},
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::{Look, picture::Picture};
use crate::{
    Exit, Globals,
    output::{self, Answer, Audience, Format},
};

pub(super) const EXAMPLES: &str = "\
Examples:
  highwater jobs watch nightly                      # on a terminal: a live table
  highwater jobs watch nightly --tag ingest -o json # one JSON line per step
  highwater jobs watch nightly --from TOKEN         # goes on behind the line with this token

Lines have \"event\": replay, snapshot_end, put, stale, live, reset or end. They are also what a
pipe gets, and --from. Ends with 0 when the job is deleted, and on Ctrl-C.";

#[derive(Debug, Args)]
pub(crate) struct Watch {
    #[command(flatten)]
    look: Look,
    /// Goes on where an earlier watch stopped: the `token` of the last line it wrote
    #[arg(long, value_name = "TOKEN")]
    from: Option<String>,
}

impl Watch {
    pub(super) async fn run(self, globals: &Globals) -> Result<Exit> {
        let (viewer, filter) = self.look.open(globals).await?;
        let for_people = globals.output == Format::Table && io::stdout().is_terminal();
        match self.from {
            // What comes behind a token is no whole picture, so there is no table of it.
            Some(token) => {
                let start = Start::After(Token::from_text(token));
                output::until_interrupted(lines(&viewer, filter, start)).await
            }
            None if for_people => live_table(&viewer, filter).await,
            None => output::until_interrupted(lines(&viewer, filter, Start::Snapshot)).await,
        }
    }
}

async fn lines(viewer: &Viewer, filter: Filter, start: Start) -> Result<Exit> {
    let mut steps = viewer.subscribe_from(filter, start).await?;
    while let Some(delivery) = steps.next().await {
        if output::json_line(&Line::of(&delivery))? == Audience::Gone {
            break;
        }
        match delivery.step {
            Step::End(End::Failed(error)) => return Err(error),
            Step::End(End::Deleted) => note_deleted(viewer),
            Step::End(End::Cancelled)
            | Step::Replay(_)
            | Step::SnapshotEnd { .. }
            | Step::Change(_)
            | Step::Stale
            | Step::Live
            | Step::Reset => {}
        }
    }
    Ok(Exit::Done)
}

fn note_deleted(viewer: &Viewer) {
    output::note(&format!("job `{}` was deleted", viewer.job().id));
}

async fn live_table(viewer: &Viewer, filter: Filter) -> Result<Exit> {
    /// Drawing is limited to some frames a second; this draws the frame that came too early.
    const REDRAW_INTERVAL: Duration = Duration::from_millis(200);
    let screen = ProgressBar::with_draw_target(None, ProgressDrawTarget::stdout());
    screen.set_style(style("{msg}"));
    screen.enable_steady_tick(REDRAW_INTERVAL);
    let ended = output::until_interrupted(redraw(&screen, viewer, filter)).await;
    screen.abandon();
    ended
}

async fn redraw(screen: &ProgressBar, viewer: &Viewer, filter: Filter) -> Result<Exit> {
    let mut pictures = viewer.watch_summary(filter).await?;
    while let Some(summary) = pictures.next().await {
        match summary {
            Ok(summary) => {
                let picture = Picture::live(&viewer.job().id, summary);
                let left_out =
                    picture.left_out().map_or_else(String::new, |note| format!("\n{note}"));
                screen.set_message(picture.table() + &left_out);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                screen.suspend(|| note_deleted(viewer));
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Exit::Done)
}

/// A style of ours; a template that cannot be read falls back to a plain bar.
pub(crate) fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// One step of a subscription as one line of JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Line<'a> {
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'a Report>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<Seq>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// Resumes behind this line; `null` if there is nothing to resume yet.
    token: Option<Token>,
}

impl<'a> Line<'a> {
    pub(crate) fn of(delivery: &'a Delivery<Arc<Report>>) -> Line<'a> {
        let token = delivery.token();
        let plain =
            Line { event: "", state: None, revision: None, count: None, reason: None, token };
        match &delivery.step {
            Step::Replay(report) => Line { event: "replay", state: Some(report), ..plain },
            Step::SnapshotEnd { revision, count } => Line {
                event: "snapshot_end",
                revision: Some(*revision),
                count: Some(*count),
                ..plain
            },
            Step::Change(report) => Line { event: "put", state: Some(report), ..plain },
            Step::Stale => Line { event: "stale", ..plain },
            Step::Live => Line { event: "live", ..plain },
            Step::Reset => Line { event: "reset", ..plain },
            Step::End(end) => Line { event: "end", reason: Some(reason(end)), ..plain },
        }
    }
}

fn reason(end: &End) -> &'static str {
    match end {
        End::Cancelled => "cancelled",
        End::Deleted => "deleted",
        End::Failed(_) => "failed",
    }
}
