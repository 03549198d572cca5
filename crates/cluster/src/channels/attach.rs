//! The request to an owner for the channels of its kernel.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Method, Request, StatusCode};
use axum::response::Response;
use himalia_engine::{KernelId, Principal, ResourceRef};
use himalia_relay::{HEADER, SendError};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tower::ServiceExt as _;

use super::stream::outgoing;
use crate::cluster::{Cluster, RETRY_PAUSE, principal_text};
use crate::directory::Location;
use crate::error::RelayError;
use crate::request::RelayedPrincipal;

/// The channels of a client.
#[derive(Debug)]
pub struct AttachRequest {
    /// The replicas.
    pub cluster: Cluster,
    pub principal: Principal,
    pub kernel: KernelId,
    /// The client's session id, percent-encoded for a query.
    pub session: String,
    /// The routes of this replica, for the time when it has become the owner.
    pub routes: Router,
}

/// The stream to and from an owner.
#[derive(Debug)]
pub(super) struct Upstream {
    /// The stream to the owner. Its end is the end of the client.
    pub(super) sender: mpsc::Sender<Bytes>,
    pub(super) body: Body,
}

/// The answer of an owner.
pub(super) enum AttachResponse {
    Upstream(Upstream),
    Refused(Refusal),
}

/// The response of an owner that does not attach a client.
#[derive(Debug)]
pub enum Refusal {
    /// Another replica has refused it.
    Peer(himalia_relay::Response),
    /// This replica has become the owner, and refuses it.
    Here(Response),
}

impl Refusal {
    /// The status of the response.
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Peer(response) => response.status(),
            Self::Here(response) => response.status(),
        }
    }
}

impl AttachRequest {
    /// Asks the owner, for [`Cluster::patience`].
    pub(super) async fn attach(&self, after: Option<u64>) -> Result<AttachResponse, RelayError> {
        let caller = principal_text(&self.principal)?;
        let sought = ResourceRef::Kernel(self.kernel);
        let start = Instant::now();
        let mut again = false;
        loop {
            let reason = match self.cluster.locate(&self.principal, &sought, again).await? {
                None | Some(Location::Here) => return Ok(self.attach_here(after).await),
                Some(Location::Lost { replica }) => format!("replica {replica} is gone"),
                Some(Location::At(peer)) => {
                    let (sender, body) = outgoing();
                    let request = self.request(after, himalia_relay::body(body));
                    match self.cluster.send(&peer, &self.principal, &caller, request).await {
                        Ok(response) if response.headers().contains_key(HEADER) => {
                            format!("replica {} does not have it", peer.replica)
                        }
                        Ok(response) if response.status() == StatusCode::OK => {
                            let body = Body::new(response.into_body());
                            return Ok(AttachResponse::Upstream(Upstream { sender, body }));
                        }
                        Ok(response) => return Ok(AttachResponse::Refused(Refusal::Peer(response))),
                        // Attaching twice is as attaching once.
                        Err(SendError::NotSent(reason) | SendError::Lost(reason)) => reason,
                        Err(error) => return Err(RelayError::NoOwner(error.to_string())),
                    }
                }
            };
            if start.elapsed() + RETRY_PAUSE >= self.cluster.patience() {
                return Err(RelayError::NoOwner(reason));
            }
            if again {
                sleep(RETRY_PAUSE).await;
            }
            again = true;
        }
    }

    /// Attaches the client at this replica, which has become the owner: the same stream, without a network.
    async fn attach_here(&self, after: Option<u64>) -> AttachResponse {
        let (sender, body) = outgoing();
        let mut request = self.request(after, body);
        request
            .extensions_mut()
            .insert(RelayedPrincipal(self.principal.clone()));
        let response = match self.routes.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        if response.status() == StatusCode::OK {
            let body = response.into_body();
            return AttachResponse::Upstream(Upstream { sender, body });
        }
        AttachResponse::Refused(Refusal::Here(response))
    }

    fn request<B>(&self, after: Option<u64>, body: B) -> Request<B> {
        let (kernel, session) = (self.kernel, &self.session);
        let mut target = format!("/relay/channels/{kernel}?session_id={session}");
        if let Some(after) = after {
            target = format!("{target}&after={after}");
        }
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        if let Ok(target) = target.parse() {
            *request.uri_mut() = target;
        }
        request
    }
}
