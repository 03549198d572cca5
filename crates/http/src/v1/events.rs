//! `GET /v1/sessions/{id}/events`: a kernel's log as it grows, resumable from any number.
//!
//! A kernel made by the Jupyter API is an anonymous session whose id is the kernel's. The position is the `Last-Event-ID`
//! header, which browsers send by themselves when they reconnect, or else `?after=`; `after=0` gives all that is kept, no
//! position what comes from now on. What fell out of retention is one `gap` event. `?buffers=base64` adds binary
//! buffers.

use std::convert::Infallible;

use axum::extract::{Path, State};
use bytes::Bytes;
use futures_util::stream;
use himalia_engine::EventFeed;
use schemars::JsonSchema;
use serde::Deserialize;

use super::answers;
use super::input::{After, Parameters};
use super::sessions::session_id;
use super::sse;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// Where the stream begins, and what is in it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// Go on after this number; 0 for all that is kept.
    after: Option<u64>,
    /// `sizes` unless said.
    #[serde(default)]
    buffers: Buffers,
}

/// What of a message's binary buffers is in its event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Buffers {
    /// Their lengths.
    #[default]
    Sizes,
    /// They themselves too.
    Base64,
}

/// Serves the stream until the client leaves, the kernel is gone or the gateway stops.
pub(crate) async fn stream(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    After(last): After,
    Parameters(wanted): Parameters<Wanted>,
) -> Result<answers::Events, ApiError> {
    let kernel = session_id(&app, &principal, &id)?;
    let feed = app.engine().events(&principal, kernel, last.or(wanted.after))?;
    let events = Events {
        feed,
        buffers: wanted.buffers == Buffers::Base64,
        waiting: sse::Waiting::of(&app),
        ended: false,
    };
    let body = stream::unfold(events, Events::chunk);
    Ok(answers::Events(sse::growing("text/event-stream", body)))
}

struct Events {
    feed: EventFeed,
    buffers: bool,
    waiting: sse::Waiting,
    ended: bool,
}

impl Events {
    /// The next piece of the body: one batch of events. Taken only when the client has taken the last one.
    async fn chunk(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        if self.ended {
            return None;
        }
        let bytes = match self.waiting.next(self.feed.next()).await {
            None => Bytes::from_static(sse::KEEP_ALIVE),
            Some(Ok(events)) => {
                let mut out = Vec::new();
                for event in &events {
                    sse::write(&mut out, event, self.buffers);
                }
                out.into()
            }
            Some(Err(closed)) => {
                self.ended = true;
                sse::end(&closed)
            }
        };
        Some((Ok(bytes), self))
    }
}
