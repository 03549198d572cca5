//! The newest segments of shared logs, in parts, and where their rolled segments are. In each statement `$1` is the name of the replica
//! and `$2` the epoch of its process.
//!
//! The row of a log names the process that writes it. Each change of a log locks this row first, so a batch of an earlier writer is
//! either there when another process takes the log, or is refused. Rows of several logs are locked in order of their names.

use std::sync::Arc;

use super::connection::Param;
use super::rows;
use super::worker::Worker;
use crate::StoreError;
use crate::sql::Process;

/// The logs of a database, as one process writes them.
#[derive(Debug)]
pub struct LogTable {
    /// Commits batches, and nothing else.
    commits: Worker,
    /// All else.
    others: Worker,
    me: Process,
}

/// Bytes of the newest segment of a log.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LogPart {
    pub log: String,
    /// Number of the first record of the segment.
    pub segment: i64,
    /// The position in the segment at which they begin.
    pub at: i64,
    /// The bytes; `None`: they are in the object.
    pub bytes: Option<Vec<u8>>,
    pub object: Option<String>,
    /// The number of bytes.
    pub size: i64,
}

/// A rolled segment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LogSegment {
    /// Number of its first record.
    pub first: i64,
    pub object: String,
    /// The length in bytes.
    pub size: i64,
}

#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StoredLog {
    /// In order of segment and place.
    pub parts: Vec<LogPart>,
    /// In order.
    pub segments: Vec<LogSegment>,
    /// The positions of its readers.
    pub positions: Option<Vec<u8>>,
}

/// A log that this process has, as one that it took over with its kernel.
const MINE: &str = "SELECT positions FROM himalia.logs WHERE name = $3 AND replica = $1 AND epoch = $2";

/// Takes a log, a new one or one of a kernel or of an ended session that this replica has.
const TAKE: &str = "
INSERT INTO himalia.logs AS l (name, replica, epoch)
SELECT $3, $1, $2 WHERE EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)
ON CONFLICT (name) DO UPDATE SET replica = excluded.replica, epoch = excluded.epoch
WHERE l.replica = $1
   OR EXISTS (SELECT 1 FROM himalia.kernels WHERE session_dir = $3 AND replica = $1)
   OR EXISTS (SELECT 1 FROM himalia.ended_sessions WHERE session_dir = $3 AND replica = $1)
RETURNING positions";

const SEGMENTS: &str =
    "SELECT first_seq, object, size FROM himalia.log_segments WHERE log = $1 ORDER BY first_seq";
const PARTS: &str = "SELECT * FROM himalia.log_parts WHERE log = $1 ORDER BY segment, at";

/// A batch that was committed without an answer is committed again.
const COMMIT: &str = "
WITH mine AS (
    SELECT name FROM himalia.logs WHERE name = ANY($3) AND replica = $1 AND epoch = $2 ORDER BY name FOR SHARE
)
INSERT INTO himalia.log_parts (log, segment, at, bytes, object, size)
SELECT p.* FROM unnest($3::text[], $4::bigint[], $5::bigint[], $6::bytea[], $7::text[], $8::bigint[])
    AS p (log, segment, at, bytes, object, size)
JOIN mine ON mine.name = p.log
ON CONFLICT (log, segment, at) DO UPDATE SET bytes = excluded.bytes, object = excluded.object, size = excluded.size
RETURNING log";

const SEAL: &str = "
WITH mine AS (
    SELECT name FROM himalia.logs WHERE name = $3 AND replica = $1 AND epoch = $2 FOR SHARE
), sealed AS (
    INSERT INTO himalia.log_segments (log, first_seq, object, size)
    SELECT name, $4, $5, $6 FROM mine
    ON CONFLICT (log, first_seq) DO UPDATE SET object = excluded.object, size = excluded.size
)
DELETE FROM himalia.log_parts WHERE log IN (SELECT name FROM mine) AND segment = $4
RETURNING object";

