//! `highwater events`: everything that happens, as it happens.

use std::sync::Arc;

use clap::Args;
use futures_util::StreamExt as _;
use highwater::{
    Result,
    feed::{Delivery, Domain, End, FeedEvent, Follow, FollowEvents, Patience, Start, Step, Token},
    jobs::JobEvent,
};
use highwater_stores::remote::wire;
use serde::Serialize;

use crate::{
    Exit, Globals,
    output::{self, Audience, Format, printable},
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  highwater events                       # one line per event, from now on
  highwater events --domain jobs -o json # one JSON object per line: event, data, token
  highwater events -o json --from TOKEN  # goes on behind the line with this token

In JSON \"event\" is snapshot_end (it begins here), put (data is the event), stale, live, reset or
end, as over HTTP. Ends with 0 on Ctrl-C.";

/// Which events.
#[derive(Debug, Args)]
pub(crate) struct Events {
    /// Only those of this domain: jobs
    #[arg(long)]
    domain: Option<Domain>,
    /// Goes on where an earlier one stopped: the `token` of the last JSON line it wrote
    #[arg(long, value_name = "TOKEN")]
    from: Option<String>,
}

impl Events {
    pub(crate) async fn run(self, globals: &Globals) -> Result<Exit> {
        let start = self.from.map_or(Start::Snapshot, |text| Start::After(Token::from_text(text)));
        let feed = globals.place.open().await?.events;
        let request = FollowEvents { domain: self.domain, start, patience: Patience::default() };
        let steps = feed.follow_events(request).await?;
        output::until_interrupted(follow(steps, globals.output)).await
    }
}

async fn follow(mut steps: Follow<Arc<FeedEvent>>, format: Format) -> Result<Exit> {
    if format == Format::Table && output::line(columns(&HEADER))? == Audience::Gone {
        return Ok(Exit::Done);
    }
    while let Some(delivery) = steps.next().await {
        let audience = match format {
            Format::Json => output::json_line(&Line::of(&delivery))?,
            Format::Table => told(&delivery.step)?,
        };
        if audience == Audience::Gone {
            break;
        }
        if let Step::End(End::Failed(error)) = delivery.step {
            return Err(error);
        }
    }
    Ok(Exit::Done)
}

/// Tells people of one step: an event is data, the rest is news about the feed itself.
fn told(step: &Step<Arc<FeedEvent>>) -> Result<Audience> {
    let news = match step {
        Step::Replay(event) | Step::Change(event) => return output::line(columns(&row(event)?)),
        Step::SnapshotEnd { .. } | Step::End(End::Failed(_)) => return Ok(Audience::Listening),
        Step::Stale => "🟡 the store is away",
        Step::Live => "🟢 the store is back, and nothing was lost",
        Step::Reset => "🟡 events that were missed have left the feed: it goes on with new ones",
        Step::End(End::Deleted | End::Cancelled) => "the feed has ended",
    };
    output::note(news);
    Ok(Audience::Listening)
}

const HEADER: [&str; 7] = ["AT", "KIND", "JOB", "TASK", "TAG", "STATUS", "MESSAGE"];

/// What a column is at least wide: lines come one by one, so no later one can widen it.
const WIDTHS: [usize; 7] = [27, 14, 20, 4, 12, 8, 0];

fn columns(cells: &[impl AsRef<str>; 7]) -> String {
    let cells = cells.iter().zip(WIDTHS).map(|(cell, width)| format!("{:width$}", cell.as_ref()));
    cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

fn row(event: &FeedEvent) -> Result<[String; 7]> {
    let [at, kind] = [event.at.to_string(), event.kind.clone()];
    let row = match event.domain {
        Domain::Jobs => match JobEvent::parse(&event.kind, event.body.get())? {
            JobEvent::Put(report) => {
                let [job, task] = [report.job.to_string(), report.task.to_string()];
                let [tag, status] = [report.tag.to_string(), report.status.to_string()];
                [at, kind, job, task, tag, status, printable(&report.message)]
            }
            JobEvent::Created(job) | JobEvent::Tombstoned(job) | JobEvent::Deleted(job) => {
                let nothing = || "-".to_owned();
                let tasks = format!("{} tasks", job.num_tasks.get());
                [at, kind, job.id.to_string(), nothing(), nothing(), nothing(), tasks]
            }
        },
    };
    Ok(row)
}

/// One step as one line of JSON, in the words of HTTP.
#[derive(Debug, Serialize)]
struct Line<'a> {
    event: &'static str,
    data: Data<'a>,
    /// Resumes behind this line; `null` if there is nothing to resume yet.
    token: Option<Token>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Data<'a> {
    Event(&'a FeedEvent),
    SnapshotEnd(wire::SnapshotEnd),
    Ended(wire::Ended),
    Nothing {},
}

impl<'a> Line<'a> {
    fn of(delivery: &'a Delivery<Arc<FeedEvent>>) -> Line<'a> {
        let (event, data) = match &delivery.step {
            Step::Replay(event) => ("replay", Data::Event(event)),
            Step::Change(event) => ("put", Data::Event(event)),
            &Step::SnapshotEnd { revision, count } => {
                ("snapshot_end", Data::SnapshotEnd(wire::SnapshotEnd { revision, count }))
            }
            Step::Stale => ("stale", Data::Nothing {}),
            Step::Live => ("live", Data::Nothing {}),
            Step::Reset => ("reset", Data::Nothing {}),
            Step::End(end) => ("end", Data::Ended(end.into())),
        };
        Line { event, data, token: delivery.token() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other_and_end_without_space() {
        let cells = ["t", "job.put", "nightly", "0", "ingest", "1", ""];
        let (header, line) = (columns(&HEADER), columns(&cells));
        assert_eq!(header.find("STATUS"), line.find('1'), "{header}\n{line}");
        assert!(line.ends_with('1'), "{line}");
    }
}
