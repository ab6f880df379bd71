//! Logs on stderr. For people an error line starts with 🔴, a warning with 🟡; programs get JSON.

use std::{
    fmt,
    io::{self, IsTerminal},
};

use tracing::{Event, Level, Subscriber, level_filters::LevelFilter};
use tracing_subscriber::{
    EnvFilter,
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{self, Compact, Format, Writer},
        time::FormatTime,
    },
    registry::LookupSpan,
};

use crate::settings::LogFormat;

/// Sends the logs of a command to stderr; `HIGHWATER_LOG` says which.
pub(crate) fn start() {
    let levels = EnvFilter::builder()
        .with_env_var("HIGHWATER_LOG")
        .with_default_directive(LevelFilter::WARN.into())
        .from_env_lossy();
    send(levels, LogFormat::Text);
}

/// Sends the logs of a server to stderr. The levels have passed [`check_levels`].
pub(crate) fn start_as(levels: &str, format: LogFormat) {
    send(EnvFilter::builder().parse_lossy(levels), format);
}

/// Refuses levels that cannot be read.
pub(crate) fn check_levels(levels: &str) -> Result<String, String> {
    match EnvFilter::builder().parse(levels) {
        Ok(_) => Ok(levels.to_owned()),
        Err(error) => Err(format!("must be a level such as info, or module=level: {error}")),
    }
}

fn send(levels: EnvFilter, format: LogFormat) {
    let logs = tracing_subscriber::fmt().with_env_filter(levels).with_writer(io::stderr);
    match format {
        LogFormat::Text => logs
            .with_ansi(io::stderr().is_terminal())
            .event_format(Marked(format::format().compact()))
            .init(),
        LogFormat::Json => logs.json().flatten_event(true).init(),
    }
}

/// The usual line behind a mark that the eye finds.
struct Marked<T>(Format<Compact, T>);

impl<S, N, T> FormatEvent<S, N> for Marked<T>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    T: FormatTime,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        match *event.metadata().level() {
            Level::ERROR => writer.write_str("🔴 ")?,
            Level::WARN => writer.write_str("🟡 ")?,
            Level::INFO | Level::DEBUG | Level::TRACE => {}
        }
        self.0.format_event(context, writer, event)
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Read, sync::Arc};

    use super::*;

    #[test]
    fn errors_and_warnings_are_marked() {
        let (mut reader, writer) = io::pipe().unwrap();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(Arc::new(writer))
            .with_ansi(false)
            .event_format(Marked(format::format().compact().without_time()))
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            tracing::error!(task = 3, "lost");
            tracing::warn!("slow");
            tracing::info!("fine");
        });
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        let lines: Vec<_> = text.lines().map(str::trim_start).collect();
        assert!(lines[0].starts_with("🔴 ERROR") && lines[0].ends_with("lost task=3"), "{text}");
        assert!(lines[1].starts_with("🟡") && lines[1].ends_with("slow"), "{text}");
        assert!(lines[2].starts_with("INFO"), "{text}");
    }
}
