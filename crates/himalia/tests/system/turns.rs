//! Many callers of one session: executions take turns, cells of Jupyter clients run in order of arrival.

use std::fs;

use himalia_testkit::assert_eventually;
use himalia_testkit::gateway::Gateway;
use serde_json::{Value, json};

use crate::common::{Log, gateway};

/// A session, the file that lets its first cell end, and the file to which cells add lines in the order in which they run.
struct Shared {
    gateway: Gateway,
    session: String,
}

impl Shared {
    async fn new() -> Self {
        let gateway = gateway(&[]).await;
        let body = json!({"template": "fake"});
        let reply = gateway.http().post("/v1/sessions", Some(&body)).await.unwrap();
        let session = reply.expect(201).unwrap().json().unwrap();
        let session = session["id"].as_str().unwrap().to_owned();
        Self { gateway, session }
    }

    fn hold(&self) -> String {
        format!("wait-file {}", self.gateway.file("gate").display())
    }

    fn release(&self) {
        fs::write(self.gateway.file("gate"), "").unwrap();
    }

    /// Code that shows when it ran.
    fn note(&self, name: &str) -> String {
        format!("append {} {name}", self.gateway.file("ran").display())
    }

    fn ran(&self) -> Vec<String> {
        let text = fs::read_to_string(self.gateway.file("ran")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Queues code of a client that names itself.
    async fn queue(&self, client: &str, code: &str) -> Value {
        let path = format!("/v1/sessions/{}/executions", self.session);
        let headers = [("content-type", "application/json"), ("x-himalia-caller", client)];
        let body = json!({"code": code, "background": true}).to_string();
        let http = self.gateway.http();
        let reply = http
            .request("POST", &path, &headers, Some(body.as_bytes()))
            .await
            .unwrap();
        reply.expect(202).unwrap().json().unwrap()
    }

    /// Queues what holds the kernel until its release, and fifty more of the same client, `busy`.
    async fn queue_fifty(&self) {
        self.queue("busy", &self.hold()).await;
        for number in 0..50 {
            self.queue("busy", &self.note(&format!("busy {number}"))).await;
        }
    }

    /// Waits until the request of a cell is in the log.
    async fn until_taken(&self, name: &str) {
        let mut log = Log::after(&self.gateway, &self.session, 0).await;
        let is_its = |record: &Value| {
            let code = record["content"]["code"].as_str().unwrap_or_default();
            record["event"] == "request" && code.ends_with(name)
        };
        log.until(is_its).await;
    }

    /// Waits until so many cells have run.
    async fn until(&self, count: usize) -> Vec<String> {
        assert_eventually!(self.ran().len() >= count, "{:?} ran", self.ran());
        self.ran()
    }

    async fn end(self) {
        let path = format!("/v1/sessions/{}", self.session);
        let reply = self.gateway.http().delete(&path).await.unwrap();
        reply.expect(204).unwrap();
    }
}

fn place(ran: &[String], name: &str) -> usize {
    ran.iter().position(|one| one == name).unwrap()
}

#[tokio::test]
async fn fifty_executions_of_one_caller_delay_anothers_first_by_two_at_most() {
    let shared = Shared::new().await;
    shared.queue_fifty().await;
    let mut positions = Vec::new();
    for number in 0..3 {
        let queued = shared
            .queue("other", &shared.note(&format!("other {number}")))
            .await;
        positions.push(queued["position"].as_u64().unwrap());
    }
    shared.release();
    let ran = shared.until(53).await;
    assert!(place(&ran, "other 0") <= 2, "{ran:?}");
    // What was said when they came is what happened: the one that held the kernel, and those before.
    let places = [0, 1, 2].map(|number| place(&ran, &format!("other {number}")) as u64 + 1);
    assert_eq!(positions, places, "{ran:?}");
    for (client, count) in [("busy", 50), ("other", 3)] {
        let mine: Vec<_> = ran
            .iter()
            .filter(|one| one.starts_with(client))
            .cloned()
            .collect();
        let wanted: Vec<_> = (0..count).map(|number| format!("{client} {number}")).collect();
        assert_eq!(mine, wanted);
    }
    shared.end().await;
}

#[tokio::test]
async fn a_cell_of_a_jupyter_client_does_not_wait_for_executions_that_wait() {
    let shared = Shared::new().await;
    shared.queue_fifty().await;
    let mut notebook = shared.gateway.connect(&shared.session).await.unwrap();
    let cell = notebook.start(&shared.note("notebook")).await.unwrap();
    shared.until_taken("notebook").await;
    shared.release();
    assert_eq!(notebook.finish(&cell).await.unwrap().status(), "ok");
    let ran = shared.until(51).await;
    // It was sent to the kernel at once, where it waited for the one execution that was there.
    assert_eq!(place(&ran, "notebook"), 0, "{ran:?}");
    drop(notebook);
    shared.end().await;
}

#[tokio::test]
async fn cells_of_jupyter_clients_run_in_order_of_arrival() {
    let shared = Shared::new().await;
    let mut one = shared.gateway.connect(&shared.session).await.unwrap();
    let mut two = shared.gateway.connect(&shared.session).await.unwrap();
    one.start(&shared.hold()).await.unwrap();
    let mut last = String::new();
    for number in 0..50 {
        last = one.start(&shared.note(&format!("one {number}"))).await.unwrap();
    }
    shared.until_taken("one 49").await;
    let other = two.start(&shared.note("two")).await.unwrap();
    shared.release();
    assert_eq!(one.finish(&last).await.unwrap().status(), "ok");
    assert_eq!(two.finish(&other).await.unwrap().status(), "ok");
    let ran = shared.until(51).await;
    let wanted: Vec<_> = (0..50).map(|number| format!("one {number}")).collect();
    assert_eq!((&ran[..50], ran[50].as_str()), (&wanted[..], "two"));
    drop((one, two));
    shared.end().await;
}
