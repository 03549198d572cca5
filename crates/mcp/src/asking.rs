//! Questions to the users of clients that begin with `initialize` (revisions 2025-06-18 and 2025-11-25).
//!
//! Such a client is asked by a request on the response stream of its call, and answers with a message of its own. Its capabilities are in
//! `initialize` alone. A client that shows forms therefore gets a session id, which says that and is sealed: no session is kept here.
//!
//! A call with such an id is made in revision 2026-07-28 for the client. If the result asks for an input, the client is asked, and the call is
//! made again with the answer. Tools know this one form.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::future::ready;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, stream};
use himalia_engine::Principal;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use parking_lot::Mutex;
use rmcp::transport::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sse_stream::SseStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use uuid::Uuid;

use crate::limits::{ANSWER, EVENTS, KEEP_ALIVE};
use crate::server::Server;
use crate::state::States;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const EVENT_STREAM: &str = "text/event-stream";
/// The tool that asks about a session. The question names it, so that the answer reaches the replica that waits.
const TOOL: &str = "execute";
/// Beginning of the ids of questions.
const QUESTION: &str = "ask_";

type Body = UnsyncBoxBody<Bytes, Infallible>;
type Inner = StreamableHttpService<Server, NeverSessionManager>;

/// The MCP endpoint as a tower service.
#[derive(Clone)]
pub struct Service {
    inner: Inner,
    states: States,
    questions: Questions,
}

/// A message of a client, as far as all are looked at.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    id: Value,
    method: Option<String>,
}

impl Service {
    pub(crate) fn new(inner: Inner, states: States) -> Self {
        Self {
            inner,
            states,
            questions: Questions::default(),
        }
    }

    async fn answer(self, parts: Parts, body: Bytes) -> Response<Body> {
        let head: Option<Head> = serde_json::from_slice(&body).ok();
        let principal = parts.extensions.get::<Principal>().cloned();
        let (Some(head), Some(principal)) = (head, principal) else {
            return self.send(parts, body).await;
        };
        match (head.method.as_deref(), head.id.as_str()) {
            (Some("initialize"), _) => {
                let asks = shows_forms(&body);
                let mut response = self.send(parts, body).await;
                if asks
                    && response.status().is_success()
                    && let Ok(id) = HeaderValue::try_from(self.states.session(&principal))
                {
                    response.headers_mut().insert(SESSION, id);
                }
                response
            }
            (Some("tools/call"), _) if self.asks(&parts.headers, &principal) => {
                match LegacyCall::new(&parts, &body, principal) {
                    Some(call) => self.call_tool(call),
                    None => self.send(parts, body).await,
                }
            }
            (None, Some(id)) if id.starts_with(QUESTION) => {
                let is_waited_for = self.questions.answer(id, &principal, &body);
                let mut response = Response::new(Empty::new().boxed_unsync());
                *response.status_mut() = if is_waited_for {
                    StatusCode::ACCEPTED
                } else {
                    StatusCode::BAD_REQUEST
                };
                response
            }
            _ => self.send(parts, body).await,
        }
    }

    async fn send(&self, parts: Parts, body: Bytes) -> Response<Body> {
        let request = Request::from_parts(parts, Full::new(body));
        self.inner
            .handle(request)
            .await
            .map(http_body_util::BodyExt::boxed_unsync)
    }

    /// True if the client has said in `initialize` that it shows forms.
    fn asks(&self, headers: &HeaderMap, principal: &Principal) -> bool {
        let session = headers.get(SESSION).and_then(|id| id.to_str().ok());
        session.is_some_and(|id| self.states.is_session(id, principal))
    }

