//! Every route that is of one session is relayed, from the table that the router is built from; peers that are none.

use himalia_http::ROUTES;
use himalia_relay::{Authority, Peer, Pool, SendError};
use himalia_testkit::http::Http;
use serde_json::json;

use crate::support::Replicas;

/// Of all routes with such a parameter: which replica answered is seen by what it knows.
#[tokio::test]
async fn every_route_of_a_session_is_relayed_to_its_owner() {
    let replicas = Replicas::start(2).await;
    let [near, owner] = &replicas.all[..] else {
        unreachable!()
    };
    let kernel = owner.kernel().await;
    let execution = format!("exe_{}_1", kernel.replace('-', ""));
    let mut relayed = near.pool.usage().relayed;
    let mut count = 0;
    // What ends the session comes last.
    let mut routes: Vec<_> = ROUTES.iter().collect();
    routes.sort_by_key(|route| route.method == "DELETE");
    for route in routes {
        let of_session = [
            "{kernel_id}",
            "{session_id}",
            "{execution_id}",
            "{prompt_id}",
            "{run_id}",
        ]
        .iter()
        .any(|parameter| route.path.contains(parameter));
        // Its owner is found by the store of Jupyter sessions: `jupyter_sessions_are_at_the_owner_of_their_kernel`. A signature is checked
        // where the message came; what is signed well is relayed (`test_prompts_on_replicas.py`).
        let elsewhere = ["/api/sessions/", "/hooks/"];
        let is_other = elsewhere.iter().any(|prefix| route.path.starts_with(prefix));
        if !of_session || is_other || route.websocket {
            continue;
        }
        let path = route
            .path
            .replace("{kernel_id}", &kernel)
            .replace("{session_id}", &kernel)
            .replace("{execution_id}", &execution)
            .replace("{prompt_id}", &execution.replace("exe", "prm"))
            .replace("{run_id}", &format!("run_{}", kernel.replace('-', "")))
            .replace("{step}", "x")
            .replace("{name}", "x")
            .replace("{*path}", "a.txt");
        let stream = path.ends_with("/events");
        if stream {
            let opened = near.http().events(&path, Some(0)).await;
            let unknown = path.contains("/executions/") || path.contains("/runs/");
            assert!(opened.is_ok() || unknown, "{path}");
        } else {
            let reply = near
                .http()
                .json(route.method.as_str(), &path, None)
                .await
                .unwrap();
            assert_ne!(reply.status, 503, "{} {path}: {}", route.method, reply.text());
        }
        let now = near.pool.usage().relayed;
        assert!(now > relayed, "{} {path} was not relayed", route.method);
        (relayed, count) = (now, count + 1);
    }
    assert!(count > 35, "{count}");
    replicas.stop().await;
}

#[tokio::test]
async fn tokens_are_checked_where_the_client_is_and_go_no_further() {
    let replicas = Replicas::start(2).await;
    let [near, owner] = &replicas.all[..] else {
        unreachable!()
    };
    let kernel = owner.kernel().await;
    let path = format!("/api/kernels/{kernel}");
    let stranger = Http::new(near.address.to_string(), None);
    assert_eq!(stranger.get(&path).await.unwrap().status, 401);
    assert_eq!(near.pool.usage().relayed, 0);
    let reply = stranger
        .get(&format!("{path}?token={}", crate::support::TOKEN))
        .await
        .unwrap();
    assert_eq!(reply.status, 200);
    // A client cannot state anything itself.
    let headers = [("himalia-relay", "x.y")];
    let forged = near.http().request("GET", &path, &headers, None).await.unwrap();
    assert_eq!(forged.status, 200);
    let forged = stranger.request("GET", &path, &headers, None).await.unwrap();
    assert_eq!(forged.status, 401);
    replicas.stop().await;
}

/// Of another authority; and a request that comes to a replica that has to send it on.
#[tokio::test]
async fn strangers_and_second_hops_are_refused() {
    let replicas = Replicas::start(3).await;
    let [near, other, owner] = &replicas.all[..] else {
        unreachable!()
    };
    let kernel = owner.kernel().await;
    let path = format!("/api/kernels/{kernel}");
    let get = || {
        axum::http::Request::get(&path)
            .body(himalia_relay::empty())
            .unwrap()
    };
    let caller = serde_json::to_string(&himalia_engine::Principal::operator()).unwrap();
    let wrong = Peer {
        replica: "r1".into(),
        address: other.network.address.to_string(),
    };
    let response = near.pool.send(&wrong, &caller, get()).await.unwrap();
    assert_eq!(response.status(), 421);
    assert_eq!(other.pool.usage().relayed, 0, "it was not sent on");
    let stranger = Authority::generate()
        .unwrap()
        .identity("r0", "127.0.0.1")
        .unwrap();
    let refused = Pool::new(stranger)
        .send(&wrong, &caller, get())
        .await
        .unwrap_err();
    assert!(matches!(refused, SendError::NotSent(_)), "{refused:?}");
    // A principal that no gateway made.
    let response = near.pool.send(&wrong, "{\"owner\":1}", get()).await.unwrap();
    assert_eq!(response.status(), 500);
    replicas.stop().await;
}

#[tokio::test]
async fn an_owner_that_is_gone_is_said_within_a_bound() {
    let replicas = Replicas::start(2).await;
    let [near, owner] = &replicas.all[..] else {
        unreachable!()
    };
    let kernel = owner.kernel().await;
    replicas.lose(1);
    let reply = near.http().get(&format!("/v1/sessions/{kernel}")).await.unwrap();
    let problem = reply.json().unwrap();
    assert_eq!(
        (reply.status, &problem["code"]),
        (503, &json!("unavailable")),
        "{problem}"
    );
    assert!(reply.header("retry-after").is_some());
    assert!(problem["detail"].as_str().unwrap().contains("r1"), "{problem}");
    replicas.stop().await;
}
