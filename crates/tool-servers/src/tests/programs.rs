//! Servers that are programs: tasks of the test speak for them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use himalia_credentials::CredentialSource;
use himalia_model::{Clock, ToolServerConfig};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::support::*;
use crate::call::CallError;
use crate::programs::{Program, ProgramEvent, ProgramInput, Programs};
use crate::servers::ToolServers;
use crate::task::Timing;

/// What a program does: its standard input, its output, and its errors.
struct Io {
    input: BufReader<DuplexStream>,
    output: DuplexStream,
    errors: mpsc::Sender<ProgramEvent>,
}

impl Io {
    async fn read(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.input.read_line(&mut line).await {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap()),
        }
    }

    async fn say(&mut self, text: &[u8]) -> bool {
        self.output.write_all(text).await.is_ok()
    }

    async fn answer(&mut self, request: &Value, result: &Value) {
        let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        self.say(format!("{answer}\n").as_bytes()).await;
    }

    async fn complain(&mut self, text: &str) {
        let bytes = Bytes::copy_from_slice(text.as_bytes());
        let _ = self.errors.send(ProgramEvent::Errors(bytes)).await;
    }

    /// Answers all but calls; gives the next call.
    async fn call(&mut self, names: &[&str]) -> Option<Value> {
        loop {
            let message = self.read().await?;
            let result = match message["method"].as_str() {
                Some("initialize") => {
                    json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": true}},
                        "serverInfo": {"name": "program", "version": "1"}})
                }
                Some("ping") => json!({}),
                Some("tools/list") => json!({"tools": tools(names)}),
                Some("tools/call") => return Some(message),
                _ => continue,
            };
            self.answer(&message, &result).await;
        }
    }
}

/// What the program with this number does, until it ends.
type Play = dyn Fn(usize, Io) -> BoxFuture<'static, ()> + Send + Sync;

struct Fake {
    play: Arc<Play>,
    started: Arc<AtomicUsize>,
    /// Why the next ones do not start.
    refused: Mutex<VecDeque<String>>,
}

impl std::fmt::Debug for Fake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fake")
    }
}

impl Programs for Fake {
    fn start<'a>(&'a self, server: &'a ToolServerConfig) -> BoxFuture<'a, Result<Program, String>> {
        Box::pin(async move {
            assert_eq!(server.name, "p");
            if let Some(reason) = self.refused.lock().unwrap().pop_front() {
                return Err(reason);
            }
            let number = self.started.fetch_add(1, Ordering::SeqCst);
            let (input, theirs) = tokio::io::duplex(64 << 10);
            let (output, ours) = tokio::io::duplex(64 << 10);
            let (errors, events) = mpsc::channel(16);
            let io = Io {
                input: BufReader::new(theirs),
                output,
                errors,
            };
            tokio::spawn((self.play)(number, io));
            let output = futures_util::stream::unfold(ours, |mut ours| async move {
                let mut bytes = BytesMut::with_capacity(64 << 10);
                let read = ours.read_buf(&mut bytes).await.unwrap();
                (read > 0).then_some((ProgramEvent::Output(bytes.freeze()), ours))
            });
            let errors = futures_util::stream::unfold(events, |mut events| async move {
                Some((events.recv().await?, events))
            });
            let ended = futures_util::stream::once(async {
                ProgramEvent::Ended("its program has ended with code 3".to_owned())
            });
            Ok(Program {
                events: futures_util::stream::select(output, errors).chain(ended).boxed(),
                input: Box::new(Input(input)),
            })
        })
    }
}

struct Input(DuplexStream);

impl ProgramInput for Input {
    fn write(&mut self, bytes: Bytes) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move { self.0.write_all(&bytes).await.map_err(|error| error.to_string()) })
    }
}

struct Started {
    servers: ToolServers,
    count: Arc<AtomicUsize>,
}

fn start(
    fields: Value,
    timing: Timing,
    refused: &[&str],
    play: impl Fn(usize, Io) -> BoxFuture<'static, ()> + Send + Sync + 'static,
) -> Started {
    let mut all = json!({"command": ["program"]});
    all.as_object_mut().unwrap().extend(arguments(fields));
    let count = Arc::new(AtomicUsize::new(0));
    let programs: Arc<dyn Programs> = Arc::new(Fake {
        play: Arc::new(play),
        started: Arc::clone(&count),
        refused: Mutex::new(refused.iter().map(|&reason| reason.to_owned()).collect()),
    });
    let source: Arc<dyn CredentialSource> = Arc::new(Source::default());
    let servers = ToolServers::start_with(
        vec![config("p", all)],
        &source,
        &programs,
        &Clock::default(),
        timing,
    );
    Started {
        servers: servers.unwrap(),
        count,
    }
}

async fn ready_with(play: impl Fn(usize, Io) -> BoxFuture<'static, ()> + Send + Sync + 'static) -> Started {
    let started = start(json!({}), timing(), &[], play);
    until_ready(&started).await;
    started
}

