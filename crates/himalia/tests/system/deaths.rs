//! Kernels that die, fork, hang, are restarted or told to end.

use himalia_testkit::client::{Received, WsClient};
use himalia_testkit::gateway::Gateway;
use himalia_testkit::{assert_eventually, binaries};
use himalia_wire::Channel;
use serde_json::{Value, json};

use crate::common::{
    Log, assert_clean, delete, gateway, is_alive, model, order, until, until_gone, until_state,
};

/// The incarnation that the latest message of a kernel belongs to.
async fn incarnation(gateway: &Gateway, kernel: &str, socket: &mut WsClient) -> u64 {
    let mut log = Log::after(gateway, kernel, 0).await;
    let msg_id = socket.execute("print x").await.unwrap().msg_id;
    let reply = |data: &Value| {
        data["event"] == "message"
            && data["channel"] == "shell"
            && data["parent_header"]["msg_id"] == msg_id.as_str()
    };
    log.until(reply).await.last().unwrap()["incarnation"]
        .as_u64()
        .unwrap()
}

/// Makes a kernel that takes no signal but SIGKILL and answers nothing; the value is the `msg_id` of its last cell.
async fn freeze(gateway: &Gateway, kernel: &str, socket: &mut WsClient, first: &str) -> String {
    let (gate, frozen) = (gateway.file("gate"), gateway.file("frozen"));
    let code = format!(
        "ignore-sigterm\n{first}\nwait-file {}\ntouch {}\nfreeze 3600000",
        gate.display(),
        frozen.display()
    );
    let msg_id = socket.start(&code).await.unwrap();
    until_state(gateway, kernel, "busy").await;
    std::fs::write(gate, "").unwrap();
    assert_eventually!(frozen.exists());
    msg_id
}

