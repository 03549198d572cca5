//! SIGTERM and SIGINT: what clients receive, and what becomes of kernels.

use himalia_testkit::assert_eventually;
use himalia_testkit::client::{Framing, WsClient};
use rustix::process::Signal;

use crate::common::{gateway, leftovers, until_state};

#[tokio::test]
async fn sigterm_tells_clients_and_leaves_the_kernels_to_the_next_gateway() {
    let mut gateway = gateway(&[]).await;
    let kernel = gateway.start_kernel("fake").await.unwrap();
    let connect = gateway.channels(&kernel, Framing::V1);
    let mut socket = WsClient::connect(&connect).await.unwrap();
    socket.execute("set x 7").await.unwrap();
    let msg_id = socket
        .start(&format!("wait-file {}\nget x", gateway.file("gate").display()))
        .await
        .unwrap();
    until_state(&gateway, &kernel, "busy").await;
    let mut legacy = WsClient::connect(&gateway.channels(&kernel, Framing::Legacy))
        .await
        .unwrap();
    let before = gateway.processes();

    gateway.signal(Signal::TERM).unwrap();
    assert_eq!(socket.closed().await.unwrap().code, Some(1012));
    assert_eq!(legacy.closed().await.unwrap().code, Some(1012));
    // A second SIGTERM would cut the drain short; this one only waits.
    assert_eq!(gateway.end(Signal::CONT).await.unwrap(), Some(0));
    assert_eq!(gateway.processes(), before, "shim and kernel run on");

    gateway.start().await.unwrap();
    std::fs::write(gateway.file("gate"), "").unwrap();
    let mut socket = WsClient::connect(&connect).await.unwrap();
    let cell = socket.finish(&msg_id).await.unwrap();
    assert_eq!((cell.status().as_str(), cell.stdout().as_str()), ("ok", "7\n"));
    // Closed in good order: nothing comes twice.
    assert_eq!(cell.of_type("execute_input").count(), 0, "{}", cell.summary());
}

#[tokio::test]
async fn with_stop_nothing_is_left() {
    for (args, signal) in [
        (&["--on-sigterm", "stop"][..], Signal::TERM),
        (&[][..], Signal::INT),
    ] {
        let mut gateway = gateway(args).await;
        let idle = gateway.start_kernel("fake").await.unwrap();
        let busy = gateway.start_kernel("fake").await.unwrap();
        let mut socket = gateway.connect(&busy).await.unwrap();
        socket.start("fork 2 own-group\nhang").await.unwrap();
        until_state(&gateway, &busy, "busy").await;
        until_state(&gateway, &idle, "idle").await;
        socket
            .next_where("the children", |received| received.msg_type == "stream")
            .await
            .unwrap();
        assert_eq!(
            gateway.processes().len(),
            6,
            "two shims, two kernels, two children"
        );

        assert_eq!(gateway.end(signal).await.unwrap(), Some(0));
        assert_eventually!(gateway.processes().is_empty(), "{:?}", gateway.processes());
        assert_eq!(leftovers(&gateway), Vec::<String>::new());
        assert_eq!(socket.closed().await.unwrap().code, Some(1012));
        gateway.start().await.unwrap();
        let list = gateway.http().get("/api/kernels").await.unwrap();
        assert_eq!(list.text(), "[]");
    }
}

#[tokio::test]
async fn a_second_gateway_on_the_same_directories_refuses_to_start() {
    let first = gateway(&[]).await;
    let output = std::process::Command::new(himalia_testkit::binaries::path("himalia").unwrap())
        .args(["serve", "--listen", "127.0.0.1:0", "--token", "x", "--data-dir"])
        .arg(first.file("data"))
        .env_clear()
        .env("HOME", first.root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("another gateway") && said.lines().count() == 1,
        "{said}"
    );
    assert_eq!(first.http().get("/healthz").await.unwrap().status, 200);
}
