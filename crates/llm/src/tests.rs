//! Servers on the loopback device: honest ones, and hostile ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use himalia_credentials::{
    Credential, CredentialSource, CredentialValue, FoundCredentials, GivenSecrets, SecretText,
};
use himalia_model::credential::{CredentialDefinition, CredentialFields};
use himalia_model::{LlmConfig, ModelUse};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use crate::models::MAX_REPLY_BYTES;
use crate::{Answer, Endpoint, Failure, Models, PreparedRequest, Request, Stream};

const SECRET: &str = "s3cret-s3cret-s3cret";
/// What no test waits for.
const LONG: Duration = Duration::from_mins(1);

/// A model of this name.
pub(crate) fn config(name: &str, fields: Value) -> LlmConfig {
    LlmConfig::new(name, serde_json::from_value(fields).unwrap()).unwrap()
}

/// What a server of a test does with a connection, once it has read the request: its head, and its body.
type Does = fn(String, Value, TcpStream) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// A server, its URL, and how many requests it has read.
struct Server {
    url: String,
    requests: Arc<AtomicUsize>,
}

impl Server {
    async fn start(does: Does) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let count = Arc::clone(&count);
                tokio::spawn(async move {
                    if let Some((head, body)) = read(&mut stream).await {
                        count.fetch_add(1, Ordering::SeqCst);
                        does(head, body, stream).await;
                    }
                });
            }
        });
        Self { url, requests }
    }

    fn models(&self, more: &Value) -> Models {
        let mut fields = json!({"url": self.url, "model": "there", "credential": "key"});
        fields
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let definition: CredentialFields =
            serde_json::from_value(json!({"kind": "bearer", "hosts": [self.url.trim_end_matches("/v1")]}))
                .unwrap();
        let definition: CredentialDefinition = definition.try_into().unwrap();
        let given = GivenSecrets {
            value: Some(SecretText::new(SECRET.to_owned())),
            ..GivenSecrets::default()
        };
        let value = CredentialValue::new(definition.kind(), given).unwrap();
        let source: Arc<dyn CredentialSource> = Arc::new(Source(Credential::new("key", definition, value)));
        Models::new([config("small", fields)], &source).unwrap()
    }
}

struct Source(Credential);

impl CredentialSource for Source {
    fn find<'a>(&'a self, _owner: &'a str, _names: &'a [String]) -> FoundCredentials<'a> {
        Box::pin(async { Ok(vec![self.0.clone()]) })
    }
}

async fn read(stream: &mut TcpStream) -> Option<(String, Value)> {
    let mut text = Vec::new();
    loop {
        if stream.read_buf(&mut text).await.ok()? == 0 {
            return None;
        }
        let Some(end) = text.windows(4).position(|four| four == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8(text[..end].to_vec())
            .unwrap()
            .to_ascii_lowercase();
        let length = head.split("content-length: ").nth(1)?;
        let length: usize = length.split("\r\n").next()?.parse().ok()?;
        if text.len() >= end + 4 + length {
            return Some((head, serde_json::from_slice(&text[end + 4..]).unwrap()));
        }
    }
}

async fn respond(stream: &mut TcpStream, status: &str, headers: &str, body: &str) {
    let length = body.len();
    let text =
        format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}");
    let _ = stream.write_all(text.as_bytes()).await;
}

const JSON: &str = "content-type: application/json\r\n";
const SSE: &str = "content-type: text/event-stream\r\n";

fn prepared(models: &Models, endpoint: Endpoint, body: &Value) -> PreparedRequest {
    let request = Request::read(endpoint, body.to_string().as_bytes()).unwrap();
    request.prepare(models.config("small").unwrap()).unwrap()
}

async fn send(models: &Models, body: &Value) -> Result<Answer, Failure> {
    let prepared = prepared(models, Endpoint::Chat, body);
    models.send("small", &prepared, Instant::now() + LONG).await
}

async fn whole(models: &Models, body: &Value) -> Result<crate::Whole, Failure> {
    match send(models, body).await? {
        Answer::Whole(whole) => Ok(whole),
        Answer::Stream(stream) => panic!("{stream:?}"),
    }
}

async fn stream(models: &Models) -> Box<Stream> {
    match send(models, &json!({"messages": ["hi"], "stream": true}))
        .await
        .unwrap()
    {
        Answer::Stream(stream) => stream,
        Answer::Whole(whole) => panic!("{whole:?}"),
    }
}

fn prices() -> Value {
    json!({"input_price": 1, "output_price": 10})
}

