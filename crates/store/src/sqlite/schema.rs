//! The tables of version 1, and how a file of an earlier version becomes one of this version.

use rusqlite::{Connection, TransactionBehavior};

use crate::failure::Failure;

/// "HMLA": the mark of files of version 1 and later.
pub(super) const APPLICATION_ID: i64 = 0x484d_4c41;

/// "HIMA": the mark of files that builds before version 1 made. Their versions are another numbering.
pub(super) const DEVELOPMENT_APPLICATION_ID: i64 = 0x4849_4d41;

/// Step `n` (from 0) brings version `n` to `n + 1`, so there are as many as the newest version (`PRAGMA user_version`). A released step never
/// changes: a change is a new step.
pub(super) const MIGRATIONS: &[&str] = &[V1];

/// The bytes of columns of a row: `NEW.`, `OLD.`, or nothing.
macro_rules! bytes {
    ($row:literal: $($column:literal)*) => {
        concat!("(0" $(, " + coalesce(length(CAST(", $row, $column, " AS BLOB)), 0)")*, ")")
    };
}

/// Counts these columns of a table as bytes of their owner whenever a row changes.
macro_rules! counted {
    ($table:literal as $kind:literal: $first:literal $($column:literal)*) => {
        concat!(
            "
CREATE TRIGGER ", $table, "_added AFTER INSERT ON ", $table, " BEGIN
    INSERT INTO owner_bytes VALUES (NEW.owner, '", $kind, "', ", bytes!("NEW.": $first $($column)*), ")
    ON CONFLICT (owner, kind) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER ", $table, "_changed AFTER UPDATE OF ", $first $(, ", ", $column)*, " ON ", $table, " BEGIN
    UPDATE owner_bytes SET bytes = bytes + ", bytes!("NEW.": $first $($column)*), " - ", bytes!("OLD.": $first $($column)*), "
    WHERE owner = NEW.owner AND kind = '", $kind, "';
END;
CREATE TRIGGER ", $table, "_removed AFTER DELETE ON ", $table, " BEGIN
    UPDATE owner_bytes SET bytes = bytes - ", bytes!("OLD.": $first $($column)*), "
    WHERE owner = OLD.owner AND kind = '", $kind, "';
END;
"
        )
    };
}

