//! The channels of a kernel of another replica.

use himalia_testkit::client::Framing;
use himalia_testkit::patience::within;
use himalia_wire::Channel;
use serde_json::json;

use crate::support::Replicas;

#[tokio::test]
async fn cells_run_in_both_framings() {
    let replicas = Replicas::start(2).await;
    let [near, owner] = &replicas.all[..] else {
        unreachable!()
    };
    let kernel = owner.kernel().await;
    for framing in [Framing::V1, Framing::Legacy] {
        let mut client = near.client(&kernel, "s1", framing).await;
        let done = client.execute("print hello\nresult 7").await.unwrap();
        assert_eq!((done.status(), done.stdout()), ("ok".into(), "hello\n".into()));
        // stdin is asked of it, and control is not behind output.
        let asked = client.start("input name?").await.unwrap();
        let question = client
            .next_where("a question", |message| message.channel == Channel::Stdin)
            .await
            .unwrap();
        client.answer(&question, "ada").await.unwrap();
        assert_eq!(client.finish(&asked).await.unwrap().stdout(), "input: ada\n");
        let hangs = client.start("print begun\nhang").await.unwrap();
        client
            .next_where("output", |message| message.msg_type == "stream")
            .await
            .unwrap();
        client
            .request(Channel::Control, "interrupt_request", &json!({}))
            .await
            .unwrap();
        assert_eq!(client.finish(&hangs).await.unwrap().status(), "error");
        client.close().await.unwrap();
    }
    replicas.stop().await;
}

#[tokio::test]
async fn a_client_sees_a_pause_when_the_network_is_cut() {
    let replicas = Replicas::start(2).await;
    let [near, owner] = &replicas.all[..] else {
        unreachable!()
    };
    let kernel = owner.kernel().await;
    for framing in [Framing::V1, Framing::Legacy] {
        let mut client = near.client(&kernel, "s1", framing).await;
        let cell = client
            .start("count 100\nsleep 50\ncount 100\nsleep 50\ncount 100\nsleep 50\ncount 100")
            .await
            .unwrap();
        let mut printed = String::new();
        for _ in 0..3 {
            let message = client
                .next_where("output", |message| message.msg_type == "stream")
                .await
                .unwrap();
            printed += &message.text("text");
            owner.network.cut();
        }
        let done = client.finish(&cell).await.unwrap();
        printed += &done.stdout();
        let once: Vec<String> = (0..100).map(|n| format!("{n}\n")).collect();
        let wanted = once.concat().repeat(4);
        assert_eq!(done.status(), "ok");
        assert!(printed == wanted, "{printed:.300}");
        client.close().await.unwrap();
    }
    replicas.stop().await;
}

/// What the client's TCP has not acknowledged comes again, wherever it was on its way.
#[tokio::test]
async fn a_client_that_returns_elsewhere_misses_nothing() {
    let replicas = Replicas::start(3).await;
    let [near, other, owner] = &replicas.all[..] else {
        unreachable!()
    };
    let kernel = owner.kernel().await;
    let mut client = near.client(&kernel, "s1", Framing::V1).await;
    let cell = client.start("count 3000 1000").await.unwrap();
    let mut seen = Vec::new();
    let mut last = client.next().await.unwrap();
    while seen.len() < 200 {
        if last.msg_type == "stream" {
            seen.push(last.text("text"));
        }
        last = client.next().await.unwrap();
    }
    if last.msg_type == "stream" {
        seen.push(last.text("text"));
    }
    // It stops reading: what is in its buffers is acknowledged, what is in ours is not.
    client.cut().await.unwrap();
    let mut rest = Vec::new();
    while let Ok(message) = client.next().await {
        if message.msg_type == "stream" {
            rest.push(message.text("text"));
        }
    }
    let mut again = other.client(&kernel, "s1", Framing::V1).await;
    let done = within("the rest", again.finish(&cell)).await.unwrap().unwrap();
    let number = |line: &str| {
        let digits = line.trim_start().chars().take_while(char::is_ascii_digit);
        digits.collect::<String>().parse::<u64>().ok()
    };
    let texts = seen.into_iter().chain(rest).chain([done.stdout()]);
    let mut all: Vec<u64> = texts
        .flat_map(|text| text.lines().filter_map(number).collect::<Vec<_>>())
        .collect();
    all.sort_unstable();
    all.dedup();
    let missing: Vec<u64> = (0..3000).filter(|n| all.binary_search(n).is_err()).collect();
    assert!(missing.is_empty(), "{missing:?}");
    again.close().await.unwrap();
    replicas.stop().await;
}

#[tokio::test]
async fn a_newer_connection_of_the_same_client_replaces_the_older() {
    let replicas = Replicas::start(3).await;
    let [near, other, owner] = &replicas.all[..] else {
        unreachable!()
    };
    let kernel = owner.kernel().await;
    let mut first = near.client(&kernel, "s1", Framing::V1).await;
    first.execute("print 1").await.unwrap();
    let mut second = other.client(&kernel, "s1", Framing::V1).await;
    let closed = within("the close", first.closed()).await.unwrap().unwrap();
    assert_eq!(closed.code, Some(4001));
    assert_eq!(second.execute("print 2").await.unwrap().stdout(), "2\n");
    second.close().await.unwrap();
    replicas.stop().await;
}

#[tokio::test]
async fn the_end_of_the_kernel_is_that_of_the_socket() {
    let replicas = Replicas::start(2).await;
    let [near, owner] = &replicas.all[..] else {
        unreachable!()
    };
    let kernel = owner.kernel().await;
    let mut client = near.client(&kernel, "s1", Framing::V1).await;
    client.execute("print 1").await.unwrap();
    let ended = near
        .http()
        .delete(&format!("/api/kernels/{kernel}"))
        .await
        .unwrap();
    assert_eq!(ended.status, 204);
    let closed = within("the close", client.closed()).await.unwrap().unwrap();
    assert_eq!(closed.code, Some(1000));
    replicas.stop().await;
}
