//! Messages to webhooks from addresses that guess, and from senders whose runs are too many.

#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::join_all;
use himalia_engine::{Engine, TenantLimits};
use himalia_testkit::patience::Deadline;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use time::OffsetDateTime;

use crate::common::{Gateway, Reply};
use crate::tenants::fixture::{ADA, gateway_with, made, stop};

const BODY: &str = "{}";

/// A gateway with a webhook, which starts a workflow that asks a person: its runs need no kernels and do not end.
struct Hooked {
    gateway: Arc<Gateway>,
    engine: Engine,
    path: String,
    secret: Vec<u8>,
}

impl Hooked {
    async fn new() -> Self {
        let (gateway, engine) = gateway_with(|config| {
            config.tenants.insert("acme".into(), TenantLimits::default());
            config.credentials.keys = Some(himalia_engine::CredentialKeys("ab".repeat(32)));
        })
        .await;
        let definition = json!({
            "name": "asks", "version": "1.0.0", "description": "d", "inputs": {"type": "object"},
            "steps": [{"id": "sign", "approval": {"text": "?"}}],
        });
        let new = json!({"name": "incoming", "target": {"workflow": "asks"}});
        let definition = json!({ "definition": definition });
        made(&gateway, ADA, "POST", "/v1/workflows", definition).await;
        let hook = made(&gateway, ADA, "POST", "/v1/webhooks", new).await;
        let secret = hook["secret"].as_str().unwrap().trim_start_matches("whsec_");
        Self {
            gateway: Arc::new(gateway),
            engine,
            path: hook["path"].as_str().unwrap().to_owned(),
            secret: STANDARD.decode(secret).unwrap(),
        }
    }

    async fn send_signed_with(&self, secret: &[u8], id: &str) -> Reply {
        let now = OffsetDateTime::now_utc().unix_timestamp();
        let mut mac = Hmac::<Sha256>::new_from_slice(secret).unwrap();
        mac.update(format!("{id}.{now}.{BODY}").as_bytes());
        let signature = STANDARD.encode(mac.finalize().into_bytes());
        let headers = [
            format!("webhook-id: {id}"),
            format!("webhook-timestamp: {now}"),
            format!("webhook-signature: v1,{signature}"),
        ];
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        self.gateway.bare("POST", &self.path, &headers, BODY).await
    }

    async fn send(&self, id: &str) -> Reply {
        self.send_signed_with(&self.secret, id).await
    }

    /// The statuses of the replies to so many messages at once.
    async fn send_at_once(&self, id: &str, count: usize) -> Vec<u16> {
        let replies = join_all((0..count).map(|_| self.send(id))).await;
        replies.iter().map(|reply| reply.status).collect()
    }

    async fn runs(&self) -> Vec<Value> {
        let all = made(
            &self.gateway,
            ADA,
            "GET",
            "/v1/runs?webhook=incoming",
            Value::Null,
        )
        .await;
        all["runs"].as_array().unwrap().clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_an_address_that_guesses_are_checked_one_at_a_time() {
    const AT_ONCE: usize = 32;
    let place = Hooked::new().await;
    // Any number of an address that does not guess.
    assert_eq!(place.send_at_once("msg_1", AT_ONCE).await, [202; AT_ONCE]);
    for _ in 0..10 {
        let reply = place.send_signed_with(&[0; 32], "msg_2").await;
        assert_eq!(reply.status, 401);
    }
    let reply = place.send_signed_with(&[0; 32], "msg_2").await;
    assert_eq!(reply.status, 429);
    assert!(reply.header("retry-after").is_some(), "{reply:?}");
    assert_eq!(reply.header("connection"), Some("close"));
    // A right one is taken, if no other one is being checked.
    assert_eq!(place.send("msg_1").await.status, 202);
    let deadline = Deadline::new();
    loop {
        let statuses = place.send_at_once("msg_1", AT_ONCE).await;
        assert!(
            statuses.iter().all(|status| matches!(status, 202 | 429)),
            "{statuses:?}"
        );
        if statuses.contains(&429) {
            break;
        }
        assert!(!deadline.is_over(), "all are checked at once");
    }
    assert_eq!(place.runs().await.len(), 1);
    stop(place.engine).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_whose_runs_are_too_many_is_to_come_back() {
    const MOST: usize = 16;
    let place = Hooked::new().await;
    for number in 0..MOST {
        assert_eq!(place.send(&format!("msg_{number}")).await.status, 202);
    }
    let refused = place.send("one_more").await;
    assert_eq!(
        (refused.status, refused.message()),
        (429, "16 runs of this webhook have not ended".to_owned())
    );
    assert_eq!(refused.header("retry-after"), Some("10"));
    // What it has sent before is answered still.
    assert_eq!(place.send("msg_0").await.status, 202);
    assert_eq!(place.runs().await.len(), MOST);
    stop(place.engine).await;
}