#[tokio::test]
async fn a_reply_is_passed_on_with_what_it_took_and_without_the_secret() {
    let server = Server::start(|head, body, mut stream| {
        Box::pin(async move {
            assert!(
                head.starts_with("post /v1/chat/completions http/1.1\r\n"),
                "{head}"
            );
            assert_eq!(body["model"], "there");
            let told = head
                .split("authorization: ")
                .nth(1)
                .unwrap()
                .split("\r\n")
                .next()
                .unwrap();
            assert!(told.ends_with(SECRET));
            let answer = json!({"choices": [{"message": {"role": "assistant", "content": told}}],
                "usage": {"prompt_tokens": 7, "completion_tokens": 3}});
            respond(&mut stream, "200 OK", JSON, &answer.to_string()).await;
        })
    })
    .await;
    let models = server.models(&prices());
    let whole = whole(&models, &json!({"messages": ["hi"]})).await.unwrap();
    assert_eq!(whole.status, 200);
    let text = String::from_utf8(whole.body.to_vec()).unwrap();
    assert!(!text.contains("s3cret") && whole.text.contains("****"), "{text}");
    let took = &whole.took;
    assert_eq!(
        (took.input_tokens, took.output_tokens, took.estimated),
        (7, 3, false)
    );
    assert_eq!(took.spend.to_string(), "0.000037");
}

