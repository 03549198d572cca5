//! A tenant that floods the gateway gets refusals, and the others their answers. Counted, not timed.
#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

mod common;
#[path = "tenants/place.rs"]
#[allow(dead_code, reason = "two callers are enough here")]
mod place;

use std::io::Cursor;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Gateway, Reply};
use himalia_engine::{BudgetUse, Engine, EngineConfig, Principal, Share, TenantLimits};
use himalia_testkit::assert_eventually;
use himalia_testkit::patience::within;
use image::{DynamicImage, ImageFormat};
use place::{ADA, EVE, Request, call, gateway_with, made, stop};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Eve's tenant has this part.
async fn place(share: Share) -> (Arc<Gateway>, Engine) {
    place_with(share, |_| {}).await
}

async fn place_with(share: Share, adjust: impl FnOnce(&mut EngineConfig)) -> (Arc<Gateway>, Engine) {
    let (gateway, engine) = gateway_with(|config| {
        let limits = TenantLimits {
            share,
            ..TenantLimits::default()
        };
        config.tenants.insert("evil".into(), limits);
        adjust(config);
    })
    .await;
    (Arc::new(gateway), engine)
}

fn uses(engine: &Engine, owner: &str) -> BudgetUse {
    let all = engine.budgets(&Principal::operator()).unwrap();
    all.into_iter().find(|one| one.owner == owner).unwrap_or_default()
}

fn request(method: &str, path: &str) -> Request {
    Request {
        method: method.into(),
        path: path.into(),
        body: String::new(),
        upgrade: false,
    }
}

fn with_body(method: &str, path: &str) -> Request {
    Request {
        body: "{}".into(),
        ..request(method, path)
    }
}

async fn get(gateway: &Gateway, token: &str, path: &str) -> Reply {
    call(gateway, token, &request("GET", path)).await
}

/// A refusal that a program can do something with.
fn is_refusal(reply: &Reply) -> bool {
    if !matches!(reply.status, 429 | 503 | 507) {
        return false;
    }
    let problem = reply.json();
    assert_eq!(problem["retryable"], true, "{reply:?}");
    assert!(reply.header("retry-after").is_some(), "{reply:?}");
    true
}

/// Asks, reads the head of the answer and nothing more.
async fn slowly(gateway: &Gateway, token: &str, path: &str) -> (TcpStream, Reply) {
    let mut stream = gateway.connect_with_small_buffer().await;
    let text = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: token {token}\r\n\r\n");
    stream.write_all(text.as_bytes()).await.unwrap();
    let head = within(path, Reply::head(&mut stream)).await.unwrap();
    (stream, head)
}

async fn session(gateway: &Gateway, token: &str, code: &str) -> Value {
    made(gateway, token, "PUT", "/v1/sessions/own", json!({})).await;
    let path = "/v1/sessions/own/executions";
    made(gateway, token, "POST", path, json!({ "code": code })).await
}

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
async fn thumbnails_are_made_for_one_tenant_after_the_other() {
    let (gateway, engine) = place(Share::default()).await;
    for (token, name) in [(EVE, "e"), (ADA, "a")] {
        session(&gateway, token, "display image/svg+xml 4000").await;
        let mut picture = Cursor::new(Vec::new());
        DynamicImage::new_rgb8(1500, 1500)
            .write_to(&mut picture, ImageFormat::Png)
            .unwrap();
        let kernels = std::fs::read_dir(gateway.data().join("kernels")).unwrap();
        let session = made(&gateway, token, "GET", "/v1/sessions/own", json!({})).await;
        let id = session["id"].as_str().unwrap();
        let mut dirs = kernels.map(|entry| entry.unwrap().path());
        let dir = dirs.find(|dir| dir.to_string_lossy().contains(id)).unwrap();
        let file = dir
            .join("artifacts")
            .join(format!("{}.image%png", name.repeat(64)));
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, picture.get_ref()).unwrap();
    }
    let mut flood = JoinSet::new();
    for edge in 0..90 {
        let gateway = Arc::clone(&gateway);
        let path = format!("/v1/artifacts/{}?thumbnail={}", "e".repeat(64), 100 + edge);
        flood.spawn(async move { get(&gateway, EVE, &path).await });
    }
    assert_eventually!(
        uses(&engine, "evil").refused[3] > 0,
        "{:?}",
        uses(&engine, "evil")
    );
    let before = uses(&engine, "evil").turns;
    let path = format!("/v1/artifacts/{}?thumbnail=100", "a".repeat(64));
    assert_eq!(get(&gateway, ADA, &path).await.status, 200);
    // Ninety were asked for before hers.
    let meanwhile = uses(&engine, "evil").turns - before;
    let (mut made, mut refused) = (0, 0);
    while let Some(reply) = flood.join_next().await {
        let reply = reply.unwrap();
        match reply.status {
            200 => made += 1,
            _ if is_refusal(&reply) => refused += 1,
            other => panic!("{other}: {reply:?}"),
        }
    }
    assert!(refused > 0 && made > 0, "{made} {refused}");
    assert!(meanwhile < 90, "{meanwhile} of Eve's were first");
    stop(engine).await;
}

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

    // Of idle ones the oldest gives way.
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
    // Whoever asks on at once gets its refusals slowly: they cost as much as answers.
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
            himalia_engine::StartKernel {
                name: Some("none".into()),
                ..himalia_engine::StartKernel::default()
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
    // Nobody collects, and no tick comes: the end of a session is enough.
    assert_eventually!(bytes() <= 3 << 20, "{}", bytes());
    let path = format!("/v1/executions/{}", kept["id"].as_str().unwrap());
    assert_eq!(get(&gateway, ADA, &path).await.status, 200);
    stop(engine).await;
}