    /// Makes a call, round by round, on one stream. A client that leaves drops the stream, which cancels the round.
    fn call_tool(self, call: LegacyCall) -> Response<Body> {
        let (sender, receiver) = mpsc::channel(EVENTS);
        let rounds = stream::once(self.rounds(call, EventSender(sender))).filter_map(|()| ready(None));
        let events = stream::unfold(receiver, |mut receiver| async move {
            let event: Bytes = receiver.recv().await?;
            Some((event, receiver))
        });
        let frames = stream::select(events, rounds).map(|event| Ok(Frame::data(event)));
        let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response
    }

    async fn rounds(self, call: LegacyCall, sender: EventSender) {
        let mut round = None;
        loop {
            let (parts, body) = call.request(round);
            let response = sender.alive(self.send(parts, body)).await;
            let Some(asked) = pass(&call, response, &sender).await else {
                return;
            };
            let mut answers = Map::new();
            for (key, request) in asked.requests {
                answers.insert(key, self.ask(&call, request, &sender).await);
            }
            round = Some((answers, asked.state));
        }
    }

    /// Asks the client's user. A form without an answer in time is withdrawn.
    async fn ask(&self, call: &LegacyCall, mut request: Value, sender: &EventSender) -> Value {
        let (question, answered) = self.questions.begin(call);
        request["jsonrpc"] = json!("2.0");
        request["id"] = json!(question.id);
        sender.message(&request).await;
        if let Ok(answer) = sender.alive(timeout(ANSWER, answered)).await {
            return answer.unwrap_or_else(|_| cancelled());
        }
        let params = json!({"requestId": question.id, "reason": "no answer in time"});
        let withdrawn = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        sender.message(&withdrawn).await;
        cancelled()
    }
}

fn cancelled() -> Value {
    json!({"action": "cancel"})
}

/// True if a client says in `initialize` that it shows forms. A capability without a mode means forms.
fn shows_forms(initialize: &[u8]) -> bool {
    let message: Value = serde_json::from_slice(initialize).unwrap_or_default();
    let can = &message["params"]["capabilities"]["elicitation"];
    can.is_object() && (can["form"].is_object() || can.get("url").is_none())
}

impl<B> tower::Service<Request<B>> for Service
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: fmt::Display,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            // The mount has read it. One that breaks off is no message, and refused as such.
            let body = body.collect().await.map(http_body_util::Collected::to_bytes);
            Ok(service.answer(parts, body.unwrap_or_default()).await)
        })
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Service(…)")
    }
}

/// The way to the response stream.
struct EventSender(mpsc::Sender<Bytes>);

impl EventSender {
    async fn message(&self, message: &Value) {
        self.event(&message.to_string()).await;
    }

    async fn event(&self, data: &str) {
        // The stream is dropped together with its sender.
        let _ = self.0.send(format!("data: {data}\n\n").into()).await;
    }

    /// Keeps the connection open until this is done.
    async fn alive<T>(&self, what: impl Future<Output = T>) -> T {
        let mut what = pin!(what);
        loop {
            match timeout(KEEP_ALIVE, &mut what).await {
                Ok(done) => return done,
                Err(_) => {
                    let _ = self.0.send(Bytes::from_static(b":\n\n")).await;
                }
            }
        }
    }
}

/// A call of a client that is made in the later revision.
struct LegacyCall {
    parts: Parts,
    message: Value,
    /// The session as the arguments name it.
    session: String,
    principal: Principal,
}

/// Inputs that a round asks for.
struct RequiredInputs {
    requests: Map<String, Value>,
    state: Value,
}

