//! The stream of a server's notifications.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use himalia_upstream::IncomingResponse;
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::Sse;

use super::{MAX_REQUESTS, Transport};
use crate::mcp::events::{data, events};
use crate::mcp::message::{Kind, Message};

impl Transport {
    /// Keeps two kinds of messages of a stream that stays open: changes of the tools, and requests of the server.
    pub(super) fn notifications(
        &self,
        incoming: IncomingResponse,
    ) -> BoxStream<'static, Result<Sse, SseError>> {
        let signals = Arc::clone(&self.0.signals);
        let state = (events(incoming.body), signals, 0_usize);
        let passed = stream::unfold(state, |(mut stream, signals, mut requests)| async move {
            loop {
                // However it ends, another one is opened later.
                let event = stream.next().await?.ok()?;
                let id = event.id.clone().filter(|id| id.len() <= 1024);
                let Some(data) = data(event) else { continue };
                let kind = Message::parse(data.as_bytes()).map(|message| message.kind(None));
                match kind {
                    Some(Kind::Notification(method)) if method == "notifications/tools/list_changed" => {
                        signals.list_changed();
                    }
                    Some(Kind::Notification(method))
                        if method.starts_with("notifications/subscriptions/") => {}
                    // A stream with more is opened anew, after a pause.
                    Some(Kind::Request(_)) if requests == MAX_REQUESTS => return None,
                    Some(Kind::Request(_)) => requests += 1,
                    _ => continue,
                }
                // When it is opened anew is our own decision, not that of the server (`retry`).
                let event = Sse {
                    data: Some(data),
                    id,
                    ..Sse::default()
                };
                return Some((Ok(event), (stream, signals, requests)));
            }
        });
        passed.boxed()
    }
}
