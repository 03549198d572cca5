//! What a tenant may have and start, by number, rate and disk.

use std::time::{Duration, Instant};

use himalia_engine::{Principal, Share};
use himalia_testkit::assert_eventually;
use himalia_testkit::patience::within;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{get, is_refusal, place, place_with, request, session, slowly, uses, with_body};
use crate::common::Reply;
use crate::tenants::fixture::{ADA, EVE, Request, call, made, stop};

#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_connections_leave_room_for_others() {
    let share = Share {
        connections: 40,
        ..Share::default()
    };
    let (gateway, engine) = place_with(share, |config| config.max_connections = 64).await;
    // Connections with a request under way: none of them is idle.
    session(&gateway, EVE, "print x").await;
    let (mut held, mut refused) = (Vec::new(), 0);
    for _ in 0..100 {
        let (stream, head) = slowly(&gateway, EVE, "/v1/sessions/own/events").await;
        match head.status {
            200 => held.push(stream),
            429 => refused += 1,
            other => panic!("{other}: {head:?}"),
        }
        assert_eq!(get(&gateway, ADA, "/api/kernels").await.status, 200);
    }
    // Three quarters of her tenant's forty are one caller's.
    assert_eq!((held.len(), refused), (30, 70));
    assert_eq!(gateway.get("/api/kernels").await.status, 200);
    let eves = uses(&engine, "evil");
    assert_eq!((eves.connections, eves.streams), (30, 30));
    drop(held);
    assert_eventually!(
        uses(&engine, "evil").connections == 0,
        "{:?}",
        uses(&engine, "evil")
    );

    // The oldest idle connection is evicted.
    let mut idle = Vec::new();
    for _ in 0..100 {
        let mut stream = gateway.connect().await;
        let text = format!("GET /api/kernels HTTP/1.1\r\nHost: x\r\nAuthorization: token {EVE}\r\n\r\n");
        stream.write_all(text.as_bytes()).await.unwrap();
        assert_eq!(Reply::read(&mut stream).await.status, 200);
        idle.push(stream);
        assert!(uses(&engine, "evil").connections <= 30);
    }
    let mut byte = [0];
    let ended = within("the oldest to end", idle[0].read(&mut byte))
        .await
        .unwrap();
    assert_eq!(ended.unwrap_or(0), 0);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_events_are_counted_whatever_their_form() {
    let share = Share {
        streams: 4,
        ..Share::default()
    };
    let (gateway, engine) = place(share).await;
    let ran = session(&gateway, EVE, "print x").await;
    session(&gateway, ADA, "print x").await;
    let session = made(&gateway, EVE, "GET", "/v1/sessions/own", json!({})).await;
    let channels = format!("/api/kernels/{}/channels", session["id"].as_str().unwrap());
    let events = format!("/v1/executions/{}/events", ran["id"].as_str().unwrap());
    let log = "/v1/sessions/own/events".to_owned();
    let mut held = Vec::new();
    for _ in 0..3 {
        let (stream, head) = slowly(&gateway, EVE, &log).await;
        assert_eq!(head.status, 200);
        held.push(stream);
    }
    for path in [&log, &events] {
        let refused = get(&gateway, EVE, path).await;
        assert!(
            is_refusal(&refused) && refused.json()["code"] == "over_budget",
            "{refused:?}"
        );
    }
    let socket = Request {
        upgrade: true,
        ..request("GET", &channels)
    };
    assert_eq!(call(&gateway, EVE, &socket).await.status, 429);
    assert_eq!(slowly(&gateway, ADA, &log).await.1.status, 200);
    assert_eq!(uses(&engine, "evil").refused[2], 3);
    drop(held);
    assert_eventually!(uses(&engine, "evil").streams == 0, "{:?}", uses(&engine, "evil"));
    assert_eq!(call(&gateway, EVE, &socket).await.status, 101);
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn polls_and_starts_have_a_rate() {
    let share = Share {
        requests_per_second: 5,
        starts_per_second: 1,
        ..Share::default()
    };
    let (gateway, engine) = place(share).await;
    let (mut answered, mut refused) = (0, 0);
    while refused == 0 {
        let reply = get(&gateway, EVE, "/v1/sessions").await;
        if is_refusal(&reply) {
            refused += 1;
        } else {
            answered += 1;
        }
        assert_eq!(get(&gateway, ADA, "/api/kernels").await.status, 200);
        assert!(answered < 10_000, "no refusal");
    }
    assert!(answered >= 20, "{answered}");
    // A caller that asks again at once receives its refusals slowly: they cost as much as answers.
    let (begun, mut refused) = (Instant::now(), 0);
    while refused < 3 {
        refused += u32::from(is_refusal(&get(&gateway, EVE, "/v1/sessions").await));
    }
    assert!(begun.elapsed() >= refused * Duration::from_millis(200));
    assert!(uses(&engine, "evil").refused[4] > 0);
    assert_eq!(uses(&engine, "acme").refused, [0; 6]);

    let eve = Principal::of_tenant("evil", "eve").unwrap();
    let mut codes = Vec::new();
    while codes.len() < 200 && codes.last() != Some(&"over_budget") {
        let start = engine.start_kernel(
            &eve,
            himalia_engine::StartSession {
                name: Some("none".into()),
                ..himalia_engine::StartSession::default()
            },
        );
        codes.push(start.await.unwrap_err().code());
    }
    assert_eq!(
        (codes.last(), codes.len() > 4),
        (Some(&"over_budget"), true),
        "{codes:?}"
    );
    session(&gateway, ADA, "print x").await;
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_limit_refuses_a_tenant_it_is_told_late() {
    let share = Share {
        streams: 1,
        ..Share::default()
    };
    let (gateway, engine) = place_with(share, |config| {
        let limits = config.tenants.get_mut("evil").unwrap();
        limits.max_kernels = Some(1);
    })
    .await;
    session(&gateway, EVE, "print x").await;
    let kernel = made(&gateway, EVE, "GET", "/v1/sessions/own", json!({})).await;
    let eve = Principal::of_tenant("evil", "eve").unwrap();
    let _memory = engine.hold_memory(&eve, u64::MAX).unwrap();
    let (_events, head) = slowly(&gateway, EVE, "/v1/sessions/own/events").await;
    assert_eq!(head.status, 200);
    let channels = format!("/api/kernels/{}/channels", kernel["id"].as_str().unwrap());
    let socket = Request {
        upgrade: true,
        ..request("GET", &channels)
    };
    for (wanted, request) in [
        (429, request("GET", "/v1/sessions/own/notebook.ipynb")),
        (429, request("GET", "/v1/sessions/own/events")),
        (429, socket),
        (429, with_body("POST", "/v1/sessions")),
        (403, with_body("POST", "/api/kernels")),
    ] {
        let begun = Instant::now();
        let reply = call(&gateway, EVE, &request).await;
        assert_eq!(reply.status, wanted, "{request:?}: {reply:?}");
        assert!(begun.elapsed() >= Duration::from_millis(200), "{request:?}");
    }
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_not_started_without_room_on_the_disk() {
    let (gateway, engine) = place_with(Share::default(), |config| config.min_free_bytes = 1 << 62).await;
    let refused = call(&gateway, EVE, &with_body("POST", "/v1/sessions")).await;
    assert_eq!(
        (refused.status, &refused.json()["code"]),
        (507, &json!("disk_full"))
    );
    assert!(is_refusal(&refused));
    stop(engine).await;

    let share = Share {
        disk_bytes: 1 << 20,
        ..Share::default()
    };
    let (gateway, engine) = place(share).await;
    for round in 0..2 {
        // What has ended counts as what lives.
        let name = format!("/v1/sessions/round-{round}");
        let reply = call(&gateway, EVE, &with_body("PUT", &name)).await;
        if round == 1 {
            assert!(is_refusal(&reply), "{reply:?}");
            assert_eq!(reply.json()["code"], "over_budget");
            break;
        }
        assert_eq!(reply.status, 201, "{reply:?}");
        let run = json!({ "code": "display text/plain 1000000\ndisplay text/plain 1000000" });
        made(&gateway, EVE, "POST", &format!("{name}/executions"), run).await;
        call(&gateway, EVE, &request("DELETE", &name)).await;
    }
    session(&gateway, ADA, "print x").await;
    stop(engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_come_and_go_take_no_more_than_is_kept_and_nothing_of_others() {
    let (gateway, engine) = place_with(Share::default(), |config| config.retention.bytes = 3 << 20).await;
    made(&gateway, ADA, "PUT", "/v1/sessions/first", json!({})).await;
    let kept = made(
        &gateway,
        ADA,
        "POST",
        "/v1/sessions/first/executions",
        json!({"code": "print kept"}),
    )
    .await;
    call(&gateway, ADA, &request("DELETE", "/v1/sessions/first")).await;
    for round in 0..6 {
        let name = format!("/v1/sessions/churn-{round}");
        made(&gateway, EVE, "PUT", &name, json!({})).await;
        let run = json!({ "code": "display text/plain 1000000" });
        made(&gateway, EVE, "POST", &format!("{name}/executions"), run).await;
        call(&gateway, EVE, &request("DELETE", &name)).await;
    }
    let bytes = || {
        let logs = std::fs::read_dir(gateway.data().join("kernels"))
            .unwrap()
            .flatten();
        let files = logs.flat_map(|log| std::fs::read_dir(log.path()).into_iter().flatten().flatten());
        files
            .filter_map(|file| file.metadata().ok())
            .map(|file| file.len())
            .sum::<u64>()
    };
    // No collection is requested, and no tick comes: the end of a session is enough.
    assert_eventually!(bytes() <= 3 << 20, "{}", bytes());
    let path = format!("/v1/executions/{}", kept["id"].as_str().unwrap());
    assert_eq!(get(&gateway, ADA, &path).await.status, 200);
    stop(engine).await;
}
