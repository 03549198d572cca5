use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use himalia_credentials::{
    Credential, CredentialSource, FoundCredentials, NotedScope, RenewedCredential, SourceError,
};
use himalia_model::{Clock, ToolServerConfig};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

use crate::call::{CallError, Limits, Reply};
use crate::programs::{Program, Programs};
use crate::servers::{Caller, ToolServers};
use crate::state::ServerState;
use crate::task::Timing;

/// What no test waits for.
pub(super) const LONG: Duration = Duration::from_mins(1);

/// A request as a server of tests reads it.
pub(super) struct Request {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) headers: HashMap<String, String>,
    pub(super) body: Vec<u8>,
}

impl Request {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The tool that is called.
    pub(super) fn tool(&self) -> Option<String> {
        let message = self.json();
        (message["method"] == "tools/call").then(|| message["params"]["name"].as_str().unwrap().to_owned())
    }
}

type Answer = dyn Fn(Request, TcpStream) -> BoxFuture<'static, ()> + Send + Sync;

/// A server that answers each connection's one request as a test says.
pub(super) struct Raw {
    pub(super) url: String,
    /// Requests that came whole.
    pub(super) requests: Arc<AtomicUsize>,
    task: AbortOnDropHandle<()>,
}

impl Raw {
    pub(super) async fn start(
        answer: impl Fn(Request, TcpStream) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        Self::start_at("127.0.0.1:0", answer).await
    }

    pub(super) async fn start_at(
        address: &str,
        answer: impl Fn(Request, TcpStream) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicUsize::new(0));
        let (answer, count): (Arc<Answer>, _) = (Arc::new(answer), Arc::clone(&requests));
        let task = tokio::spawn(async move {
            // Ends all of its connections with it.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let (answer, count) = (Arc::clone(&answer), Arc::clone(&count));
                connections.spawn(async move {
                    if let Some(request) = read(&mut stream).await {
                        count.fetch_add(1, Ordering::SeqCst);
                        answer(request, stream).await;
                    }
                });
            }
        });
        Self {
            url,
            requests,
            task: AbortOnDropHandle::new(task),
        }
    }
}

impl Raw {
    /// Closes its port and its connections.
    pub(super) async fn stop(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut text = Vec::new();
    let end = loop {
        if let Some(end) = text.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut text).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(text[..end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: HashMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers
        .get("content-length")
        .map_or(0, |length| length.parse().unwrap());
    let mut body = text[end + 4..].to_vec();
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(Request {
        method,
        target,
        headers,
        body,
    })
}

/// Answers with a whole response.
pub(super) async fn respond(stream: &mut TcpStream, status: &str, headers: &str, body: &[u8]) {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n",
        body.len()
    );
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(body).await;
    let _ = stream.shutdown().await;
}

pub(super) async fn respond_json(stream: &mut TcpStream, body: &Value) {
    respond(
        stream,
        "200 OK",
        "content-type: application/json\r\n",
        body.to_string().as_bytes(),
    )
    .await;
}

/// Writes the head of a response whose body has no end, and gives what is behind it.
pub(super) async fn begin(stream: &mut TcpStream, media_type: &str) {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\ntransfer-encoding: chunked\r\n\r\n");
    let _ = stream.write_all(head.as_bytes()).await;
}

pub(super) async fn chunk(stream: &mut TcpStream, text: &[u8]) -> bool {
    let head = format!("{:x}\r\n", text.len());
    stream
        .write_all(&[head.as_bytes(), text, b"\r\n"].concat())
        .await
        .is_ok()
}

/// Writes 1 GB, if the client reads it; gives how much was written.
pub(super) async fn flood(stream: &mut TcpStream, media_type: &str, begin_with: &[u8]) -> usize {
    begin(stream, media_type).await;
    chunk(stream, begin_with).await;
    let piece = vec![b'x'; 64 << 10];
    let mut written = 0;
    while written < 1 << 30 && chunk(stream, &piece).await {
        written += piece.len();
    }
    written
}

/// Waits until the other side closes.
pub(super) async fn until_closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
}

/// Answers all of MCP but calls, as an honest server does that knows `initialize` alone. Gives back what it does not answer.
pub(super) async fn mcp_basics(
    request: Request,
    mut stream: TcpStream,
    tools: &Value,
) -> Option<(Request, TcpStream)> {
    let message = request.json();
    let result = match (request.method.as_str(), message["method"].as_str()) {
        ("POST", Some("initialize")) => {
            json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": "raw", "version": "1"}})
        }
        ("POST", Some("ping")) => json!({}),
        ("POST", Some("tools/list")) => json!({"tools": tools}),
        ("POST", Some("server/discover")) => {
            let error = json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no method"}});
            respond_json(&mut stream, &error).await;
            return None;
        }
        ("POST", Some("tools/call")) => return Some((request, stream)),
        ("POST", _) => {
            respond(&mut stream, "202 Accepted", "", b"").await;
            return None;
        }
        _ => {
            respond(&mut stream, "405 Method Not Allowed", "", b"").await;
            return None;
        }
    };
    respond_json(
        &mut stream,
        &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}),
    )
    .await;
    None
}

/// Tools of these names that take anything.
pub(super) fn tools(names: &[&str]) -> Value {
    let tool = |name: &&str| json!({"name": name, "description": "d", "inputSchema": {"type": "object"}});
    Value::Array(names.iter().map(tool).collect())
}

