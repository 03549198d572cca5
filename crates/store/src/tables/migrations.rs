//! The tables of version 1, and the text of a step for each of the two databases.
//!
//! A step is written once, with the types of Postgres. Braces mark what depends on the database:
//!
//! | in the text | `SQLite` | Postgres |
//! |---|---|---|
//! | `{sqlite …}`, `{postgres …}` | one of the two | the other one |
//! | `{counted TABLE KIND COLUMN…}` | these columns count as bytes of their owner, by triggers | the same |
//!
//! `SQLite` has no schema `himalia.`, and each of its tables is `STRICT`.

use crate::sql::Dialect;

/// Step `n` (from 0) brings version `n` to `n + 1`, so there are as many as the newest version. A released step never changes: a change is a
/// new step.
pub(crate) const MIGRATIONS: &[&str] = &[V1];

/// Large columns are the last ones of their table: to read a column, `SQLite` reads the pages of all columns before it. Their tables have row
/// ids: a search in a table without reads the whole rows that it passes.
const V1: &str = r#"
{sqlite
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value ANY NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta (key, value) VALUES ('gateway_epoch', 0);
}{postgres
-- `ready`: by template, how many kernels of its pool are ready.
CREATE TABLE himalia.replicas (
    name        text PRIMARY KEY,
    epoch       bigint NOT NULL,
    address     text,
    lease_until timestamptz NOT NULL,
    ready       jsonb NOT NULL DEFAULT '{}'
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
}
CREATE TABLE himalia.kernels (
    id               uuid PRIMARY KEY NOT NULL,
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
{postgres
CREATE INDEX kernels_by_replica ON himalia.kernels (replica);
CREATE INDEX kernels_by_owner ON himalia.kernels (owner);}

CREATE TABLE himalia.ended_sessions (
    session_dir    text PRIMARY KEY NOT NULL,
    id             uuid NOT NULL,
    owner          text NOT NULL,
    name           text,
    created_micros bigint NOT NULL,
    ended_micros   bigint NOT NULL,
    cause          text NOT NULL,
    removed_micros bigint,
    facts          jsonb NOT NULL{postgres ,
    replica        text NOT NULL}
);
{sqlite
CREATE INDEX ended_sessions_removed ON himalia.ended_sessions (removed_micros) WHERE removed_micros IS NOT NULL;}{postgres
CREATE INDEX ended_sessions_by_id ON himalia.ended_sessions (id);
CREATE INDEX ended_sessions_by_replica ON himalia.ended_sessions (replica);}

CREATE TABLE himalia.jupyter_sessions (
    id             uuid PRIMARY KEY,
    owner          text NOT NULL,
    path           text NOT NULL,
    name           text NOT NULL,
    type           text NOT NULL,
    kernel_id      uuid NOT NULL,
    created_micros bigint NOT NULL{postgres ,
    replica        text NOT NULL}
){sqlite  STRICT, WITHOUT ROWID};
CREATE INDEX jupyter_sessions_by_path ON himalia.jupyter_sessions (owner, path);
{sqlite
CREATE INDEX jupyter_sessions_by_kernel ON himalia.jupyter_sessions (kernel_id);}{postgres
CREATE INDEX jupyter_sessions_by_replica ON himalia.jupyter_sessions (replica);}

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
){sqlite  STRICT, WITHOUT ROWID};

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
){sqlite  STRICT, WITHOUT ROWID};

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
    published_by     text NOT NULL,
    published_micros bigint NOT NULL,
    manifest         text NOT NULL,
    files            bytea NOT NULL,
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
    PRIMARY KEY (owner, name, version){postgres ,
    FOREIGN KEY (owner, digest) REFERENCES himalia.workflow_definitions}
){sqlite  STRICT, WITHOUT ROWID};
CREATE INDEX workflows_by_digest ON himalia.workflows (owner, digest);
CREATE INDEX workflows_bytes ON himalia.workflows (owner, bytes);