/// Large columns are the last ones of their table: to read a column, `SQLite` reads the pages of all columns before it. Their tables have row
/// ids: a search in a table without reads the whole rows that it passes.
const V1: &str = concat!(
    "
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value ANY NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta (key, value) VALUES ('gateway_epoch', 0);

CREATE TABLE kernels (
    id               TEXT PRIMARY KEY NOT NULL,
    owner            TEXT NOT NULL,
    name             TEXT,
    created_micros   INTEGER NOT NULL,
    session          TEXT NOT NULL,
    session_dir      TEXT NOT NULL,
    sandbox_id       TEXT NOT NULL,
    sandbox_key_hash BLOB NOT NULL CHECK (length(sandbox_key_hash) = 32),
    socket           TEXT NOT NULL,
    incarnation      INTEGER NOT NULL CHECK (incarnation >= 0),
    life             TEXT NOT NULL CHECK (life IN ('starting', 'live', 'dead')),
    dead_cause       TEXT,
    replica          TEXT NOT NULL,
    fence            INTEGER NOT NULL CHECK (fence >= 1)
) STRICT;
CREATE UNIQUE INDEX kernels_by_name ON kernels (owner, name) WHERE name IS NOT NULL;

CREATE TABLE ended_sessions (
    session_dir    TEXT PRIMARY KEY NOT NULL,
    id             TEXT NOT NULL,
    owner          TEXT NOT NULL,
    name           TEXT,
    created_micros INTEGER NOT NULL,
    ended_micros   INTEGER NOT NULL,
    cause          TEXT NOT NULL,
    removed_micros INTEGER,
    facts          TEXT NOT NULL
) STRICT;
CREATE INDEX ended_sessions_removed ON ended_sessions (removed_micros) WHERE removed_micros IS NOT NULL;

CREATE TABLE jupyter_sessions (
    id             TEXT PRIMARY KEY,
    owner          TEXT NOT NULL,
    path           TEXT NOT NULL,
    name           TEXT NOT NULL,
    type           TEXT NOT NULL,
    kernel_id      TEXT NOT NULL,
    created_micros INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX jupyter_sessions_by_path ON jupyter_sessions (owner, path);
CREATE INDEX jupyter_sessions_by_kernel ON jupyter_sessions (kernel_id);

CREATE TABLE access_tokens (
    id             TEXT PRIMARY KEY,
    hash           BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    owner          TEXT NOT NULL,
    caller         TEXT NOT NULL,
    scope          TEXT NOT NULL,
    description    TEXT NOT NULL,
    created_by     TEXT NOT NULL,
    created_micros INTEGER NOT NULL,
    expires_micros INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE usage (
    day                    INTEGER NOT NULL,
    owner                  TEXT NOT NULL,
    caller                 TEXT NOT NULL,
    cpu_ms                 INTEGER NOT NULL,
    executions             INTEGER NOT NULL,
    execution_ms           INTEGER NOT NULL,
    network_sent_bytes     INTEGER NOT NULL,
    network_received_bytes INTEGER NOT NULL,
    tool_calls             INTEGER NOT NULL,
    model_input_tokens     INTEGER NOT NULL,
    model_output_tokens    INTEGER NOT NULL,
    model_spend_nanos      INTEGER NOT NULL,
    returned_chars         INTEGER NOT NULL,
    PRIMARY KEY (day, owner, caller)
) STRICT, WITHOUT ROWID;

CREATE TABLE credentials (
    owner      TEXT NOT NULL,
    name       TEXT NOT NULL,
    definition TEXT NOT NULL,
    key_id     TEXT NOT NULL,
    sealed     BLOB NOT NULL,
    set_by     TEXT NOT NULL,
    set_micros INTEGER NOT NULL,
    PRIMARY KEY (owner, name)
) STRICT;

CREATE TABLE skills (
    owner            TEXT NOT NULL,
    name             TEXT NOT NULL,
    version          TEXT NOT NULL,
    kind             TEXT NOT NULL,
    description      TEXT NOT NULL,
    digest           TEXT NOT NULL,
    bytes            INTEGER NOT NULL,
    published_by     TEXT NOT NULL,
    published_micros INTEGER NOT NULL,
    manifest         TEXT NOT NULL,
    files            BLOB NOT NULL,
    PRIMARY KEY (owner, name, version)
) STRICT;
-- For the quota: an owner's versions without their content.
CREATE INDEX skills_bytes ON skills (owner, bytes);

CREATE TABLE workflow_definitions (
    owner      TEXT NOT NULL,
    digest     TEXT NOT NULL,
    definition TEXT NOT NULL,
    PRIMARY KEY (owner, digest)
) STRICT;

CREATE TABLE workflows (
    owner            TEXT NOT NULL,
    name             TEXT NOT NULL,
    version          TEXT NOT NULL,
    description      TEXT NOT NULL,
    digest           TEXT NOT NULL,
    bytes            INTEGER NOT NULL,
    published_by     TEXT NOT NULL,
    published_micros INTEGER NOT NULL,
    PRIMARY KEY (owner, name, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX workflows_by_digest ON workflows (owner, digest);
CREATE INDEX workflows_bytes ON workflows (owner, bytes);

CREATE TABLE workflow_runs (
    id             TEXT PRIMARY KEY,
    owner          TEXT NOT NULL,
    workflow       TEXT NOT NULL,
    version        TEXT NOT NULL,
    digest         TEXT NOT NULL,
    status         TEXT NOT NULL CHECK (status IN ('running', 'succeeded', 'failed', 'cancelled')),
    started_by     TEXT NOT NULL,
    start_key      TEXT,
    start_print    TEXT NOT NULL,
    cancelled_by   TEXT,
    created_micros INTEGER NOT NULL,
    ended_micros   INTEGER,
    epoch          INTEGER NOT NULL,
    error          TEXT,
    principal      TEXT NOT NULL,
    inputs         TEXT NOT NULL,
    outputs        TEXT
) STRICT;
CREATE UNIQUE INDEX workflow_runs_by_key ON workflow_runs (owner, start_key) WHERE start_key IS NOT NULL;
-- With the status, so that the quota and the lists do not read rows.
CREATE INDEX workflow_runs_by_owner ON workflow_runs (owner, created_micros, id, status);
CREATE INDEX workflow_runs_running ON workflow_runs (epoch) WHERE status = 'running';
CREATE INDEX workflow_runs_by_end ON workflow_runs (ended_micros);
CREATE INDEX workflow_runs_by_digest ON workflow_runs (owner, digest);

-- `turn`: how many prompts of the owner waited before. `told`: the prompt was posted to webhooks.
CREATE TABLE workflow_steps (
    run          TEXT NOT NULL,
    owner        TEXT NOT NULL,
    step         TEXT NOT NULL,
    item         INTEGER NOT NULL,
    attempt      INTEGER NOT NULL,
    status       TEXT NOT NULL
        CHECK (status IN ('delayed', 'running', 'waiting', 'answered', 'succeeded', 'failed', 'cancelled')),
    session      TEXT,
    execution    TEXT,
    turn         INTEGER NOT NULL DEFAULT 0,
    told         INTEGER NOT NULL DEFAULT 0,
    answered_by  TEXT,
    due_micros   INTEGER,
    begun_micros INTEGER,
    ended_micros INTEGER,
    answer       TEXT,
    error        TEXT,
    prompt       TEXT,
    outputs      TEXT,
    PRIMARY KEY (run, step, item, attempt)
) STRICT;
CREATE INDEX workflow_steps_waiting ON workflow_steps (owner, begun_micros, run, step) WHERE status = 'waiting';
CREATE INDEX workflow_steps_turns ON workflow_steps (turn, begun_micros, run, step) WHERE status = 'waiting';
CREATE INDEX workflow_steps_untold ON workflow_steps (turn, begun_micros) WHERE status = 'waiting' AND told = 0;

CREATE TABLE triggers (
    id             TEXT PRIMARY KEY NOT NULL,
    kind           TEXT NOT NULL,
    owner          TEXT NOT NULL,
    name           TEXT NOT NULL,
    key_id         TEXT NOT NULL,
    next_micros    INTEGER,
    version        INTEGER NOT NULL,
    created_micros INTEGER NOT NULL,
    definition     TEXT NOT NULL,
    sealed         BLOB NOT NULL,
    UNIQUE (owner, kind, name)
) STRICT;
CREATE INDEX triggers_due ON triggers (next_micros) WHERE next_micros IS NOT NULL;
CREATE INDEX triggers_by_kind ON triggers (kind, owner, name);

CREATE TABLE trigger_runs (
    id                TEXT PRIMARY KEY NOT NULL,
    trigger_id        TEXT NOT NULL,
    owner             TEXT NOT NULL,
    key               TEXT NOT NULL,
    due_micros        INTEGER NOT NULL,
    state             TEXT NOT NULL CHECK (state IN ('due', 'running', 'over')),
    not_before_micros INTEGER NOT NULL,
    claim             TEXT NOT NULL,
    detail            TEXT NOT NULL,
    UNIQUE (trigger_id, key)
) STRICT;
CREATE INDEX trigger_runs_open ON trigger_runs (not_before_micros) WHERE state IN ('due', 'running');
CREATE INDEX trigger_runs_latest ON trigger_runs (trigger_id, due_micros, id);

CREATE TABLE deliveries (
    id             TEXT PRIMARY KEY NOT NULL,
    trigger_id     TEXT NOT NULL,
    run_id         TEXT NOT NULL,
    owner          TEXT NOT NULL,
    created_micros INTEGER NOT NULL,
    next_micros    INTEGER,
    claim          TEXT NOT NULL,
    detail         TEXT NOT NULL
) STRICT;
CREATE INDEX deliveries_due ON deliveries (next_micros) WHERE next_micros IS NOT NULL;
CREATE INDEX deliveries_latest ON deliveries (trigger_id, created_micros, id);
CREATE INDEX deliveries_of_run ON deliveries (run_id);

CREATE TABLE prompt_answers (
    trigger_id      TEXT NOT NULL,
    message         TEXT NOT NULL,
    answered_micros INTEGER NOT NULL,
    PRIMARY KEY (trigger_id, message)
) STRICT, WITHOUT ROWID;

CREATE TABLE tool_approvals (
    id              TEXT PRIMARY KEY NOT NULL,
    owner           TEXT NOT NULL,
    caller          TEXT NOT NULL,
    template        TEXT NOT NULL,
    tool            TEXT NOT NULL,
    definition      TEXT NOT NULL,
    approved_by     TEXT NOT NULL,
    approved_micros INTEGER NOT NULL,
    UNIQUE (owner, caller, template, tool)
) STRICT;

CREATE TABLE owner_bytes (
    owner TEXT NOT NULL,
    kind  TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (owner, kind)
) STRICT, WITHOUT ROWID;
",
    counted!("skills" as "skills": "manifest" "files"),
    counted!("workflow_definitions" as "workflows": "definition"),
    counted!("workflow_runs" as "runs": "principal" "inputs" "outputs" "error"),
    counted!("workflow_steps" as "runs": "outputs" "error" "prompt"),
    counted!("triggers" as "triggers": "definition" "sealed"),
    counted!("trigger_runs" as "triggers": "key" "detail"),
    counted!("deliveries" as "triggers": "detail"),
    counted!("credentials" as "credentials": "definition" "sealed"),
    counted!("access_tokens" as "tokens": "caller" "description" "created_by"),
);

/// The version to which steps lead.
pub(super) fn newest(steps: &[&str]) -> i64 {
    i64::try_from(steps.len()).unwrap_or(i64::MAX)
}

/// The schema version of an open file.
pub(super) fn version(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// The application id of an open file; 0 in an unmarked one.
pub(super) fn application_id(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection.pragma_query_value(None, "application_id", |row| row.get(0))
}

/// Applies the steps that are missing, each with its version number in one transaction, so that a crash
/// leaves one version or the next.
pub(super) fn migrate(connection: &mut Connection, steps: &[&str]) -> Result<(), Failure> {
    loop {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let at = version(&transaction)?;
        let Some(step) = usize::try_from(at).ok().and_then(|at| steps.get(at)) else {
            debug_assert!(at >= newest(steps));
            return Ok(());
        };
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "user_version", at + 1)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.commit()?;
    }
}
