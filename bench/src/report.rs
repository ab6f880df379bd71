//! How figures are gathered and printed.

use std::{cmp::Ordering, fmt, time::Duration};

use hdrhistogram::Histogram;

use crate::Result;

/// The longest latency that is told apart from longer ones.
const LATENCY_MAX: Duration = Duration::from_mins(10);

/// How long each of many calls took.
pub(crate) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(crate) fn of(latencies: impl IntoIterator<Item = Duration>) -> Result<Latencies> {
        let mut histogram = Histogram::new_with_max(nanos(LATENCY_MAX), 3)?;
        for latency in latencies {
            histogram.saturating_record(nanos(latency));
        }
        Ok(Latencies(histogram))
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len()
    }

    /// What `total` is for each of them.
    #[expect(clippy::cast_precision_loss, reason = "no count here comes near 2^52")]
    pub(crate) fn share(&self, total: Duration) -> Span {
        Span(total.div_f64(self.count() as f64))
    }

    pub(crate) fn p50(&self) -> Span {
        self.quantile(0.5)
    }

    pub(crate) fn p99(&self) -> Span {
        self.quantile(0.99)
    }

    pub(crate) fn max(&self) -> Span {
        Span(Duration::from_nanos(self.0.max()))
    }

    fn quantile(&self, quantile: f64) -> Span {
        Span(Duration::from_nanos(self.0.value_at_quantile(quantile)))
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// A span of time, printed with three digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span(pub(crate) Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        let (value, unit) = match seconds {
            ..1e-3 => (seconds * 1e6, "µs"),
            1e-3..1.0 => (seconds * 1e3, "ms"),
            _ => (seconds, "s"),
        };
        let decimals = match value {
            ..10.0 => 2,
            10.0..100.0 => 1,
            _ => 0,
        };
        write!(f, "{value:.decimals$} {unit}")
    }
}

/// How many in a second.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(crate) struct Rate(f64);

impl Rate {
    #[expect(clippy::cast_precision_loss, reason = "no count here comes near 2^52")]
    pub(crate) fn of(count: u64, elapsed: Duration) -> Rate {
        Rate(count as f64 / elapsed.as_secs_f64())
    }

    pub(crate) fn total_cmp(self, other: Rate) -> Ordering {
        self.0.total_cmp(&other.0)
    }

    /// Whether this rate is at least so many times another.
    pub(crate) fn is_times(self, times: f64, other: Rate) -> bool {
        self.0 >= times * other.0
    }

    /// This rate as a share of another.
    pub(crate) fn share_of(self, other: Rate) -> String {
        format!("{:.2}", self.0 / other.0)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&grouped(&format!("{:.0}", self.0)))
    }
}

/// Digits in groups of three: `12,345`.
fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count in groups of three digits.
pub(crate) fn count(count: impl fmt::Display) -> String {
    grouped(&count.to_string())
}

/// Whether a goal of the contract is met.
pub(crate) fn verdict(measured: Span, goal: Duration) -> &'static str {
    if measured <= Span(goal) { "met" } else { "not met" }
}

/// A table in Markdown, printed row by row as the figures come.
pub(crate) struct Table {
    columns: usize,
}

impl Table {
    pub(crate) fn begin(title: &str, note: &str, columns: &[&str]) -> Table {
        println!("\n### {title}\n\n{note}\n");
        println!("| {} |", columns.join(" | "));
        println!("|{}", "---:|".repeat(columns.len()));
        Table { columns: columns.len() }
    }

    pub(crate) fn row(&self, cells: &[&dyn fmt::Display]) {
        debug_assert_eq!(cells.len(), self.columns);
        let cells: Vec<_> = cells.iter().map(ToString::to_string).collect();
        println!("| {} |", cells.join(" | "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_three_digits_and_a_fitting_unit() {
        let cases = [
            (850, "0.85 µs"),
            (12_340, "12.3 µs"),
            (999_400, "999 µs"),
            (2_346_000, "2.35 ms"),
            (1_500_000_000, "1.50 s"),
        ];
        for (nanos, text) in cases {
            assert_eq!(Span(Duration::from_nanos(nanos)).to_string(), text);
        }
    }

    #[test]
    fn counts_are_grouped_by_thousands() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), text);
        }
    }
}
