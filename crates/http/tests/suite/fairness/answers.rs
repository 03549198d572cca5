//! Answers that are being made or sent: how much of them a tenant has at once, and whose turn it is.

use himalia_engine::Share;
use himalia_testkit::assert_eventually;
use himalia_testkit::patience::within;
use serde_json::json;
use tokio::io::AsyncReadExt as _;

use super::{get, place, session, slowly, uses};
use crate::tenants::fixture::{ADA, EVE, stop};

#[tokio::test(flavor = "multi_thread")]
async fn slow_readers_of_notebooks_hold_no_more_than_their_tenants_part() {
    let share = Share {
        memory_bytes: 16 << 20,
        ..Share::default()
    };
    let (gateway, engine) = place(share).await;
    session(&gateway, EVE, &"display text/plain 1000000\n".repeat(4)).await;
    session(&gateway, ADA, &"display text/plain 1000000\n".repeat(4)).await;
    let mut held = Vec::new();
    let mut refused = 0;
    for _ in 0..12 {
        let (stream, head) = slowly(&gateway, EVE, "/v1/sessions/own/notebook.ipynb").await;
        match head.status {
            200 => held.push(stream),
            429 => refused += 1,
            other => panic!("{other}: {head:?}"),
        }
        let notebook = get(&gateway, ADA, "/v1/sessions/own/notebook.ipynb").await;
        assert_eq!(notebook.status, 200);
        assert!(notebook.body.len() > 3_000_000);
    }
    let eves = uses(&engine, "evil");
    assert!(!held.is_empty() && refused > 0, "{eves:?}");
    assert!((3_000_000..=16 << 20).contains(&eves.memory_bytes), "{eves:?}");
    assert!(
        eves.memory_bytes_peak <= 16 << 20 && eves.refused[0] == refused,
        "{eves:?}"
    );
    // What is not read any more is not held any more.
    drop(held);
    assert_eventually!(
        uses(&engine, "evil").memory_bytes == 0,
        "{:?}",
        uses(&engine, "evil")
    );
    assert_eq!(
        get(&gateway, EVE, "/v1/sessions/own/notebook.ipynb").await.status,
        200
    );
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn artifacts_are_sent_as_they_are_read_and_in_parts() {
    let (gateway, engine) = place(Share::default()).await;
    let ran = session(&gateway, EVE, "display application/octet-stream 3000000").await;
    let data = &ran["outputs"][0]["data"]["application/octet-stream"];
    let artifact = data["artifact"].as_str().unwrap().trim_start_matches("sha256:");
    let path = format!("/v1/artifacts/{artifact}");
    let whole = get(&gateway, EVE, &path).await;
    assert_eq!(
        (whole.status, whole.header("accept-ranges")),
        (200, Some("bytes"))
    );
    let size = whole.body.len();
    assert!(size >= 2_000_000, "{size}");
    // Readers that take nothing hold nothing of it.
    let mut streams = Vec::new();
    for _ in 0..20 {
        let (stream, head) = slowly(&gateway, EVE, &path).await;
        assert_eq!(head.status, 200);
        streams.push(stream);
    }
    assert_eq!(uses(&engine, "evil").memory_bytes, 0);
    let auth = format!("Authorization: token {EVE}");
    for (range, wanted) in [
        ("bytes=0-9", Some(0..10)),
        ("bytes=1999990-2000009", Some(1_999_990..2_000_010)),
        ("bytes=-5", Some(size - 5..size)),
        ("bytes=70000-", Some(70_000..size)),
        ("bytes=99999999-", None),
    ] {
        let part = format!("Range: {range}");
        let reply = gateway.bare("GET", &path, &[&auth, &part], "").await;
        let Some(wanted) = wanted else {
            assert_eq!(
                (reply.status, &reply.json()["code"]),
                (416, &json!("range_not_satisfiable"))
            );
            continue;
        };
        let says = format!("bytes {}-{}/{size}", wanted.start, wanted.end - 1);
        assert_eq!(
            (reply.status, reply.header("content-range")),
            (206, Some(says.as_str()))
        );
        assert!(reply.body == whole.body[wanted], "{range}");
    }
    drop(streams);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replays_polls_and_lists_that_are_long_take_turns() {
    let (gateway, engine) = place(Share::default()).await;
    let ran = session(&gateway, EVE, &"display text/plain 100000\n".repeat(20)).await;
    let poll = format!("/v1/executions/{}", ran["id"].as_str().unwrap());
    let turns = || uses(&engine, "evil").turns;
    for path in [poll.as_str(), "/v1/sessions?ended=true"] {
        let before = turns();
        assert_eq!(get(&gateway, EVE, path).await.status, 200);
        assert!(turns() > before, "{path}");
    }
    let before = turns();
    let (mut stream, head) = slowly(&gateway, EVE, "/v1/sessions/own/events?after=0").await;
    assert_eq!(head.status, 200);
    let mut piece = vec![0; 1 << 20];
    within("events", stream.read_exact(&mut piece))
        .await
        .unwrap()
        .unwrap();
    assert!(turns() > before);
    drop(stream);
    assert_eventually!(uses(&engine, "evil").streams == 0, "{:?}", uses(&engine, "evil"));
    // What is short takes none.
    let before = turns();
    for path in ["/v1/sessions", "/v1/sessions/own/executions", "/v1/sessions/own"] {
        assert_eq!(get(&gateway, EVE, path).await.status, 200);
    }
    assert_eq!((turns(), uses(&engine, "evil").turns_now), (before, 0));
    stop(engine).await;
}