const DELETE_SEGMENT: &str = "
WITH mine AS (
    SELECT name FROM himalia.logs WHERE name = $3 AND replica = $1 AND epoch = $2 FOR SHARE
)
DELETE FROM himalia.log_segments WHERE log IN (SELECT name FROM mine) AND first_seq = $4
RETURNING object";

const POSITIONS: &str = "
WITH mine AS (
    SELECT name FROM himalia.logs WHERE name = ANY($3) AND replica = $1 AND epoch = $2 ORDER BY name FOR NO KEY UPDATE
)
UPDATE himalia.logs AS l SET positions = p.positions
FROM unnest($3::text[], $4::bytea[]) AS p (log, positions) JOIN mine ON mine.name = p.log
WHERE l.name = p.log";

/// Only a log of this replica.
const REMOVE: &str = "
WITH gone AS (
    DELETE FROM himalia.logs WHERE name = $3 AND replica = $1
      AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)
    RETURNING name
), parts AS (
    DELETE FROM himalia.log_parts WHERE log IN (SELECT name FROM gone) RETURNING object
), segments AS (
    DELETE FROM himalia.log_segments WHERE log IN (SELECT name FROM gone) RETURNING object
)
SELECT object FROM parts WHERE object IS NOT NULL UNION ALL SELECT object FROM segments";

/// The number of logs of kernels and ended sessions of a replica that are only on its disk, and of shared ones.
const PLACES: &str = "
SELECT count(*) FILTER (WHERE l.name IS NULL), count(*) FILTER (WHERE l.name IS NOT NULL) FROM (
    SELECT session_dir FROM himalia.kernels WHERE replica = $1
    UNION ALL SELECT session_dir FROM himalia.ended_sessions WHERE replica = $1 AND removed_micros IS NULL
) AS s LEFT JOIN himalia.logs AS l ON l.name = s.session_dir";

/// Logs of this replica that neither a kernel nor an ended session has.
const ORPHANS: &str = "
SELECT l.name FROM himalia.logs AS l WHERE l.replica = $1
  AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2)
  AND NOT EXISTS (SELECT 1 FROM himalia.kernels AS k WHERE k.session_dir = l.name)
  AND NOT EXISTS (SELECT 1 FROM himalia.ended_sessions AS e WHERE e.session_dir = l.name AND e.removed_micros IS NULL)";

impl LogTable {
    pub(super) fn new(commits: Worker, others: Worker, me: Process) -> Self {
        Self { commits, others, me }
    }

    /// The number of logs of kernels and ended sessions of this replica that are only on its disk, and of shared ones.
    pub async fn places(&self) -> Result<(i64, i64), StoreError> {
        let me = self.me.clone();
        self.others
            .run(move |link| async move {
                let name: &str = &me.name;
                match link.query_opt(PLACES, &[&name]).await? {
                    Some(row) => Ok((row.try_get(0)?, row.try_get(1)?)),
                    None => Ok((0, 0)),
                }
            })
            .await
    }

