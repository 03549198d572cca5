//! What becomes of a kernel's log when the kernel has ended and a client still reads it.

use himalia_testkit::client::WsClient;
use himalia_testkit::gateway::Gateway;
use serde_json::json;
use uuid::Uuid;

use crate::common::{Log, assert_clean, delete, gateway, leftovers, start_with, stream_text, until_state};

/// A client that has not read all that there is, of a kernel that has ended.
async fn reader_of_an_ended_kernel(gateway: &Gateway, kernel: &str) -> WsClient {
    let lazy = gateway.connect(kernel).await.unwrap();
    let mut socket = gateway.connect(kernel).await.unwrap();
    // More than fits into the buffers of a connection.
    socket.execute("print old\ncount 3000 10000").await.unwrap();
    delete(gateway, kernel).await;
    assert_eq!(socket.closed().await.unwrap().code, Some(1000));
    lazy
}

#[tokio::test]
async fn an_id_can_be_used_again_while_the_old_log_is_read() {
    let mut gateway = gateway(&[]).await;
    let id = Uuid::new_v4().to_string();
    let body = json!({ "name": "fake", "kernel_id": id });
    assert_eq!(start_with(&gateway, &body).await, id);
    let mut lazy = reader_of_an_ended_kernel(&gateway, &id).await;
    assert_eq!(start_with(&gateway, &body).await, id);
    let mut socket = gateway.connect(&id).await.unwrap();
    socket.execute("print new").await.unwrap();

    // The old reader gets the old log to its end, the new kernel keeps its own.
    assert_eq!(lazy.closed().await.unwrap().code, Some(1000));
    assert!(
        lazy.unclaimed()
            .any(|received| received.text("text").starts_with("2999x"))
    );
    assert!(!lazy.unclaimed().any(|received| received.text("text") == "new\n"));
    drop((lazy, socket));
    gateway.crash().await.unwrap();
    until_state(&gateway, &id, "idle").await;
    let mut log = Log::after(&gateway, &id, 0).await;
    let records = log.until(|record| stream_text(record) == Some("new\n")).await;
    assert!(!records.iter().any(|record| stream_text(record) == Some("old\n")));
    delete(&gateway, &id).await;
    drop(log);
    assert_clean(&gateway).await;
}

#[tokio::test]
async fn a_log_that_was_not_needed_any_more_is_gone_after_a_crash() {
    let mut gateway = gateway(&[]).await;
    let kernel = gateway.start_kernel("fake").await.unwrap();
    let lazy = reader_of_an_ended_kernel(&gateway, &kernel).await;
    assert!(!leftovers(&gateway).is_empty(), "it is still read");
    gateway.crash().await.unwrap();
    assert_eq!(leftovers(&gateway), Vec::<String>::new());
    drop(lazy);
}
