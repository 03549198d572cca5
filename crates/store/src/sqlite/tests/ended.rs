use super::*;
use crate::sql::statement::{Dialect, expand};
use crate::tables::{ended_sessions, kernels, skills, workflow_runs, workflows};

async fn fill_and_empty(store: &SqliteStore) {
    for n in 0..400 {
        let record = EndedRecord {
            cause: "x".repeat(2000),
            removed_micros: Some(1),
            ..ended(n)
        };
        store.end_kernel(record).await.unwrap();
    }
    assert_eq!(store.forget_ended(2).await.unwrap(), 400);
}

#[tokio::test]
async fn room_is_given_back_in_bounded_steps() {
    let place = Fixture::new();
    let store = place.open().unwrap();
    fill_and_empty(&store).await;
    let before = store.space().await.unwrap();
    assert!(before.free_bytes > 400_000, "{before:?}");
    let step = store.compact(10).await.unwrap();
    assert_eq!(
        before.total_bytes - step.total_bytes,
        10 * 4096,
        "{before:?} {step:?}"
    );
    let all = store.compact(100_000).await.unwrap();
    assert_eq!(all.free_bytes, 0);
    store.close().await.unwrap();
    assert_eq!(fs::metadata(place.path()).unwrap().len(), all.total_bytes);
}

#[tokio::test]
async fn a_file_that_sqlite3_wrote_is_rewritten_once() {
    let place = Fixture::new();
    raw(&place.path())
        .execute_batch(
            "PRAGMA auto_vacuum = NONE; PRAGMA journal_mode = WAL; CREATE TABLE x (y); DROP TABLE x;",
        )
        .unwrap();
    let store = place.open().unwrap();
    fill_and_empty(&store).await;
    let before = store.space().await.unwrap();
    assert!(before.free_bytes > 400_000, "{before:?}");
    assert_eq!(store.compact(1).await.unwrap().free_bytes, 0);
    let mode: i64 = raw(&place.path())
        .pragma_query_value(None, "auto_vacuum", |row| row.get(0))
        .unwrap();
    assert_eq!(mode, super::super::space::INCREMENTAL);
}

/// What is written while sessions and their kernels live touches one row, however many there were before.
#[tokio::test]
async fn no_write_reads_through_a_table() {
    let place = Fixture::new();
    place.open().unwrap().close().await.unwrap();
    let connection = raw(&place.path());
    for sql in [
        kernels::INSERT,
        kernels::UPDATE,
        kernels::SET_LIFE,
        kernels::MOVE,
        kernels::AMEND,
        kernels::DELETE,
        ended_sessions::END,
        ended_sessions::REMOVED,
        ended_sessions::FORGET,
    ] {
        for step in expand(sql, Dialect::Sqlite).steps {
            let mut plan = connection
                .prepare(&format!("EXPLAIN QUERY PLAN {}", step.text))
                .unwrap();
            let mut rows = plan.raw_query();
            while let Some(row) = rows.next().unwrap() {
                let step: String = row.get("detail").unwrap();
                let table = step.strip_prefix("SCAN ").unwrap_or("");
                assert!(
                    ["", "CONSTANT ROW"].contains(&table) || table.starts_with("json_each"),
                    "{sql}: {step}"
                );
            }
        }
    }
}

/// An owner can have many versions and runs.
#[tokio::test]
async fn versions_of_a_name_and_unfinished_runs_are_found_by_an_index() {
    let place = Fixture::new();
    place.open().unwrap().close().await.unwrap();
    let connection = raw(&place.path());
    for (sql, index) in [
        (
            skills::LISTS[1],
            "INDEX sqlite_autoindex_skills_1 (owner=? AND name=?)",
        ),
        (workflows::LISTS[1], "PRIMARY KEY (owner=? AND name=?)"),
        (workflow_runs::MINE, "INDEX workflow_runs_running (epoch=?)"),
    ] {
        let statement = &expand(sql, Dialect::Sqlite).steps[0];
        let plan = format!("EXPLAIN QUERY PLAN {}", statement.text);
        let found: String = connection
            .prepare(&plan)
            .unwrap()
            .raw_query()
            .next()
            .unwrap()
            .unwrap()
            .get("detail")
            .unwrap();
        assert!(found.ends_with(index), "{sql}: {found}");
    }
}