    /// Takes a log, which is made if there is none, and reads it; `None` if another replica has it.
    pub async fn take(&self, log: &str) -> Result<Option<StoredLog>, StoreError> {
        let (me, log) = (self.me.clone(), log.to_owned());
        self.others
            .run(move |link| async move {
                let name: &str = &me.name;
                let params: [Param<'_>; 3] = [&name, &me.epoch, &log];
                let mine = link.query_opt(MINE, &params).await?;
                let taken = match mine {
                    Some(row) => Some(row),
                    None => link.query_opt(TAKE, &params).await?,
                };
                let Some(row) = taken else {
                    return Ok(None);
                };
                let mut stored = StoredLog {
                    positions: row.try_get(0)?,
                    ..StoredLog::default()
                };
                let of_log: [Param<'_>; 1] = [&log];
                // On their way at once.
                let (segments, parts) =
                    tokio::try_join!(link.query(SEGMENTS, &of_log), link.query(PARTS, &of_log))?;
                for row in segments {
                    stored.segments.push(LogSegment {
                        first: row.try_get(0)?,
                        object: row.try_get(1)?,
                        size: row.try_get(2)?,
                    });
                }
                for row in parts {
                    stored.parts.push(rows::log_part(&row)?);
                }
                Ok(Some(stored))
            })
            .await
    }

    /// Commits parts in one transaction; no two are at one place. Returns the logs of those that this process may write.
    pub async fn commit(&self, parts: Arc<Vec<LogPart>>) -> Result<Vec<String>, StoreError> {
        let me = self.me.clone();
        self.commits
            .run(move |link| async move {
                let name: &str = &me.name;
                let logs: Vec<&str> = parts.iter().map(|part| &*part.log).collect();
                let segments: Vec<i64> = parts.iter().map(|part| part.segment).collect();
                let places: Vec<i64> = parts.iter().map(|part| part.at).collect();
                let bytes: Vec<Option<&[u8]>> = parts.iter().map(|part| part.bytes.as_deref()).collect();
                let objects: Vec<Option<&str>> = parts.iter().map(|part| part.object.as_deref()).collect();
                let sizes: Vec<i64> = parts.iter().map(|part| part.size).collect();
                let params: [Param<'_>; 8] = [
                    &name, &me.epoch, &logs, &segments, &places, &bytes, &objects, &sizes,
                ];
                let mut done = Vec::new();
                for row in link.query(COMMIT, &params).await? {
                    done.push(row.try_get(0)?);
                }
                Ok(done)
            })
            .await
    }

    /// A segment is in this object: its parts go. Returns the objects of parts, which are not needed any more.
    pub async fn seal(&self, log: &str, segment: LogSegment) -> Result<Vec<String>, StoreError> {
        let (me, log) = (self.me.clone(), log.to_owned());
        self.others
            .run(move |link| async move {
                let name: &str = &me.name;
                let params: [Param<'_>; 6] = [
                    &name,
                    &me.epoch,
                    &log,
                    &segment.first,
                    &segment.object,
                    &segment.size,
                ];
                rows::objects(&link.query(SEAL, &params).await?)
            })
            .await
    }

    /// Forgets a rolled segment. Returns its object.
    pub async fn delete_segment(&self, log: &str, first: i64) -> Result<Vec<String>, StoreError> {
        let (me, log) = (self.me.clone(), log.to_owned());
        self.others
            .run(move |link| async move {
                let name: &str = &me.name;
                rows::objects(
                    &link
                        .query(DELETE_SEGMENT, &[&name, &me.epoch, &log, &first])
                        .await?,
                )
            })
            .await
    }

    /// Notes where readers of logs were.
    pub async fn set_positions(&self, positions: Vec<(String, Vec<u8>)>) -> Result<(), StoreError> {
        let me = self.me.clone();
        self.others
            .run(move |link| async move {
                let name: &str = &me.name;
                let (logs, places): (Vec<String>, Vec<Vec<u8>>) = positions.into_iter().unzip();
                link.execute(POSITIONS, &[&name, &me.epoch, &logs, &places])
                    .await?;
                Ok(())
            })
            .await
    }

    /// Removes a log of this replica, if there is one. Returns its objects.
    pub async fn remove(&self, log: &str) -> Result<Vec<String>, StoreError> {
        let (me, log) = (self.me.clone(), log.to_owned());
        self.others
            .run(move |link| async move {
                let name: &str = &me.name;
                rows::objects(&link.query(REMOVE, &[&name, &me.epoch, &log]).await?)
            })
            .await
    }

    /// Logs of this replica that neither a kernel nor an ended session has.
    pub async fn orphans(&self) -> Result<Vec<String>, StoreError> {
        let me = self.me.clone();
        self.others
            .run(move |link| async move {
                let name: &str = &me.name;
                rows::objects(&link.query(ORPHANS, &[&name, &me.epoch]).await?)
            })
            .await
    }
}
