//! kill -9 of the gateway.

use std::fs;

use himalia_testkit::client::{Framing, WsClient};
use himalia_testkit::gateway::Gateway;
use serde_json::json;
use tokio::task::JoinSet;

use crate::common::{
    Log, assert_counts, gateway, number, numbers, start_with, stream_text, until, until_state,
};

const LINES: u64 = 20_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_prints_loses_and_repeats_nothing() {
    let mut gateway = gateway(&[]).await;
    let kernel = gateway.start_kernel("fake").await.unwrap();
    let (ran, gate) = (gateway.file("ran"), gateway.file("gate"));
    let connect = gateway.channels(&kernel, Framing::V1);
    let mut socket = WsClient::connect(&connect).await.unwrap();
    let mut log = Log::after(&gateway, &kernel, 0).await;
    let code = format!(
        "append {} x\ncount {LINES} 40\nwait-file {}\nprint {LINES}",
        ran.display(),
        gate.display()
    );
    let msg_id = socket.start(&code).await.unwrap();

    // Both clients are in the middle of it.
    let line = |data: &serde_json::Value, at: u64| stream_text(data).is_some_and(|text| number(text) == at);
    let mut records = log.until(|data| line(data, 999)).await;
    let early = |received: &himalia_testkit::client::Received| received.text("text").starts_with("499x");
    let early = socket.next_where("line 499", early).await.unwrap();
    gateway.kill().await.unwrap();
    // What had left the gateway still arrives.
    while let Some(data) = log.next().await {
        records.push(data);
    }
    assert!(
        !records.iter().any(|data| line(data, LINES)),
        "the cell waits for the gate"
    );
    socket.closed().await.unwrap();
    let mut before = numbers(socket.unclaimed());
    before.insert(499, number(&early.text("text")));
    drop(socket);
    gateway.start().await.unwrap();
    fs::write(&gate, "").unwrap();

    // A native client names its position: every record once. (`Log` checks that the numbers are dense.)
    let mut log = Log::after(&gateway, &kernel, log.last).await;
    let is_reply = |data: &serde_json::Value| {
        data["header"]["msg_type"] == "execute_reply" && data["parent_header"]["msg_id"] == msg_id.as_str()
    };
    records.extend(log.until(is_reply).await);
    let idle = |data: &serde_json::Value| {
        data["content"]["execution_state"] == "idle" && data["parent_header"]["msg_id"] == msg_id.as_str()
    };
    if !records.iter().any(idle) {
        records.extend(log.until(idle).await);
    }
    let lines: Vec<u64> = records.iter().filter_map(stream_text).map(number).collect();
    assert_counts(&lines, LINES + 1);
    assert_eq!(records.iter().filter(|data| is_reply(data)).count(), 1);
    assert!(records.iter().all(|data| data["event"] != "gap"));

    // A Jupyter client returns with its session: nothing is missing, in order; the seam may repeat.
    let mut socket = WsClient::connect(&connect).await.unwrap();
    let cell = socket.finish(&msg_id).await.unwrap();
    assert_eq!(cell.status(), "ok");
    let (first, second) = (before, numbers(&cell.messages));
    let first_end = first.last().map_or(0, |last| last + 1);
    let second_begin = *second.first().unwrap();
    assert!(
        second_begin <= first_end,
        "from {first_end} to {second_begin} is missing"
    );
    assert_counts(&first, first_end);
    assert!(second.windows(2).all(|pair| pair[1] == pair[0] + 1));
    assert_eq!(second.last(), Some(&LINES));

    assert_eq!(fs::read_to_string(&ran).unwrap(), "x\n", "the code ran once");
    until_state(&gateway, &kernel, "idle").await;
    assert_eq!(socket.execute("print on").await.unwrap().stdout(), "on\n");
}

const KERNELS: usize = 50;
const BUSY: usize = 10;

