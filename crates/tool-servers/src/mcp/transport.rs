//! Carries the messages of `rmcp` over our own HTTP: with the credential, in bounds, and without retries.

mod ask;
mod notices;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use himalia_model::HttpUrl;
use himalia_upstream::{Http, IncomingResponse, Secret, SendError, SentFlag, is_json, json};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method, Request, StatusCode};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, GetExtensions as _, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::Sse;
use tokio::time::timeout;

use super::connection::Signals;
use super::events::{data, events};
use super::message::{Kind, Message};
use super::ticket::Ticket;
use crate::call::{CallError, refusal};

const EVENT_STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
/// Bytes of the answer to a message of `rmcp` itself, such as `initialize`.
const CONTROL_BYTES: usize = 1 << 20;
/// Longest wait for one.
const CONTROL_TIME: Duration = Duration::from_secs(20);
/// Bytes of the stream of notifications. Then it is opened anew.
const STREAM_BYTES: usize = 4 << 20;
/// Requests of a server that are answered on one stream, or within one call.
const MAX_REQUESTS: usize = 16;

/// The connection of one server. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Transport(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    http: Arc<Http>,
    url: HttpUrl,
    signals: Arc<Signals>,
    /// Error of the last message that `rmcp` sent by itself.
    failed: Mutex<Option<String>>,
}

/// Reasons why a message was not answered.
#[derive(Debug)]
pub(super) struct TransportError(String);

impl std::fmt::Display for TransportError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TransportError {}

type Headers = HashMap<HeaderName, HeaderValue>;
type HttpTransportError = StreamableHttpError<TransportError>;

impl Transport {
    pub(super) fn new(http: Arc<Http>, url: HttpUrl, signals: Arc<Signals>) -> Self {
        Self(Arc::new(Inner {
            http,
            url,
            signals,
            failed: Mutex::new(None),
        }))
    }

    /// Takes the error of the last message that `rmcp` sent by itself.
    pub(super) fn take_failure(&self) -> Option<String> {
        let mut failed = self.0.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.take()
    }

    fn request(
        &self,
        method: Method,
        session: Option<&str>,
        headers: &Headers,
        body: Bytes,
    ) -> Result<Request<Bytes>, String> {
        let builder = Request::builder().method(method).uri(self.0.url.as_str());
        let mut request = builder.body(body).map_err(|error| error.to_string())?;
        let own = request.headers_mut();
        for (name, value) in headers {
            own.insert(name.clone(), value.clone());
        }
        if let Some(session) = session {
            own.insert(
                SESSION,
                HeaderValue::from_str(session).map_err(|error| error.to_string())?,
            );
        }
        Ok(request)
    }

    async fn post(
        &self,
        session: Option<&str>,
        headers: &Headers,
        message: Vec<u8>,
        most: usize,
        sent: &SentFlag,
    ) -> Result<IncomingResponse, SendError> {
        let mut request = self
            .request(Method::POST, session, headers, message.into())
            .map_err(SendError::NotSent)?;
        let own = request.headers_mut();
        own.insert(
            ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        own.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        let answered = self
            .0
            .http
            .send(&self.0.url, request, Secret::Needed, most, sent)
            .await;
        if let Ok(answer) = &answered
            && answer.status == StatusCode::NOT_FOUND
            && session.is_some()
        {
            self.0.signals.session_lost();
        }
        if answered.is_err() {
            self.0.signals.suspect();
        }
        answered
    }

    async fn get(
        &self,
        session: Option<&str>,
        headers: &Headers,
        last: Option<&str>,
        most: usize,
    ) -> Result<IncomingResponse, SendError> {
        let mut request = self
            .request(Method::GET, session, headers, Bytes::new())
            .map_err(SendError::NotSent)?;
        let own = request.headers_mut();
        own.insert(ACCEPT, HeaderValue::from_static(EVENT_STREAM));
        if let Some(last) = last {
            let last = HeaderValue::from_str(last).map_err(|error| SendError::NotSent(error.to_string()))?;
            own.insert(LAST_EVENT, last);
        }
        self.0
            .http
            .send(&self.0.url, request, Secret::Needed, most, &SentFlag::default())
            .await
    }

    /// A message of `rmcp` itself, and the answer to it.
    async fn control(
        &self,
        message: &ClientJsonRpcMessage,
        session: Option<&str>,
        headers: &Headers,
        body: Vec<u8>,
    ) -> Result<StreamableHttpPostResponse, HttpTransportError> {
        let id = match message {
            ClientJsonRpcMessage::Request(request) => Some(&request.id),
            _ => None,
        };
        let incoming = self
            .post(session, headers, body, CONTROL_BYTES, &SentFlag::default())
            .await;
        let mut incoming = incoming.map_err(|error| failed(&error))?;
        let (status, media_type) = (incoming.status, incoming.media_type());
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let Some(id) = id else {
            return if status.is_success() {
                Ok(StreamableHttpPostResponse::Accepted)
            } else {
                Err(failed(&refusal(incoming).await))
            };
        };
        let new_session = incoming.header(&SESSION).map(str::to_owned);
        if is_subscription(message) && status.is_success() && media_type == EVENT_STREAM {
            return Ok(StreamableHttpPostResponse::Sse(
                self.notifications(incoming),
                new_session,
            ));
        }
        if !status.is_success() && !is_json(&media_type) || status.is_redirection() {
            let refusal = refusal(incoming).await;
            return older(message, status, id).ok_or_else(|| failed(&refusal));
        }
        let answer = if media_type == EVENT_STREAM {
            let mut stream = events(incoming.body);
            loop {
                let Some(Ok(event)) = stream.next().await else {
                    return Err(failed(
                        &"the connection ended before the answer, or is not a stream of events",
                    ));
                };
                let Some(data) = data(event) else { continue };
                let message = Message::parse(data.as_bytes()).map(|message| message.kind(Some(id)));
                if matches!(message, Some(Kind::Response(_))) {
                    break Bytes::from(data);
                }
            }
        } else {
            incoming
                .body
                .all()
                .await
                .map_err(|error| failed(&CallError::from(error)))?
        };
        let parsed: Result<ServerJsonRpcMessage, _> = json::parse(&answer);
        match parsed {
            // An error of one that does not know us by our id is one for this request.
            Ok(ServerJsonRpcMessage::Error(error)) => {
                let error = ServerJsonRpcMessage::error(error.error, Some(id.clone()));
                Ok(StreamableHttpPostResponse::Json(error, new_session))
            }
            Ok(answer) if status.is_success() => Ok(StreamableHttpPostResponse::Json(answer, new_session)),
            Ok(_) => Err(failed(&format_args!("HTTP {status}"))),
            Err(reason) => {
                older(message, status, id).ok_or_else(|| failed(&format_args!("the answer {reason}")))
            }
        }
    }

    fn note(&self, error: &HttpTransportError) {
        let mut failed = self.0.failed.lock().unwrap_or_else(PoisonError::into_inner);
        *failed = Some(match error {
            StreamableHttpError::Client(error) => error.to_string(),
            other => other.to_string(),
        });
    }
}

fn failed(reason: &dyn std::fmt::Display) -> HttpTransportError {
    StreamableHttpError::Client(TransportError(reason.to_string()))
}

fn is_subscription(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, ClientJsonRpcMessage::Request(request)
        if matches!(request.request, ClientRequest::SubscriptionsListenRequest(_)))
}

