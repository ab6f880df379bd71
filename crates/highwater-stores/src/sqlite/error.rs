//! The only place that knows SQLite's result codes.

use highwater::{Error, ErrorKind};
use rusqlite::{ErrorCode, ffi};

/// What was being done when SQLite failed: it decides what is known of the write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Before the commit: whatever was done is rolled back.
    Statement,
    /// In the commit.
    Commit,
}

pub(super) fn translate(stage: Stage, error: rusqlite::Error) -> Error {
    use ErrorCode as Code;
    let extended = error.sqlite_error().map(|sqlite| sqlite.extended_code);
    let is_full = extended == Some(ffi::SQLITE_IOERR_SHMSIZE);
    let (kind, detail) = match error.sqlite_error_code() {
        Some(Code::DiskFull) => (ErrorKind::Full, FULL),
        _ if is_full => (ErrorKind::Full, FULL),
        Some(Code::DatabaseBusy | Code::DatabaseLocked) => {
            (ErrorKind::Busy, "the embedded file is busy")
        }
        Some(Code::DatabaseCorrupt | Code::NotADatabase) => {
            (ErrorKind::Corrupt, "the embedded file is damaged: restore it from a backup")
        }
        // The rules are asked before anything is written, so a constraint only speaks up when the
        // file contradicts itself.
        Some(Code::ConstraintViolation) => {
            (ErrorKind::Corrupt, "the embedded file contradicts itself")
        }
        Some(Code::ReadOnly) => {
            (ErrorKind::Unsupported, "the embedded file is read-only for this process")
        }
        Some(Code::CannotOpen) => (ErrorKind::Unavailable, "the embedded file cannot be opened"),
        // Not understood, so the most careful answer that is true at this stage.
        _ => match stage {
            Stage::Statement => {
                (ErrorKind::Unavailable, "the embedded file cannot be read or written")
            }
            Stage::Commit => {
                (ErrorKind::Interrupted, "the commit failed: the write may or may not be on disk")
            }
        },
    };
    Error::new(kind, detail).with_source(error)
}

const FULL: &str = "no room left on the disk of the embedded file: reads go on, writes are refused until there is \
     room. Free space on that disk by other means: deleting jobs needs room too";

pub(super) fn in_statement(error: rusqlite::Error) -> Error {
    translate(Stage::Statement, error)
}

/// Stored bytes that make no sense.
pub(super) fn corrupt(what: &str, error: impl Into<highwater::error::BoxError>) -> Error {
    let detail = format!("{what} in the embedded file cannot be read: restore it from a backup");
    Error::new(ErrorKind::Corrupt, detail).with_source(error)
}

#[cfg(test)]
mod tests {
    use highwater::Outcome;

    use super::*;

    fn failure(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn only_a_commit_can_leave_a_write_in_doubt() {
        for code in [
            ffi::SQLITE_IOERR,
            ffi::SQLITE_FULL,
            ffi::SQLITE_BUSY,
            ffi::SQLITE_IOERR_SHMSIZE,
            9_999,
        ] {
            assert_eq!(in_statement(failure(code)).outcome(), Outcome::NotApplied, "{code}");
        }
        assert_eq!(
            translate(Stage::Commit, failure(ffi::SQLITE_IOERR_FSYNC)).outcome(),
            Outcome::Unknown
        );
        assert_eq!(
            translate(Stage::Commit, failure(ffi::SQLITE_FULL)).outcome(),
            Outcome::NotApplied
        );
    }

    #[test]
    fn a_full_disk_is_called_by_its_name() {
        for code in [ffi::SQLITE_FULL, ffi::SQLITE_IOERR_SHMSIZE] {
            assert_eq!(in_statement(failure(code)).kind(), ErrorKind::Full);
        }
    }
}
