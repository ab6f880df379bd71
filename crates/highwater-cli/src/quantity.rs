//! Spans of time and amounts of memory, as people write them.

use std::{fmt, str::FromStr, time::Duration};

use jiff::{Span, SpanRelativeTo};

/// A span of time: `500ms`, `30s`, `5m`, `2h`, `7d`. A day has 24 hours here: nobody waits for a
/// calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeSpan(pub(crate) Duration);

impl TimeSpan {
    /// Parses a span that must not be empty.
    pub(crate) fn positive(text: &str) -> Result<TimeSpan, String> {
        match text.parse()? {
            TimeSpan(Duration::ZERO) => Err("must be longer than no time at all".to_owned()),
            span => Ok(span),
        }
    }
}

impl FromStr for TimeSpan {
    type Err = String;

    fn from_str(text: &str) -> Result<TimeSpan, String> {
        let parsed = text
            .parse::<Span>()
            .and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()))
            .ok()
            .and_then(|span| Duration::try_from(span).ok());
        parsed
            .map(TimeSpan)
            .ok_or_else(|| "must be a span of time such as 500ms, 30s, 5m, 2h or 7d".to_owned())
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u128, &str); 4] =
            [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
        let millis = self.0.as_millis();
        if millis == 0 {
            return f.write_str("0s");
        }
        match UNITS.iter().find(|(unit, _)| millis.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", millis / unit),
            None => write!(f, "{millis}ms"),
        }
    }
}

/// For how long to keep what is done: `off` (for ever) or a span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Nothing is removed.
    Forever,
    /// Removed after this time.
    For(TimeSpan),
}

impl Keep {
    const FOREVER: &str = "off";
}

impl From<Option<Duration>> for Keep {
    fn from(limit: Option<Duration>) -> Keep {
        limit.map_or(Keep::Forever, |limit| Keep::For(TimeSpan(limit)))
    }
}

impl From<Keep> for Option<Duration> {
    fn from(keep: Keep) -> Option<Duration> {
        match keep {
            Keep::Forever => None,
            Keep::For(TimeSpan(limit)) => Some(limit),
        }
    }
}

impl FromStr for Keep {
    type Err = String;

    fn from_str(text: &str) -> Result<Keep, String> {
        if text == Keep::FOREVER {
            return Ok(Keep::Forever);
        }
        let or_off = |why| format!("{why}, or `{}`", Keep::FOREVER);
        TimeSpan::positive(text).map(Keep::For).map_err(or_off)
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Keep::Forever => f.write_str(Keep::FOREVER),
            Keep::For(span) => span.fmt(f),
        }
    }
}

/// An amount of memory: plain bytes, `64KiB` or `1MiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) usize);

const BYTE_UNITS: [(usize, &str); 2] = [(1024 * 1024, "MiB"), (1024, "KiB")];

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Bytes, String> {
        let split = |&(unit, name): &(usize, &str)| Some((text.strip_suffix(name)?, unit));
        let (number, unit) = BYTE_UNITS.iter().find_map(split).unwrap_or((text, 1));
        let bytes = number.parse().ok().and_then(|number: usize| number.checked_mul(unit));
        bytes
            .filter(|bytes| *bytes > 0)
            .map(Bytes)
            .ok_or_else(|| "must be a number of bytes such as 65536, 64KiB or 1MiB".to_owned())
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match BYTE_UNITS.iter().find(|(unit, _)| self.0.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_time_as_people_write_them() {
        let cases = [
            ("0s", 0, "0s"),
            ("500ms", 500, "500ms"),
            ("30s", 30_000, "30s"),
            ("5m", 300_000, "5m"),
            ("120m", 7_200_000, "2h"),
            ("7d", 604_800_000, "7d"),
            ("1h 30m", 5_400_000, "90m"),
        ];
        for (text, millis, shown) in cases {
            let span = text.parse::<TimeSpan>().unwrap();
            assert_eq!(span, TimeSpan(Duration::from_millis(millis)), "{text}");
            assert_eq!(span.to_string(), shown);
        }
        for text in ["", "30", "-5s", "1mo", "soon"] {
            assert!(text.parse::<TimeSpan>().is_err(), "{text}");
        }
        assert!(TimeSpan::positive("0s").is_err() && TimeSpan::positive("1ms").is_ok());
    }

    #[test]
    fn what_is_kept_for_ever_is_off() {
        assert_eq!("off".parse(), Ok(Keep::Forever));
        assert_eq!("30d".parse::<Keep>().unwrap().to_string(), "30d");
        assert!("0s".parse::<Keep>().is_err());
        assert!("on".parse::<Keep>().unwrap_err().ends_with("or `off`"));
    }

    #[test]
    fn amounts_of_memory_as_people_write_them() {
        for (text, bytes, shown) in
            [("100", 100, "100"), ("65536", 65_536, "64KiB"), ("1MiB", 1 << 20, "1MiB")]
        {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
            assert_eq!(Bytes(bytes).to_string(), shown);
        }
        for text in ["", "0", "-1", "64KB", "KiB", "1.5MiB", "99999999999999999999MiB"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }
}
