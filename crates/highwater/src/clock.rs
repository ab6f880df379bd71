//! Time comes in through the door: whoever needs it takes a [`Clock`].

use std::{fmt, future::Future, pin::Pin, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A moment in UTC, to the microsecond. On the wire it is RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(value_type = String, format = DateTime))]
pub struct Timestamp(i64);

impl Timestamp {
    /// From microseconds since 1970.
    pub const fn from_micros(micros: i64) -> Timestamp {
        Timestamp(micros)
    }

    /// Microseconds since 1970.
    pub fn as_micros(self) -> i64 {
        self.0
    }

    /// This moment less `span`; the earliest moment there is if that is before all time.
    #[must_use]
    pub fn earlier_by(self, span: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(moment) => write!(f, "{moment:.6}"),
            // Outside the years −9999 to 9999: a clock that is this wrong is shown as it is.
            Err(_) => write!(f, "{}us", self.0),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(deserializer)?;
        let moment: jiff::Timestamp = text.parse().map_err(de::Error::custom)?;
        Ok(Timestamp(moment.as_microsecond()))
    }
}

/// What [`Clock::sleep`] returns.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Tells the time. The one in production asks the system; the one in tests is told.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// Ready once `span` has passed on this clock.
    fn sleep(&self, span: Duration) -> Sleep;
}

/// The system's clock, with tokio's timers.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the door that time comes in through")]
    fn now(&self) -> Timestamp {
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let micros = since_1970.map_or_else(
            |before_1970| -i128::try_from(before_1970.duration().as_micros()).unwrap_or(i128::MAX),
            |span| i128::try_from(span.as_micros()).unwrap_or(i128::MAX),
        );
        Timestamp(i64::try_from(micros).unwrap_or(if micros < 0 { i64::MIN } else { i64::MAX }))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the door that time comes in through")]
    fn sleep(&self, span: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_is_rfc_3339_on_the_wire_and_round_trips() {
        let moment = Timestamp::from_micros(1_717_245_296_000_789);
        let text = serde_json::to_string(&moment).unwrap();
        assert_eq!(text, "\"2024-06-01T12:34:56.000789Z\"");
        assert_eq!(serde_json::from_str::<Timestamp>(&text).unwrap(), moment);
    }

    #[test]
    fn going_back_before_all_time_stops_at_its_beginning() {
        let moment = Timestamp::from_micros(0).earlier_by(Duration::MAX);
        assert_eq!(moment.as_micros(), -i64::MAX);
    }
}
