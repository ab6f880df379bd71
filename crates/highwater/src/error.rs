//! One error type. Ask it three things: what happened, did the write land, is a retry worth it?

use std::{borrow::Cow, fmt};

/// Any error as the source of ours.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What Highwater's calls return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A call failed.
///
/// [`kind`](Error::kind) says what happened, [`outcome`](Error::outcome) whether the write may have
/// landed, [`is_transient`](Error::is_transient) whether the same call may succeed later.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    field: Option<Cow<'static, str>>,
    detail: String,
    source: Option<BoxError>,
}

/// Closed on purpose: callers decide by it, so a new kind *should* break them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The input breaks a rule; [`Error::field`] names the part.
    Invalid,
    /// There is no such thing, or not in this life of it.
    NotFound,
    /// An event id was used before, for other content.
    Conflict,
    /// The writer was superseded by a newer one.
    Fenced,
    /// The job is marked as deleted: it can be read, not written.
    Tombstoned,
    /// A resume token is damaged or belongs to something else.
    BadToken,
    /// A resume token is older than the feed: begin anew.
    Gone,
    /// Another process owns the store's file.
    InUse,
    /// This build, or this engine, cannot do that.
    Unsupported,
    /// No room left: reads go on, writes are refused until there is room.
    Full,
    /// Refused before anything was done; later may be better.
    Busy,
    /// The store cannot be reached; nothing was sent.
    Unavailable,
    /// Sent, and never answered.
    Interrupted,
    /// This handle was closed by its owner.
    Closed,
    /// The stored bytes make no sense.
    Corrupt,
}

/// What is known of a write whose call returned an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Nothing was changed.
    NotApplied,
    /// It may have landed. Only an idempotent call may be repeated.
    Unknown,
}

impl ErrorKind {
    /// Every kind, in the order of their declaration.
    pub const ALL: [ErrorKind; 15] = [
        ErrorKind::Invalid,
        ErrorKind::NotFound,
        ErrorKind::Conflict,
        ErrorKind::Fenced,
        ErrorKind::Tombstoned,
        ErrorKind::BadToken,
        ErrorKind::Gone,
        ErrorKind::InUse,
        ErrorKind::Unsupported,
        ErrorKind::Full,
        ErrorKind::Busy,
        ErrorKind::Unavailable,
        ErrorKind::Interrupted,
        ErrorKind::Closed,
        ErrorKind::Corrupt,
    ];

    // No wildcard arms: whoever adds a kind answers these questions, or does not compile.

    /// Whether a write that failed like this may have landed.
    pub fn outcome(self) -> Outcome {
        match self {
            ErrorKind::Invalid
            | ErrorKind::NotFound
            | ErrorKind::Conflict
            | ErrorKind::Fenced
            | ErrorKind::Tombstoned
            | ErrorKind::BadToken
            | ErrorKind::Gone
            | ErrorKind::InUse
            | ErrorKind::Unsupported
            | ErrorKind::Full
            | ErrorKind::Busy
            | ErrorKind::Unavailable
            | ErrorKind::Closed
            | ErrorKind::Corrupt => Outcome::NotApplied,
            ErrorKind::Interrupted => Outcome::Unknown,
        }
    }

    /// Whether the same call may succeed later. If its outcome is unknown, it must be idempotent.
    pub fn is_transient(self) -> bool {
        match self {
            ErrorKind::Busy | ErrorKind::Unavailable | ErrorKind::Interrupted => true,
            ErrorKind::Invalid
            | ErrorKind::NotFound
            | ErrorKind::Conflict
            | ErrorKind::Fenced
            | ErrorKind::Tombstoned
            | ErrorKind::BadToken
            | ErrorKind::Gone
            | ErrorKind::InUse
            | ErrorKind::Unsupported
            | ErrorKind::Full
            | ErrorKind::Closed
            | ErrorKind::Corrupt => false,
        }
    }

    /// The kind of this name; `None` for one that this build does not know.
    pub fn named(name: &str) -> Option<ErrorKind> {
        ErrorKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// A stable name for the wire and for logs.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::Invalid => "invalid",
            ErrorKind::NotFound => "not_found",
            ErrorKind::Conflict => "conflict",
            ErrorKind::Fenced => "fenced",
            ErrorKind::Tombstoned => "tombstoned",
            ErrorKind::BadToken => "bad_token",
            ErrorKind::Gone => "gone",
            ErrorKind::InUse => "in_use",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::Full => "full",
            ErrorKind::Busy => "busy",
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::Interrupted => "interrupted",
            ErrorKind::Closed => "closed",
            ErrorKind::Corrupt => "corrupt",
        }
    }
}

impl Error {
    /// An error of `kind`; `detail` is a lower-case sentence without a full stop.
    pub fn new(kind: ErrorKind, detail: impl Into<String>) -> Error {
        Error(Box::new(Inner { kind, field: None, detail: detail.into(), source: None }))
    }

    /// Input that breaks a rule: the field, the value as it came, and the rule.
    pub fn invalid(field: &'static str, value: impl fmt::Display, rule: &str) -> Error {
        let detail = format!("{field} `{}` {rule}", shown(&value.to_string()));
        Error::new(ErrorKind::Invalid, detail).with_field(field)
    }

    /// The same error, about this part of the input.
    #[must_use]
    pub fn with_field(mut self, field: impl Into<Cow<'static, str>>) -> Error {
        self.0.field = Some(field.into());
        self
    }

    /// The same error with the foreign error that caused it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Error {
        self.0.source = Some(source.into());
        self
    }

    /// What happened.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Which part of the input was refused, if one was.
    pub fn field(&self) -> Option<&str> {
        self.0.field.as_deref()
    }

    /// Whether the write may have landed.
    pub fn outcome(&self) -> Outcome {
        self.0.kind.outcome()
    }

    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        self.0.kind.is_transient()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.detail)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| &**source as &(dyn std::error::Error + 'static))
    }
}

/// A value fit for an error message: bounded, and with nothing a terminal would act on.
fn shown(value: &str) -> String {
    const CHARS_MAX: usize = 64;
    let mut text: String = value.chars().take(CHARS_MAX).flat_map(char::escape_debug).collect();
    if value.chars().nth(CHARS_MAX).is_some() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_sent_and_never_answered_may_have_landed() {
        for kind in ErrorKind::ALL {
            let unknown = kind.outcome() == Outcome::Unknown;
            assert_eq!(unknown, kind == ErrorKind::Interrupted, "{kind:?}");
        }
    }

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        let names: std::collections::HashSet<_> = ErrorKind::ALL.map(ErrorKind::name).into();
        assert_eq!(names.len(), ErrorKind::ALL.len());
        for kind in ErrorKind::ALL {
            assert_eq!(ErrorKind::named(kind.name()), Some(kind));
        }
    }

    #[test]
    fn an_invalid_value_is_shown_escaped_and_bounded() {
        let error = Error::invalid("tag", "a\u{7}\n".to_owned() + &"x".repeat(500), "is too long");
        let text = error.to_string();
        assert!(text.starts_with("tag `a\\u{7}\\nxxx"), "{text}");
        assert!(text.len() < 120, "{text}");
        assert_eq!(error.field(), Some("tag"));
    }

    #[test]
    fn the_source_is_the_next_link_of_the_chain() {
        let error = Error::new(ErrorKind::Busy, "set failed").with_source("locked");
        assert_eq!(error.to_string(), "set failed");
        assert_eq!(
            std::error::Error::source(&error).map(ToString::to_string).as_deref(),
            Some("locked")
        );
    }
}
