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
        .pragma_update(None, "user_version", schema::newest(MIGRATIONS) + 1)
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

/// The steps to a version that does not exist: one more than there are.
fn steps_of_next_version() -> Vec<&'static str> {
    let mut steps = MIGRATIONS.to_vec();
    steps.push("ALTER TABLE kernels ADD COLUMN step TEXT NOT NULL DEFAULT 'next'; UPDATE kernels SET incarnation = incarnation + 1;");
    steps
}

#[tokio::test]
async fn a_file_of_this_version_is_brought_up_to_the_next_and_keeps_its_rows() {
    let place = Fixture::new();
    let store = place.open().unwrap();
    store.insert_kernel(kernel(1)).await.unwrap();
    store.close().await.unwrap();
    // The step runs once, however often the next version opens the file.
    for epoch in 2..4 {
        let store = SqliteStore::open_with(&place.path(), "main", &steps_of_next_version()).unwrap();
        assert_eq!(store.epoch(), epoch);
        let mut expected = kernel(1);
        expected.incarnation += 1;
        assert_eq!(store.kernels(Scope::Own).await.unwrap(), [expected]);
        store.close().await.unwrap();
    }
    let file = raw(&place.path());
    assert_eq!(schema::version(&file).unwrap(), 2);
    let step: String = file
        .query_row("SELECT step FROM kernels", [], |row| row.get(0))
        .unwrap();
    assert_eq!(step, "next");
    drop(file);
    let before = place.bytes();
    let error = place.open().unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::NewerSchema {
                found: 2,
                supported: 1,
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(place.bytes(), before);
}

#[test]
fn a_file_of_a_development_build_is_refused_whatever_its_version() {
    for version in [1, 2, 22] {
        let place = Fixture::new();
        let file = raw(&place.path());
        file.execute_batch("CREATE TABLE kernels (id TEXT)").unwrap();
        file.pragma_update(None, "application_id", schema::DEVELOPMENT_APPLICATION_ID)
            .unwrap();
        file.pragma_update(None, "user_version", version).unwrap();
        drop(file);
        let before = place.bytes();
        for steps in [MIGRATIONS, &steps_of_next_version()] {
            let error = SqliteStore::open_with(&place.path(), "main", steps).unwrap_err();
            assert!(matches!(error, StoreError::DevelopmentSchema { .. }), "{error}");
            let text = error.to_string();
            let names = [
                format!("schema {version} of"),
                format!("schema {} of", steps.len()),
            ];
            assert!(names.iter().all(|name| text.contains(name)), "{text}");
            assert!(text.contains("move the data directory away"), "{text}");
        }
        assert_eq!(place.bytes(), before);
    }
}

#[test]
fn a_connection_keeps_its_prepared_statements() {
    let place = Fixture::new();
    open::create(&place.path()).unwrap();
    let connection = open::connect(&place.path(), rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
    let runs = |number: usize| {
        let text = format!("SELECT {number}");
        let mut statement = connection.prepare_cached(&text).unwrap();
        statement.query_row([], |_| Ok(())).unwrap();
        statement.get_status(rusqlite::StatementStatus::Run)
    };
    for expected in [1, 2] {
        for number in 0..open::STATEMENTS {
            assert_eq!(runs(number), expected, "statement {number}");
        }
    }
}