impl LegacyCall {
    /// `None`: a call that asks nothing, or of the later revision.
    fn new(parts: &Parts, body: &[u8], principal: Principal) -> Option<Self> {
        let mut message: Value = serde_json::from_slice(body).ok()?;
        let params = message.get_mut("params")?.as_object_mut()?;
        let session = params.get("arguments")?.get("session")?.as_str()?.to_owned();
        if params.get("name")?.as_str() != Some(TOOL) {
            return None;
        }
        let meta = params
            .entry("_meta")
            .or_insert_with(|| json!({}))
            .as_object_mut()?;
        let revision = "io.modelcontextprotocol/protocolVersion";
        if meta.contains_key(revision) {
            return None;
        }
        meta.insert(revision.to_owned(), json!("2026-07-28"));
        let can = json!({"elicitation": {"form": {}}});
        meta.insert("io.modelcontextprotocol/clientCapabilities".to_owned(), can);
        let mut parts = parts.clone();
        parts.headers.remove(SESSION);
        parts.headers.remove(CONTENT_LENGTH);
        for (name, value) in [
            ("mcp-protocol-version", "2026-07-28"),
            ("mcp-method", "tools/call"),
            ("mcp-name", TOOL),
        ] {
            parts.headers.insert(name, HeaderValue::from_static(value));
        }
        Some(Self {
            parts,
            message,
            session,
            principal,
        })
    }

    fn request(&self, round: Option<(Map<String, Value>, Value)>) -> (Parts, Bytes) {
        let mut message = self.message.clone();
        if let Some((answers, state)) = round {
            message["params"]["inputResponses"] = answers.into();
            message["params"]["requestState"] = state;
        }
        (self.parts.clone(), message.to_string().into())
    }

    /// Reads the answer to the call: a question, or the message for the client.
    fn read(&self, mut message: Value) -> Result<RequiredInputs, Value> {
        if let Some(result) = message.get_mut("result").and_then(Value::as_object_mut) {
            let of = result.remove("resultType");
            if of.is_some_and(|of| of == "input_required") {
                let requests = result.remove("inputRequests").unwrap_or_default();
                return Ok(RequiredInputs {
                    requests: requests.as_object().cloned().unwrap_or_default(),
                    state: result.remove("requestState").unwrap_or_default(),
                });
            }
        }
        message["id"] = self.message["id"].clone();
        Err(message)
    }
}

/// Passes on what a round answers, up to a question. `None`: the call has ended.
async fn pass(call: &LegacyCall, response: Response<Body>, sender: &EventSender) -> Option<RequiredInputs> {
    let kind = response.headers().get(CONTENT_TYPE);
    let is_stream = kind.is_some_and(|kind| kind.as_bytes().starts_with(EVENT_STREAM.as_bytes()));
    let last = if is_stream {
        let mut events = SseStream::new(response.into_body());
        loop {
            let event = sender.alive(events.next()).await?.ok()?;
            let Some(data) = event.data.filter(|data| !data.is_empty()) else {
                continue;
            };
            let message: Value = serde_json::from_str(&data).ok()?;
            if message.get("method").is_none() {
                break message;
            }
            sender.event(&data).await;
        }
    } else {
        let body = response.into_body().collect().await.ok()?.to_bytes();
        let refused = json!({"code": -32603, "message": String::from_utf8_lossy(&body)});
        let message = serde_json::from_slice(&body).ok().filter(Value::is_object);
        message.unwrap_or_else(|| json!({"jsonrpc": "2.0", "error": refused}))
    };
    match call.read(last) {
        Ok(asked) => Some(asked),
        Err(message) => {
            sender.message(&message).await;
            None
        }
    }
}

/// Questions that wait for an answer, by id. Clones are the same.
#[derive(Clone, Default)]
struct Questions(Arc<Mutex<HashMap<String, WaitingCall>>>);

struct WaitingCall {
    principal: Principal,
    answer: oneshot::Sender<Value>,
}

/// One of them, as long as a call waits for it.
struct Question {
    id: String,
    all: Questions,
}

impl Questions {
    fn begin(&self, call: &LegacyCall) -> (Question, oneshot::Receiver<Value>) {
        let id = format!("{QUESTION}{}@{}", Uuid::new_v4().simple(), call.session);
        let (answer, answered) = oneshot::channel();
        let principal = call.principal.clone();
        self.0
            .lock()
            .insert(id.clone(), WaitingCall { principal, answer });
        let all = self.clone();
        (Question { id, all }, answered)
    }