#[tokio::test(flavor = "multi_thread")]
async fn fifty_kernels_ten_of_them_busy_are_adopted() {
    let mut gateway = gateway(&[]).await;
    let kernels = start_many(&gateway, KERNELS).await;
    let mut running = Vec::new();
    for (at, kernel) in kernels.iter().enumerate() {
        let connect = gateway.channels(kernel, Framing::V1);
        let mut socket = WsClient::connect(&connect).await.unwrap();
        assert_eq!(
            socket.execute(&format!("set x {at}")).await.unwrap().status(),
            "ok"
        );
        if at < BUSY {
            let (ran, gate) = (gateway.file(&format!("ran-{at}")), gateway.file("gate"));
            let code = format!(
                "append {} x\nprint before\nwait-file {}\nprint after",
                ran.display(),
                gate.display()
            );
            let msg_id = socket.start(&code).await.unwrap();
            socket
                .next_where("the first line", |received| received.text("text") == "before\n")
                .await
                .unwrap();
            running.push((connect, msg_id, ran));
        }
    }
    gateway.crash().await.unwrap();

    for (at, kernel) in kernels.iter().enumerate() {
        let state = if at < BUSY { "busy" } else { "idle" };
        until_state(&gateway, kernel, state).await;
    }
    fs::write(gateway.file("gate"), "").unwrap();
    for (connect, msg_id, ran) in &running {
        let mut socket = WsClient::connect(connect).await.unwrap();
        let cell = socket.finish(msg_id).await.unwrap();
        assert_eq!(cell.status(), "ok");
        assert!(cell.stdout().ends_with("after\n"), "{:?}", cell.stdout());
        assert_eq!(fs::read_to_string(ran).unwrap(), "x\n", "the code ran once");
    }
    for (at, kernel) in kernels.iter().enumerate() {
        let mut socket = gateway.connect(kernel).await.unwrap();
        let cell = socket.execute("get x").await.unwrap();
        assert_eq!(cell.stdout(), format!("{at}\n"), "variables are kept");
    }
}

async fn start_many(gateway: &Gateway, count: usize) -> Vec<String> {
    let mut starts = JoinSet::new();
    for _ in 0..count {
        let http = gateway.http();
        starts.spawn(async move {
            let reply = http
                .post("/api/kernels", Some(&json!({ "name": "fake" })))
                .await
                .unwrap();
            reply.expect(201).unwrap().json().unwrap()["id"]
                .as_str()
                .unwrap()
                .to_owned()
        });
    }
    starts.join_all().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_in_flight_is_answered_and_a_second_crash_changes_nothing() {
    let mut gateway = gateway(&[]).await;
    let kernel = start_with(&gateway, &json!({ "name": "fake" })).await;
    let (ran, gate) = (gateway.file("ran"), gateway.file("gate"));
    let connect = gateway.channels(&kernel, Framing::V1);
    let mut socket = WsClient::connect(&connect).await.unwrap();
    // A line of cells: the first runs, the others wait in the kernel.
    let first = format!("append {0} 0\nwait-file {1}", ran.display(), gate.display());
    let mut cells = vec![socket.start(&first).await.unwrap()];
    for number in 1..20 {
        let code = format!("append {} {number}", ran.display());
        cells.push(socket.start(&code).await.unwrap());
    }
    let mut log = Log::after(&gateway, &kernel, 0).await;
    let requests = |data: &serde_json::Value| {
        data["event"] == "request" && data["header"]["msg_id"] == cells[19].as_str()
    };
    // Written down is as good as done: from here on the gateway may die at any time.
    log.until(requests).await;
    gateway.crash().await.unwrap();
    gateway.crash().await.unwrap();
    fs::write(&gate, "").unwrap();
    let mut socket = WsClient::connect(&connect).await.unwrap();
    for msg_id in &cells {
        assert_eq!(socket.finish(msg_id).await.unwrap().status(), "ok");
    }
    let expected: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    let ran = fs::read_to_string(&ran).unwrap();
    let ran: Vec<&str> = ran.lines().collect();
    assert_eq!(ran, expected, "each ran once, in order");
    until(&gateway, &kernel, |model| model["execution_state"] == "idle").await;
}
