//! One connection to a server: how it begins, lists, calls, and whether it is still there.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use himalia_backoff::Backoff;
use himalia_model::{HttpUrl, ProgramConfig, ToolServerConfig};
use himalia_tools::{Effect, MAX_TOOLS, ToolDefinition};
use himalia_upstream::{Http, json as bounded};
use http::{HeaderName, HeaderValue};
use rmcp::ClientHandler;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest,
    ElicitRequestParams, ElicitResult, ElicitationCapability, ErrorData, FormElicitationCapability,
    GetExtensions as _, Implementation, InputResponses, JsonObject, ListToolsRequest, PaginatedRequestParams,
    PingRequest, ProtocolVersion, RequestMetaObject, SubscriptionFilter,
};
use rmcp::service::{
    ClientLifecycleMode, ClientServiceExt as _, Peer, PeerRequestOptions, RequestContext, RoleClient,
    RunningService,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use super::param_headers::ParamHeaders;
use super::questions::{Line, Questions, serve};
use super::reply::{Outcome, outcome};
use super::stdio::{Errors, Stdio};
use super::ticket::{Answer, Ticket};
use super::transport::Transport;
use crate::MAX_CALLS;
use crate::call::{CallError, Limits, Reply, trace_header};
use crate::listing::{Listing, MAX_LIST_BYTES};
use crate::person::{Form, Person};
use crate::programs::Program;
use crate::servers::Caller;

/// Longest wait for all pages of a list.
const LIST_TIME: Duration = Duration::from_mins(1);
/// Pages of a list.
const MAX_PAGES: usize = 1000;
/// Longest wait for the sign that a server is there.
const ALIVE_TIME: Duration = Duration::from_secs(10);
/// Bytes of that sign.
const PING_BYTES: usize = 64 * 1024;
/// Longest pause before the stream of notifications is opened anew.
const STREAM_PAUSE: Duration = Duration::from_mins(1);
/// Number of times that a call is sent again because its server wants an input.
const MAX_ROUNDS: usize = 8;
/// The error of a server that found other headers than it wants (`HeaderMismatch`).
const HEADER_MISMATCH: i64 = -32020;
/// Calls that were given up and of which the server is being notified. Of more it is not; their connections are closed as well.
const MAX_CANCELS: usize = 8;

/// Signals from a connection to the task of its server.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// The list of tools is another one.
    pub(crate) changed: Notify,
    /// A request failed on its way: the server may be gone.
    pub(crate) suspected: Notify,
    /// The server does not know the session any more, or its program has ended.
    pub(crate) lost: Notify,
    /// Reason of the loss, if known.
    reason: Mutex<Option<String>>,
}

impl Signals {
    pub(super) fn list_changed(&self) {
        self.changed.notify_one();
    }

    pub(super) fn suspect(&self) {
        self.suspected.notify_one();
    }

    pub(super) fn session_lost(&self) {
        self.lost.notify_one();
    }

    pub(super) fn program_ended(&self, reason: String) {
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
        self.lost.notify_one();
    }

    /// Reason why a program has ended, if it has.
    fn ended(&self) -> Option<String> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Describes why the connection is lost.
    pub(crate) fn why_lost(&self) -> String {
        self.ended()
            .unwrap_or_else(|| "it has ended the session".to_owned())
    }
}

/// A connection. It ends when this is dropped.
pub(crate) struct Mcp {
    service: RunningService<RoleClient, Client>,
    signals: Arc<Signals>,
    cancels: Arc<Semaphore>,
    /// True if each request stands for itself, as since revision 2026-07-28.
    is_sessionless: bool,
    /// Headers of calls by tool, for the tools that have some.
    headers: Mutex<HashMap<String, ParamHeaders>>,
    /// The turn of a call that lists the tools again.
    list_again: tokio::sync::Mutex<()>,
    /// Longest wait for the sign that the server is there.
    alive_time: Duration,
    _subscription: Option<AbortOnDropHandle<()>>,
}

