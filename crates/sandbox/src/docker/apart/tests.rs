use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use super::*;

/// An engine whose second container ends with this code, and whose first one runs or has ended. It tells what it was
/// asked.
fn engine(socket: &Path, code: i64, runs: bool) -> Arc<Mutex<Vec<String>>> {
    let listener = UnixListener::bind(socket).unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, code, runs, Arc::clone(&told)));
        }
    });
    asked
}

async fn answer(mut stream: UnixStream, code: i64, runs: bool, asked: Arc<Mutex<Vec<String>>>) {
    let mut request = Vec::new();
    while !is_whole(&request) {
        if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let head = String::from_utf8_lossy(&request)
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned();
    let (status, body) = if head.contains("/wait") {
        (200, format!("{{\"StatusCode\":{code}}}"))
    } else if head.contains("/json") {
        let networks = "{\"lab\":{\"IPAddress\":\"10.9.8.7\"}}";
        let found =
            format!("{{\"State\":{{\"Running\":{runs}}},\"NetworkSettings\":{{\"Networks\":{networks}}}}}");
        (200, found)
    } else if head.contains("/create") {
        (201, "{\"Id\":\"x\",\"Warnings\":[]}".to_owned())
    } else {
        (204, String::new())
    };
    asked
        .lock()
        .push(format!("{head} {}", String::from_utf8_lossy(&request)));
    let type_and_length = format!("content-type: application/json\r\ncontent-length: {}", body.len());
    let reply = format!("HTTP/1.1 {status} Fine\r\n{type_and_length}\r\nconnection: close\r\n\r\n{body}");
    let _ = stream.write_all(reply.as_bytes()).await;
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .split("content-length: ")
        .nth(1)
        .and_then(|rest| rest.lines().next());
    body.len() >= length.and_then(|length| length.parse().ok()).unwrap_or(0)
}

/// What came of a trial, and what the engine was asked.
async fn tried(code: i64, runs: bool) -> (Result<bool, String>, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("engine.sock");
    let asked = engine(&socket, code, runs);
    let client = Client::new(socket, Duration::from_secs(30));
    let trial = Trial {
        network: "lab",
        image: &Image::default(),
        runtime: "runc",
        isolation: Isolation::Container,
    };
    let apart = are_apart(&client, &Names::new(Path::new("/run/h")), trial).await;
    let asked = asked.lock().clone();
    (apart.map_err(|error| error.to_string()), asked)
}

#[tokio::test]
async fn containers_that_answer_each_other_are_not_apart() {
    let (apart, asked) = tried(REACHED, true).await;
    assert_eq!(apart, Ok(false));
    assert!(
        asked.iter().any(|request| request.contains("10.9.8.7")),
        "{asked:?}"
    );
    let removed = asked.iter().filter(|request| request.starts_with("DELETE "));
    assert_eq!(removed.count(), 2);
    assert_eq!(tried(0, true).await.0, Ok(true));
}

#[tokio::test]
async fn a_trial_that_cannot_be_made_proves_nothing() {
    // The image has no Python, or the called container has ended, so that nothing could answer.
    for (code, runs) in [(127, true), (0, false)] {
        let (apart, _) = tried(code, runs).await;
        assert!(apart.as_ref().unwrap_err().contains("cannot try"), "{apart:?}");
    }
}
