//! The file: its lock, its settings, its migrations.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
};

use highwater::{Error, ErrorKind, Result, feed::FeedId};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, TransactionBehavior};

use super::error::in_statement;

/// Marks the file as ours: `HWAT`.
const APPLICATION_ID: i32 = i32::from_be_bytes(*b"HWAT");

/// One per version of the file. Never edited once released: a change is a new one.
const MIGRATIONS: &[&str] = &[include_str!("migrations/0001_jobs.sql")];

/// Pages of write-ahead log between checkpoints. SQLite's own 1,000 costs half of the throughput.
const CHECKPOINT_PAGES: u32 = 16_000;

/// What the write-ahead log is cut down to when it starts anew.
const WAL_BYTES_KEPT: u32 = 128 * 1024 * 1024;

/// Statements kept prepared per connection: all there are, with room to spare.
const STATEMENTS_MAX: usize = 64;

/// One process owns the file. The lock goes with the process, however it ends.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    pub(super) fn take(database: &Path) -> Result<Lock> {
        // By any name: a link to the same file is the same file.
        let real = database.canonicalize();
        let mut path = real.as_deref().unwrap_or(database).as_os_str().to_owned();
        path.push(".lock");
        let path = PathBuf::from(path);
        let cannot = |error: std::io::Error| {
            let detail = format!("cannot open `{}`", path.display());
            Error::new(ErrorKind::Unavailable, detail).with_source(error)
        };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(cannot)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(database, &mut file)),
            Err(TryLockError::Error(error)) => return Err(cannot(error)),
        }
        let note_owner = |file: &mut File| {
            file.set_len(0)?;
            file.rewind()?;
            write!(file, "{}", std::process::id())
        };
        // Only a courtesy to whoever is refused: a full disk must not keep the owner out.
        note_owner(&mut file)
            .unwrap_or_else(|error| tracing::debug!(%error, "the lock does not name its owner"));
        Ok(Lock { _file: file })
    }
}

fn in_use(database: &Path, lock: &mut File) -> Error {
    let mut owner = String::new();
    let owner = match lock.take(20).read_to_string(&mut owner) {
        Ok(_) if owner.bytes().all(|byte| byte.is_ascii_digit()) && !owner.is_empty() => {
            format!("process {owner}")
        }
        Ok(_) | Err(_) => "another process".to_owned(),
    };
    let detail = format!(
        "`{}` is in use by {owner}: an embedded file belongs to one process. Stop that process, talk to its \
         server instead, or use another file",
        database.display()
    );
    Error::new(ErrorKind::InUse, detail)
}

/// The one connection that writes. Creates the file if there is none, and brings it up to date.
pub(super) fn open_writer(path: &Path) -> Result<Connection> {
    let mut connection = Connection::open(path).map_err(in_statement)?;
    check_is_ours(&connection, path)?;
    configure(&connection).map_err(in_statement)?;
    migrate(&mut connection, path)?;
    Ok(connection)
}

/// One of the connections that read.
pub(super) fn open_reader(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(in_statement)?;
    let settings =
        "PRAGMA busy_timeout = 5000; PRAGMA cache_size = -4096; PRAGMA mmap_size = 268435456;";
    connection.execute_batch(settings).map_err(in_statement)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(connection)
}

/// Empties the write-ahead log. It starts anew only at a moment without readers, which under steady
/// reading does not come by itself; the caller sees to it that this is one.
pub(super) fn empty_wal(path: &Path) -> Result<()> {
    let connection = Connection::open(path).map_err(in_statement)?;
    connection
        .execute_batch("PRAGMA busy_timeout = 5000; PRAGMA wal_checkpoint(TRUNCATE);")
        .map_err(in_statement)
}

/// How long the write-ahead log is.
pub(super) fn wal_bytes(path: &Path) -> u64 {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    std::fs::metadata(PathBuf::from(wal)).map_or(0, |file| file.len())
}

