//! What a kernel sees of variables: those of its own request and nothing else.

use himalia_testkit::gateway::Gateway;
use serde_json::json;
use tokio::task::JoinSet;

use crate::common::{gateway, start_with};

const KERNELS: usize = 20;

/// Overlapping starts in other gateways swapped a shared default; a later start without variables then got those of
/// another request.
#[tokio::test(flavor = "multi_thread")]
async fn variables_of_one_request_reach_no_other_kernel() {
    let gateway = gateway(&[]).await;
    let mut starts = JoinSet::new();
    for number in 0..KERNELS {
        let http = gateway.http();
        starts.spawn(async move {
            let env = json!({ format!("ONLY_{number}"): "x", "SECRET": format!("secret-{number}") });
            let body = json!({ "name": "fake", "env": env });
            let reply = http
                .post("/api/kernels", Some(&body))
                .await
                .unwrap()
                .expect(201)
                .unwrap();
            (number, reply.json().unwrap()["id"].as_str().unwrap().to_owned())
        });
    }
    let started = starts.join_all().await;
    let without = start_with(&gateway, &json!({ "name": "fake" })).await;
    let empty = start_with(&gateway, &json!({ "name": "fake", "env": {} })).await;
    for (number, kernel) in started {
        let seen = environment(&gateway, &kernel).await;
        assert!(seen.contains(&format!("SECRET=secret-{number}\n")), "{seen}");
        assert!(seen.contains(&format!("ONLY_{number}=x\n")), "{seen}");
        assert_eq!(seen.matches("ONLY_").count(), 1, "{seen}");
    }
    for kernel in [without, empty] {
        let seen = environment(&gateway, &kernel).await;
        assert!(!seen.contains("SECRET") && !seen.contains("ONLY_"), "{seen}");
    }
}

#[tokio::test]
async fn the_gateways_own_environment_reaches_no_kernel_and_no_shim() {
    let gateway = Gateway::builder()
        .env("HIMALIA_TOKEN", "canary-of-the-token")
        .env("HIMALIA_LOG", "info,canary=info")
        .env("CANARY", "canary-of-the-operator")
        .env("LD_CANARY", "canary")
        .start()
        .await
        .unwrap();
    let kernel = gateway.start_kernel("fake").await.unwrap();
    // `${CANARY}` in a value is no way to it either.
    let asks = json!({ "name": "fake", "env": { "A": "${CANARY}", "HIMALIA_X": "mine" } });
    let other = start_with(&gateway, &asks).await;
    let seen = environment(&gateway, &other).await;
    assert!(seen.contains("HIMALIA_X=mine\n"), "{seen}");
    for seen in [
        environment(&gateway, &kernel).await,
        seen.replace("${CANARY}", ""),
    ] {
        assert!(!seen.to_lowercase().contains("canary"), "{seen}");
        assert!(!seen.contains(himalia_testkit::gateway::TOKEN), "{seen}");
    }
    for pid in gateway.processes() {
        for file in ["environ", "cmdline"] {
            // A shim cannot be read, not even by its own user.
            let text = std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).replace("${CANARY}", "");
            assert!(
                !text.to_lowercase().contains("canary") && !text.contains("testkit-token"),
                "{text}"
            );
        }
    }
}

async fn environment(gateway: &Gateway, kernel: &str) -> String {
    let mut socket = gateway.connect(kernel).await.unwrap();
    socket.execute("env").await.unwrap().stdout()
}
