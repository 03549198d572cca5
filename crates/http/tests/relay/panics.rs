//! A handler that panics at the owner.

use himalia_testkit::patience::within;
use serde_json::json;

use crate::log::Log;
use crate::support::{PANICS, Replicas};

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_owner_panics_is_answered_and_the_next_one_is_relayed() {
    let log = Log::of_this_process(tracing::Level::ERROR);
    let replicas = Replicas::start(2).await;
    let [near, owner] = &replicas.all[..] else {
        unreachable!()
    };
    let kernel = owner.kernel().await;
    let call = json!({"params": {"arguments": {"session": kernel}}}).to_string();
    for id in ["first.id", "second.id"] {
        let headers = [("x-request-id", id), ("content-type", "application/json")];
        let http = near.http();
        let asking = http.request("POST", "/mcp", &headers, Some(call.as_bytes()));
        let reply = within("an answer", asking).await.unwrap().unwrap();
        assert_eq!((reply.status, reply.header("x-request-id")), (500, Some(id)));
        let text = reply.text();
        assert!(
            text.contains("under the id of this request") && !text.contains(PANICS),
            "{text}"
        );
    }
    assert_eq!(near.pool.usage().relayed, 2);
    let shown = near.http().get(&format!("/v1/sessions/{kernel}")).await.unwrap();
    assert_eq!(shown.status, 200);
    let text = log.text();
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("a request handler panicked"))
        .collect();
    assert_eq!(lines.len(), 2, "{text}");
    for (line, id) in lines.iter().zip(["first.id", "second.id"]) {
        assert!(
            line.contains(id) && line.contains(PANICS) && line.contains("/mcp"),
            "{line}"
        );
    }
    replicas.stop().await;
}