/// We offer a server that it may ask the persons of its calls.
struct Client(Questions);

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let name = Implementation::new("himalia", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(forms(), name)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let form = serde_json::to_value(request).ok();
        let form = form.and_then(|params| Form::of(&params));
        let answer = Line::ask(self.0.only().as_ref(), form).await;
        serde_json::from_value(answer).map_err(|error| ErrorData::internal_error(error.to_string(), None))
    }
}

/// The capability of questions to a person.
fn forms() -> ClientCapabilities {
    let form = ElicitationCapability::new().with_form(FormElicitationCapability::default());
    let mut capabilities = ClientCapabilities::default();
    capabilities.elicitation = Some(form);
    capabilities
}

impl Mcp {
    /// Connects over HTTP. `only_initialize`: a server is not asked whether it speaks a version of the protocol without `initialize`.
    ///
    /// # Errors
    /// What the server said, or that it did not.
    pub(crate) async fn connect(
        http: Arc<Http>,
        url: HttpUrl,
        signals: Arc<Signals>,
        only_initialize: bool,
    ) -> Result<Self, String> {
        let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str().to_owned())
            .max_concurrent_requests(MAX_CALLS + 16);
        // A message that may have been sent is not sent again.
        config.reinit_on_expired_session = false;
        let mut pauses = ExponentialBackoff::default();
        pauses.max_delay = Some(STREAM_PAUSE);
        config.retry_config = Arc::new(pauses);
        let transport = Transport::new(http, url, Arc::clone(&signals));
        let worker = StreamableHttpClientTransport::with_client(transport.clone(), config);
        let begun = Client(Questions::default())
            .serve_with_lifecycle(worker, lifecycle(only_initialize))
            .await;
        let service = begun.map_err(|error| transport.take_failure().unwrap_or_else(|| error.to_string()))?;
        Ok(Self::begun(service, signals, ALIVE_TIME))
    }

    /// Speaks with a program that was started.
    ///
    /// # Errors
    /// Why the program ended, or what it said.
    pub(crate) async fn of_program(
        program: Program,
        server: &ToolServerConfig,
        settings: &ProgramConfig,
        signals: Arc<Signals>,
        only_initialize: bool,
    ) -> Result<Self, String> {
        let errors = Errors::new(&server.name, settings.env.values());
        let transport = Stdio::start(program, errors, Arc::clone(&signals));
        let begun = Client(Questions::default())
            .serve_with_lifecycle(transport, lifecycle(only_initialize))
            .await;
        let service = begun.map_err(|error| signals.ended().unwrap_or_else(|| error.to_string()))?;
        // One that does one thing at a time answers when that is done.
        Ok(Self::begun(service, signals, ALIVE_TIME.max(server.call_time)))
    }

    fn begun(
        service: RunningService<RoleClient, Client>,
        signals: Arc<Signals>,
        alive_time: Duration,
    ) -> Self {
        let info = service.peer().peer_info();
        let is_sessionless = info
            .as_ref()
            .is_some_and(|info| !info.protocol_version.has_initialize());
        let changes = info.is_some_and(|info| {
            info.capabilities
                .tools
                .as_ref()
                .and_then(|tools| tools.list_changed)
                == Some(true)
        });
        let subscription = (is_sessionless && changes).then(|| {
            let peer = service.peer().clone();
            AbortOnDropHandle::new(tokio::spawn(subscribe(peer)))
        });
        Self {
            service,
            signals,
            cancels: Arc::new(Semaphore::new(MAX_CANCELS)),
            is_sessionless,
            headers: Mutex::default(),
            list_again: tokio::sync::Mutex::default(),
            alive_time,
            _subscription: subscription,
        }
    }

    /// True if the server speaks a version of the protocol without `initialize`.
    pub(crate) fn is_sessionless(&self) -> bool {
        self.is_sessionless
    }

    /// Checks that the server responds. The server may refuse a `ping`, as a server without sessions does. (`server/discover` would be answered from
    /// the cache of `rmcp`, and holds up calls.)
    ///
    /// # Errors
    /// Why not.
    pub(crate) async fn alive(&self) -> Result<(), String> {
        let request = ClientRequest::PingRequest(PingRequest::default());
        let answer = self
            .ask(
                request,
                (PING_BYTES, Vec::new()),
                Instant::now() + self.alive_time,
                self.alive_time,
                PeerRequestOptions::no_options(),
                None,
            )
            .await;
        match answer {
            // Something before it says so.
            Err(CallError::Refused { code, text, .. }) if code >= 500 => Err(format!("{code}: {text}")),
            Ok(_) | Err(CallError::Refused { .. } | CallError::Failed(_) | CallError::TooLarge(_)) => Ok(()),
            Err(CallError::Timeout(time)) => Err(format!("no answer to a ping within {} s", time.as_secs())),
            Err(error) => Err(error.to_string()),
        }
    }

    /// All of its tools.
    ///
    /// # Errors
    /// What the server said, or that it did not.
    pub(crate) async fn list(&self) -> Result<Listing, String> {
        let time = LIST_TIME.max(self.alive_time);
        let deadline = Instant::now() + time;
        let (mut listing, mut cursor, mut count, mut bytes) = (Listing::default(), None, 0, 0);
        let mut headers = HashMap::new();
        for _ in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
            let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
            let answer = self
                .ask(
                    request,
                    (MAX_LIST_BYTES.saturating_sub(bytes), Vec::new()),
                    deadline,
                    time,
                    PeerRequestOptions::no_options(),
                    None,
                )
                .await;
            let answer = answer.map_err(|error| format!("its list of tools: {error}"))?;
            bytes += answer.bytes;
            let page: Page =
                bounded::parse(&answer.result).map_err(|reason| format!("its list of tools {reason}"))?;
            listing.is_fresh_for(page.ttl_ms.map(Duration::from_millis));
            for tool in page.tools {
                count += 1;
                if count > MAX_TOOLS {
                    listing.leave_out("…", &format!("a server has at most {MAX_TOOLS} tools"));
                    break;
                }
                let added = add(&mut listing, &tool, count, self.is_sessionless);
                headers.extend(added);
            }
            match page
                .next_cursor
                .filter(|next| !next.is_empty() && count <= MAX_TOOLS)
            {
                None => {
                    *self.headers.lock().unwrap_or_else(PoisonError::into_inner) = headers;
                    return Ok(listing);
                }
                next if next == cursor => return Err("its list of tools repeats a page".to_owned()),
                next => cursor = next,
            }
        }
        Err(format!("its list of tools has more than {MAX_PAGES} pages"))
    }

    /// Calls a tool, once. A server that wants other headers has done nothing: its tools are listed again, and the call is sent with the new ones.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: JsonObject,
        limits: Limits,
        deadline: Instant,
        caller: Caller<'_>,
    ) -> Result<Reply, CallError> {
        let mut headers = self.headers_of(tool, &arguments);
        let mut is_listed_again = false;
        let mut params = CallToolRequestParams::new(tool.to_owned());
        let meta = self.meta_of(caller);
        params.arguments = Some(arguments);
        for _ in 0..=MAX_ROUNDS {
            let answer = loop {
                let request = ClientRequest::CallToolRequest(CallToolRequest::new(params.clone()));
                let trace = caller.trace.and_then(trace_header);
                let headers_sent = headers.iter().cloned().chain(trace).collect();
                let bounds = (limits.reply_bytes, headers_sent);
                let options = PeerRequestOptions::no_options().with_meta(meta.clone());
                let answer = self
                    .ask(request, bounds, deadline, limits.time, options, caller.person)
                    .await;
                let is_mismatch =
                    matches!(&answer, Err(CallError::Refused { code, .. }) if *code == HEADER_MISMATCH);
                if !is_mismatch || is_listed_again || !self.is_sessionless {
                    break answer;
                }
                is_listed_again = true;
                let arguments = params.arguments.as_ref();
                let known = |of: &Self| arguments.map_or_else(Vec::new, |own| of.headers_of(tool, own));
                let turn = self.list_again.lock().await;
                // Another call may have listed them meanwhile.
                if known(self) == headers && timeout_at(deadline, self.list()).await.is_err() {
                    break answer;
                }
                drop(turn);
                headers = known(self);
                // The task of the server publishes the list.
                self.signals.list_changed();
            };
            match outcome(&answer?)? {
                Outcome::Complete(reply) => return Ok(reply),
                Outcome::InputRequired { requests, state } => {
                    let responses = answers(requests, caller.person, deadline).await;
                    params.input_responses = Some(responses).filter(|responses| !responses.is_empty());
                    params.request_state = state;
                }
            }
        }
        Err(CallError::failed(format_args!(
            "the tool wanted an input more than {MAX_ROUNDS} times"
        )))
    }

    /// The `_meta` of a call: its span, and the capability of questions if there is a person.
    fn meta_of(&self, caller: Caller<'_>) -> RequestMetaObject {
        let mut meta = RequestMetaObject::default();
        if let Some(trace) = caller.trace {
            meta.insert("traceparent".to_owned(), trace.to_string().into());
        }
        if caller.person.is_none() && self.is_sessionless {
            meta.set_client_capabilities(ClientCapabilities::default());
        }
        meta
    }

    /// The headers of a call with these arguments, by the last list.
    fn headers_of(&self, tool: &str, arguments: &JsonObject) -> Vec<(HeaderName, HeaderValue)> {
        let headers = self.headers.lock().unwrap_or_else(PoisonError::into_inner);
        headers
            .get(tool)
            .map_or_else(Vec::new, |headers| headers.values(arguments))
    }

    /// `most`: bytes of the answer. `headers`: in addition to those of `rmcp`.
    async fn ask(
        &self,
        mut request: ClientRequest,
        (most, headers): (usize, Vec<(HeaderName, HeaderValue)>),
        deadline: Instant,
        time: Duration,
        options: PeerRequestOptions,
        person: Option<&dyn Person>,
    ) -> Result<Answer, CallError> {
        let line = person.map(|person| (self.service.service().0.begin(), person));
        let (line, asked) = line.map_or((None, None), |((line, asked), person)| {
            (Some(line), Some((asked, person)))
        });
        let (ticket, _guard) = Ticket::new(most, headers, line);
        request.extensions_mut().insert(ticket.clone());
        let queued = self.service.peer().send_request_with_option(request, options);
        let mut handle = match timeout_at(deadline, queued).await {
            Ok(Ok(handle)) => handle,
            Ok(Err(_)) => return Err(self.closed()),
            Err(_) => return Err(not_sent(time)),
        };
        let answer_questions = async {
            match asked {
                Some((asked, person)) => serve(asked, person, deadline).await,
                None => pending().await,
            }
        };
        let ended = tokio::select! {
            ended = timeout_at(deadline, &mut handle.rx) => ended,
            never = answer_questions => match never {},
        };
        match (ended, ticket.take()) {
            (_, Some(answer)) => answer,
            (Ok(_), None) if ticket.sent().is_sent() => Err(CallError::Lost(
                "the connection to the server has ended".to_owned(),
            )),
            (Ok(_), None) => Err(self.closed()),
            (Err(_), None) if ticket.close() => {
                // The server is notified, if it listens.
                if let Ok(permit) = Arc::clone(&self.cancels).try_acquire_owned() {
                    tokio::spawn(async move {
                        let _ = timeout(ALIVE_TIME, handle.cancel(Some("no reply in time".to_owned()))).await;
                        drop(permit);
                    });
                }
                Err(CallError::Timeout(time))
            }
            (Err(_), None) => Err(not_sent(time)),
        }
    }

    fn closed(&self) -> CallError {
        self.signals.suspect();
        CallError::unavailable("the connection to the server has ended")
    }
}

