//! The fake kernel behaves as a kernel.
#![allow(clippy::unwrap_used)]

mod common;

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use common::{Kernel, text};
use himalia_testkit::assert_eventually;
use himalia_testkit::patience::within;
use himalia_wire::Transport;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use zeromq::{SocketRecv, SocketSend, ZmqMessage};

const FAKE: &str = "himalia-fake-kernel";

#[tokio::test]
async fn an_execution_from_busy_to_idle() {
    for transport in [Transport::Ipc, Transport::Tcp] {
        let mut kernel = Kernel::ready(FAKE, transport).await;
        let (output, reply) = kernel
            .run(7, "print a\neprint b\nresult 42\ndisplay image/png 3")
            .await;
        let types: Vec<&str> = output.iter().map(|got| got.msg_type.as_str()).collect();
        assert_eq!(
            types,
            [
                "status",
                "execute_input",
                "stream",
                "stream",
                "execute_result",
                "display_data",
                "status"
            ]
        );
        assert_eq!(text(&output), "a\nb\n");
        assert_eq!(reply.msg_type, "execute_reply");
        assert_eq!(reply.content()["status"], "ok");
        assert_eq!(reply.content()["execution_count"], 1);
        assert_eq!(reply.identities, ["hm.1.7"]);
    }
}

#[tokio::test]
async fn information_and_heartbeat() {
    let mut kernel = Kernel::ready(FAKE, Transport::Ipc).await;
    kernel.request(1, "kernel_info_request", json!({})).await;
    let reply = kernel.reply().await;
    assert_eq!(
        (&*reply.msg_type, &reply.content()["status"]),
        ("kernel_info_reply", &json!("ok"))
    );
    let reply = kernel.control("kernel_info_request", json!({})).await;
    assert_eq!(reply.msg_type, "kernel_info_reply");
    for _ in 0..3 {
        kernel.heartbeat.send(ZmqMessage::from("ping")).await.unwrap();
        let beat = within("a beat", kernel.heartbeat.recv()).await.unwrap().unwrap();
        assert_eq!(beat.into_vec(), ["ping"]);
    }
}

#[tokio::test]
async fn errors_abort_what_is_queued() {
    let mut kernel = Kernel::ready(FAKE, Transport::Ipc).await;
    kernel
        .start_code(1, "sleep 50\nerror ValueError no such thing")
        .await;
    let queued = kernel.start_code(2, "print never").await;
    let failed = kernel.reply().await;
    assert_eq!(failed.content()["ename"], "ValueError");
    assert_eq!(failed.content()["evalue"], "no such thing");
    let aborted = kernel.reply().await;
    assert_eq!(aborted.parent, Some(queued.clone()));
    assert_eq!(aborted.content()["status"], "aborted");
    assert_eq!(aborted.identities, ["hm.1.2"]);
    assert_eq!(text(&kernel.until_idle(&queued).await), "");
    assert_eq!(
        kernel.run(3, "print again").await.1.content()["execution_count"],
        2
    );
}

#[tokio::test]
async fn interrupts_by_signal_and_by_message() {
    let mut kernel = Kernel::ready(FAKE, Transport::Ipc).await;
    for (number, code) in [
        "sleep 600000",
        "hang",
        "count 1000000000",
        "input name?",
        "wait-file /nonexistent",
    ]
    .into_iter()
    .enumerate()
    {
        for by_message in [true, false] {
            let id = kernel.start_code(number as u64, code).await;
            while kernel.output().await.msg_type != "execute_input" {}
            // Output continues while the interrupt is on its way.
            if by_message {
                kernel.send_control("interrupt_request", json!({})).await;
            } else {
                kill_process(Pid::from_child(&kernel.child), Signal::INT).unwrap();
            }
            kernel.until_idle(&id).await;
            assert_eq!(
                kernel.reply().await.content()["ename"],
                "KeyboardInterrupt",
                "{code}"
            );
            if by_message {
                assert_eq!(kernel.control_reply().await.msg_type, "interrupt_reply");
            }
        }
    }
    // An interrupt while nothing runs is forgotten.
    kernel.control("interrupt_request", json!({})).await;
    let reply = kernel.run(99, "sleep 1").await.1.content();
    assert_eq!(reply["status"], "ok", "{reply}");
}

#[tokio::test]
async fn sigint_can_be_ignored() {
    let mut kernel = Kernel::ready(FAKE, Transport::Ipc).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("go");
    kernel.run(1, "ignore-sigint").await;
    kernel
        .start_code(2, &format!("print started\nwait-file {}", file.display()))
        .await;
    while kernel.output().await.msg_type != "stream" {}
    kill_process(Pid::from_child(&kernel.child), Signal::INT).unwrap();
    // The reply to this comes behind the signal.
    kernel.control("kernel_info_request", json!({})).await;
    std::fs::write(&file, "").unwrap();
    assert_eq!(kernel.reply().await.content()["status"], "ok");
}

