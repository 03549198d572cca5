//! Opening the file: look first, change only what is known to be ours.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::{meta, schema, space};
use crate::StoreError;
use crate::failure::Failure;

/// The time for which a statement waits for a lock of another process, such as a backup.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Prepared statements that a connection keeps: more than the crate has.
pub(super) const STATEMENTS: usize = 256;

/// Files up to this size are checked whole (`quick_check`) at open; larger ones are checked as they are read,
/// so that a start stays fast.
const CHECKED_BYTES: u64 = 64 << 20;

pub(super) struct OpenedFile {
    pub(super) writer: Connection,
    pub(super) reader: Connection,
    pub(super) lock: File,
    pub(super) epoch: u64,
}

/// `steps` lead to the newest version that is known.
pub(super) fn open(path: &Path, steps: &[&str]) -> Result<OpenedFile, StoreError> {
    let lock = lock(path)?;
    let exists = inspect(path, steps)?;
    if !exists {
        // Made here and not by SQLite, for the mode; its -wal and -shm files take over the mode.
        create(path)?;
    }
    let mut writer = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    prepare(path, &mut writer, steps).map_err(|error| explain(path, error))?;
    let epoch = meta::next_epoch(&mut writer)?;
    writer
        .pragma_update(None, "synchronous", "NORMAL")
        .map_err(Failure::from)?;
    let reader = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    reader
        .pragma_update(None, "query_only", true)
        .map_err(Failure::from)?;
    Ok(OpenedFile {
        writer,
        reader,
        lock,
        epoch,
    })
}

/// One gateway per file: an advisory lock on `<path>.lock`, which the kernel drops with the process.
fn lock(path: &Path) -> Result<File, StoreError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let lock_path = PathBuf::from(name);
    let file = private()
        .truncate(false)
        .create(true)
        .open(&lock_path)
        .map_err(|e| io(&lock_path, e))?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(StoreError::Locked {
            path: path.to_owned(),
        }),
        Err(error) => Err(io(&lock_path, error.into())),
    }
}

/// Looks at the file through a connection that cannot write. `false`: there is none, or an empty one.
pub(super) fn inspect(path: &Path, steps: &[&str]) -> Result<bool, StoreError> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(io(path, error)),
    };
    let size = file.metadata().map_err(|e| io(path, e))?.len();
    if size == 0 {
        return Ok(false);
    }
    let mut magic = [0; 16];
    if file.read_exact(&mut magic).is_err() || &magic != b"SQLite format 3\0" {
        return Err(corrupt(path, "it does not begin like a SQLite database"));
    }
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let look = || -> Result<(i64, i64), rusqlite::Error> {
        Ok((
            schema::application_id(&connection)?,
            schema::version(&connection)?,
        ))
    };
    let (application, version) = look().map_err(|error| explain(path, error.into()))?;
    let supported = schema::newest(steps);
    if application == schema::DEVELOPMENT_APPLICATION_ID {
        return Err(StoreError::DevelopmentSchema {
            path: path.to_owned(),
            found: version.to_string(),
            supported,
            remedy: "move the data directory away to start empty, or use the build that made it",
        });
    }
    if application != schema::APPLICATION_ID && !(application == 0 && is_blank(path, &connection)?) {
        return Err(StoreError::Foreign {
            path: path.to_owned(),
            found: application,
        });
    }
    if version > supported {
        return Err(StoreError::NewerSchema {
            path: path.to_owned(),
            found: version,
            supported,
        });
    }
    if size <= CHECKED_BYTES {
        let verdict: String = connection
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(|error| explain(path, error.into()))?;
        if verdict != "ok" {
            return Err(corrupt(path, verdict));
        }
    }
    Ok(true)
}

/// Returns true if the database has no tables: we died between making the file and the first migration.
fn is_blank(path: &Path, connection: &Connection) -> Result<bool, StoreError> {
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(|error| explain(path, error.into()))?;
    Ok(tables == 0)
}

pub(super) fn create(path: &Path) -> Result<(), StoreError> {
    private()
        .truncate(false)
        .create(true)
        .open(path)
        .map_err(|e| io(path, e))?;
    Ok(())
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

pub(super) fn connect(path: &Path, access: OpenFlags) -> Result<Connection, StoreError> {
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| explain(path, error.into()))?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(Failure::from)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    Ok(connection)
}

/// WAL, then the schema and the epoch with a full sync: neither may come back older after power loss.
fn prepare(path: &Path, writer: &mut Connection, steps: &[&str]) -> Result<(), Failure> {
    // Counts for a file that has no page yet.
    writer.pragma_update(None, "auto_vacuum", space::INCREMENTAL)?;
    let mode: String = writer.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if !mode.eq_ignore_ascii_case("wal") {
        let why = "the file system does not support SQLite's write-ahead log (is it a network mount?)";
        return Err(io(path, std::io::Error::other(why)).into());
    }
    writer.pragma_update(None, "synchronous", "FULL")?;
    writer.pragma_update(None, "foreign_keys", true)?;
    schema::migrate(writer, steps)
}

pub(super) fn explain(path: &Path, failure: Failure) -> StoreError {
    match failure {
        Failure::Sqlite(error)
            if matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
            ) =>
        {
            corrupt(path, error.to_string())
        }
        other => other.into(),
    }
}

fn corrupt(path: &Path, detail: impl Into<String>) -> StoreError {
    StoreError::Corrupt {
        path: path.to_owned(),
        detail: detail.into(),
    }
}

fn io(path: &Path, source: std::io::Error) -> StoreError {
    StoreError::Io {
        path: path.to_owned(),
        source,
    }
}