CREATE TABLE himalia.workflow_runs (
    id             text PRIMARY KEY,
    owner          text NOT NULL,
    workflow       text NOT NULL,
    version        text NOT NULL,
    digest         text NOT NULL,
    status         text NOT NULL CHECK (status IN ('running', 'succeeded', 'failed', 'cancelled')),
    started_by     text NOT NULL,
    start_key      text,
    start_print    text NOT NULL,
    cancelled_by   text,
    created_micros bigint NOT NULL,
    ended_micros   bigint,
    epoch          bigint NOT NULL,
    error          text,
    principal      text NOT NULL,
    inputs         text NOT NULL,
    outputs        text{postgres ,
    FOREIGN KEY (owner, digest) REFERENCES himalia.workflow_definitions}
);
CREATE UNIQUE INDEX workflow_runs_by_key ON himalia.workflow_runs (owner, start_key) WHERE start_key IS NOT NULL;
-- With the status, so that the quota and the lists do not read rows.
CREATE INDEX workflow_runs_by_owner ON himalia.workflow_runs (owner, created_micros, id{sqlite , status});
{sqlite CREATE INDEX workflow_runs_running ON himalia.workflow_runs (epoch) WHERE status = 'running';}
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
    session      text,
    execution    text,
    turn         bigint NOT NULL DEFAULT 0,
    told         boolean NOT NULL DEFAULT false,
    answered_by  text,
    due_micros   bigint,
    begun_micros bigint,
    ended_micros bigint,
    answer       text,
    error        text,
    prompt       text,
    outputs      text,
    PRIMARY KEY (run, step, item, attempt)
);
CREATE INDEX workflow_steps_waiting ON himalia.workflow_steps (owner, begun_micros, run{postgres  COLLATE "C"}, step{postgres  COLLATE "C"}) WHERE status = 'waiting';
CREATE INDEX workflow_steps_turns ON himalia.workflow_steps (turn, begun_micros, run{postgres  COLLATE "C"}, step{postgres  COLLATE "C"}) WHERE status = 'waiting';
CREATE INDEX workflow_steps_untold ON himalia.workflow_steps (turn, begun_micros) WHERE status = 'waiting' AND {sqlite told = 0}{postgres NOT told};

CREATE TABLE himalia.triggers (
    id             uuid PRIMARY KEY NOT NULL,
    kind           text NOT NULL,
    owner          text NOT NULL,
    name           text NOT NULL,
    key_id         text NOT NULL,
    next_micros    bigint,
    version        bigint NOT NULL,
    created_micros bigint NOT NULL,
    definition     text NOT NULL,
    sealed         bytea NOT NULL,
    UNIQUE (owner, kind, name)
);
CREATE INDEX triggers_due ON himalia.triggers (next_micros) WHERE next_micros IS NOT NULL;
CREATE INDEX triggers_by_kind ON himalia.triggers (kind, owner, name);

CREATE TABLE himalia.trigger_runs (
    id                uuid PRIMARY KEY NOT NULL,
    trigger_id        uuid NOT NULL,
    owner             text NOT NULL,
    key               text NOT NULL,
    due_micros        bigint NOT NULL,
    state             text NOT NULL CHECK (state IN ('due', 'running', 'over')),
    not_before_micros bigint NOT NULL,
    claim             text NOT NULL,
    detail            text NOT NULL,
    UNIQUE (trigger_id, key)
);
CREATE INDEX trigger_runs_open ON himalia.trigger_runs (not_before_micros) WHERE state IN ('due', 'running');
CREATE INDEX trigger_runs_latest ON himalia.trigger_runs (trigger_id, due_micros, id);

CREATE TABLE himalia.deliveries (
    id             uuid PRIMARY KEY NOT NULL,
    trigger_id     uuid NOT NULL,
    run_id         uuid NOT NULL,
    owner          text NOT NULL,
    created_micros bigint NOT NULL,
    next_micros    bigint,
    claim          text NOT NULL,
    detail         text NOT NULL
);
CREATE INDEX deliveries_due ON himalia.deliveries (next_micros) WHERE next_micros IS NOT NULL;
CREATE INDEX deliveries_latest ON himalia.deliveries (trigger_id, created_micros, id);
CREATE INDEX deliveries_of_run ON himalia.deliveries (run_id);

CREATE TABLE himalia.prompt_answers (
    trigger_id      uuid NOT NULL,
    message         text NOT NULL,
    answered_micros bigint NOT NULL,
    PRIMARY KEY (trigger_id, message)
){sqlite  STRICT, WITHOUT ROWID};

