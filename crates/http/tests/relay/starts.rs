//! Starts at a replica whose pool has nothing ready.

use std::collections::HashSet;

use futures_util::future::join_all;
use himalia_engine::Principal;
use himalia_testkit::assert_eventually;
use himalia_testkit::http::Response;
use serde_json::{Value, json};

use crate::support::{Replica, Replicas, pool_of};

/// How many searches of a replica had this outcome.
async fn searches(replica: &Replica, outcome: &str) -> u64 {
    let text = replica.http().get("/metrics").await.unwrap().text();
    let name = format!("himalia_starts_elsewhere_total{{outcome=\"{outcome}\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&name)).unwrap();
    line.parse().unwrap()
}

async fn ready(replica: &Replica, count: u32) {
    assert_eventually!(
        pool_of(&replica.engine).ready == count,
        "{:?}",
        pool_of(&replica.engine)
    );
}

fn session(reply: Response, status: u16) -> Value {
    reply.expect(status).unwrap().json().unwrap()
}

async fn start(at: &Replica) -> Value {
    let body = json!({"template": "warm"});
    session(at.http().post("/v1/sessions", Some(&body)).await.unwrap(), 201)
}

fn kernels(replica: &Replica) -> usize {
    replica.engine.kernels(&Principal::operator()).unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_twenty_starts_at_once_each_gets_a_kernel_of_its_own_from_the_pool_of_another_replica() {
    let replicas = Replicas::with_pools(&[Some(0), Some(20)]).await;
    let [near, far] = &replicas.all[..] else {
        unreachable!()
    };
    ready(far, 20).await;
    let started = join_all((0..20).map(|_| start(near))).await;
    let ids: HashSet<&str> = started.iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 20);
    assert!(
        started.iter().all(|one| one["started_by"] == "pool"),
        "{started:?}"
    );
    let pool = pool_of(&far.engine);
    assert_eq!((pool.hits, pool.misses), (20, 0));
    assert_eq!((kernels(far), kernels(near)), (20, 0));
    assert_eq!(searches(near, "served").await, 20);
    // A client continues where it is.
    let path = format!("/v1/sessions/{}/executions", started[0]["id"].as_str().unwrap());
    let body = json!({"code": "result 7"});
    let result = session(near.http().post(&path, Some(&body)).await.unwrap(), 200);
    assert_eq!(result["status"], "ok", "{result}");
    replicas.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_start_a_session_is_served_elsewhere() {
    let replicas = Replicas::with_pools(&[Some(0), Some(4)]).await;
    let [near, far] = &replicas.all[..] else {
        unreachable!()
    };
    ready(far, 4).await;
    let kernel = near
        .http()
        .post("/api/kernels", Some(&json!({"name": "warm"})))
        .await
        .unwrap();
    assert_eq!(kernel.header("x-himalia-started-by"), Some("pool"));
    kernel.expect(201).unwrap();
    let body = json!({"path": "a.ipynb", "type": "notebook", "name": "", "kernel": {"name": "warm"}});
    let made = session(near.http().post("/api/sessions", Some(&body)).await.unwrap(), 201);
    let kernel = made["kernel"]["id"].as_str().unwrap();
    let shown = session(
        near.http().get(&format!("/v1/sessions/{kernel}")).await.unwrap(),
        200,
    );
    assert_eq!(shown["started_by"], "pool");
    // The document has that one.
    let again = session(near.http().post("/api/sessions", Some(&body)).await.unwrap(), 201);
    assert_eq!(again["id"], made["id"]);
    assert_eq!((kernels(far), kernels(near)), (2, 0));
    assert_eq!(searches(near, "served").await, 2);
    replicas.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_many_start_at_once_is_one_session_and_what_was_held_for_the_others_waits_again() {
    let replicas = Replicas::with_pools(&[Some(0), Some(8)]).await;
    let [near, far] = &replicas.all[..] else {
        unreachable!()
    };
    ready(far, 8).await;
    let body = json!({"template": "warm"});
    let http = near.http();
    let put = || http.json("PUT", "/v1/sessions/eda", Some(&body));
    let replies = join_all((0..8).map(|_| put())).await;
    let replies: Vec<Response> = replies.into_iter().map(Result::unwrap).collect();
    let new = replies.iter().filter(|reply| reply.status == 201).count();
    let found = replies.iter().filter(|reply| reply.status == 200).count();
    assert_eq!((new, found), (1, 7));
    let ids: HashSet<String> = replies
        .into_iter()
        .map(|reply| reply.json().unwrap()["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(pool_of(&far.engine).hits, 1);
    ready(far, 8).await;
    replicas.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_replica_is_asked_if_the_first_has_none_and_then_the_start_is_here() {
    let replicas = Replicas::with_pools(&[Some(0), Some(0), Some(1)]).await;
    let [near, empty, far] = &replicas.all[..] else {
        unreachable!()
    };
    ready(far, 1).await;
    assert_eq!(start(near).await["started_by"], "pool");
    assert_eq!((kernels(near), kernels(empty), kernels(far)), (0, 0, 1));
    // It is named and does not respond.
    ready(far, 1).await;
    let nowhere = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = nowhere.local_addr().unwrap();
    drop(nowhere);
    replicas.replace(2, address);
    let cold = start(near).await;
    assert_eq!((&cold["started_by"], kernels(near)), (&json!("cold"), 1));
    assert_eq!(searches(near, "failed").await, 1);
    // No replica has one.
    replicas.lose(2);
    replicas.lose(1);
    start(near).await;
    assert_eq!((searches(near, "none_ready").await, kernels(near)), (1, 2));
    // A start that is no start of the pool is not searched for.
    let body = json!({"template": "fake"});
    let plain = session(near.http().post("/v1/sessions", Some(&body)).await.unwrap(), 201);
    assert_eq!(plain["started_by"], "cold");
    assert_eq!(searches(near, "none_ready").await, 1);
    replicas.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_for_a_start_that_fails_waits_again() {
    let replicas = Replicas::with_pools(&[Some(0), Some(1)]).await;
    let [near, far] = &replicas.all[..] else {
        unreachable!()
    };
    ready(far, 1).await;
    for _ in 0..3 {
        let body = json!({"template": "warm", "labels": {"": "no name"}});
        let refused = near.http().post("/v1/sessions", Some(&body)).await.unwrap();
        assert_eq!(refused.status, 400, "{}", refused.text());
    }
    assert_eq!(searches(near, "served").await, 3, "it was there for each of them");
    assert_eq!(pool_of(&far.engine).hits, 0);
    assert_eq!(start(near).await["started_by"], "pool");
    replicas.stop().await;
}
