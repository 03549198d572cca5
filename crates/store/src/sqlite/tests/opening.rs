use super::*;

#[tokio::test]
async fn only_the_owner_may_read_it() {
    let place = Fixture::new();
    let store = place.open().unwrap();
    store.insert_kernel(kernel(1)).await.unwrap();
    for entry in fs::read_dir(place.dir.path()).unwrap() {
        let mode = entry.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0);
    }
}

#[tokio::test]
async fn a_second_gateway_is_refused() {
    let place = Fixture::new();
    let store = place.open().unwrap();
    assert!(matches!(place.open(), Err(StoreError::Locked { .. })));
    store.close().await.unwrap();
    assert_eq!(place.open().unwrap().epoch(), 2);
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_as_it_was() {
    let place = Fixture::new();
    let store = place.open().unwrap();
    store.insert_kernel(kernel(1)).await.unwrap();
    store.close().await.unwrap();
    raw(&place.path())
        .pragma_update(None, "user_version", SCHEMA_VERSION + 1)
        .unwrap();
    let before = place.bytes();
    let error = place.open().unwrap_err();
    assert!(matches!(error, StoreError::NewerSchema { .. }), "{error}");
    assert_eq!(place.bytes(), before);
}

#[test]
fn a_newer_schema_that_is_only_in_the_log_is_refused_too() {
    let place = Fixture::new();
    drop(raw(&place.path()));
    // A crash leaves the change in the write-ahead log: copy the files while the writer has them open.
    let source = Fixture::new();
    let writer = raw(&source.path());
    writer.pragma_update(None, "journal_mode", "WAL").unwrap();
    writer.execute_batch("CREATE TABLE t (x)").unwrap();
    writer
        .pragma_update(None, "application_id", schema::APPLICATION_ID)
        .unwrap();
    writer
        .pragma_update(None, "user_version", SCHEMA_VERSION + 1)
        .unwrap();
    for name in ["himalia.sqlite", "himalia.sqlite-wal"] {
        fs::copy(source.dir.path().join(name), place.dir.path().join(name)).unwrap();
    }
    let before = place.bytes();
    assert!(matches!(place.open(), Err(StoreError::NewerSchema { .. })));
    assert_eq!(place.bytes(), before);
}

#[test]
fn a_database_of_another_program_is_refused() {
    let place = Fixture::new();
    raw(&place.path())
        .execute_batch("CREATE TABLE places (url TEXT)")
        .unwrap();
    let before = place.bytes();
    assert!(matches!(place.open(), Err(StoreError::Foreign { .. })));
    assert_eq!(place.bytes(), before);
}

#[tokio::test]
async fn damage_is_refused_with_a_clear_message() {
    let place = Fixture::new();
    fs::write(place.path(), "this is not a database, it is a letter").unwrap();
    let error = place.open().unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains("move it away"), "{error}");
    fs::remove_file(place.path()).unwrap();

    let store = place.open().unwrap();
    for n in 0..200 {
        store.insert_kernel(kernel(n)).await.unwrap();
    }
    store.close().await.unwrap();
    let mut bytes = fs::read(place.path()).unwrap();
    let len = bytes.len();
    bytes[4096..len].fill(0xa5);
    fs::write(place.path(), &bytes).unwrap();
    let error = place.open().unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    assert_eq!(fs::read(place.path()).unwrap(), bytes);
}

#[test]
fn a_missing_directory_is_named() {
    let error = SqliteStore::open(Path::new("/nonexistent/himalia.sqlite"), "main").unwrap_err();
    assert!(error.to_string().contains("/nonexistent/"), "{error}");
}

