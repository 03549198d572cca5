//! Tables, and how an older file becomes a newer one.

use rusqlite::{Connection, TransactionBehavior};

use super::failure::Failure;

/// "HIMA": what tells our files from those of other programs.
pub(super) const APPLICATION_ID: i64 = 0x4849_4d41;

/// The schema version that this code writes (`PRAGMA user_version`).
pub const SCHEMA_VERSION: i64 = 22;

/// Step `n` brings version `n` to `n + 1`. A released step never changes; a change is a new step.
pub(super) const MIGRATIONS: &[&str] = &[
    V1, V2, V3, V4, V5, V6, V7, V8, V9, V10, V11, V12, V13, V14, V15, V16, V17, V18, V19, V20, V21, V22,
];

const V1: &str = "
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value ANY NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta (key, value) VALUES ('gateway_epoch', 0);

CREATE TABLE kernels (
    id               TEXT PRIMARY KEY,
    owner            TEXT NOT NULL,
    kernelspec       TEXT NOT NULL,
    session_dir      TEXT NOT NULL,
    run_dir          TEXT NOT NULL,
    sandbox_id       TEXT NOT NULL,
    sandbox_key_hash BLOB NOT NULL CHECK (length(sandbox_key_hash) = 32),
    isolation        TEXT NOT NULL,
    incarnation      INTEGER NOT NULL CHECK (incarnation >= 0),
    created_micros   INTEGER NOT NULL,
    launch           TEXT NOT NULL,
    life             TEXT NOT NULL CHECK (life IN ('starting', 'live', 'dead')),
    dead_cause       TEXT
) STRICT, WITHOUT ROWID;

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
";

/// What a kernel was made from and what is around it. Rows of version 1 were all local ones made by `/api`.
const V2: &str = "
ALTER TABLE kernels ADD COLUMN provisioner TEXT NOT NULL DEFAULT 'local';
ALTER TABLE kernels ADD COLUMN socket TEXT NOT NULL DEFAULT 'gw.sock';
ALTER TABLE kernels ADD COLUMN parent TEXT;
ALTER TABLE kernels ADD COLUMN template TEXT NOT NULL DEFAULT '';
ALTER TABLE kernels ADD COLUMN start_path TEXT NOT NULL DEFAULT 'cold';
ALTER TABLE kernels ADD COLUMN start_reason TEXT;
ALTER TABLE kernels ADD COLUMN sandbox TEXT NOT NULL DEFAULT '{}';
ALTER TABLE kernels ADD COLUMN labels TEXT NOT NULL DEFAULT '{}';
ALTER TABLE kernels ADD COLUMN idle_timeout_ms INTEGER CHECK (idle_timeout_ms >= 0);
ALTER TABLE kernels ADD COLUMN expires_micros INTEGER;
ALTER TABLE kernels ADD COLUMN origin TEXT NOT NULL DEFAULT 'jupyter' CHECK (origin IN ('jupyter', 'v1'));
UPDATE kernels SET template = kernelspec;
";

/// Names that callers give to their sessions.
const V3: &str = "
ALTER TABLE kernels ADD COLUMN name TEXT;
CREATE UNIQUE INDEX kernels_by_name ON kernels (owner, name) WHERE name IS NOT NULL;
";