/// The answers to the questions of a server: by a person, where there is one and the question is one that can be asked. All others are
/// declined, and the tool decides what that means.
async fn answers(
    requests: BTreeMap<String, Option<Form>>,
    person: Option<&dyn Person>,
    deadline: Instant,
) -> InputResponses {
    let mut responses = InputResponses::new();
    for (key, form) in requests {
        let response = match (form, person) {
            (Some(form), Some(person)) => {
                let left = deadline.saturating_duration_since(Instant::now());
                form.response(person.ask(form.question.clone(), left).await)
            }
            _ => json!({"action": "decline"}),
        };
        responses.insert(key, response);
    }
    responses
}

fn lifecycle(only_initialize: bool) -> ClientLifecycleMode {
    if only_initialize {
        return ClientLifecycleMode::Initialize;
    }
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::LATEST],
        legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
    }
}

fn not_sent(time: Duration) -> CallError {
    CallError::unavailable(format_args!(
        "the call could not be sent within {:.1} s",
        time.as_secs_f64()
    ))
}

impl fmt::Debug for Mcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mcp")
    }
}

/// Hears of changes of the list, which the transport notes, as long as the server speaks of them.
async fn subscribe(peer: Peer<RoleClient>) {
    let mut pauses = Backoff::new(Duration::from_secs(1), STREAM_PAUSE);
    while !peer.is_transport_closed() {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        if let Ok(mut subscription) = peer.listen(filter).await {
            while let Ok(Some(_)) = subscription.next().await {
                pauses.reset();
            }
        }
        tokio::time::sleep(pauses.pause()).await;
    }
}

