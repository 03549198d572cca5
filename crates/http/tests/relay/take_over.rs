//! The owner of a session is lost while a client of another replica waits for it.

use futures_util::StreamExt as _;
use himalia_testkit::http::Events;
use himalia_testkit::patience::{Deadline, within};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::support::{Replica, Replicas, TOKEN};

const ID: &str = "11111111-2222-4333-8444-555555555555";

/// Starts a session and code in it; the id of the execution.
async fn twin(replica: &Replica, code: &str) -> String {
    let http = replica.http();
    let start = json!({"id": ID, "name": "eda"});
    let made = http.post("/v1/sessions", Some(&start)).await.unwrap();
    made.expect(201).unwrap();
    let deadline = Deadline::new();
    while http.get("/v1/sessions/eda").await.unwrap().json().unwrap()["state"] != "idle" {
        assert!(!deadline.is_over(), "it is not idle");
        deadline.pause().await;
    }
    let run = json!({"code": code, "background": true});
    let begun = http.post("/v1/sessions/eda/executions", Some(&run)).await;
    let begun = begun.unwrap().expect(202).unwrap().json().unwrap();
    begun["id"].as_str().unwrap().to_owned()
}

/// Two replicas. Both have a session with the same id and an execution with the same id; those of the first replica stand for what it
/// will have taken over: there is more of them.
async fn twins() -> (Replicas, String) {
    let output = "print a\neprint b\n";
    let (more, less) = (output.repeat(20), format!("{}hang", output.repeat(4)));
    for _ in 0..10 {
        let replicas = Replicas::start(2).await;
        let id = twin(&replicas.all[0], &more).await;
        let done = format!("/v1/executions/{id}?wait_s=30");
        let done = replicas.all[0].http().get(&done).await.unwrap();
        assert_eq!(done.expect(200).unwrap().json().unwrap()["status"], "ok");
        replicas.hide(0);
        if twin(&replicas.all[1], &less).await == id {
            return (replicas, id);
        }
        // A record of the start was late.
        replicas.stop().await;
    }
    panic!("the starts of ten pairs have differed");
}

/// Two replicas, and a session `eda` of the second one.
async fn of_second() -> (Replicas, Value) {
    let replicas = Replicas::start(2).await;
    let http = replicas.all[1].http();
    let made = http.json("PUT", "/v1/sessions/eda", Some(&json!({}))).await;
    let made = made.unwrap().expect(201).unwrap().json().unwrap();
    (replicas, made)
}

/// The numbers of the next events, so many.
async fn numbers(events: &mut Events, count: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    let all = async {
        while numbers.len() < count {
            let event = events.next().await.unwrap();
            assert_ne!(event.event, "end", "{}", event.data);
            numbers.extend(event.id.map(|id| id.parse::<u64>().unwrap()));
        }
    };
    let done = within("events", all).await;
    assert!(done.is_ok(), "only {numbers:?}");
    numbers
}

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

async fn socket(replica: &Replica, path: &str) -> Socket {
    let mut request = format!("ws://{}{path}", replica.address)
        .into_client_request()
        .unwrap();
    let token = format!("token {TOKEN}").parse().unwrap();
    request.headers_mut().insert("authorization", token);
    within("a WebSocket", connect_async(request))
        .await
        .unwrap()
        .unwrap()
        .0
}

/// The numbers of the next messages, so many.
async fn pushed(socket: &mut Socket, count: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    let all = async {
        while numbers.len() < count {
            let message = socket.next().await.unwrap().unwrap();
            assert!(!message.is_close(), "{message}");
            if let Ok(text) = message.to_text()
                && let Ok(event) = serde_json::from_str::<Value>(text)
            {
                numbers.push(event["seq"].as_u64().unwrap());
            }
        }
    };
    let done = within("messages", all).await;
    assert!(done.is_ok(), "only {numbers:?}");
    numbers
}

fn assert_continued(before: &[u64], after: &[u64]) {
    let all = [before, after].concat();
    assert!(
        all.windows(2).all(|two| two[0] + 1 == two[1]),
        "{before:?}, {after:?}"
    );
}