CREATE TABLE himalia.tool_approvals (
    id              uuid PRIMARY KEY NOT NULL,
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
){sqlite  STRICT, WITHOUT ROWID};
{postgres
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
}
{counted skills skills manifest files}
{counted workflow_definitions workflows definition}
{counted workflow_runs runs principal inputs outputs error}
{counted workflow_steps runs outputs error prompt}
{counted triggers triggers definition sealed}
{counted trigger_runs triggers key detail}
{counted deliveries triggers detail}
{counted credentials credentials definition sealed}
{counted access_tokens tokens caller description created_by}
"#;

const SQLITE_WORDS: [(&str, &str); 8] = [
    ("himalia.", ""),
    (" text", " TEXT"),
    (" uuid", " TEXT"),
    (" jsonb", " TEXT"),
    (" bigint", " INTEGER"),
    (" boolean", " INTEGER"),
    (" bytea", " BLOB"),
    ("\n);", "\n) STRICT;"),
];

/// The text of a step for one database.
pub(crate) fn expand(step: &str, dialect: Dialect) -> String {
    let mut text = String::with_capacity(step.len());
    let mut rest = step;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let (block, after) = block(after);
        let own = match dialect {
            Dialect::Sqlite => "sqlite",
            Dialect::Postgres => "postgres",
        };
        if let Some(own) = block.strip_prefix(own) {
            text.push_str(own.strip_prefix(' ').unwrap_or(own));
        } else if let Some(columns) = block.strip_prefix("counted ") {
            text.push_str(&counted(columns, dialect));
        }
        rest = after;
    }
    text.push_str(rest);
    if dialect == Dialect::Sqlite {
        for (word, other) in SQLITE_WORDS {
            text = text.replace(word, other);
        }
    }
    text
}

/// Splits a text after an opening brace into the block and the rest. Braces inside are part of it.
fn block(text: &str) -> (&str, &str) {
    let mut depth = 1;
    let closes = |c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        depth == 0
    };
    text.find(closes)
        .and_then(|end| Some((text.get(..end)?, text.get(end + 1..)?)))
        .unwrap_or((text, ""))
}

/// Counts columns of a table as bytes of their owner whenever a row changes: `table kind column…`.
fn counted(columns: &str, dialect: Dialect) -> String {
    let mut words = columns.split(' ');
    let (table, kind) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let columns: Vec<&str> = words.collect();
    let sum = |length: &dyn Fn(&str) -> String| {
        let lengths = columns.iter().map(|column| length(column));
        lengths.fold("0".to_owned(), |sum, length| {
            format!("{sum} + coalesce({length}, 0)")
        })
    };
    if dialect == Dialect::Postgres {
        let bytes = sum(&|column| format!("octet_length({column})"));
        return format!(
            "
ALTER TABLE himalia.{table} ADD COLUMN row_bytes bigint GENERATED ALWAYS AS ({bytes}) STORED;
CREATE TRIGGER {table}_added AFTER INSERT ON himalia.{table} REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION himalia.count_bytes('{kind}');
CREATE TRIGGER {table}_changed AFTER UPDATE ON himalia.{table} REFERENCING NEW TABLE AS added OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION himalia.count_bytes('{kind}');
CREATE TRIGGER {table}_removed AFTER DELETE ON himalia.{table} REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION himalia.count_bytes('{kind}');"
        );
    }
    let [new, old] = ["NEW", "OLD"].map(|row| sum(&|column| format!("length(CAST({row}.{column} AS BLOB))")));
    let columns = columns.join(", ");
    format!(
        "
CREATE TRIGGER {table}_added AFTER INSERT ON {table} BEGIN
    INSERT INTO owner_bytes VALUES (NEW.owner, '{kind}', ({new}))
    ON CONFLICT (owner, kind) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER {table}_changed AFTER UPDATE OF {columns} ON {table} BEGIN
    UPDATE owner_bytes SET bytes = bytes + ({new}) - ({old})
    WHERE owner = NEW.owner AND kind = '{kind}';
END;
CREATE TRIGGER {table}_removed AFTER DELETE ON {table} BEGIN
    UPDATE owner_bytes SET bytes = bytes - ({old})
    WHERE owner = OLD.owner AND kind = '{kind}';
END;"
    )
}