#[tokio::test]
async fn a_crash_keeps_what_was_answered_and_drops_what_was_not() {
    let place = Fixture::new();
    let store = place.open().unwrap();
    store.insert_kernel(kernel(1)).await.unwrap();
    // What a killed gateway leaves: the files as they are in the middle of a transaction.
    let (copied, at_crash) = tokio::sync::oneshot::channel();
    let (go_on, blocked) = std::sync::mpsc::channel::<()>();
    let busy = store.clone();
    let writing = tokio::spawn(async move {
        busy.write(move |transaction| {
            transaction.execute("DELETE FROM kernels", [])?;
            let _ = copied.send(());
            let _ = blocked.recv();
            Ok(())
        })
        .await
    });
    at_crash.await.unwrap();
    let crashed = Fixture::new();
    for name in ["himalia.sqlite", "himalia.sqlite-wal"] {
        fs::copy(place.dir.path().join(name), crashed.dir.path().join(name)).unwrap();
    }
    // A reader is not held up by the open transaction.
    assert_eq!(store.kernels(Scope::Own).await.unwrap().len(), 1);
    go_on.send(()).unwrap();
    writing.await.unwrap().unwrap();

    let after = crashed.open().unwrap();
    assert_eq!(after.epoch(), 2);
    assert_eq!(after.kernels(Scope::Own).await.unwrap(), vec![kernel(1)]);
}

#[test]
fn a_migration_that_fails_changes_nothing() {
    let place = Fixture::new();
    let mut connection = raw(&place.path());
    schema::migrate(&mut connection, &["CREATE TABLE a (x) ;"]).unwrap();
    let steps = [
        "CREATE TABLE a (x);",
        "CREATE TABLE b (x); INSERT INTO nowhere VALUES (1);",
    ];
    assert!(schema::migrate(&mut connection, &steps).is_err());
    assert_eq!(schema::version(&connection).unwrap(), 1);
    assert!(connection.prepare("SELECT * FROM b").is_err());
    let fixed = ["CREATE TABLE a (x);", "CREATE TABLE b (x);"];
    schema::migrate(&mut connection, &fixed).unwrap();
    assert_eq!(schema::version(&connection).unwrap(), 2);
    schema::migrate(&mut connection, &fixed).unwrap();
    assert_eq!(schema::version(&connection).unwrap(), 2);
}

/// A row as version 1 wrote it.
const ROW_OF_VERSION_1: &str = "
INSERT INTO kernels (id, owner, kernelspec, session_dir, run_dir, sandbox_id, sandbox_key_hash, isolation,
    incarnation, created_micros, launch, life, dead_cause)
VALUES ('00000000-0000-0000-0000-000000000001', 'operator', 'python3', 'kernels/1', '/run/himalia', 'aa', zeroblob(32), 'none',
    2, 5, '{\"argv\":[\"python3\"],\"cwd\":\"/\",\"interrupt_mode\":\"signal\"}', 'live', NULL)";

#[tokio::test]
async fn a_file_of_version_1_is_brought_up_and_keeps_its_rows() {
    let place = Fixture::new();
    let mut old = raw(&place.path());
    schema::migrate(&mut old, &schema::MIGRATIONS[..1]).unwrap();
    old.execute_batch(ROW_OF_VERSION_1).unwrap();
    drop(old);
    let store = place.open().unwrap();
    let row = store.kernel(Uuid::from_u128(1)).await.unwrap().unwrap();
    assert_eq!((row.incarnation, row.life), (2, KernelLife::Live));
    assert_eq!((row.paths.socket.as_str(), &row.name), ("gw.sock", &None));
    let session = serde_json::json!({
        "owner": "operator", "origin": "jupyter", "name": null, "created_micros": 5, "template": "python3",
        "kernelspec": "python3", "provisioner": "local", "sandbox": { "isolation": "none" }, "cwd": "/",
        "start_path": "cold", "start_reason": null, "role": "session", "parent": null, "idle_timeout": null,
        "expires_micros": null, "labels": {},
    });
    assert_eq!(row.session, session);
    // It has no owner until it is taken.
    let no_owner = Owner {
        replica: String::new(),
        epoch: 0,
    };
    assert_eq!(store.owner(row.id).await.unwrap(), Some(no_owner));
    let fenced = store.delete_kernel(row.id).await;
    assert!(matches!(
        fenced,
        Err(StoreError::Fenced {
            held: None,
            current: 0,
            ..
        })
    ));
    assert_eq!(store.take_kernels().await.unwrap(), std::slice::from_ref(&row));
    assert_eq!(
        store.owner(row.id).await.unwrap().map(|owner| owner.epoch),
        Some(1)
    );
    let zygote = changes(&serde_json::json!({ "start_path": "zygote" }));
    assert!(store.amend_session(row.id, zygote).await.unwrap());
    store.insert_kernel(kernel(2)).await.unwrap();
    assert_eq!(store.kernel(Uuid::from_u128(2)).await.unwrap(), Some(kernel(2)));
}