async fn until_ready(started: &Started) {
    until(&started.servers, |servers| is_ready(&servers.states()[0].state)).await;
}

async fn call_for(servers: &ToolServers, tool: &str, time: Duration) -> Result<crate::Reply, CallError> {
    let limits = crate::Limits { time, ..LIMITS };
    servers.call(ME, "p", tool, Map::new(), limits).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_is_listed_and_called_and_what_it_prints_besides_is_left_out() {
    let started = ready_with(|_, mut io| {
        Box::pin(async move {
            io.say(b"Starting the server ...\n\n[1, 2]\n\"text\"\n").await;
            while let Some(call) = io.call(&["echo", "many"]).await {
                io.say(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{}}\n")
                    .await;
                io.say(b"{\"jsonrpc\":\"2.0\",\"id\":987654,\"result\":{}}\n")
                    .await;
                io.answer(&call, &text(call["params"]["arguments"]["say"].as_str().unwrap()))
                    .await;
            }
        })
    })
    .await;
    let said = "é".repeat(300_000);
    let arguments = arguments(json!({"say": said}));
    let calls = (0..20).map(|_| started.servers.call(ME, "p", "echo", arguments.clone(), LIMITS));
    for reply in futures_util::future::join_all(calls).await {
        assert_eq!(reply.unwrap().content, json!(said));
    }
    let status = &started.servers.states()[0];
    assert_eq!((status.kind, status.location.as_str()), ("program", "program"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_ends_in_a_call_has_an_unknown_outcome_and_is_started_anew() {
    let started = ready_with(|number, mut io| {
        Box::pin(async move {
            while let Some(call) = io.call(&["go"]).await {
                if number == 0 {
                    io.complain("it broke: s3cret-value\n").await;
                    return;
                }
                io.answer(&call, &text("second")).await;
            }
        })
    })
    .await;
    let error = call(&started.servers, "p", "go").await.unwrap_err();
    assert!(
        matches!(&error, CallError::Lost(_)) && error.is_outcome_unknown(),
        "{error}"
    );
    // What it writes to its standard error is for the operator.
    assert!(!error.to_string().contains("broke"), "{error}");
    until(&started.servers, |_| started.count.load(Ordering::SeqCst) == 2).await;
    until_ready(&started).await;
    assert_eq!(
        call(&started.servers, "p", "go").await.unwrap().content,
        json!("second")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reason_of_an_end_has_the_errors_without_secrets() {
    let fields = json!({"env": {"TOKEN": "s3cret-value"}});
    let started = start(fields, timing(), &["no sandbox for it"], |_, mut io| {
        Box::pin(async move {
            io.read().await;
            io.complain("cannot sign in with s3cret-value\n").await;
        })
    });
    until(&started.servers, |servers| {
        failure(servers, "p").is_some_and(|reason| reason.contains("no sandbox for it"))
    })
    .await;
    until(&started.servers, |servers| {
        failure(servers, "p").is_some_and(|reason| {
            assert!(!reason.contains("s3cret"), "{reason}");
            reason.contains("ended with code 3") && reason.contains("cannot sign in with *")
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_without_an_answer_harms_itself_alone() {
    let started = ready_with(|_, mut io| {
        Box::pin(async move {
            let mut late = None;
            while let Some(call) = io.call(&["hang", "go"]).await {
                if call["params"]["name"] == "hang" {
                    late = Some(call);
                } else {
                    // The answer that no one waits for comes before.
                    if let Some(late) = late.take() {
                        io.answer(&late, &text(&"x".repeat(20 << 20))).await;
                    }
                    io.answer(&call, &text("done")).await;
                }
            }
        })
    })
    .await;
    for _ in 0..3 {
        let error = call_for(&started.servers, "hang", Duration::from_millis(100))
            .await
            .unwrap_err();
        assert!(matches!(error, CallError::Timeout(_)), "{error}");
        assert_eq!(
            call(&started.servers, "p", "go").await.unwrap().content,
            json!("done")
        );
    }
    assert_eq!(started.count.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_of_a_gigabyte_harms_one_call() {
    let started = ready_with(|_, mut io| {
        Box::pin(async move {
            while let Some(call) = io.call(&["huge", "go"]).await {
                if call["params"]["name"] == "huge" {
                    io.say(format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":\"", call["id"]).as_bytes())
                        .await;
                    let piece = vec![b'x'; 1 << 20];
                    for _ in 0..1024 {
                        io.say(&piece).await;
                    }
                    io.say(b"\"}\n").await;
                } else {
                    io.answer(&call, &text("done")).await;
                }
            }
        })
    })
    .await;
    let (huge, other) = tokio::join!(
        call(&started.servers, "p", "huge"),
        call(&started.servers, "p", "go")
    );
    assert!(matches!(&huge, Err(CallError::TooLarge(_))), "{huge:?}");
    assert_eq!(other.unwrap().content, json!("done"));
    assert_eq!(started.count.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_floods_is_ended_and_started_after_a_pause() {
    let started = ready_with(|number, mut io| {
        Box::pin(async move {
            while let Some(call) = io.call(&["go"]).await {
                if number == 0 {
                    let line = format!("{}\n", "x".repeat(100_000));
                    while io.say(line.as_bytes()).await {}
                    return;
                }
                io.answer(&call, &text("done")).await;
            }
        })
    })
    .await;
    let error = call(&started.servers, "p", "go").await.unwrap_err();
    assert!(matches!(error, CallError::Lost(_)), "{error}");
    until(&started.servers, |_| started.count.load(Ordering::SeqCst) == 2).await;
    until_ready(&started).await;
    assert_eq!(
        call(&started.servers, "p", "go").await.unwrap().content,
        json!("done")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_program_does_not_read_was_not_sent() {
    let started = ready_with(|number, mut io| {
        Box::pin(async move {
            if number > 0 {
                while io.call(&["go"]).await.is_some() {}
                return;
            }
            // It lists its tools, and reads no more; a pipe holds some of what it is sent.
            for _ in 0..3 {
                let message = io.read().await.unwrap();
                match message["method"].as_str() {
                    Some("initialize") => {
                        let result = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                            "serverInfo": {"name": "program", "version": "1"}});
                        io.answer(&message, &result).await;
                    }
                    Some("tools/list") => io.answer(&message, &json!({"tools": tools(&["go"])})).await,
                    _ => {}
                }
            }
            std::future::pending::<()>().await;
        })
    })
    .await;
    let long = arguments(json!({"a": "x".repeat(1 << 20)}));
    let limits = crate::Limits {
        time: Duration::from_millis(200),
        ..LIMITS
    };
    let first = started
        .servers
        .call(ME, "p", "go", long, limits)
        .await
        .unwrap_err();
    assert!(matches!(first, CallError::Timeout(_)), "{first}");
    // It waits behind that one, which is written half.
    let second = call_for(&started.servers, "go", Duration::from_millis(100))
        .await
        .unwrap_err();
    assert!(matches!(second, CallError::Unavailable(_)), "{second}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_does_not_answer_a_ping_is_started_anew() {
    let timing = Timing {
        health: Duration::from_millis(20),
        ..timing()
    };
    let fields = json!({"call_time": 1});
    let started = start(fields, timing, &[], |number, mut io| {
        Box::pin(async move {
            if number > 0 {
                while io.call(&["go"]).await.is_some() {}
                return;
            }
            while let Some(message) = io.read().await {
                match message["method"].as_str() {
                    Some("initialize") => {
                        let result = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                            "serverInfo": {"name": "program", "version": "1"}});
                        io.answer(&message, &result).await;
                    }
                    Some("tools/list") => io.answer(&message, &json!({"tools": tools(&["go"])})).await,
                    _ => {}
                }
            }
        })
    });
    until_ready(&started).await;
    until(&started.servers, |_| started.count.load(Ordering::SeqCst) == 2).await;
    until_ready(&started).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn its_requests_are_answered_and_a_change_of_its_list_is_heard() {
    let (told, mut answers) = mpsc::unbounded_channel();
    let started = ready_with(move |_, mut io| {
        let told = told.clone();
        Box::pin(async move {
            let mut names = vec!["go"];
            while let Some(call) = io.call(&names).await {
                io.say(b"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"ping\"}\n")
                    .await;
                told.send(io.read().await.unwrap()).unwrap();
                io.say(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"sampling/createMessage\"}\n")
                    .await;
                told.send(io.read().await.unwrap()).unwrap();
                names.push("more");
                io.say(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n")
                    .await;
                io.answer(&call, &text("done")).await;
            }
        })
    })
    .await;
    call(&started.servers, "p", "go").await.unwrap();
    let first = answers.recv().await.unwrap();
    assert_eq!((&first["id"], &first["result"]), (&json!("a"), &json!({})));
    let second = answers.recv().await.unwrap();
    assert_eq!(
        (&second["id"], &second["error"]["code"]),
        (&json!(2), &json!(-32601))
    );
    until(&started.servers, |servers| {
        servers.snapshot()[0].tools.tools().len() == 2
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_ends_with_its_server() {
    let (ended, mut has_ended) = mpsc::unbounded_channel();
    let started = ready_with(move |_, mut io| {
        let ended = ended.clone();
        Box::pin(async move {
            while io.call(&["go"]).await.is_some() {}
            let mut rest = Vec::new();
            let _ = io.input.read_to_end(&mut rest).await;
            ended.send(()).unwrap();
        })
    })
    .await;
    drop(started.servers);
    let deadline = Instant::now() + LONG;
    tokio::time::timeout_at(deadline, has_ended.recv())
        .await
        .unwrap()
        .unwrap();
}