/// Ended sessions.
const V4: &str = "
CREATE TABLE ended_sessions (
    session_dir    TEXT PRIMARY KEY,
    id             TEXT NOT NULL,
    owner          TEXT NOT NULL,
    name           TEXT,
    created_micros INTEGER NOT NULL,
    ended_micros   INTEGER NOT NULL,
    cause          TEXT NOT NULL,
    removed_micros INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX ended_sessions_removed ON ended_sessions (removed_micros) WHERE removed_micros IS NOT NULL;
";

/// What a kernel is to its session. Until now one with a parent was a branch.
const V5: &str = "
ALTER TABLE kernels ADD COLUMN role TEXT NOT NULL DEFAULT 'session' CHECK (role IN ('session', 'branch', 'kernel'));
UPDATE kernels SET role = 'branch' WHERE parent IS NOT NULL;
";
/// What an ended session was, as long as its journal is kept.
const V6: &str = "ALTER TABLE ended_sessions ADD COLUMN facts TEXT NOT NULL DEFAULT '{}';";

/// Which replica has a kernel, and how often it was taken. Rows of earlier versions have no owner yet.
const V7: &str = "
ALTER TABLE kernels ADD COLUMN replica TEXT NOT NULL DEFAULT '';
ALTER TABLE kernels ADD COLUMN fence INTEGER NOT NULL DEFAULT 0 CHECK (fence >= 0);
";

/// The session of a kernel as one JSON object, in place of a column for each of its attributes; and without what was never read.
const V8: &str = "
ALTER TABLE kernels ADD COLUMN session TEXT NOT NULL DEFAULT '{}';
UPDATE kernels SET session = json_object(
    'owner', owner, 'origin', origin, 'name', name, 'created_micros', created_micros, 'template', template,
    'kernelspec', kernelspec, 'provisioner', provisioner, 'sandbox', json_set(sandbox, '$.isolation', isolation),
    'cwd', json_extract(launch, '$.cwd'), 'start_path', start_path, 'start_reason', start_reason,
    'role', role, 'parent', parent, 'idle_timeout', NULL, 'expires_micros', expires_micros, 'labels', json(labels));
UPDATE kernels SET session = json_set(session, '$.idle_timeout',
    json_object('secs', idle_timeout_ms / 1000, 'nanos', idle_timeout_ms % 1000 * 1000000))
WHERE idle_timeout_ms IS NOT NULL;
ALTER TABLE kernels DROP COLUMN kernelspec;
ALTER TABLE kernels DROP COLUMN run_dir;
ALTER TABLE kernels DROP COLUMN isolation;
ALTER TABLE kernels DROP COLUMN launch;
ALTER TABLE kernels DROP COLUMN provisioner;
ALTER TABLE kernels DROP COLUMN parent;
ALTER TABLE kernels DROP COLUMN template;
ALTER TABLE kernels DROP COLUMN start_path;
ALTER TABLE kernels DROP COLUMN start_reason;
ALTER TABLE kernels DROP COLUMN sandbox;
ALTER TABLE kernels DROP COLUMN labels;
ALTER TABLE kernels DROP COLUMN idle_timeout_ms;
ALTER TABLE kernels DROP COLUMN expires_micros;
ALTER TABLE kernels DROP COLUMN origin;
ALTER TABLE kernels DROP COLUMN role;
";

/// Access tokens, as hashes.
const V9: &str = "
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
";

/// What owners and callers have used, by day.
const V10: &str = "
CREATE TABLE usage (
    day          INTEGER NOT NULL,
    owner        TEXT NOT NULL,
    caller       TEXT NOT NULL,
    cpu_ms       INTEGER NOT NULL,
    executions   INTEGER NOT NULL,
    execution_ms INTEGER NOT NULL,
    PRIMARY KEY (day, owner, caller)
) STRICT, WITHOUT ROWID;
";

/// What sandboxes have carried to and from the network, by day.
const V11: &str = "
ALTER TABLE usage ADD COLUMN network_sent_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN network_received_bytes INTEGER NOT NULL DEFAULT 0;
";

/// Secrets, sealed.
const V12: &str = "
CREATE TABLE credentials (
    owner      TEXT NOT NULL,
    name       TEXT NOT NULL,
    definition TEXT NOT NULL,
    key_id     TEXT NOT NULL,
    sealed     BLOB NOT NULL,
    set_by     TEXT NOT NULL,
    set_micros INTEGER NOT NULL,
    PRIMARY KEY (owner, name)
) STRICT, WITHOUT ROWID;
";

/// Skills: each version once.
const V13: &str = "
CREATE TABLE skills (
    owner            TEXT NOT NULL,
    name             TEXT NOT NULL,
    version          TEXT NOT NULL,
    kind             TEXT NOT NULL,
    description      TEXT NOT NULL,
    digest           TEXT NOT NULL,
    bytes            INTEGER NOT NULL,
    manifest         TEXT NOT NULL,
    files            BLOB NOT NULL,
    published_by     TEXT NOT NULL,
    published_micros INTEGER NOT NULL,
    PRIMARY KEY (owner, name, version)
) STRICT, WITHOUT ROWID;
";

/// Workflows, their runs, and what came of each step.
const V14: &str = "
CREATE TABLE workflows (
    owner            TEXT NOT NULL,
    name             TEXT NOT NULL,
    version          TEXT NOT NULL,
    description      TEXT NOT NULL,
    digest           TEXT NOT NULL,
    bytes            INTEGER NOT NULL,
    definition       TEXT NOT NULL,
    published_by     TEXT NOT NULL,
    published_micros INTEGER NOT NULL,
    PRIMARY KEY (owner, name, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE workflow_runs (
    id             TEXT PRIMARY KEY,
    owner          TEXT NOT NULL,
    workflow       TEXT NOT NULL,
    version        TEXT NOT NULL,
    digest         TEXT NOT NULL,
    status         TEXT NOT NULL CHECK (status IN ('running', 'succeeded', 'failed', 'cancelled')),
    definition     TEXT NOT NULL,
    principal      TEXT NOT NULL,
    started_by     TEXT NOT NULL,
    start_key      TEXT,
    start_print    TEXT NOT NULL,
    inputs         TEXT NOT NULL,
    outputs        TEXT,
    error          TEXT,
    cancelled_by   TEXT,
    created_micros INTEGER NOT NULL,
    ended_micros   INTEGER,
    epoch          INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX workflow_runs_by_key ON workflow_runs (owner, start_key) WHERE start_key IS NOT NULL;
CREATE INDEX workflow_runs_by_owner ON workflow_runs (owner, created_micros, id);
CREATE INDEX workflow_runs_by_end ON workflow_runs (ended_micros);

CREATE TABLE workflow_steps (
    run          TEXT NOT NULL,
    step         TEXT NOT NULL,
    item         INTEGER NOT NULL,
    attempt      INTEGER NOT NULL,
    status       TEXT NOT NULL
        CHECK (status IN ('delayed', 'running', 'waiting', 'answered', 'succeeded', 'failed', 'cancelled')),
    outputs      TEXT,
    error        TEXT,
    session      TEXT,
    execution    TEXT,
    answer       TEXT,
    answered_by  TEXT,
    due_micros   INTEGER,
    begun_micros INTEGER,
    ended_micros INTEGER,
    PRIMARY KEY (run, step, item, attempt)
) STRICT;
";

/// What starts runs, its runs, and the deliveries of their results.
const V15: &str = "
CREATE TABLE triggers (
    id             TEXT PRIMARY KEY,
    kind           TEXT NOT NULL,
    owner          TEXT NOT NULL,
    name           TEXT NOT NULL,
    definition     TEXT NOT NULL,
    key_id         TEXT NOT NULL,
    sealed         BLOB NOT NULL,
    next_micros    INTEGER,
    version        INTEGER NOT NULL,
    created_micros INTEGER NOT NULL,
    UNIQUE (owner, kind, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX triggers_due ON triggers (next_micros) WHERE next_micros IS NOT NULL;

CREATE TABLE trigger_runs (
    id                TEXT PRIMARY KEY,
    trigger_id        TEXT NOT NULL,
    owner             TEXT NOT NULL,
    key               TEXT NOT NULL,
    due_micros        INTEGER NOT NULL,
    state             TEXT NOT NULL CHECK (state IN ('due', 'running', 'over')),
    not_before_micros INTEGER NOT NULL,
    detail            TEXT NOT NULL,
    claim             TEXT NOT NULL,
    UNIQUE (trigger_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX trigger_runs_open ON trigger_runs (not_before_micros) WHERE state IN ('due', 'running');
CREATE INDEX trigger_runs_latest ON trigger_runs (trigger_id, due_micros, id);

CREATE TABLE deliveries (
    id             TEXT PRIMARY KEY,
    trigger_id     TEXT NOT NULL,
    run_id         TEXT NOT NULL,
    created_micros INTEGER NOT NULL,
    next_micros    INTEGER,
    detail         TEXT NOT NULL,
    claim          TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX deliveries_due ON deliveries (next_micros) WHERE next_micros IS NOT NULL;
CREATE INDEX deliveries_latest ON deliveries (trigger_id, created_micros, id);
CREATE INDEX deliveries_of_run ON deliveries (run_id);
";

/// Tools that a person has approved for later sessions.
const V16: &str = "
CREATE TABLE tool_approvals (
    id              TEXT PRIMARY KEY,
    owner           TEXT NOT NULL,
    caller          TEXT NOT NULL,
    template        TEXT NOT NULL,
    tool            TEXT NOT NULL,
    approved_by     TEXT NOT NULL,
    approved_micros INTEGER NOT NULL,
    UNIQUE (owner, caller, template, tool)
) STRICT, WITHOUT ROWID;
";

/// What code has called, what models took, and what was returned, by day.
const V17: &str = "
ALTER TABLE usage ADD COLUMN tool_calls INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN model_input_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN model_output_tokens INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN model_spend_nanos INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage ADD COLUMN returned_chars INTEGER NOT NULL DEFAULT 0;
";

/// What steps ask persons. `turn` is how many of their owner waited before; `told` is set once webhooks of prompts know of it.
const V18: &str = "
ALTER TABLE workflow_steps ADD COLUMN owner TEXT NOT NULL DEFAULT '';
ALTER TABLE workflow_steps ADD COLUMN prompt TEXT;
ALTER TABLE workflow_steps ADD COLUMN turn INTEGER NOT NULL DEFAULT 0;
ALTER TABLE workflow_steps ADD COLUMN told INTEGER NOT NULL DEFAULT 0;
UPDATE workflow_steps SET owner = coalesce((SELECT owner FROM workflow_runs WHERE id = run), '');
CREATE INDEX workflow_steps_waiting ON workflow_steps (owner, begun_micros, run, step) WHERE status = 'waiting';
CREATE INDEX workflow_steps_turns ON workflow_steps (turn, begun_micros, run, step) WHERE status = 'waiting';
CREATE INDEX workflow_steps_untold ON workflow_steps (turn, begun_micros) WHERE status = 'waiting' AND told = 0;
CREATE INDEX triggers_by_kind ON triggers (kind, owner, name);
";

/// Definitions once for all their runs.
const V19: &str = "
CREATE TABLE workflow_definitions (
    owner      TEXT NOT NULL,
    digest     TEXT NOT NULL,
    definition TEXT NOT NULL,
    PRIMARY KEY (owner, digest)
) STRICT;
INSERT OR IGNORE INTO workflow_definitions SELECT owner, digest, definition FROM workflows;
INSERT OR IGNORE INTO workflow_definitions SELECT owner, digest, definition FROM workflow_runs;
ALTER TABLE workflows DROP COLUMN definition;
ALTER TABLE workflow_runs DROP COLUMN definition;
CREATE INDEX workflows_by_digest ON workflows (owner, digest);
CREATE INDEX workflow_runs_by_digest ON workflow_runs (owner, digest);
";

/// The bytes of columns of a row: `NEW.`, `OLD.`, or nothing.
macro_rules! bytes {
    ($row:literal: $($column:literal)*) => {
        concat!("(0" $(, " + coalesce(length(CAST(", $row, $column, " AS BLOB)), 0)")*, ")")
    };
}

/// Counts these columns of a table as bytes of their owner, now and whenever a row changes.
macro_rules! counted {
    ($table:literal as $kind:literal: $first:literal $($column:literal)*) => {
        concat!(
            "INSERT INTO owner_bytes SELECT owner, '", $kind, "', sum(", bytes!("": $first $($column)*), ") FROM ", $table,
            " WHERE true GROUP BY owner ON CONFLICT (owner, kind) DO UPDATE SET bytes = bytes + excluded.bytes;
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

/// Bytes of the rows of owners, which the database counts itself.
const V20: &str = concat!(
    "
ALTER TABLE deliveries ADD COLUMN owner TEXT NOT NULL DEFAULT '';
UPDATE deliveries SET owner = coalesce((SELECT owner FROM triggers WHERE id = trigger_id), '');
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
);

/// What a person has approved is the tool as it was defined then.
const V21: &str = "
ALTER TABLE tool_approvals ADD COLUMN definition TEXT NOT NULL DEFAULT '';
";

/// Messages that have answered prompts of a webhook, in a table of their own; credentials and access tokens count as bytes of their owner.
const V22: &str = concat!(
    "
CREATE TABLE prompt_answers (
    trigger_id      TEXT NOT NULL,
    message         TEXT NOT NULL,
    answered_micros INTEGER NOT NULL,
    PRIMARY KEY (trigger_id, message)
) STRICT, WITHOUT ROWID;
DELETE FROM trigger_runs WHERE trigger_id NOT IN (SELECT id FROM triggers);
",
    counted!("credentials" as "credentials": "definition" "sealed"),
    counted!("access_tokens" as "tokens": "caller" "description" "created_by"),
);

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
    let target = i64::try_from(steps.len()).unwrap_or(i64::MAX);
    loop {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let at = version(&transaction)?;
        let Some(step) = usize::try_from(at).ok().and_then(|at| steps.get(at)) else {
            debug_assert!(at >= target);
            return Ok(());
        };
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "user_version", at + 1)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.commit()?;
    }
}

const _: () = assert!(
    MIGRATIONS.len() == 22 && SCHEMA_VERSION == 22,
    "a step and its version come together"
);
