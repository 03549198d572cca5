//! What becomes of single jobs.

use super::*;

#[tokio::test]
async fn a_failed_job_leaves_nothing_and_the_next_one_works() {
    let place = Fixture::new();
    let store = place.open().unwrap();
    let failed: Result<(), _> = store
        .write(|transaction| {
            transaction.execute("DELETE FROM meta", [])?;
            Err(StoreError::Closed.into())
        })
        .await;
    assert!(failed.is_err());
    store.insert_kernel(kernel(1)).await.unwrap();
    store.close().await.unwrap();
    assert_eq!(place.open().unwrap().epoch(), 2);
}

#[tokio::test]
async fn a_row_that_was_tampered_with_is_an_error() {
    let place = Fixture::new();
    let store = place.open().unwrap();
    store.insert_kernel(kernel(1)).await.unwrap();
    store.close().await.unwrap();
    raw(&place.path())
        .execute("UPDATE kernels SET session = 'no json'", [])
        .unwrap();
    let error = place.open().unwrap().kernels(Scope::Own).await.unwrap_err();
    assert!(
        error.to_string().contains("table kernels, column session"),
        "{error}"
    );
}
#[tokio::test]
async fn a_job_whose_caller_left_is_still_done() {
    let place = Fixture::new();
    let store = place.open().unwrap();
    let (go_on, blocked) = std::sync::mpsc::channel::<()>();
    let (holds, held) = tokio::sync::oneshot::channel();
    let busy = store.clone();
    let holding = tokio::spawn(async move {
        busy.write(move |_| {
            let _ = holds.send(());
            let _ = blocked.recv();
            Ok(())
        })
        .await
    });
    held.await.unwrap();
    let mut left = Box::pin(store.insert_kernel(kernel(2)));
    // Polled once it is queued; then its caller goes away.
    assert!(futures_poll_once(left.as_mut()).await);
    drop(left);
    go_on.send(()).unwrap();
    holding.await.unwrap().unwrap();
    store.write(|_| Ok(())).await.unwrap();
    assert_eq!(store.kernels(Scope::Own).await.unwrap(), vec![kernel(2)]);
}

/// Polls once; whether it is pending.
async fn futures_poll_once<F: Future + Unpin>(mut future: F) -> bool {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(std::pin::Pin::new(&mut future).poll(context).is_pending())
    })
    .await
}