/// The answer of a server that does not know `server/discover`, which is from a later version than its own: it is asked in the earlier way.
fn older(
    message: &ClientJsonRpcMessage,
    status: StatusCode,
    id: &RequestId,
) -> Option<StreamableHttpPostResponse> {
    let ClientJsonRpcMessage::Request(request) = message else {
        return None;
    };
    let is_refused =
        matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) || !status.is_client_error();
    if !matches!(request.request, ClientRequest::DiscoverRequest(_)) || is_refused {
        return None;
    }
    let error = ErrorData::invalid_request(format!("HTTP {status}"), None);
    Some(StreamableHttpPostResponse::Json(
        ServerJsonRpcMessage::error(error, Some(id.clone())),
        None,
    ))
}

impl StreamableHttpClient for Transport {
    type Error = TransportError;

    async fn post_message(
        &self,
        _uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _auth: Option<String>,
        mut headers: Headers,
    ) -> Result<StreamableHttpPostResponse, HttpTransportError> {
        let body = serde_json::to_vec(&message)?;
        if let ClientJsonRpcMessage::Request(request) = &message
            && let Some(ticket) = request.request.extensions().get::<Ticket>()
        {
            headers.extend(ticket.headers().iter().cloned());
            let answer = tokio::select! {
                biased;
                () = ticket.given_up() => None,
                answer = self.ask(&request.id, session.as_deref(), &headers, body, ticket) => Some(answer),
            };
            if let Some(answer) = answer {
                ticket.answer(answer);
            }
            // `rmcp` needs an end of the request, and not what it is.
            let end = ServerJsonRpcMessage::error(
                ErrorData::internal_error("elsewhere", None),
                Some(request.id.clone()),
            );
            return Ok(StreamableHttpPostResponse::Json(end, None));
        }
        let answered = timeout(
            CONTROL_TIME,
            self.control(&message, session.as_deref(), &headers, body),
        )
        .await;
        let answered = answered.unwrap_or_else(|_| {
            Err(failed(&format_args!(
                "no answer within {} s",
                CONTROL_TIME.as_secs()
            )))
        });
        answered.inspect_err(|error| self.note(error))
    }

    async fn delete_session(
        &self,
        _uri: Arc<str>,
        session: Arc<str>,
        _auth: Option<String>,
        headers: Headers,
    ) -> Result<(), HttpTransportError> {
        let request = self
            .request(Method::DELETE, Some(&session), &headers, Bytes::new())
            .map_err(|error| failed(&error))?;
        let sent = self
            .0
            .http
            .send(&self.0.url, request, Secret::Needed, 0, &SentFlag::default())
            .await;
        sent.map(drop).map_err(|error| failed(&error))
    }

    async fn get_stream(
        &self,
        _uri: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        _auth: Option<String>,
        headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, HttpTransportError> {
        let incoming = self
            .get(session.as_deref(), &headers, last.as_deref(), STREAM_BYTES)
            .await;
        let incoming = incoming.map_err(|error| failed(&error))?;
        match incoming.status {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportSse),
            status if status.is_success() && incoming.media_type() == EVENT_STREAM => {
                Ok(self.notifications(incoming))
            }
            status => {
                if status == StatusCode::NOT_FOUND && session.is_some() {
                    self.0.signals.session_lost();
                }
                Err(failed(&format_args!("HTTP {status}")))
            }
        }
    }
}