#[tokio::test]
async fn a_file_of_version_4_knows_its_branches_and_takes_additional_kernels() {
    let place = Fixture::new();
    let mut old = raw(&place.path());
    schema::migrate(&mut old, &schema::MIGRATIONS[..4]).unwrap();
    old.execute_batch(ROW_OF_VERSION_1).unwrap();
    let branch = "INSERT INTO kernels SELECT '00000000-0000-0000-0000-000000000002', owner, kernelspec, session_dir, run_dir, \
         sandbox_id, sandbox_key_hash, isolation, incarnation, created_micros, launch, life, dead_cause, provisioner, 'k2.sock', \
         id, template, start_path, start_reason, sandbox, labels, idle_timeout_ms, expires_micros, origin, name FROM kernels";
    old.execute_batch(branch).unwrap();
    drop(old);
    let store = place.open().unwrap();
    let roles = store.kernels(Scope::Own).await.unwrap();
    let roles: Vec<_> = roles.iter().map(|row| row.session["role"].clone()).collect();
    assert_eq!(roles, ["session", "branch"]);
    let mut additional = kernel(3);
    additional.session["role"] = "kernel".into();
    store.insert_kernel(additional.clone()).await.unwrap();
    assert_eq!(store.kernel(additional.id).await.unwrap(), Some(additional));
}

/// A row as version 7 wrote it, with every column.
const ROW_OF_VERSION_7: &str = r#"
INSERT INTO kernels VALUES ('00000000-0000-0000-0000-000000000001', 'acme', 'python3', 'kernels/1', '/run/himalia', 'aa',
    zeroblob(32), 'gvisor', 2, 5, '{"argv":["python3"],"cwd":"/session","interrupt_mode":"signal"}', 'dead', 'oom', 'docker',
    'k2.sock', '00000000-0000-0000-0000-000000000009', 'analysis', 'fork', 'another image',
    '{"isolation":"gvisor","limits":{"memory_bytes":5},"network":{"open":"lab"}}', '{"team":"a"}', 1500, 7, 'v1', 'eda',
    'branch', 'main', 3)"#;

#[tokio::test]
async fn a_file_of_version_7_keeps_every_attribute_of_its_sessions() {
    let place = Fixture::new();
    let mut old = raw(&place.path());
    schema::migrate(&mut old, &schema::MIGRATIONS[..7]).unwrap();
    old.execute_batch(ROW_OF_VERSION_7).unwrap();
    drop(old);
    let store = place.open().unwrap();
    let row = store.kernel(Uuid::from_u128(1)).await.unwrap().unwrap();
    let expected = KernelRecord {
        id: Uuid::from_u128(1),
        owner: "acme".into(),
        name: Some("eda".into()),
        created_micros: 5,
        session: serde_json::json!({
            "owner": "acme", "origin": "v1", "name": "eda", "created_micros": 5, "template": "analysis",
            "kernelspec": "python3", "provisioner": "docker",
            "sandbox": { "isolation": "gvisor", "limits": { "memory_bytes": 5 }, "network": { "open": "lab" } },
            "cwd": "/session", "start_path": "fork", "start_reason": "another image", "role": "branch",
            "parent": "00000000-0000-0000-0000-000000000009", "idle_timeout": { "secs": 1, "nanos": 500_000_000 },
            "expires_micros": 7, "labels": { "team": "a" },
        }),
        paths: RuntimePaths {
            session_dir: "kernels/1".into(),
            sandbox_id: "aa".into(),
            sandbox_key_hash: [0; 32],
            socket: "k2.sock".into(),
        },
        incarnation: 2,
        life: KernelLife::Dead,
        dead_cause: Some("oom".into()),
    };
    assert_eq!(row, expected);
    let owner = store.owner(row.id).await.unwrap().unwrap();
    assert_eq!((owner.replica.as_str(), owner.epoch), ("main", 3));
}
