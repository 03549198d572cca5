//! `/api/kernels/{id}/channels`: a kernel's messages over a WebSocket.
//!
//! * `framing`: the two ways in which clients write a message
//! * `receive`: from the client to the kernel
//! * `transmit`: from the kernel's log to the client
//! * `positions`: what the client has got, by its TCP acknowledgements
//! * `session`: one connection, from upgrade to end
//!
//! Refused before the upgrade, with a status and without a trace: no token (401), foreign origin (403), no such kernel
//! (404), no WebSocket (426), a bad `session_id` or `after` (400).

mod framing;
mod positions;
mod receive;
mod session;
#[cfg(test)]
mod tests;
mod transmit;

use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, Uri, header};
use axum::response::Response;
use himalia_engine::{Attach, Attachment, KernelId};
use himalia_wire::v1::SUBPROTOCOL;
use tracing::Instrument;
use uuid::Uuid;

use super::models::kernel_id;
use super::quirks::Quirks;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::listen::{self, Peer};
use crate::query;
use crate::ws::Handshake;
use framing::Framing;
pub(crate) use receive::Sink;
use session::Session;
pub(crate) use transmit::Source;

/// Longest `session_id`, bytes.
const SESSION_ID_BYTES: usize = 256;

/// Opens the WebSocket. `?session_id=` names the client over its reconnects; one that returns with the same gets what it
/// missed. `?after=` names a position in the log instead.
pub(crate) async fn open(
    State(app): State<App>,
    Caller(principal): Caller,
    id: Path<String>,
    mut request: Request,
) -> Result<Response, ApiError> {
    let kernel = kernel_id(&id)?;
    app.engine().kernel(&principal, kernel)?;
    let asked = ChannelsUpgrade::new(&mut request)?;
    let attach = asked.attach.clone();
    let Attachment { requests, feed } = app.engine().attach(&principal, kernel, attach).await?;
    Ok(asked.serve(&app, kernel, feed, requests))
}

/// A WebSocket that is asked for, rightly.
#[derive(Debug)]
pub(crate) struct ChannelsUpgrade {
    pub(crate) attach: Attach,
    handshake: Handshake,
    framing: Framing,
    /// Held as long as the socket, so that it counts as a connection.
    peer: Option<Peer>,
}

impl ChannelsUpgrade {
    pub(crate) fn new(request: &mut Request) -> Result<Self, ApiError> {
        let handshake = Handshake::new(request)?;
        let attach = attach(request.uri())?;
        let framing = choose(&handshake, request.headers());
        let peer = request.extensions().get::<Peer>().cloned();
        Ok(Self {
            attach,
            handshake,
            framing,
            peer,
        })
    }

    /// Answers the handshake, and serves the WebSocket in a task.
    pub(crate) fn serve(
        self,
        app: &App,
        kernel: KernelId,
        feed: impl Source + 'static,
        requests: impl Sink + 'static,
    ) -> Response {
        let (response, socket) = self.handshake.accept(self.framing.subprotocol());
        let session = Session::new(app, kernel, self.framing);
        let peer = self.peer;
        let serve = async move {
            if let Some(socket) = socket.await {
                listen::until_ended(peer, session.run(socket, feed, requests)).await;
            }
        };
        app.streams().spawn(serve.in_current_span());
        response
    }
}

/// v1 whenever it is offered: some clients fail if a server selects none of their subprotocols.
fn choose(handshake: &Handshake, headers: &HeaderMap) -> Framing {
    if handshake.offers(SUBPROTOCOL) {
        return Framing::V1;
    }
    let agent = headers
        .get(header::USER_AGENT)
        .and_then(|v| v.to_str().ok())
        .unwrap_or_default();
    let browser = headers.contains_key(header::ORIGIN);
    Framing::Legacy(Quirks::of(agent, browser, handshake.offers_any()))
}

/// Reads the client from the address of a request.
pub(crate) fn attach(uri: &Uri) -> Result<Attach, ApiError> {
    let wire_session = match query::last(uri, "session_id") {
        Some(id) if id.len() > SESSION_ID_BYTES => {
            return Err(ApiError::bad_request(format!(
                "session_id: longer than {SESSION_ID_BYTES} bytes"
            )));
        }
        Some(id) => id,
        None => {
            tracing::debug!("a client without session_id: what it misses while away cannot be given to it");
            Uuid::new_v4().simple().to_string()
        }
    };
    Ok(Attach {
        wire_session,
        after: query::number(uri, "after")?,
    })
}
