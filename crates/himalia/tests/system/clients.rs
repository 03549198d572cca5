//! Several clients on one kernel; clients that vanish, return, or never read.

use himalia_testkit::client::{Framing, Received, WsClient};
use himalia_wire::{Channel, Parts, build, header};
use serde_json::{Value, json};

use crate::common::{assert_counts, forget_peak, gateway, numbers, peak, until};

/// An `execute_request` with a `msg_id` of the test's choice.
fn request(session: &str, msg_id: &str, code: &str) -> Parts {
    let content = json!({ "code": code, "silent": false, "allow_stdin": true, "stop_on_error": true });
    let mut parts = build::message(session, "execute_request", None, &content);
    let mut header: Value = serde_json::from_slice(&parts.header).unwrap();
    header["msg_id"] = msg_id.into();
    parts.header = header.to_string().into();
    parts
}

fn parent_session(received: &Received) -> Option<String> {
    Some(
        header::peek_parent(&received.parts.parent_header)
            .ok()??
            .session
            .into_owned(),
    )
}

/// Everything up to the end of a request that no other client makes.
async fn all_until_now(socket: &mut WsClient) -> Vec<Received> {
    let last = socket.execute("print barrier").await.unwrap();
    let mut seen: Vec<Received> = socket.unclaimed().cloned().collect();
    seen.extend(last.messages);
    seen
}