fn check_is_ours(connection: &Connection, path: &Path) -> Result<()> {
    let read = || -> rusqlite::Result<(i32, i64)> {
        let id = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let tables =
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok((id, tables))
    };
    match read().map_err(in_statement)? {
        (APPLICATION_ID, _) | (0, 0) => Ok(()),
        _ => {
            let detail =
                format!("`{}` is an SQLite file, but not one of Highwater's", path.display());
            Err(Error::new(ErrorKind::Unsupported, detail))
        }
    }
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if !mode.eq_ignore_ascii_case("wal") {
        // Readers would hold up the writer without a word.
        tracing::warn!(
            mode,
            "the file system gives no shared memory: reads and writes wait for each other"
        );
    }
    // FULL: a commit is on disk before it is acknowledged.
    connection.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA busy_timeout = 5000;
         PRAGMA cache_size = -65536; PRAGMA mmap_size = 268435456;",
    )?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", WAL_BYTES_KEPT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(())
}

fn migrate(connection: &mut Connection, path: &Path) -> Result<()> {
    let version: u32 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(in_statement)?;
    let known = u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX);
    if version > known {
        let detail = format!(
            "`{}` was written by a newer Highwater (version {version} of the file; this one knows up to {known})",
            path.display()
        );
        return Err(Error::new(ErrorKind::Unsupported, detail));
    }
    for (target, migration) in (1..).zip(MIGRATIONS).filter(|&(target, _)| target > version) {
        apply(connection, target, migration).map_err(in_statement)?;
        tracing::info!(version = target, "embedded file migrated");
    }
    Ok(())
}

/// A migration and its number are one transaction: a crash leaves either both or neither.
fn apply(connection: &mut Connection, target: u32, migration: &str) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(migration)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", target)?;
    transaction.commit()
}

/// The id of this file's feed, made once.
pub(super) fn feed_id(connection: &Connection) -> Result<FeedId> {
    let read = || -> rusqlite::Result<i64> {
        let stored = connection
            .query_row("SELECT value FROM meta WHERE key = 'feed_id'", [], |row| row.get(0))
            .optional()?;
        if let Some(id) = stored {
            return Ok(id);
        }
        let id = FeedId::random().0.cast_signed();
        connection.execute("INSERT INTO meta (key, value) VALUES ('feed_id', ?1)", [id])?;
        Ok(id)
    };
    read().map(|id| FeedId(id.cast_unsigned())).map_err(in_statement)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.db");
        (folder, path)
    }

    #[test]
    fn a_new_file_is_migrated_once_and_keeps_its_feed_id() {
        let (_folder, path) = file();
        let first = feed_id(&open_writer(&path).unwrap()).unwrap();
        assert_eq!(feed_id(&open_writer(&path).unwrap()).unwrap(), first);
    }

    #[test]
    fn a_file_of_a_newer_version_is_left_alone() {
        let (_folder, path) = file();
        open_writer(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
        let error = open_writer(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("newer Highwater (version 99"), "{error}");
    }

    #[test]
    fn a_foreign_file_is_left_alone() {
        let (_folder, path) = file();
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE cats (name)").unwrap();
        let error = open_writer(&path).unwrap_err();
        assert!(error.to_string().contains("not one of Highwater's"), "{error}");
        std::fs::write(&path, "this is no database, but long enough to look at").unwrap();
        assert_eq!(open_writer(&path).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn a_second_owner_is_told_who_the_first_is() {
        let (_folder, path) = file();
        let first = Lock::take(&path).unwrap();
        let error = Lock::take(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InUse);
        assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
        drop(first);
        Lock::take(&path).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_the_file_is_the_file() {
        let (folder, path) = file();
        std::fs::write(&path, "").unwrap();
        let link = folder.path().join("link.db");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let _first = Lock::take(&path).unwrap();
        assert_eq!(Lock::take(&link).unwrap_err().kind(), ErrorKind::InUse);
    }

    #[test]
    fn an_emptied_log_is_empty() {
        let (_folder, path) = file();
        let writer = open_writer(&path).unwrap();
        feed_id(&writer).unwrap();
        assert!(wal_bytes(&path) > 0);
        empty_wal(&path).unwrap();
        assert_eq!(wal_bytes(&path), 0);
    }
}
