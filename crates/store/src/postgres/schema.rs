//! The tables of version 1, and how a schema of an earlier version becomes one of this version.
//!
//! All of it is in the schema `himalia` of the database. Its version is the row `schema` of `himalia.meta`.

use tokio_postgres::Client;

use crate::StoreError;
use crate::failure::Failure;

/// Step `n` (from 0) brings version `n` to `n + 1`, so there are as many as the newest version. A released step never changes: a change is a
/// new step.
pub(super) const MIGRATIONS: &[&str] = &[V1];

/// "HIMA": held while a schema is made or changed, so that replicas that start at once do it once.
const LOCK: i64 = 0x4849_4d41;

/// The row that builds before version 1 had their version in. Theirs is another numbering.
const DEVELOPMENT: &str = "SELECT value FROM himalia.meta WHERE key = 'schema_version'";

const META: &str = "
CREATE SCHEMA IF NOT EXISTS himalia;
CREATE TABLE IF NOT EXISTS himalia.meta (
    key   text PRIMARY KEY,
    value text NOT NULL
);
INSERT INTO himalia.meta (key, value) VALUES
    ('schema', '0'), ('gateway_epoch', '0'), ('store_id', gen_random_uuid()::text)
ON CONFLICT (key) DO NOTHING;
";

/// Counts these columns of a table as bytes of their owner whenever a row changes.
macro_rules! counted {
    ($table:literal as $kind:literal: $($column:literal)*) => {
        concat!(
            "
ALTER TABLE himalia.", $table, " ADD COLUMN row_bytes bigint GENERATED ALWAYS AS (0"
            $(, " + coalesce(octet_length(", $column, "), 0)")*, ") STORED;
CREATE TRIGGER ", $table, "_added AFTER INSERT ON himalia.", $table, " REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION himalia.count_bytes('", $kind, "');
CREATE TRIGGER ", $table, "_changed AFTER UPDATE ON himalia.", $table, " REFERENCING NEW TABLE AS added OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION himalia.count_bytes('", $kind, "');
CREATE TRIGGER ", $table, "_removed AFTER DELETE ON himalia.", $table, " REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION himalia.count_bytes('", $kind, "');
"
        )
    };
}

const V1: &str = concat!(
    r#"
-- `ready`: by template, how many kernels of its pool are ready.
CREATE TABLE himalia.replicas (
    name        text PRIMARY KEY,
    epoch       bigint NOT NULL,
    address     text,
    lease_until timestamptz NOT NULL,
    ready       jsonb NOT NULL DEFAULT '{}'
);

CREATE TABLE himalia.kernels (
    id               uuid PRIMARY KEY,
    owner            text NOT NULL,
    name             text,
    created_micros   bigint NOT NULL,
    session          jsonb NOT NULL,
    session_dir      text NOT NULL,
    sandbox_id       text NOT NULL,
    sandbox_key_hash bytea NOT NULL CHECK (length(sandbox_key_hash) = 32),
    socket           text NOT NULL,
    incarnation      bigint NOT NULL CHECK (incarnation >= 0),
    life             text NOT NULL CHECK (life IN ('starting', 'live', 'dead')),
    dead_cause       text,
    replica          text NOT NULL,
    fence            bigint NOT NULL CHECK (fence >= 1)
);
CREATE UNIQUE INDEX kernels_by_name ON himalia.kernels (owner, name) WHERE name IS NOT NULL;
CREATE INDEX kernels_by_replica ON himalia.kernels (replica);
CREATE INDEX kernels_by_owner ON himalia.kernels (owner);

CREATE TABLE himalia.ended_sessions (
    session_dir    text PRIMARY KEY,
    id             uuid NOT NULL,
    owner          text NOT NULL,
    name           text,
    created_micros bigint NOT NULL,
    ended_micros   bigint NOT NULL,
    cause          text NOT NULL,
    removed_micros bigint,
    facts          jsonb NOT NULL,
    replica        text NOT NULL
);
CREATE INDEX ended_sessions_by_id ON himalia.ended_sessions (id);
CREATE INDEX ended_sessions_by_replica ON himalia.ended_sessions (replica);

CREATE TABLE himalia.jupyter_sessions (
    id             uuid PRIMARY KEY,
    owner          text NOT NULL,
    path           text NOT NULL,
    name           text NOT NULL,
    type           text NOT NULL,
    kernel_id      uuid NOT NULL,
    created_micros bigint NOT NULL,
    replica        text NOT NULL
);
CREATE INDEX jupyter_sessions_by_path ON himalia.jupyter_sessions (owner, path);
CREATE INDEX jupyter_sessions_by_replica ON himalia.jupyter_sessions (replica);

CREATE TABLE himalia.access_tokens (
    id             uuid PRIMARY KEY,
    hash           bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
    owner          text NOT NULL,
    caller         text NOT NULL,
    scope          text NOT NULL,
    description    text NOT NULL,
    created_by     text NOT NULL,
    created_micros bigint NOT NULL,
    expires_micros bigint
);

-- Logs that outlive the disk of a replica. What is stored is compressed as little as in a file.
CREATE TABLE himalia.logs (
    name      text PRIMARY KEY,
    replica   text NOT NULL,
    epoch     bigint NOT NULL,
    positions bytea
);
CREATE INDEX logs_by_replica ON himalia.logs (replica);

CREATE TABLE himalia.log_parts (
    log     text NOT NULL,
    segment bigint NOT NULL,
    at      bigint NOT NULL,
    bytes   bytea,
    object  text,
    size    bigint NOT NULL,
    PRIMARY KEY (log, segment, at)
);
ALTER TABLE himalia.log_parts ALTER COLUMN bytes SET STORAGE EXTERNAL;

CREATE TABLE himalia.log_segments (
    log       text NOT NULL,
    first_seq bigint NOT NULL,
    object    text NOT NULL,
    size      bigint NOT NULL,
    PRIMARY KEY (log, first_seq)
);

CREATE TABLE himalia.usage (
    day                    bigint NOT NULL,
    owner                  text NOT NULL,
    caller                 text NOT NULL,
    cpu_ms                 bigint NOT NULL,
    executions             bigint NOT NULL,
    execution_ms           bigint NOT NULL,
    network_sent_bytes     bigint NOT NULL,
    network_received_bytes bigint NOT NULL,
    tool_calls             bigint NOT NULL,
    model_input_tokens     bigint NOT NULL,
    model_output_tokens    bigint NOT NULL,
    model_spend_nanos      bigint NOT NULL,
    returned_chars         bigint NOT NULL,
    PRIMARY KEY (day, owner, caller)
);

CREATE TABLE himalia.credentials (
    owner      text NOT NULL,
    name       text NOT NULL,
    definition text NOT NULL,
    key_id     text NOT NULL,
    sealed     bytea NOT NULL,
    set_by     text NOT NULL,
    set_micros bigint NOT NULL,
    PRIMARY KEY (owner, name)
);

CREATE TABLE himalia.skills (
    owner            text NOT NULL,
    name             text NOT NULL,
    version          text NOT NULL,
    kind             text NOT NULL,
    description      text NOT NULL,
    digest           text NOT NULL,
    bytes            bigint NOT NULL,
    manifest         text NOT NULL,
    files            bytea NOT NULL,
    published_by     text NOT NULL,
    published_micros bigint NOT NULL,
    PRIMARY KEY (owner, name, version)
);
-- For the quota: an owner's versions without their content.
CREATE INDEX skills_bytes ON himalia.skills (owner, bytes);

CREATE TABLE himalia.workflow_definitions (
    owner      text NOT NULL,
    digest     text NOT NULL,
    definition text NOT NULL,
    PRIMARY KEY (owner, digest)
);

CREATE TABLE himalia.workflows (
    owner            text NOT NULL,
    name             text NOT NULL,
    version          text NOT NULL,
    description      text NOT NULL,
    digest           text NOT NULL,
    bytes            bigint NOT NULL,
    published_by     text NOT NULL,
    published_micros bigint NOT NULL,
    PRIMARY KEY (owner, name, version),
    FOREIGN KEY (owner, digest) REFERENCES himalia.workflow_definitions
);
CREATE INDEX workflows_by_digest ON himalia.workflows (owner, digest);
CREATE INDEX workflows_bytes ON himalia.workflows (owner, bytes);

CREATE TABLE himalia.workflow_runs (
    id             text PRIMARY KEY,
    owner          text NOT NULL,
    workflow       text NOT NULL,
    version        text NOT NULL,
    digest         text NOT NULL,
    status         text NOT NULL CHECK (status IN ('running', 'succeeded', 'failed', 'cancelled')),
    principal      text NOT NULL,
    started_by     text NOT NULL,
    start_key      text,
    start_print    text NOT NULL,
    inputs         text NOT NULL,
    outputs        text,
    error          text,
    cancelled_by   text,
    created_micros bigint NOT NULL,
    ended_micros   bigint,
    epoch          bigint NOT NULL,
    FOREIGN KEY (owner, digest) REFERENCES himalia.workflow_definitions
);
CREATE UNIQUE INDEX workflow_runs_by_key ON himalia.workflow_runs (owner, start_key) WHERE start_key IS NOT NULL;
CREATE INDEX workflow_runs_by_owner ON himalia.workflow_runs (owner, created_micros, id);
CREATE INDEX workflow_runs_by_end ON himalia.workflow_runs (ended_micros);
CREATE INDEX workflow_runs_by_digest ON himalia.workflow_runs (owner, digest);

-- `turn`: how many prompts of the owner waited before. `told`: the prompt was posted to webhooks.
CREATE TABLE himalia.workflow_steps (
    run          text NOT NULL,
    owner        text NOT NULL,
    step         text NOT NULL,
    item         bigint NOT NULL,
    attempt      bigint NOT NULL,
    status       text NOT NULL
        CHECK (status IN ('delayed', 'running', 'waiting', 'answered', 'succeeded', 'failed', 'cancelled')),
    outputs      text,
    error        text,
    session      text,
    execution    text,
    prompt       text,
    turn         bigint NOT NULL DEFAULT 0,
    told         boolean NOT NULL DEFAULT false,
    answer       text,
    answered_by  text,
    due_micros   bigint,
    begun_micros bigint,
    ended_micros bigint,
    PRIMARY KEY (run, step, item, attempt)
);
CREATE INDEX workflow_steps_waiting ON himalia.workflow_steps (owner, begun_micros, run COLLATE "C", step COLLATE "C")
    WHERE status = 'waiting';
CREATE INDEX workflow_steps_turns ON himalia.workflow_steps (turn, begun_micros, run COLLATE "C", step COLLATE "C")
    WHERE status = 'waiting';
CREATE INDEX workflow_steps_untold ON himalia.workflow_steps (turn, begun_micros) WHERE status = 'waiting' AND NOT told;

CREATE TABLE himalia.triggers (
    id             uuid PRIMARY KEY,
    kind           text NOT NULL,
    owner          text NOT NULL,
    name           text NOT NULL,
    definition     text NOT NULL,
    key_id         text NOT NULL,
    sealed         bytea NOT NULL,
    next_micros    bigint,
    version        bigint NOT NULL,
    created_micros bigint NOT NULL,
    UNIQUE (owner, kind, name)
);
CREATE INDEX triggers_due ON himalia.triggers (next_micros) WHERE next_micros IS NOT NULL;
CREATE INDEX triggers_by_kind ON himalia.triggers (kind, owner, name);

CREATE TABLE himalia.trigger_runs (
    id                uuid PRIMARY KEY,
    trigger_id        uuid NOT NULL,
    owner             text NOT NULL,
    key               text NOT NULL,
    due_micros        bigint NOT NULL,
    state             text NOT NULL CHECK (state IN ('due', 'running', 'over')),
    not_before_micros bigint NOT NULL,
    detail            text NOT NULL,
    claim             text NOT NULL,
    UNIQUE (trigger_id, key)
);
CREATE INDEX trigger_runs_open ON himalia.trigger_runs (not_before_micros) WHERE state IN ('due', 'running');
CREATE INDEX trigger_runs_latest ON himalia.trigger_runs (trigger_id, due_micros, id);

CREATE TABLE himalia.deliveries (
    id             uuid PRIMARY KEY,
    trigger_id     uuid NOT NULL,
    run_id         uuid NOT NULL,
    owner          text NOT NULL,
    created_micros bigint NOT NULL,
    next_micros    bigint,
    detail         text NOT NULL,
    claim          text NOT NULL
);
CREATE INDEX deliveries_due ON himalia.deliveries (next_micros) WHERE next_micros IS NOT NULL;
CREATE INDEX deliveries_latest ON himalia.deliveries (trigger_id, created_micros, id);
CREATE INDEX deliveries_of_run ON himalia.deliveries (run_id);

CREATE TABLE himalia.prompt_answers (
    trigger_id      uuid NOT NULL,
    message         text NOT NULL,
    answered_micros bigint NOT NULL,
    PRIMARY KEY (trigger_id, message)
);

CREATE TABLE himalia.tool_approvals (
    id              uuid PRIMARY KEY,
    owner           text NOT NULL,
    caller          text NOT NULL,
    template        text NOT NULL,
    tool            text NOT NULL,
    definition      text NOT NULL,
    approved_by     text NOT NULL,
    approved_micros bigint NOT NULL,
    UNIQUE (owner, caller, template, tool)
);

CREATE TABLE himalia.owner_bytes (
    owner text NOT NULL,
    kind  text NOT NULL,
    bytes bigint NOT NULL,
    PRIMARY KEY (owner, kind)
);

-- Owners are counted in their order, so that two statements that change rows of several owners wait for each other at most.
CREATE FUNCTION himalia.count_bytes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO himalia.owner_bytes AS held
        SELECT owner, TG_ARGV[0], sum(row_bytes)::bigint FROM added GROUP BY owner ORDER BY owner
        ON CONFLICT (owner, kind) DO UPDATE SET bytes = held.bytes + excluded.bytes;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO himalia.owner_bytes AS held
        SELECT owner, TG_ARGV[0], -sum(row_bytes)::bigint FROM removed GROUP BY owner ORDER BY owner
        ON CONFLICT (owner, kind) DO UPDATE SET bytes = held.bytes + excluded.bytes;
    ELSE
        INSERT INTO himalia.owner_bytes AS held
        SELECT owner, TG_ARGV[0], sum(more)::bigint
        FROM (SELECT owner, row_bytes AS more FROM added UNION ALL SELECT owner, -row_bytes FROM removed) changed
        GROUP BY owner HAVING sum(more) <> 0 ORDER BY owner
        ON CONFLICT (owner, kind) DO UPDATE SET bytes = held.bytes + excluded.bytes;
    END IF;
    RETURN NULL;
END $$;
"#,
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

/// Applies the steps that are missing, all in one transaction and under an advisory lock, so that a crash leaves the earlier version
/// or the newest. `database` is named in errors.
pub(super) async fn migrate(client: &mut Client, database: &str, steps: &[&str]) -> Result<(), Failure> {
    let supported = i64::try_from(steps.len()).unwrap_or(i64::MAX);
    let transaction = client.transaction().await?;
    transaction
        .execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK])
        .await?;
    // Not made where it is: that needs a right that only the first start has to have.
    let made: bool = transaction
        .query_one("SELECT to_regclass('himalia.meta') IS NOT NULL", &[])
        .await?
        .try_get(0)?;
    if !made {
        transaction.batch_execute(META).await?;
    }
    if let Some(row) = transaction.query_opt(DEVELOPMENT, &[]).await? {
        return Err(StoreError::DevelopmentSchema {
            path: database.into(),
            found: row.try_get(0)?,
            supported,
            remedy: "use another database, or drop the schema himalia and start with new data directories",
        }
        .into());
    }
    let version: String = transaction
        .query_one("SELECT value FROM himalia.meta WHERE key = 'schema'", &[])
        .await?
        .try_get(0)?;
    let version: i64 = version.parse().map_err(|_| StoreError::BadRow {
        table: "meta",
        column: "value",
        reason: format!("the schema version {version:?} must be a number"),
    })?;
    if version > supported {
        return Err(StoreError::NewerSchema {
            path: database.into(),
            found: version,
            supported,
        }
        .into());
    }
    let missing = usize::try_from(version).unwrap_or(0);
    for step in steps.iter().skip(missing) {
        transaction.batch_execute(step).await?;
    }
    transaction
        .execute(
            "UPDATE himalia.meta SET value = $1 WHERE key = 'schema'",
            &[&supported.to_string()],
        )
        .await?;
    transaction.commit().await?;
    Ok(())
}