/// A server of MCP whose calls a test answers.
pub(super) async fn calls(
    names: &'static [&'static str],
    answer: impl Fn(Request, TcpStream) -> BoxFuture<'static, ()> + Send + Sync + 'static,
) -> Raw {
    let answer: Arc<Answer> = Arc::new(answer);
    Raw::start(move |request, stream| {
        let answer = Arc::clone(&answer);
        Box::pin(async move {
            if let Some((request, stream)) = mcp_basics(request, stream, &tools(names)).await {
                answer(request, stream).await;
            }
        })
    })
    .await
}

/// The answer to a call.
pub(super) fn result(request: &Request, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": request.json()["id"], "result": result})
}

pub(super) fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

/// Credentials of a test.
#[derive(Default)]
pub(super) struct Source {
    pub(super) all: Mutex<Vec<Credential>>,
    pub(super) fails: AtomicBool,
    /// What takes the place of a refused token.
    pub(super) next: Mutex<Option<Credential>>,
    /// Scopes that hosts missed in the token.
    pub(super) missing_scopes: Mutex<Vec<String>>,
}

impl CredentialSource for Source {
    fn renewed<'a>(&'a self, _owner: &'a str, _refused: &'a Credential) -> RenewedCredential<'a> {
        Box::pin(async move {
            let next = self.next.lock().unwrap().take()?;
            *self.all.lock().unwrap() = vec![next.clone()];
            Some(next)
        })
    }

    fn lacks_scope<'a>(
        &'a self,
        _owner: &'a str,
        _refused: &'a Credential,
        scope: &'a str,
    ) -> NotedScope<'a> {
        Box::pin(async move { self.missing_scopes.lock().unwrap().push(scope.to_owned()) })
    }

    fn find<'a>(&'a self, _owner: &'a str, names: &'a [String]) -> FoundCredentials<'a> {
        Box::pin(async move {
            if self.fails.load(Ordering::SeqCst) {
                return Err(SourceError);
            }
            let all = self.all.lock().unwrap();
            Ok(all
                .iter()
                .filter(|one| names.contains(&one.name))
                .cloned()
                .collect())
        })
    }
}

pub(super) fn config(name: &str, mut fields: Value) -> ToolServerConfig {
    fields["call_time"] = fields.get("call_time").cloned().unwrap_or(json!(60));
    ToolServerConfig::new(name, serde_json::from_value(fields).unwrap()).unwrap()
}

pub(super) fn timing() -> Timing {
    Timing {
        backoff: (Duration::from_millis(20), Duration::from_millis(100)),
        open: LONG,
        refresh: LONG * 10,
        longest_refresh: LONG * 10,
        changed: Duration::from_millis(1),
        health: LONG * 10,
        token: LONG * 10,
    }
}

pub(super) fn start_with(configs: Vec<ToolServerConfig>, source: Arc<Source>) -> ToolServers {
    start_timed(configs, source, timing())
}

pub(super) fn start_timed(
    configs: Vec<ToolServerConfig>,
    source: Arc<Source>,
    timing: Timing,
) -> ToolServers {
    let source: Arc<dyn CredentialSource> = source;
    ToolServers::start_with(configs, &source, &no_programs(), &Clock::default(), timing).unwrap()
}

/// None can be started.
#[derive(Debug)]
struct NoPrograms;

impl Programs for NoPrograms {
    fn start<'a>(&'a self, _: &'a ToolServerConfig) -> BoxFuture<'a, Result<Program, String>> {
        Box::pin(async { Err("there are no programs".to_owned()) })
    }
}

pub(super) fn no_programs() -> Arc<dyn Programs> {
    Arc::new(NoPrograms)
}

/// Servers of these URLs, of MCP, once they are ready.
pub(super) async fn ready(urls: &[(&str, &str)]) -> ToolServers {
    let configs = urls
        .iter()
        .map(|(name, url)| config(name, json!({"url": url})))
        .collect();
    let servers = start_with(configs, Arc::default());
    until(&servers, |servers| {
        servers.states().iter().all(|status| is_ready(&status.state))
    })
    .await;
    servers
}

pub(super) fn is_ready(state: &ServerState) -> bool {
    matches!(state, ServerState::Ready { .. })
}

/// Why a server has failed.
pub(super) fn failure(servers: &ToolServers, name: &str) -> Option<String> {
    let states = servers.states();
    match &states.iter().find(|status| status.name == name)?.state {
        ServerState::Failed { reason, .. } => Some(reason.clone()),
        _ => None,
    }
}

/// Waits for a condition on the states.
pub(super) async fn until(servers: &ToolServers, condition: impl Fn(&ToolServers) -> bool) {
    let waits = async {
        while !condition(servers) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LONG, waits)
        .await
        .unwrap_or_else(|_| panic!("{:?}", servers.states()));
}

pub(super) const LIMITS: Limits = Limits {
    time: LONG,
    reply_bytes: 1 << 20,
};

/// The session of most calls.
pub(super) const ME: Caller<'_> = Caller {
    owner: "acme",
    session: "1",
    trace: None,
    person: None,
};

pub(super) async fn call_of(
    servers: &ToolServers,
    session: usize,
    server: &str,
    tool: &str,
) -> Result<Reply, CallError> {
    let session = session.to_string();
    let owner = format!("owner {session}");
    let caller = Caller {
        owner: &owner,
        session: &session,
        trace: None,
        person: None,
    };
    servers.call(caller, server, tool, Map::new(), LIMITS).await
}

pub(super) fn arguments(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => panic!(),
    }
}

pub(super) async fn call(servers: &ToolServers, server: &str, tool: &str) -> Result<Reply, CallError> {
    servers.call(ME, server, tool, Map::new(), LIMITS).await
}
