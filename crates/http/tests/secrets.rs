//! The token appears in no log and no reply.

#[path = "suite/common/mod.rs"]
mod common;

use std::io::Write;
use std::sync::{Arc, Mutex};

use common::{Gateway, TOKEN, UPGRADE};

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if let Ok(mut all) = self.0.lock() {
            all.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn tokens_are_neither_logged_nor_echoed() {
    let sink = Sink::default();
    let writer = sink.clone();
    let log = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone());
    tracing::subscriber::set_global_default(log.finish()).unwrap();
    let gateway = Gateway::start().await;
    let id = "11111111-2222-3333-4444-555555555555";
    let wrong = "canary-of-a-wrong-token";
    let paths = [
        format!("/api/kernels?token={TOKEN}"),
        format!("/t/{TOKEN}/api/kernels"),
        format!("/t/{TOKEN}/api/kernels/{id}"),
        format!("/t/{TOKEN}/nothing"),
        format!("/t/{TOKEN}/api/kernels/{id}/channels?token={TOKEN}"),
        format!("/t/{TOKEN}/api/kernelspecs"),
        format!("/t/{TOKEN}/api/spec.yaml"),
        format!("/t/{wrong}/api/kernels"),
        format!("/api/kernels?token={wrong}"),
    ];
    for path in &paths {
        for headers in [&[][..], &UPGRADE] {
            for (method, body) in [("GET", ""), ("POST", "{\"name\": 3}"), ("DELETE", "")] {
                let reply = gateway.bare(method, path, headers, body).await;
                let all = format!("{}{}", reply.head, String::from_utf8_lossy(&reply.body));
                assert!(
                    !all.contains(TOKEN) && !all.contains(wrong),
                    "{method} {path}: {all}"
                );
            }
        }
    }
    for header in [
        format!("Authorization: token {wrong}"),
        format!("Authorization: Bearer {TOKEN}"),
    ] {
        gateway.bare("GET", "/api/kernels", &[&header], "").await;
    }
    let log = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("wrong token"), "{log}");
    assert!(!log.contains(TOKEN) && !log.contains(wrong), "{log}");
}
