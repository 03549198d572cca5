//! A gateway that loses its lease as a replica: what its clients may send again.

#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

use std::sync::Arc;
use std::time::Duration;

use himalia_engine::{Engine, SharedStore};
use himalia_testkit::assert_eventually;
use himalia_testkit::patience::within;
use himalia_testkit::postgres::Postgres;
use serde_json::json;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::common::{Gateway, Reply, engine_with};

const SKILLS: &str = "/v1/skills";
const WORKFLOWS: &str = "/v1/workflows";
/// Sessions of the database that have a table locked.
const LOCKS: &str = "FROM pg_stat_activity WHERE wait_event = 'PgSleep'";

/// A replica, and its database.
struct Replica {
    server: Arc<Postgres>,
    url: String,
    gateway: Arc<Gateway>,
    engine: Engine,
}

impl Replica {
    async fn new() -> Self {
        let server = Arc::new(Postgres::start(None).unwrap());
        let url = server.database().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let store = SharedStore {
            url: url.clone(),
            lease: Duration::from_mins(2),
            object_store: None,
        };
        let engine = engine_with(dir.path(), |config| config.shared_store = Some(store)).await;
        let gateway = Gateway::over(engine.clone(), dir, |_| {}).await;
        Self {
            server,
            url,
            gateway: Arc::new(gateway),
            engine,
        }
    }

    fn sql(&self, sql: &str) -> String {
        self.server.run(&self.url, sql).unwrap()
    }

    /// Locks both tables in a session of the database, until [`Replica::unlock`].
    async fn lock(&self) {
        let (server, url) = (Arc::clone(&self.server), self.url.clone());
        let sql = "BEGIN; LOCK TABLE himalia.skills, himalia.workflows; SELECT pg_sleep(600)";
        // It fails when the session is ended.
        spawn_blocking(move || server.run(&url, sql).err());
        assert_eventually!(self.sql(&format!("SELECT count(*) {LOCKS}")) == "1");
    }

    fn unlock(&self) {
        self.sql(&format!("SELECT pg_terminate_backend(pid) {LOCKS}"));
    }

    /// Sends a request, and waits until that waits for a table.
    async fn waiting(&self, method: &'static str, path: &'static str, body: &str) -> JoinHandle<Reply> {
        let before = self.waits();
        let (gateway, body) = (Arc::clone(&self.gateway), body.to_owned());
        let sent = tokio::spawn(async move { gateway.call(method, path, &[], &body).await });
        assert_eventually!(self.waits() > before, "it does not come to the table");
        sent
    }

    fn waits(&self) -> u32 {
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        self.sql(waits).parse().unwrap()
    }
}

/// A skill that is to be published.
fn skill() -> String {
    let manifest = json!({
        "name": "nothing", "version": "1.0.0", "kind": "code", "description": "d",
        "inputs": {"type": "object"}, "outputs": {"type": "object"},
    });
    let files = json!({"main.py": {"text": "def main():\n    return {}\n"}});
    json!({"manifest": manifest, "files": files}).to_string()
}

fn check(reply: &Reply, retryable: bool) {
    let problem = reply.json();
    assert_eq!(
        (reply.status, &problem["code"], &problem["retryable"]),
        (503, &json!("unavailable"), &json!(retryable)),
        "{problem}"
    );
    assert!(reply.header("retry-after").is_some() || !retryable, "{reply:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_reads_or_was_not_begun_can_be_sent_again() {
    let replica = Replica::new().await;
    assert_eq!(replica.gateway.get(WORKFLOWS).await.status, 200);
    replica.lock().await;
    let reads = replica.waiting("GET", WORKFLOWS, "").await;
    let writes = replica.waiting("POST", SKILLS, &skill()).await;
    replica.sql("UPDATE himalia.replicas SET lease_until = now() - interval '1 s'");
    within("the loss of the lease", replica.engine.lost_lease())
        .await
        .unwrap();
    check(&replica.gateway.get(WORKFLOWS).await, true);
    check(&replica.gateway.call("POST", SKILLS, &[], &skill()).await, true);
    // What it was doing meanwhile.
    replica.unlock();
    check(&within("a request", reads).await.unwrap().unwrap(), true);
    check(&within("a request", writes).await.unwrap().unwrap(), false);
}

/// It has written nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_finds_out_that_another_process_has_the_name_of_the_replica() {
    let replica = Replica::new().await;
    let until = || replica.sql("SELECT lease_until FROM himalia.replicas");
    let before = until();
    // The next renewal, which would find out too, is a second later.
    assert_eventually!(until() != before);
    replica.sql("UPDATE himalia.replicas SET epoch = epoch + 1");
    check(&replica.gateway.call("POST", SKILLS, &[], &skill()).await, true);
}