fn reason(model: &Value) -> &str {
    model["reason"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn a_death_is_told_and_a_new_process_takes_over() {
    let gateway = gateway(&[]).await;
    for (code, cause) in [
        ("kill KILL", "signal(9)"),
        ("raw-stderr out of luck\nexit 3", "exit(3): out of luck"),
    ] {
        let kernel = gateway.start_kernel("fake").await.unwrap();
        let mut socket = gateway.connect(&kernel).await.unwrap();
        socket.execute("set x 1").await.unwrap();
        assert_eq!(incarnation(&gateway, &kernel, &mut socket).await, 1);
        socket.start(&format!("print before\n{code}")).await.unwrap();
        let told = socket
            .next_where("a status", |received| received.is_status("restarting"))
            .await
            .unwrap();
        assert_eq!(told.parent, None);
        let output = |received: &&Received| received.text("text") == "before\n";
        assert_eq!(
            socket.unclaimed().filter(output).count(),
            1,
            "the output came before the news"
        );
        let model = until_state(&gateway, &kernel, "idle").await;
        assert_eq!(reason(&model), format!("restarted after {cause}"));
        let cell = socket.execute("get x").await.unwrap();
        assert_eq!(cell.reply()["ename"], "NameError", "the variables are gone");
        assert_eq!(incarnation(&gateway, &kernel, &mut socket).await, 2);
        delete(&gateway, &kernel).await;
    }
    assert_clean(&gateway).await;
}

#[tokio::test]
async fn a_kernel_that_wants_it_is_interrupted_by_a_message() {
    let spec = json!({
        "argv": [binaries::fake_kernel().unwrap(), "-f", "{connection_file}"],
        "display_name": "x", "language": "x", "interrupt_mode": "message",
    });
    let gateway = Gateway::builder().kernelspec("told", spec).start().await.unwrap();
    let kernel = gateway.start_kernel("told").await.unwrap();
    let mut socket = gateway.connect(&kernel).await.unwrap();
    for _ in 0..2 {
        // Signals do nothing: only the message can end it.
        let cell = socket.start("ignore-sigint\nprint begun\nhang").await.unwrap();
        let begun = |received: &Received| received.text("text") == "begun\n";
        socket.next_where("its output", begun).await.unwrap();
        assert_eq!(order(&gateway, &kernel, "interrupt").await, 204);
        let replied = |received: &Received| {
            received.msg_type == "execute_reply" && received.parent.as_deref() == Some(cell.as_str())
        };
        let reply = socket.next_where("its reply", replied).await.unwrap();
        assert_eq!(reply.text("ename"), "KeyboardInterrupt");
    }
    delete(&gateway, &kernel).await;
    assert_clean(&gateway).await;
}

#[tokio::test]
async fn after_five_restarts_in_a_row_it_is_dead_until_a_caller_restarts_it() {
    let gateway = gateway(&[]).await;
    let kernel = gateway.start_kernel("fake").await.unwrap();
    for _ in 0..6 {
        until_state(&gateway, &kernel, "idle").await;
        let mut socket = gateway.connect(&kernel).await.unwrap();
        socket.start("exit 9").await.unwrap();
        let over = |received: &Received| received.is_status("restarting") || received.is_status("dead");
        socket.next_where("its death", over).await.unwrap();
    }
    let model = until_state(&gateway, &kernel, "dead").await;
    assert_eq!(reason(&model), "exit(9)");
    assert_eq!(
        order(&gateway, &kernel, "interrupt").await,
        409,
        "there is no process"
    );
    assert_eq!(order(&gateway, &kernel, "restart").await, 200);
    let mut socket = gateway.connect(&kernel).await.unwrap();
    assert_eq!(socket.execute("print back").await.unwrap().stdout(), "back\n");
    assert_eq!(incarnation(&gateway, &kernel, &mut socket).await, 7);
    delete(&gateway, &kernel).await;
    assert_eventually!(gateway.processes().is_empty());
}

#[tokio::test]
async fn children_go_with_their_kernel() {
    let gateway = gateway(&[]).await;
    let other = gateway.start_kernel("fake").await.unwrap();
    for ending in ["delete", "kill"] {
        let kernel = gateway.start_kernel("fake").await.unwrap();
        let mut socket = gateway.connect(&kernel).await.unwrap();
        let cell = socket.execute("fork 2\nfork 2 own-group").await.unwrap();
        let pids: Vec<u32> = cell
            .stdout()
            .split_whitespace()
            .map(|pid| pid.parse().unwrap())
            .collect();
        assert!(pids.len() == 4 && pids.iter().all(|pid| is_alive(*pid)));
        if ending == "kill" {
            socket.start("kill KILL").await.unwrap();
            socket
                .next_where("its death", |received| received.is_status("restarting"))
                .await
                .unwrap();
        }
        delete(&gateway, &kernel).await;
        assert!(!pids.iter().any(|pid| is_alive(*pid)), "after {ending}");
    }
    until_state(&gateway, &other, "idle").await;
    assert_eq!(gateway.processes().len(), 2, "the other kernel and its shim");
}

#[tokio::test]
async fn one_that_never_answers_can_be_ended() {
    let gateway = gateway(&[]).await;
    let kernel = gateway.start_kernel("fake").await.unwrap();
    let other = gateway.start_kernel("fake").await.unwrap();
    let mut socket = gateway.connect(&kernel).await.unwrap();
    let mut neighbour = gateway.connect(&other).await.unwrap();
    freeze(&gateway, &kernel, &mut socket, "ignore-shutdown").await;
    for _ in 0..2 {
        assert_eq!(
            order(&gateway, &kernel, "interrupt").await,
            204,
            "the signal is sent all the same"
        );
    }
    assert_eq!(neighbour.execute("print here").await.unwrap().stdout(), "here\n");
    assert_eq!(model(&gateway, &kernel).await["execution_state"], "busy");
    // Neither shutdown_request nor SIGTERM help: SIGKILL does, after the grace.
    let http = gateway.http();
    let path = format!("/api/kernels/{kernel}");
    let end = http.delete(&path);
    let meanwhile = async {
        for _ in 0..10 {
            assert_eq!(neighbour.execute("print here").await.unwrap().stdout(), "here\n");
        }
    };
    let (ended, ()) = tokio::join!(end, meanwhile);
    assert_eq!(ended.unwrap().status, 204);
    assert!(model(&gateway, &kernel).await.is_null());
    assert_eq!(gateway.processes().len(), 2, "the other kernel and its shim");
    assert_eq!(socket.closed().await.unwrap().code, Some(1000));
    assert!(socket.unclaimed().any(|received| received.is_status("dead")));
}

#[tokio::test]
async fn a_shutdown_request_ends_the_kernel() {
    let gateway = gateway(&[]).await;
    let kernel = gateway.start_kernel("fake").await.unwrap();
    let mut socket = gateway.connect(&kernel).await.unwrap();
    let content = json!({ "restart": false });
    let msg_id = socket
        .request(Channel::Control, "shutdown_request", &content)
        .await
        .unwrap();
    let is_reply =
        |received: &Received| received.channel == Channel::Control && received.msg_type == "shutdown_reply";
    let reply = socket.next_where("the reply", is_reply).await.unwrap();
    assert_eq!(reply.parent, Some(msg_id));
    assert_eq!(socket.closed().await.unwrap().code, Some(1000));
    until_gone(&gateway, &kernel).await;
    assert_clean(&gateway).await;
    let again = gateway
        .http()
        .delete(&format!("/api/kernels/{kernel}"))
        .await
        .unwrap();
    assert_eq!(again.status, 404);
    assert_eq!(
        WsClient::refusal(
            WsClient::connect(&gateway.channels(&kernel, himalia_testkit::client::Framing::V1)).await
        ),
        404
    );
}

#[tokio::test]
async fn a_restart_keeps_the_id_and_ends_what_ran() {
    let gateway = gateway(&[]).await;
    let kernel = gateway.start_kernel("fake").await.unwrap();
    let mut socket = gateway.connect(&kernel).await.unwrap();
    socket.execute("set x 1").await.unwrap();
    let hanging = socket.start("print in\nhang").await.unwrap();
    socket
        .next_where("in", |received| received.text("text") == "in\n")
        .await
        .unwrap();
    let reply = gateway
        .http()
        .post(&format!("/api/kernels/{kernel}/restart"), None)
        .await
        .unwrap();
    let restarted = reply.expect(200).unwrap().json().unwrap();
    assert_eq!(restarted["id"], kernel.as_str());
    // The interrupt that a stop begins with ends the cell, so its asker does not wait for ever.
    let cell = socket.finish(&hanging).await.unwrap();
    assert_eq!(cell.reply()["ename"], "KeyboardInterrupt");
    let cell = socket.execute("get x").await.unwrap();
    assert_eq!(cell.reply()["ename"], "NameError");
    assert_eq!(incarnation(&gateway, &kernel, &mut socket).await, 2);
    let model = until(&gateway, &kernel, |model| model["execution_state"] == "idle").await;
    assert_eq!((reason(&model), &model["connections"]), ("", &json!(1)));
    assert_eventually!(gateway.processes().len() == 2, "one kernel and its shim");

    // Also one that has to be killed: the gateway replies in the name of the old process, once, and the state is the new one's.
    let stuck = freeze(&gateway, &kernel, &mut socket, "print in").await;
    assert_eq!(order(&gateway, &kernel, "restart").await, 200);
    assert_eq!(socket.execute("print new").await.unwrap().stdout(), "new\n");
    until_state(&gateway, &kernel, "idle").await;
    let late =
        |received: &&Received| received.parent.as_ref() == Some(&stuck) && received.channel == Channel::Shell;
    let replies: Vec<_> = socket.unclaimed().filter(late).collect();
    assert_eq!(replies.len(), 1);
    assert_eq!(replies[0].text("ename"), "KernelDied");
}