/// A page of a list.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page {
    tools: Vec<Box<RawValue>>,
    #[serde(default)]
    next_cursor: Option<String>,
    /// Time for which the list need not be read again.
    #[serde(default)]
    ttl_ms: Option<u64>,
}

/// A tool, as a server lists it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedTool {
    name: String,
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    description: Option<String>,
    input_schema: Value,
    #[serde(default)]
    output_schema: Option<Value>,
    #[serde(default)]
    annotations: Annotations,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(clippy::struct_field_names, reason = "the names of the protocol")]
struct Annotations {
    read_only_hint: Option<bool>,
    destructive_hint: Option<bool>,
    idempotent_hint: Option<bool>,
}

/// Adds a tool of a list. Gives its name and the headers of its calls, if it has some. `has_headers`: in this version of the protocol, arguments can be
/// in headers.
fn add(
    listing: &mut Listing,
    tool: &RawValue,
    number: usize,
    has_headers: bool,
) -> Option<(String, ParamHeaders)> {
    match serde_json::from_str::<ListedTool>(tool.get()) {
        Ok(listed) => {
            let headers = if has_headers {
                ParamHeaders::of(&listed.input_schema)
            } else {
                Ok(ParamHeaders::default())
            };
            let headers = match headers {
                Ok(headers) => headers,
                Err(reason) => {
                    listing.leave_out(&listed.name, &reason);
                    return None;
                }
            };
            let name = listed.name.clone();
            let read_only = listed.annotations.read_only_hint.unwrap_or(false);
            let definition = ToolDefinition {
                name: listed.name,
                description: listed.description.or(listed.title).unwrap_or_default(),
                input_schema: listed.input_schema,
                output_schema: listed.output_schema,
                effect: Effect {
                    read_only,
                    destructive: !read_only && listed.annotations.destructive_hint.unwrap_or(true),
                    idempotent: read_only || listed.annotations.idempotent_hint.unwrap_or(false),
                },
                place: String::new(),
            };
            listing.add(definition, tool.get().len());
            (!headers.is_empty()).then_some((name, headers))
        }
        Err(error) => {
            listing.leave_out(
                &format!("number {number}"),
                &format!("invalid description of a tool: {error}"),
            );
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_tool_that_is_none_takes_no_other_with_it() {
        let mut listing = Listing::default();
        let page = r#"{"tools": [
            {"name": "a", "title": "A", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true, "title": "x"}},
            {"name": "b"}, 5,
            {"name": "c", "description": "C", "inputSchema": {}, "extra": [1]}
        ], "nextCursor": null}"#;
        let page: Page = bounded::parse(page.as_bytes()).unwrap();
        for (number, tool) in page.tools.iter().enumerate() {
            add(&mut listing, tool, number + 1, true);
        }
        let (tools, left_out) = listing.into_tools("s", "");
        let described: Vec<_> = tools
            .tools()
            .iter()
            .map(|tool| tool.definition().description.as_str())
            .collect();
        assert_eq!((described, left_out.count), (vec!["A", "C"], 2));
        let effect = |name: &str| tools.get(name).unwrap().definition().effect;
        assert!(effect("a").read_only && !effect("a").destructive);
        assert_eq!(effect("c"), Effect::default());
    }
}
