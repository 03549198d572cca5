use super::*;

fn ended(n: u128) -> EndedRecord {
    EndedRecord {
        id: Uuid::from_u128(n),
        owner: "operator".into(),
        name: Some(format!("session-{n}")),
        session_dir: format!("kernels/{n}"),
        created_micros: 1,
        ended_micros: i64::try_from(n).unwrap(),
        cause: "ttl".into(),
        removed_micros: None,
        facts: serde_json::json!({ "template": "small", "labels": { "a": "b" } }),
    }
}

#[tokio::test]
async fn a_kernel_that_is_over_leaves_a_trace_until_it_is_forgotten() {
    let place = Place::new();
    let store = place.open().unwrap();
    store.insert_kernel(kernel(1)).await.unwrap();
    store.end_kernel(ended(1)).await.unwrap();
    store.end_kernel(ended(2)).await.unwrap();
    assert_eq!(store.kernel(Uuid::from_u128(1)).await.unwrap(), None);
    assert_eq!(store.ended_sessions().await.unwrap(), [ended(1), ended(2)]);

    let removed = ["kernels/1".to_owned(), "kernels/none".to_owned()];
    assert_eq!(store.set_removed(removed.to_vec(), 50).await.unwrap(), 1);
    let gone = EndedRecord {
        removed_micros: Some(50),
        facts: serde_json::json!({}),
        ..ended(1)
    };
    assert_eq!(store.ended_sessions().await.unwrap(), [gone, ended(2)]);
    assert_eq!(store.forget_ended(50).await.unwrap(), 0);
    assert_eq!(store.forget_ended(51).await.unwrap(), 1);
    assert_eq!(store.ended_sessions().await.unwrap(), [ended(2)]);
}

async fn fill_and_empty(store: &Store) {
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
    let place = Place::new();
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
async fn a_file_of_an_earlier_version_is_written_anew_once() {
    let place = Place::new();
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
    assert_eq!(mode, crate::ended::INCREMENTAL);
}

/// What is written while sessions and their kernels live touches one row, however many there were before.
#[tokio::test]
async fn no_write_reads_through_a_table() {
    let place = Place::new();
    place.open().unwrap().close().await.unwrap();
    let connection = raw(&place.path());
    for sql in [
        crate::kernels::INSERT,
        crate::kernels::UPDATE,
        crate::kernels::SET_LIFE,
        crate::kernels::DELETE,
        crate::ended::INSERT,
        crate::ended::REMOVED,
        crate::ended::FORGET,
    ] {
        let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        for n in 1..=plan.parameter_count() {
            plan.raw_bind_parameter(n, 1).unwrap();
        }
        let mut rows = plan.raw_query();
        while let Some(row) = rows.next().unwrap() {
            let step: String = row.get("detail").unwrap();
            assert!(step.starts_with("SEARCH"), "{sql}: {step}");
        }
    }
}
