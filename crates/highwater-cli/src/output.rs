//! Data on stdout, as a table or as JSON; everything else on stderr.

use std::{
    future::Future,
    io::{self, Write},
};

use clap::ValueEnum;
use comfy_table::{ContentArrangement, Table, presets};
use highwater::{Error, ErrorKind, Result};
use serde::Serialize;

use crate::Exit;

/// Who reads stdout.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// People
    #[default]
    Table,
    /// Programs: one JSON value per line
    Json,
}

/// Whether anybody still reads stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    Listening,
    /// The pipe was closed, as `head` does: a reason to stop, and no error.
    Gone,
}

/// What a verb answers: the same facts for programs (its JSON) and for people.
pub(crate) trait Answer: Serialize {
    /// The facts as a table, without a line break at its end.
    fn table(&self) -> String;
}

/// Answers in the format that was asked for.
pub(crate) fn show(format: Format, answer: &impl Answer) -> Result<Audience> {
    match format {
        Format::Table => line(answer.table()),
        Format::Json => json_line(answer),
    }
}

/// Writes one JSON value as one line.
pub(crate) fn json_line(value: &impl Serialize) -> Result<Audience> {
    let json = serde_json::to_string(value).map_err(|error| lost(error.into()))?;
    line(json)
}

/// Writes a text and a line break.
pub(crate) fn line(mut text: String) -> Result<Audience> {
    text.push('\n');
    write(text.as_bytes())
}

/// Writes to stdout.
pub(crate) fn write(bytes: &[u8]) -> Result<Audience> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(Audience::Listening),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Audience::Gone),
        Err(error) => Err(lost(error)),
    }
}

fn lost(error: io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, "cannot write to stdout").with_source(error)
}

/// Tells the user something that is not data.
pub(crate) fn note(text: &str) {
    // Unlike `eprintln!` it does not panic: nobody is left to tell.
    let _ = writeln!(io::stderr(), "{text}");
}

/// Begins a line on stderr that somebody else will finish.
pub(crate) fn mark(mark: &str) {
    let _ = write!(io::stderr(), "{mark}");
}

/// A table in plain columns: the eye needs no lines, and `awk` has none to skip.
pub(crate) fn table<const COLUMNS: usize>(
    header: [&str; COLUMNS],
    rows: impl IntoIterator<Item = [String; COLUMNS]>,
) -> String {
    const GAP: (u16, u16) = (0, 2);
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header).add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding(GAP);
    }
    table.trim_fmt()
}

/// A text of somebody else's in one line, with nothing that a terminal would act on.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Works until it is done or the user presses Ctrl-C, which is how one ends what has no end.
pub(crate) async fn until_interrupted(work: impl Future<Output = Result<Exit>>) -> Result<Exit> {
    tokio::select! {
        // The signal first: it is listened for before the first line is written.
        biased;
        Ok(()) = tokio::signal::ctrl_c() => Ok(Exit::Done),
        done = work => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_cannot_act_on_the_terminal() {
        assert_eq!(printable("🔴 a\n\u{1b}[2Jb"), "🔴 a\\n\\u{1b}[2Jb");
    }

    #[test]
    fn a_table_has_plain_columns() {
        let row = ["a", "1"].map(str::to_owned);
        assert_eq!(table(["JOB", "TASKS"], [row]), "JOB  TASKS\na    1");
    }
}