#[tokio::test]
async fn input_goes_to_the_asker() {
    let mut kernel = Kernel::ready(FAKE, Transport::Ipc).await;
    let id = kernel.start_code(5, "password your name?").await;
    let question = kernel.question().await;
    assert_eq!(question.identities, ["hm.1.5"]);
    assert_eq!(
        question.content(),
        json!({ "prompt": "your name?", "password": true })
    );
    kernel.answer(&question, "Io").await;
    assert_eq!(text(&kernel.until_idle(&id).await), "input: Io\n");
    kernel
        .request(
            6,
            "execute_request",
            json!({ "code": "input x", "allow_stdin": false }),
        )
        .await;
    kernel.reply().await;
    assert_eq!(
        kernel.reply().await.content()["ename"],
        "StdinNotImplementedError"
    );
}

#[tokio::test]
async fn nothing_is_lost_in_a_flood() {
    let mut kernel = Kernel::ready(FAKE, Transport::Ipc).await;
    let (output, _) = kernel.run(1, "count 20000 100").await;
    let streams: Vec<_> = output.iter().filter(|got| got.msg_type == "stream").collect();
    assert_eq!(streams.len(), 20_000);
    assert_eq!(streams[19_999].content()["text"].as_str().unwrap().len(), 101);
    assert!(
        streams[19_999].content()["text"]
            .as_str()
            .unwrap()
            .starts_with("19999x")
    );
}

#[tokio::test]
async fn buffers_and_comms() {
    let mut kernel = Kernel::ready(FAKE, Transport::Ipc).await;
    let (output, _) = kernel.run(1, "binary 3 4").await;
    let comm = output.iter().find(|got| got.msg_type == "comm_msg").unwrap();
    assert_eq!(
        comm.parts.buffers,
        [[0; 4], [1; 4], [2; 4]].map(|buffer| buffer.to_vec())
    );
    let id = kernel
        .request(2, "comm_msg", json!({ "comm_id": "c", "data": { "x": 1 } }))
        .await;
    let echo = kernel.until_idle(&id).await;
    assert_eq!(echo[1].content(), json!({ "comm_id": "c", "data": { "x": 1 } }));
}

#[tokio::test]
async fn the_process_ends_as_it_is_told() {
    for (code, ended) in [("exit 7", Ok(7)), ("kill KILL", Err(9)), ("kill TERM", Err(15))] {
        let mut kernel = Kernel::ready(FAKE, Transport::Ipc).await;
        kernel.start_code(1, &format!("print last words\n{code}")).await;
        assert_eventually!(kernel.child.try_wait().unwrap().is_some());
        let status = kernel.child.wait().unwrap();
        assert_eq!(
            status.code().ok_or_else(|| status.signal().unwrap_or_default()),
            ended,
            "{code}"
        );
        // What was printed before has left the process.
        while kernel.output().await.msg_type != "stream" {}
    }
}

#[tokio::test]
async fn shutdown_is_answered_unless_it_is_ignored() {
    let mut kernel = Kernel::ready(FAKE, Transport::Ipc).await;
    let reply = kernel
        .control("shutdown_request", json!({ "restart": true }))
        .await;
    assert_eq!(reply.content(), json!({ "status": "ok", "restart": true }));
    assert_eventually!(
        kernel
            .child
            .try_wait()
            .unwrap()
            .is_some_and(|status| status.success())
    );

    let mut kernel = Kernel::ready(FAKE, Transport::Ipc).await;
    kernel.run(1, "ignore-shutdown\nignore-sigterm").await;
    let ignored = tokio::time::timeout(
        Duration::from_millis(100),
        kernel.control("shutdown_request", json!({ "restart": false })),
    );
    assert!(ignored.await.is_err());
    kill_process(Pid::from_child(&kernel.child), Signal::TERM).unwrap();
    assert_eq!(kernel.run(2, "print alive").await.1.content()["status"], "ok");
}

#[tokio::test]
async fn children_and_variables() {
    let mut kernel = Kernel::ready(FAKE, Transport::Ipc).await;
    let (output, _) = kernel.run(1, "fork 2 own-group\nset a b c\nget a").await;
    let text = text(&output);
    let mut lines = text.lines();
    let pids: Vec<i32> = lines
        .next()
        .unwrap()
        .split(' ')
        .map(|pid| pid.parse().unwrap())
        .collect();
    assert_eq!((pids.len(), lines.next()), (2, Some("b c")));
    for pid in pids {
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }
    assert_eq!(kernel.run(2, "get b").await.1.content()["ename"], "NameError");
    assert_eq!(kernel.run(3, "x = 1").await.1.content()["ename"], "SyntaxError");
}

#[tokio::test]
async fn as_an_old_kernel() {
    let mut kernel = Kernel::start(FAKE, Transport::Ipc, &["--no-welcome", "--no-identity-echo"]).await;
    kernel.request(1, "kernel_info_request", json!({})).await;
    let reply = kernel.reply().await;
    assert!(reply.identities.is_empty());
    // The subscription arrives some time: ask until something is heard.
    let mut heard = false;
    assert_eventually!({
        kernel.request(2, "kernel_info_request", json!({})).await;
        kernel.reply().await;
        heard = heard
            || tokio::time::timeout(Duration::from_millis(20), kernel.output())
                .await
                .is_ok();
        heard
    });
    let first = kernel.output().await;
    assert_ne!(first.msg_type, "iopub_welcome");
}
