use std::collections::BTreeMap;

use super::*;

#[tokio::test]
async fn a_kernel_is_kept_and_changed_and_forgotten() {
    let place = Place::new();
    let store = place.open().unwrap();
    store.insert_kernel(kernel(1)).await.unwrap();
    assert_eq!(store.kernel(Uuid::from_u128(1)).await.unwrap(), Some(kernel(1)));
    let error = store.insert_kernel(kernel(1)).await.unwrap_err();
    assert!(
        matches!(error, StoreError::Conflict { what: "kernel", .. }),
        "{error}"
    );

    let cause = Some("signal(9)".to_owned());
    assert!(
        store
            .set_kernel_life(Uuid::from_u128(1), KernelLife::Dead, 3, cause.clone())
            .await
            .unwrap()
    );
    let mut expected = kernel(1);
    (expected.life, expected.incarnation, expected.dead_cause) = (KernelLife::Dead, 3, cause);
    assert_eq!(store.kernels().await.unwrap(), vec![expected.clone()]);

    expected.sandbox_id = "other".into();
    assert!(store.update_kernel(expected.clone()).await.unwrap());
    store.close().await.unwrap();
    let store = place.open().unwrap();
    assert_eq!(store.kernel(Uuid::from_u128(1)).await.unwrap(), Some(expected));

    assert!(store.delete_kernel(Uuid::from_u128(1)).await.unwrap());
    assert!(!store.delete_kernel(Uuid::from_u128(1)).await.unwrap());
    assert!(!store.update_kernel(kernel(1)).await.unwrap());
    assert!(
        !store
            .set_kernel_life(Uuid::from_u128(1), KernelLife::Live, 1, None)
            .await
            .unwrap()
    );
    assert_eq!(store.kernel(Uuid::from_u128(1)).await.unwrap(), None);
}

#[tokio::test]
async fn a_name_is_one_kernels_and_what_its_owner_may_change_is_kept() {
    let place = Place::new();
    let store = place.open().unwrap();
    let mut nameless = kernel(3);
    nameless.name = None;
    for row in [kernel(1), nameless.clone()] {
        store.insert_kernel(row).await.unwrap();
    }
    nameless.id = Uuid::from_u128(4);
    store.insert_kernel(nameless).await.unwrap();
    let mut taken = kernel(2);
    taken.name = kernel(1).name;
    assert!(store.insert_kernel(taken.clone()).await.is_err());
    taken.owner = "another".into();
    store.insert_kernel(taken).await.unwrap();

    let (one, labels) = (
        Uuid::from_u128(1),
        BTreeMap::from([("a".to_owned(), "b".to_owned())]),
    );
    let changed = store.set_kernel_terms(one, labels.clone(), None, Some(9)).await;
    assert!(changed.unwrap());
    let expected = KernelRecord {
        labels,
        idle_timeout_ms: None,
        expires_micros: Some(9),
        ..kernel(1)
    };
    assert_eq!(store.kernel(one).await.unwrap(), Some(expected));
    let absent = store
        .set_kernel_terms(Uuid::from_u128(9), BTreeMap::new(), None, None)
        .await;
    assert!(!absent.unwrap());
}

#[tokio::test]
async fn a_kernel_moves_and_keeps_its_log_and_its_terms() {
    let place = Place::new();
    let store = place.open().unwrap();
    store.insert_kernel(kernel(1)).await.unwrap();
    let moved = KernelRecord {
        sandbox_id: "another".into(),
        sandbox_key_hash: [9; 32],
        run_dir: "/run/another".into(),
        incarnation: 4,
        ..kernel(1)
    };
    let asked = KernelRecord {
        session_dir: "elsewhere".into(),
        labels: BTreeMap::from([("not".to_owned(), "set".to_owned())]),
        owner: "another".into(),
        ..moved.clone()
    };
    assert!(store.move_kernel(asked).await.unwrap());
    assert_eq!(store.kernel(moved.id).await.unwrap(), Some(moved));
    assert!(!store.move_kernel(kernel(2)).await.unwrap());
}

#[tokio::test]
async fn a_session_is_kept_and_changed_and_forgotten() {
    let place = Place::new();
    let store = place.open().unwrap();
    let mut session = JupyterSessionRecord {
        id: Uuid::from_u128(9),
        owner: "operator".into(),
        path: "a/ü b.ipynb".into(),
        name: "b".into(),
        kind: "notebook".into(),
        kernel_id: Uuid::from_u128(1),
        created_micros: -5,
    };
    store.insert_jupyter_session(session.clone()).await.unwrap();
    let again = store.insert_jupyter_session(session.clone()).await.unwrap_err();
    assert!(matches!(again, StoreError::Conflict { .. }));
    session.path = "c.ipynb".into();
    assert!(store.update_jupyter_session(session.clone()).await.unwrap());
    assert_eq!(
        store.jupyter_session(session.id).await.unwrap(),
        Some(session.clone())
    );
    assert_eq!(store.jupyter_sessions().await.unwrap(), vec![session.clone()]);
    let gone = vec![session.id, Uuid::from_u128(10)];
    assert_eq!(store.delete_jupyter_sessions(gone).await.unwrap(), 1);
    assert!(!store.update_jupyter_session(session).await.unwrap());
}

#[tokio::test]
async fn many_callers_at_once_are_all_served() {
    let place = Place::new();
    let store = place.open().unwrap();
    let tasks: Vec<_> = (0..500_u128)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move {
                store.insert_kernel(kernel(n)).await.unwrap();
                // Committed before the reply, so any read that starts now sees it.
                assert!(store.kernel(Uuid::from_u128(n)).await.unwrap().is_some());
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(store.kernels().await.unwrap().len(), 500);
}

#[tokio::test]
async fn a_failed_job_leaves_nothing_and_the_next_one_works() {
    let place = Place::new();
    let store = place.open().unwrap();
    let failed: Result<(), _> = store
        .write(|transaction| {
            transaction.execute("DELETE FROM meta", [])?;
            Err(StoreError::Closed)
        })
        .await;
    assert!(failed.is_err());
    store.insert_kernel(kernel(1)).await.unwrap();
    store.close().await.unwrap();
    assert_eq!(place.open().unwrap().epoch(), 2);
}

#[tokio::test]
async fn a_row_that_was_tampered_with_is_an_error() {
    let place = Place::new();
    let store = place.open().unwrap();
    store.insert_kernel(kernel(1)).await.unwrap();
    store.close().await.unwrap();
    raw(&place.path())
        .execute("UPDATE kernels SET launch = 'no json'", [])
        .unwrap();
    let error = place.open().unwrap().kernels().await.unwrap_err();
    assert!(
        error.to_string().contains("table kernels, column launch"),
        "{error}"
    );
}