    /// Takes the message of a client. Whether a call of the same caller waits for it.
    fn answer(&self, id: &str, principal: &Principal, message: &[u8]) -> bool {
        let mut all = self.0.lock();
        let same = |of: &Principal| (of.owner(), of.name()) == (principal.owner(), principal.name());
        if !all.get(id).is_some_and(|waiting| same(&waiting.principal)) {
            return false;
        }
        let mut message: Value = serde_json::from_slice(message).unwrap_or_default();
        let answer = message.get_mut("result").map_or_else(cancelled, Value::take);
        let waiting = all.remove(id);
        waiting.is_some_and(|waiting| waiting.answer.send(answer).is_ok())
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(message: &Value) -> Option<LegacyCall> {
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.headers.insert(SESSION, HeaderValue::from_static("x"));
        let body = message.to_string();
        LegacyCall::new(
            &parts,
            body.as_bytes(),
            Principal::of_tenant("acme", "ann").unwrap(),
        )
    }

    fn execute(meta: &Value) -> Value {
        let arguments = json!({"session": "eda", "code": "input()"});
        json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
            "params": {"name": "execute", "arguments": arguments, "_meta": meta}})
    }

    #[test]
    fn forms_are_shown_by_clients_that_say_so() {
        let shows = |can: Value| shows_forms(json!({"params": {"capabilities": can}}).to_string().as_bytes());
        assert!(shows(json!({"elicitation": {}})) && shows(json!({"elicitation": {"form": {}, "url": {}}})));
        assert!(!shows(json!({})) && !shows(json!({"elicitation": {"url": {}}})) && !shows_forms(b"x"));
    }

    #[test]
    fn a_call_is_made_in_the_later_revision_and_its_answer_read() {
        let call = call(&execute(&json!({"progressToken": 3}))).unwrap();
        let (parts, body) = call.request(Some((Map::new(), json!("s"))));
        assert_eq!(parts.headers["mcp-protocol-version"], "2026-07-28");
        assert!(parts.headers.get(SESSION).is_none());
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["params"]["requestState"], "s");
        let meta = &body["params"]["_meta"];
        assert_eq!(meta["progressToken"], 3);
        assert!(meta["io.modelcontextprotocol/clientCapabilities"]["elicitation"]["form"].is_object());
        let asked = json!({"id": 7, "result": {"resultType": "input_required", "requestState": "t",
            "inputRequests": {"input": {"method": "elicitation/create"}}}});
        let asked = call.read(asked).ok().unwrap();
        assert_eq!((asked.requests.len(), asked.state), (1, json!("t")));
        let done = json!({"id": 7, "result": {"resultType": "complete", "content": []}});
        assert_eq!(call.read(done).err().unwrap()["result"], json!({"content": []}));
    }

    #[test]
    fn other_calls_stay_as_they_are() {
        let later = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
        assert!(call(&execute(&later)).is_none());
        let mut other = execute(&json!({}));
        other["params"]["name"] = json!("files");
        assert!(call(&other).is_none());
    }

    #[test]
    fn the_caller_that_was_asked_answers_once() {
        let questions = Questions::default();
        let call = call(&execute(&json!({}))).unwrap();
        let (question, mut answered) = questions.begin(&call);
        assert!(question.id.ends_with("@eda"));
        let message = json!({"id": question.id, "result": {"action": "accept"}}).to_string();
        let answer = |of: &Principal| questions.answer(&question.id, of, message.as_bytes());
        assert!(!answer(&Principal::operator()), "another caller");
        assert!(answer(&call.principal) && !answer(&call.principal));
        assert_eq!(answered.try_recv().unwrap(), json!({"action": "accept"}));
        let (question, _answered) = questions.begin(&call);
        drop(question);
        assert!(
            questions.0.lock().is_empty(),
            "nothing stays of a call that has ended"
        );
    }
}