#[tokio::test]
async fn errors_that_pass_are_passed_on_with_the_time_to_wait() {
    let server = Server::start(|_, _, mut stream| {
        Box::pin(async move {
            let headers = format!("{JSON}retry-after: 7\r\nset-cookie: a=b\r\n");
            respond(
                &mut stream,
                "429 Too Many Requests",
                &headers,
                r#"{"error": {"message": "slow"}}"#,
            )
            .await;
        })
    })
    .await;
    let models = server.models(&json!({}));
    let whole = whole(&models, &json!({"messages": []})).await.unwrap();
    assert_eq!(
        (whole.status.as_u16(), &whole.headers[..]),
        (429, &[("retry-after", "7".to_owned())][..])
    );
    assert_eq!(whole.took, ModelUse::default());
    assert_eq!(server.requests.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn what_is_no_reply_is_none() {
    let redirect = Server::start(|_, _, mut stream| {
        Box::pin(async move { respond(&mut stream, "307 Temporary Redirect", "location: /x\r\n", "").await })
    });
    let refusal = Server::start(|_, _, mut stream| {
        Box::pin(async move { respond(&mut stream, "401 Unauthorized", JSON, r#"{"key": "sk-1234"}"#).await })
    });
    let html = Server::start(|_, _, mut stream| {
        Box::pin(async move { respond(&mut stream, "200 OK", "content-type: text/html\r\n", "<p>").await })
    });
    let broken = Server::start(|_, _, mut stream| {
        Box::pin(async move { respond(&mut stream, "200 OK", JSON, "{").await })
    });
    for (server, says) in [
        (redirect.await, "redirect"),
        (refusal.await, "(401)"),
        (html.await, "not JSON"),
        (broken.await, "is not JSON"),
    ] {
        let error = whole(&server.models(&json!({})), &json!({"messages": []}))
            .await
            .unwrap_err();
        let Failure::Failed(reason) = error else {
            panic!("{error}")
        };
        assert!(reason.contains(says) && !reason.contains("sk-"), "{reason}");
        assert_eq!(server.requests.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn whether_a_call_may_have_been_done_is_known() {
    let closes = Server::start(|_, _, stream| Box::pin(async move { drop(stream) })).await;
    let error = whole(&closes.models(&json!({})), &json!({"messages": []}))
        .await
        .unwrap_err();
    assert_eq!(error, Failure::Lost);
    let hangs = Server::start(|_, _, stream| {
        Box::pin(async move {
            let _stream = stream;
            std::future::pending::<()>().await;
        })
    })
    .await;
    let models = hangs.models(&json!({"call_time": 1}));
    let prepared = prepared(&models, Endpoint::Chat, &json!({"messages": []}));
    let sent = models
        .send("small", &prepared, Instant::now() + Duration::from_millis(300))
        .await;
    assert_eq!(sent.unwrap_err(), Failure::Timeout(Duration::from_secs(1)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let closed = Server {
        url,
        requests: Arc::default(),
    };
    let error = whole(&closed.models(&json!({})), &json!({"messages": []}))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, Failure::Unavailable(reason) if !reason.contains("127")),
        "{error}"
    );
}

#[tokio::test]
async fn a_flood_harms_one_call() {
    let server = Server::start(|_, body, mut stream| {
        Box::pin(async move {
            let kind = if body["stream"] == true { SSE } else { JSON };
            let head = format!("HTTP/1.1 200 OK\r\n{kind}\r\n");
            let mut written = stream.write_all(head.as_bytes()).await;
            let piece = format!("data: {}\n\n", "x".repeat(64 * 1024));
            while written.is_ok() {
                written = stream.write_all(piece.as_bytes()).await;
            }
        })
    })
    .await;
    let models = server.models(&json!({}));
    let error = whole(&models, &json!({"messages": []})).await.unwrap_err();
    assert_eq!(error, Failure::TooLarge(MAX_REPLY_BYTES));
    let mut stream = stream(&models).await;
    let error = loop {
        match stream.next().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it has an end"),
            Err(error) => break error,
        }
    };
    assert_eq!(error, Failure::TooLarge(MAX_REPLY_BYTES));
    assert!(stream.text().is_empty());
}

#[tokio::test]
async fn a_stream_passes_event_by_event_without_the_numbers_that_only_the_gateway_wants() {
    let server = Server::start(|_, body, mut stream| {
        Box::pin(async move {
            assert_eq!(body["stream_options"]["include_usage"], true);
            let head = format!("HTTP/1.1 200 OK\r\n{SSE}\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            for event in [
                r#"{"choices": [{"delta": {"content": "one "}}], "usage": null}"#,
                r#"{"choices": [{"delta": {"content": "two"}}]}"#,
                r#"{"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}"#,
                "[DONE]",
            ] {
                stream
                    .write_all(format!("data: {event}\n\n").as_bytes())
                    .await
                    .unwrap();
            }
        })
    })
    .await;
    let models = server.models(&prices());
    let mut stream = stream(&models).await;
    let mut events = Vec::new();
    while let Some(event) = stream.next().await.unwrap() {
        events.push(String::from_utf8(event.to_vec()).unwrap());
    }
    assert_eq!(events.len(), 3, "{events:?}");
    assert!(events[0].contains("one ") && events[2] == "data: [DONE]\n\n");
    assert_eq!(stream.text(), "one two");
    assert_eq!((stream.took().input_tokens, stream.took().output_tokens), (5, 2));
    assert_eq!(stream.took().spend.to_string(), "0.000025");
    // One who asks for them gets them.
    let body = json!({"messages": [], "stream": true, "stream_options": {"include_usage": true}});
    let Answer::Stream(mut stream) = send(&models, &body).await.unwrap() else {
        panic!()
    };
    let mut count = 0;
    while stream.next().await.unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, 4);
}

#[tokio::test]
async fn what_a_server_does_not_count_is_estimated() {
    let server = Server::start(|_, body, mut stream| {
        Box::pin(async move {
            if body["stream"] == true {
                let event = "data: {\"choices\": [{\"delta\": {\"content\": \"x\"}}]}\n\n".repeat(3);
                respond(&mut stream, "200 OK", SSE, &event).await;
            } else {
                let answer = json!({"choices": [{"message": {"content": "12345678"}}]});
                respond(&mut stream, "200 OK", JSON, &answer.to_string()).await;
            }
        })
    })
    .await;
    let models = server.models(&json!({}));
    let took = whole(&models, &json!({"messages": ["1234"]})).await.unwrap().took;
    assert_eq!(
        (took.input_tokens, took.output_tokens, took.estimated),
        (1, 2, true)
    );
    let mut stream = stream(&models).await;
    while stream.next().await.unwrap().is_some() {}
    let took = stream.took();
    assert_eq!(
        (took.input_tokens, took.output_tokens, took.estimated),
        (1, 3, true)
    );
    // With a bound it may have been as much: what was thought, or not read any more, does not come.
    let models = server.models(&json!({"max_output_tokens": 50, "input_price": 0, "output_price": 1000}));
    let took = whole(&models, &json!({"messages": ["1234"]})).await.unwrap().took;
    assert_eq!((took.output_tokens, took.estimated), (50, true));
    let stream = self::stream(&models).await;
    let took = stream.took();
    assert_eq!(
        (took.input_tokens, took.output_tokens, took.estimated),
        (1, 50, true)
    );
    assert_eq!(took.spend.to_string(), "0.05");
}

#[tokio::test]
async fn embeddings_have_their_own_path() {
    let server = Server::start(|head, body, mut stream| {
        Box::pin(async move {
            assert!(head.starts_with("post /v1/embeddings "), "{head}");
            assert_eq!(body, json!({"model": "there", "input": ["a", "b"]}));
            let answer =
                json!({"data": [{"embedding": [1]}, {"embedding": [2]}], "usage": {"prompt_tokens": 2}});
            respond(&mut stream, "200 OK", JSON, &answer.to_string()).await;
        })
    })
    .await;
    let models = server.models(&json!({}));
    let asked = prepared(
        &models,
        Endpoint::Embeddings,
        &json!({"model": "small", "input": ["a", "b"]}),
    );
    let Answer::Whole(whole) = models.send("small", &asked, Instant::now() + LONG).await.unwrap() else {
        panic!()
    };
    assert_eq!((whole.text.as_str(), whole.took.input_tokens), ("2 vectors", 2));
}