#[tokio::test]
async fn a_stream_continues_when_its_own_replica_takes_over() {
    for socket_of in [None, Some("/v1/sessions/eda/events?after=0")] {
        let (replicas, _) = twins().await;
        let near = &replicas.all[0];
        let (before, after) = if let Some(path) = socket_of {
            let mut socket = socket(near, path).await;
            let before = pushed(&mut socket, 5).await;
            replicas.take_over(0, 1);
            (before, pushed(&mut socket, 20).await)
        } else {
            let mut events = near
                .http()
                .events("/v1/sessions/eda/events", Some(0))
                .await
                .unwrap();
            let before = numbers(&mut events, 5).await;
            replicas.take_over(0, 1);
            (before, numbers(&mut events, 20).await)
        };
        assert_continued(&before, &after);
        replicas.stop().await;
    }
}

#[tokio::test]
async fn a_stream_of_an_execution_continues_when_its_own_replica_takes_over() {
    for over_socket in [false, true] {
        let (replicas, id) = twins().await;
        let near = &replicas.all[0];
        let path = format!("/v1/executions/{id}/events");
        let (before, after) = if over_socket {
            let mut socket = socket(near, &path).await;
            let before = pushed(&mut socket, 3).await;
            replicas.take_over(0, 1);
            (before, pushed(&mut socket, 10).await)
        } else {
            let mut events = near.http().events(&path, None).await.unwrap();
            let before = numbers(&mut events, 3).await;
            replicas.take_over(0, 1);
            (before, numbers(&mut events, 10).await)
        };
        // As for a client that comes back with its position.
        let mut again = near.http().events(&path, before.last().copied()).await.unwrap();
        assert_eq!(after, numbers(&mut again, 10).await, "after {before:?}");
        replicas.stop().await;
    }
}

/// The code of the execution is not done twice: it hangs until it is interrupted, at its owner.
#[tokio::test]
async fn a_request_with_a_key_survives_the_loss_of_its_owner() {
    let (replicas, _) = of_second().await;
    let (near, owner) = (&replicas.all[0], &replicas.all[1]);
    let path = "/v1/sessions/eda/executions";
    let long = "x".repeat(100_000);
    for (number, (header, member)) in [(Some("a"), None), (None, Some("b")), (None, None)]
        .into_iter()
        .enumerate()
    {
        let mut body = json!({"code": format!("print {long}\nprint begun\nhang")});
        if let Some(key) = member {
            body["idempotency_key"] = key.into();
        }
        let (http, body) = (near.http(), body.to_string());
        let asked = tokio::spawn(async move {
            let headers: Vec<_> = header.map(|key| ("idempotency-key", key)).into_iter().collect();
            http.request("POST", path, &headers, Some(body.as_bytes())).await
        });
        let mut events = owner
            .http()
            .events("/v1/sessions/eda/events", Some(0))
            .await
            .unwrap();
        let mut begun = 0;
        while begun <= number {
            let event = events.next().await.unwrap().data;
            let printed = event.contains("\"msg_type\":\"stream\"") && event.contains("begun\\n\"");
            begun += usize::from(printed);
        }
        owner.network.cut();
        if header.or(member).is_none() {
            let reply = within("the reply", asked).await.unwrap().unwrap().unwrap();
            let error = reply.expect(503).unwrap().json().unwrap();
            assert_eq!(error["retryable"], false, "{error}");
            continue;
        }
        let interrupted = owner.http().post("/v1/sessions/eda/interrupt", None).await;
        assert!(interrupted.unwrap().status < 300);
        let reply = within("the reply", asked).await.unwrap().unwrap().unwrap();
        let result = reply.expect(200).unwrap().json().unwrap();
        assert_eq!(result["status"], "interrupted");
        let list = owner.http().get(path).await.unwrap().json().unwrap();
        assert_eq!(list["executions"].as_array().unwrap().len(), number + 1);
    }
    replicas.stop().await;
}

#[tokio::test]
async fn the_put_of_a_session_survives_the_loss_of_its_owner() {
    let (replicas, made) = of_second().await;
    let (near, owner) = (&replicas.all[0], &replicas.all[1]);
    // The replicas have a connection.
    near.http()
        .get("/v1/sessions/eda")
        .await
        .unwrap()
        .expect(200)
        .unwrap();
    owner.network.lose_answers();
    let http = near.http();
    let put = tokio::spawn(async move { http.json("PUT", "/v1/sessions/eda", Some(&json!({}))).await });
    owner.network.cut_after_answer().await;
    let again = within("the reply", put).await.unwrap().unwrap().unwrap();
    assert_eq!(again.expect(200).unwrap().json().unwrap()["id"], made["id"]);
    replicas.stop().await;
}
