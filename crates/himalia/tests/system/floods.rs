//! Large and many outputs: complete, in bounded memory, and never in the way of control or of others.

use himalia_testkit::client::Received;
use himalia_wire::Channel;
use serde_json::json;

use crate::common::{assert_counts, forget_peak, gateway, numbers, order, peak, process, until, until_state};

/// Runs a flood and checks that it is complete, that a neighbour answers meanwhile, and what memory it took.
async fn flood(messages: u64, bytes: usize) {
    let gateway = gateway(&[]).await;
    let kernel = gateway.start_kernel("fake").await.unwrap();
    let mut socket = gateway.connect(&kernel).await.unwrap();
    socket.execute("print warm").await.unwrap();
    let pids = [gateway.pid().unwrap(), process(&gateway, "himalia-shim")];
    let before = pids.map(|pid| {
        forget_peak(pid);
        peak(pid)
    });
    let neighbour = gateway.start_kernel("fake").await.unwrap();
    let mut other = gateway.connect(&neighbour).await.unwrap();
    let msg_id = socket.start(&format!("count {messages} {bytes}")).await.unwrap();
    until_state(&gateway, &kernel, "busy").await;
    let meanwhile = async {
        for _ in 0..20 {
            assert_eq!(other.execute("print here").await.unwrap().stdout(), "here\n");
        }
    };
    let (cell, ()) = tokio::join!(socket.finish(&msg_id), meanwhile);
    let cell = cell.unwrap();
    assert_eq!(cell.status(), "ok");
    assert_counts(&numbers(&cell.messages), messages);
    for ((name, pid), before) in ["gateway", "shim"].iter().zip(pids).zip(before) {
        let grown = peak(pid).saturating_sub(before);
        assert!(grown < 96, "the {name} grew by {grown} MiB");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_megabytes_in_pieces() {
    flood(12_500, 8000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_thousand_small_prints() {
    flood(200_000, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_too_large_is_a_marked_gap() {
    let gateway = gateway(&[]).await;
    let kernel = gateway.start_kernel("fake").await.unwrap();
    let mut socket = gateway.connect(&kernel).await.unwrap();
    let cell = socket
        .execute("display text/plain 40000000\nprint after")
        .await
        .unwrap();
    assert_eq!(cell.of_type("display_data").count(), 0);
    assert_eq!(cell.status(), "ok");
    assert!(cell.stdout().ends_with("after\n"), "{}", cell.stdout());
    // The link lives, and what fits is whole.
    let next = socket.execute("display text/plain 30000000").await.unwrap();
    let shown: Vec<&Received> = next.of_type("display_data").collect();
    assert!(shown.len() == 1 && shown[0].parts.content.len() > 30_000_000);
    let log = format!("/v1/sessions/{kernel}/events?after=0");
    let mut events = gateway.http().events(&log, None).await.unwrap();
    let gap = loop {
        let event = events.next().await.unwrap();
        if event.event == "gap" {
            break event.data;
        }
    };
    assert!(gap.contains("40000"), "{gap}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_megabytes_at_once() {
    let gateway = gateway(&["--max-message", "256MiB"]).await;
    let kernel = gateway.start_kernel("fake").await.unwrap();
    let mut socket = gateway.connect(&kernel).await.unwrap();
    let pid = gateway.pid().unwrap();
    forget_peak(pid);
    let before = peak(pid);
    let cell = socket
        .execute("display text/plain 100000000\nprint after")
        .await
        .unwrap();
    let shown: Vec<&Received> = cell.of_type("display_data").collect();
    assert_eq!(shown.len(), 1);
    assert!(shown[0].parts.content.len() > 100_000_000);
    assert_eq!(
        (cell.status().as_str(), cell.stdout().as_str()),
        ("ok", "after\n")
    );
    let grown = peak(pid).saturating_sub(before);
    assert!(
        grown < 512,
        "the gateway grew by {grown} MiB for a message of 95 MiB"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_overtakes_a_flood() {
    const ENDLESS: u64 = 1_000_000_000;
    let gateway = gateway(&[]).await;
    let kernel = gateway.start_kernel("fake").await.unwrap();
    for by_message in [false, true] {
        let mut socket = gateway.connect(&kernel).await.unwrap();
        let msg_id = socket.start(&format!("count {ENDLESS} 1000")).await.unwrap();
        let early = |received: &Received| received.text("text").starts_with("500x");
        socket.next_where("line 500", early).await.unwrap();
        if by_message {
            // The reply does not wait for the output that other clients have not got yet.
            let mut control = gateway.connect(&kernel).await.unwrap();
            control
                .request(Channel::Control, "interrupt_request", &json!({}))
                .await
                .unwrap();
            let is_reply = |received: &Received| received.msg_type == "interrupt_reply";
            let reply = control.next_where("the reply", is_reply).await.unwrap();
            assert_eq!(reply.text("status"), "ok");
        } else {
            assert_eq!(order(&gateway, &kernel, "interrupt").await, 204);
        }
        // It ends, a thousand million lines before it would have.
        until(&gateway, &kernel, |model| model["execution_state"] == "idle").await;
        let cell = socket.finish(&msg_id).await.unwrap();
        assert_eq!(cell.reply()["ename"], "KeyboardInterrupt", "{}", cell.reply());
        let lines = numbers(&cell.messages);
        // All but line 500, which was waited for.
        let gaps = lines.windows(2).filter(|pair| pair[1] != pair[0] + 1);
        assert_eq!(gaps.count(), 1, "the lines that came are in order");
        assert_eq!(socket.execute("print on").await.unwrap().stdout(), "on\n");
    }
}
