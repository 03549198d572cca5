//! Calls and lists: sent once, and their results as bytes.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use himalia_upstream::{BodyError, ERROR_BYTES, IncomingResponse, SentFlag, is_json};
use http::StatusCode;
use rmcp::model::RequestId;
use tokio::time::{sleep, timeout};

use super::{CONTROL_TIME, EVENT_STREAM, Headers, MAX_REQUESTS, Transport};
use crate::call::{CallError, refusal, retry_after};
use crate::mcp::events::{EventError, data, events};
use crate::mcp::message::{Kind, Message, ServerRequest};
use crate::mcp::questions::Line;
use crate::mcp::ticket::{Answer, Ticket};

/// Number of times that the response to one call may be resumed on another connection, as the server asks for.
const MAX_RESUMES: usize = 32;
/// The pause before that, if the server asks for none, and the shortest one.
const PAUSE: Duration = Duration::from_secs(1);
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

impl Transport {
    /// A call or a list: sent once, and its result as bytes.
    pub(super) async fn ask(
        &self,
        id: &RequestId,
        session: Option<&str>,
        headers: &Headers,
        message: Vec<u8>,
        ticket: &Ticket,
    ) -> Result<Answer, CallError> {
        let most = ticket.most();
        let mut incoming = self.post(session, headers, message, most, ticket.sent()).await?;
        if incoming.status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(CallError::unavailable(
                "the server has ended the session; connecting again",
            ));
        }
        let media_type = incoming.media_type();
        if media_type == EVENT_STREAM && incoming.status.is_success() {
            return self
                .result_in_events(id, session, headers, incoming, ticket)
                .await;
        }
        if !is_json(&media_type) {
            if incoming.status.is_success() {
                return Err(CallError::failed(format_args!(
                    "the answer is neither JSON nor events, but {media_type:?}"
                )));
            }
            return Err(refusal(incoming).await);
        }
        if !incoming.status.is_success() && incoming.status.is_redirection() {
            return Err(refusal(incoming).await);
        }
        let body = incoming.body.all().await?;
        let bytes = incoming.body.read();
        match Message::parse(&body).map(|message| message.kind(Some(id))) {
            Some(Kind::Response(Ok(result))) if incoming.status.is_success() => Ok(Answer {
                result: body.slice_ref(result.get().as_bytes()),
                bytes,
            }),
            Some(Kind::Response(Err(error))) => Err(CallError::refused(error.code, &error.message)),
            _ if incoming.status.is_success() => {
                Err(CallError::failed("the answer is not a JSON-RPC message"))
            }
            _ => {
                let text = String::from_utf8_lossy(body.get(..ERROR_BYTES).unwrap_or(&body));
                let refused = CallError::refused(i64::from(incoming.status.as_u16()), &text);
                Err(refused.after(retry_after(&incoming)))
            }
        }
    }

    /// The result in a stream of events. A server may end it before, and asks to resume it on another connection with the id of an event.
    async fn result_in_events(
        &self,
        id: &RequestId,
        session: Option<&str>,
        headers: &Headers,
        incoming: IncomingResponse,
        ticket: &Ticket,
    ) -> Result<Answer, CallError> {
        let (mut last, mut pause) = (None, PAUSE);
        let (mut requests, mut bytes) = (0, 0_usize);
        let mut stream = events(incoming.body);
        for resumed in 0..=MAX_RESUMES {
            if resumed > 0 {
                let Some(last) = last.as_deref() else { break };
                sleep(pause).await;
                let left = ticket.most().saturating_sub(bytes);
                // Whatever it fails of now, the call was sent.
                let lost = |reason: &dyn std::fmt::Display| {
                    CallError::Lost(format!("the response was not resumed: {reason}"))
                };
                let again = self.get(session, headers, Some(last), left).await;
                let again = again.map_err(|error| lost(&error))?;
                if !again.status.is_success() || again.media_type() != EVENT_STREAM {
                    return Err(lost(&again.status));
                }
                stream = events(again.body);
            }
            while let Some(event) = stream.next().await {
                let event = match event {
                    Ok(event) => event,
                    Err(EventError::Body(BodyError::Lost)) => break,
                    Err(EventError::Body(error)) => return Err(error.into()),
                    Err(EventError::Malformed(reason)) => {
                        return Err(CallError::failed(format_args!(
                            "the answer is not a stream of events: {reason}"
                        )));
                    }
                };
                if let Some(asked) = event.retry {
                    pause = Duration::from_millis(asked).max(SHORTEST_PAUSE);
                }
                if event.id.as_deref().is_some_and(|id| !id.is_empty()) {
                    last.clone_from(&event.id);
                }
                let Some(data) = data(event) else { continue };
                bytes = bytes.saturating_add(data.len());
                let data = Bytes::from(data);
                match Message::parse(&data).map(|message| message.kind(Some(id))) {
                    Some(Kind::Response(Ok(result))) => {
                        let result = data.slice_ref(result.get().as_bytes());
                        return Ok(Answer { result, bytes });
                    }
                    Some(Kind::Response(Err(error))) => {
                        return Err(CallError::refused(error.code, &error.message));
                    }
                    Some(Kind::Request(request)) if requests < MAX_REQUESTS => {
                        requests += 1;
                        self.answer_request(session, headers, &request, ticket).await;
                    }
                    _ => {}
                }
            }
        }
        Err(CallError::Lost(
            "the connection ended before the reply".to_owned(),
        ))
    }

    /// Answers a request that a server makes within a call.
    async fn answer_request(
        &self,
        session: Option<&str>,
        headers: &Headers,
        request: &ServerRequest<'_>,
        ticket: &Ticket,
    ) {
        let mut answer = None;
        if request.is_question() {
            answer = Some(Line::ask(ticket.person(), request.form()).await);
        }
        let Some(message) = request.response(answer.as_ref()) else {
            return;
        };
        let sent = SentFlag::default();
        let posted = self.post(session, headers, message, 0, &sent);
        let _ = timeout(CONTROL_TIME, posted).await;
    }
}
