//! Unused kernels end by themselves, kernels in use do not.

use himalia_testkit::gateway::Gateway;
use himalia_testkit::{assert_eventually, binaries};
use serde_json::json;

use crate::common::{
    assert_clean, delete, gateway, is_alive, model, process, until, until_gone, until_state,
};

const SOON: [&str; 4] = ["--cull-idle-timeout", "1s", "--cull-interval", "1s"];

/// One that runs a cell and has no clients.
async fn busy_kernel(gateway: &Gateway) -> String {
    let kernel = gateway.start_kernel("fake").await.unwrap();
    let mut socket = gateway.connect(&kernel).await.unwrap();
    socket.start("hang").await.unwrap();
    until_state(gateway, &kernel, "busy").await;
    socket.close().await.unwrap();
    until(gateway, &kernel, |model| model["connections"] == 0).await;
    kernel
}

#[tokio::test]
async fn idle_kernels_are_culled_and_others_are_not() {
    let never = json!({
        "argv": [binaries::fake_kernel().unwrap(), "-f", "{connection_file}"],
        "display_name": "x", "language": "x", "metadata": { "cull_idle_timeout": 0 },
    });
    let builder = SOON
        .iter()
        .fold(Gateway::builder(), |builder, arg| builder.arg(*arg));
    let gateway = builder.kernelspec("never", never).start().await.unwrap();
    let kept = gateway.start_kernel("never").await.unwrap();
    let busy = busy_kernel(&gateway).await;
    let watched = gateway.start_kernel("fake").await.unwrap();
    let socket = gateway.connect(&watched).await.unwrap();
    // Started last, so that by its end all the others would have been due.
    let idle = gateway.start_kernel("fake").await.unwrap();
    until_gone(&gateway, &idle).await;
    let late = gateway.start_kernel("fake").await.unwrap();
    until_gone(&gateway, &late).await;
    assert_eq!(model(&gateway, &busy).await["execution_state"], "busy");
    assert_eq!(model(&gateway, &watched).await["connections"], 1);
    assert_eq!(model(&gateway, &kept).await["execution_state"], "idle");
    // Without its client or its cell it is as idle as any.
    socket.close().await.unwrap();
    until_gone(&gateway, &watched).await;
    gateway
        .http()
        .post(&format!("/api/kernels/{busy}/interrupt"), None)
        .await
        .unwrap()
        .expect(204)
        .unwrap();
    until_gone(&gateway, &busy).await;
    assert_eventually!(
        gateway.processes().len() == 2,
        "the one that is never culled, and its shim"
    );
}

#[tokio::test]
async fn connected_and_busy_kernels_are_culled_where_that_is_wanted() {
    let mut args = SOON.to_vec();
    args.extend(["--cull-connected", "--cull-busy"]);
    let gateway = gateway(&args).await;
    let watched = gateway.start_kernel("fake").await.unwrap();
    let mut socket = gateway.connect(&watched).await.unwrap();
    socket.start("hang").await.unwrap();
    assert_eq!(socket.closed().await.unwrap().code, Some(1000));
    assert!(socket.unclaimed().any(|received| received.is_status("dead")));
    until_gone(&gateway, &watched).await;
    assert_eventually!(gateway.processes().is_empty());
}

#[tokio::test]
async fn kernels_without_a_gateway_end_after_their_time() {
    let mut gateway = gateway(&["--orphan-ttl", "1s"]).await;
    let kernel = gateway.start_kernel("fake").await.unwrap();
    let mut socket = gateway.connect(&kernel).await.unwrap();
    socket.execute("fork 1 own-group").await.unwrap();
    socket.start("hang").await.unwrap();
    until_state(&gateway, &kernel, "busy").await;
    gateway.kill().await.unwrap();
    assert_eventually!(gateway.processes().is_empty(), "{:?}", gateway.processes());
    // The next gateway knows that it is dead, says so, and lets it be removed.
    gateway.start().await.unwrap();
    let model = until_state(&gateway, &kernel, "dead").await;
    assert!(
        model["reason"].as_str().unwrap().starts_with("sandbox_lost"),
        "{model}"
    );
    delete(&gateway, &kernel).await;
    assert_clean(&gateway).await;
}

#[tokio::test]
async fn a_shim_that_is_killed_leaves_a_dead_kernel_and_no_process() {
    let gateway = gateway(&[]).await;
    let kernel = gateway.start_kernel("fake").await.unwrap();
    let mut socket = gateway.connect(&kernel).await.unwrap();
    let cell = socket.execute("pid").await.unwrap();
    let own: u32 = cell.stdout().trim().parse().unwrap();
    let shim =
        rustix::process::Pid::from_raw(i32::try_from(process(&gateway, "himalia-shim")).unwrap()).unwrap();
    rustix::process::kill_process(shim, rustix::process::Signal::KILL).unwrap();
    let model = until_state(&gateway, &kernel, "dead").await;
    assert!(
        model["reason"].as_str().is_some_and(|reason| !reason.is_empty()),
        "{model}"
    );
    delete(&gateway, &kernel).await;
    assert_eventually!(
        !is_alive(own) && gateway.processes().is_empty(),
        "{:?}",
        gateway.processes()
    );
    // The log goes when its last reader has gone.
    assert_eq!(socket.closed().await.unwrap().code, Some(1000));
    assert_clean(&gateway).await;
}