#[tokio::test]
async fn both_see_the_output_and_only_the_asker_the_reply() {
    let gateway = gateway(&[]).await;
    let kernel = gateway.start_kernel("fake").await.unwrap();
    let mut one = gateway.connect(&kernel).await.unwrap();
    let mut two = WsClient::connect(&gateway.channels(&kernel, Framing::Legacy))
        .await
        .unwrap();
    let sessions = [one.session().to_owned(), two.session().to_owned()];
    // The same msg_id at the same time: only the session tells them apart.
    one.send(
        Channel::Shell,
        &request(&sessions[0], "same", "print one\ninput first?"),
    )
    .await
    .unwrap();
    let question = one
        .next_where("a question", |received| received.msg_type == "input_request")
        .await
        .unwrap();
    two.send(
        Channel::Shell,
        &request(&sessions[1], "same", "print two\ninput second?"),
    )
    .await
    .unwrap();
    one.answer(&question, "a").await.unwrap();
    let question = two
        .next_where("a question", |received| received.msg_type == "input_request")
        .await
        .unwrap();
    assert_eq!(question.text("prompt"), "second?");
    two.answer(&question, "b").await.unwrap();

    // One after the other, since each barrier is output for the other client too.
    let of_one = all_until_now(&mut one).await;
    let of_two = all_until_now(&mut two).await;
    for (seen, own) in [(&of_one, &sessions[0]), (&of_two, &sessions[1])] {
        let text: String = seen
            .iter()
            .filter(|received| received.msg_type == "stream" && received.parent.as_deref() == Some("same"))
            .map(|received| received.text("text"))
            .collect();
        assert_eq!(
            text, "one\ninput: a\ntwo\ninput: b\n",
            "both see all output, in order"
        );
        let private: Vec<&Received> = seen
            .iter()
            .filter(|received| received.channel != Channel::Iopub)
            .collect();
        for received in &private {
            assert_eq!(
                parent_session(received).as_ref(),
                Some(own),
                "{} of another",
                received.msg_type
            );
        }
        let replies = private
            .iter()
            .filter(|received| received.msg_type == "execute_reply");
        assert_eq!(replies.count(), 2, "its own and the barrier's");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_vanishes_in_mid_stream_and_returns_misses_nothing() {
    const LINES: u64 = 4000;
    for framing in [Framing::V1, Framing::Legacy] {
        let gateway = gateway(&[]).await;
        let kernel = gateway.start_kernel("fake").await.unwrap();
        let connect = gateway.channels(&kernel, framing);
        let mut socket = WsClient::connect(&connect).await.unwrap();
        let (gate, other) = (gateway.file("gate"), gateway.file("other"));
        let code = format!(
            "count {LINES} 1000\nwait-file {}\nprint between\nwait-file {}\nprint last",
            gate.display(),
            other.display()
        );
        let msg_id = socket.start(&code).await.unwrap();
        let early = |received: &Received| received.text("text").starts_with("99x");
        let early = socket.next_where("line 99", early).await.unwrap();
        // What is on its way to it arrives, then nothing.
        socket.cut().await.unwrap();
        socket.closed().await.unwrap();
        let mut seen: Vec<Received> = socket.unclaimed().cloned().collect();
        let early_id = early.msg_id.clone();
        seen.push(early);
        drop(socket);
        until(&gateway, &kernel, |model| model["connections"] == 0).await;

        // It reconnects while the cell runs, and again when the cell has ended.
        std::fs::write(&gate, "").unwrap();
        let mut socket = WsClient::connect(&connect).await.unwrap();
        let between = |received: &Received| received.text("text") == "between\n";
        let between = socket.next_where("between", between).await.unwrap();
        seen.extend(socket.unclaimed().cloned());
        socket.close().await.unwrap();
        until(&gateway, &kernel, |model| model["connections"] == 0).await;
        std::fs::write(&other, "").unwrap();
        until(&gateway, &kernel, |model| model["execution_state"] == "idle").await;
        let mut socket = WsClient::connect(&connect).await.unwrap();
        let rest = socket.finish(&msg_id).await.unwrap();

        assert_eq!(rest.status(), "ok");
        assert_eq!(
            rest.stdout(),
            "last\n",
            "after a close in good order nothing comes twice"
        );
        // The line that was waited for stands out of order here; the others each follow the one before, but at the
        // seam.
        let mut lines = numbers(seen.iter().filter(|received| received.msg_id != early_id));
        let seams = lines.windows(2).filter(|pair| pair[1] != pair[0] + 1);
        assert!(seams.count() <= 2, "out of order");
        lines.push(99);
        lines.sort_unstable();
        lines.dedup();
        assert_counts(&lines, LINES);
        assert_eq!(between.parent.as_deref(), Some(msg_id.as_str()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_never_reads_disturbs_no_other_client() {
    const LINES: u64 = 10_000;
    let gateway = gateway(&[]).await;
    let kernel = gateway.start_kernel("fake").await.unwrap();
    let mut lazy = gateway.connect(&kernel).await.unwrap();
    let mut busy = gateway.connect(&kernel).await.unwrap();
    let pid = gateway.pid().unwrap();
    forget_peak(pid);
    let before = peak(pid);
    let cell = busy.execute(&format!("count {LINES} 6000")).await.unwrap();
    assert_counts(&numbers(&cell.messages), LINES);
    assert_eq!(busy.execute("print on").await.unwrap().stdout(), "on\n");
    let grown = peak(pid).saturating_sub(before);
    assert!(
        grown < 64,
        "the gateway grew by {grown} MiB for 60 MB that one client did not read"
    );
    // Its connection is as good as any when it wakes up: all of it is there, in order.
    let last = lazy
        .next_where("the end", |received| received.text("text") == "on\n")
        .await
        .unwrap();
    assert!(last.parent.is_some());
    assert_counts(&numbers(lazy.unclaimed()), LINES);
}

#[tokio::test]
async fn a_second_connection_of_the_same_session_replaces_the_first() {
    let gateway = gateway(&[]).await;
    let kernel = gateway.start_kernel("fake").await.unwrap();
    let connect = gateway.channels(&kernel, Framing::V1);
    let mut first = WsClient::connect(&connect).await.unwrap();
    let gate = gateway.file("gate");
    let msg_id = first
        .start(&format!("print a\nwait-file {}\nprint b", gate.display()))
        .await
        .unwrap();
    first
        .next_where("a", |received| received.text("text") == "a\n")
        .await
        .unwrap();
    let mut second = WsClient::connect(&connect).await.unwrap();
    assert_eq!(first.closed().await.unwrap().code, Some(4001));
    std::fs::write(&gate, "").unwrap();
    let cell = second.finish(&msg_id).await.unwrap();
    assert!(
        cell.status() == "ok" && cell.stdout().ends_with("b\n"),
        "{}",
        cell.summary()
    );
    until(&gateway, &kernel, |model| model["connections"] == 1).await;
}
