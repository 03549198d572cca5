//! The channels of a kernel of another replica ([`open_channels`]).

use axum::extract::{Extension, Path, Request, State};
use axum::response::{IntoResponse, Response};
use himalia_cluster::{
    AttachRequest, Cluster, OwnRoutes, Refusal, RelayedPrincipal, RemoteChannels, RemoteFeed, RemoteRequests,
    open_channels, serve_channels,
};
use himalia_engine::{Delivery, EngineError, FeedClosed, KernelId, Principal, ResourceRef};
use himalia_wire::Limits;
use himalia_wire::v1::Frame;

use super::peers;
use super::replay::received;
use crate::app::App;
use crate::error::ApiError;
use crate::jupyter::{ChannelsUpgrade, Sink, Source, attach_of, kernel_id};
use crate::prefix::encode_segment;

/// Serves the WebSocket of a client whose kernel is at another replica.
pub(super) async fn open(
    app: &App,
    cluster: &Cluster,
    principal: &Principal,
    kernel: KernelId,
    mut request: Request,
) -> Result<Response, ApiError> {
    let upgrade = ChannelsUpgrade::new(&mut request)?;
    let Some(OwnRoutes(routes)) = request.extensions().get::<OwnRoutes>().cloned() else {
        return Err(ApiError::internal("continuing a socket"));
    };
    let attaching = AttachRequest {
        cluster: cluster.clone(),
        principal: principal.clone(),
        kernel,
        session: encode_segment(&upgrade.attach.wire_session),
        routes,
    };
    let RemoteChannels { feed, requests, link } = match open_channels(attaching, upgrade.attach.after).await?
    {
        Ok(channels) => channels,
        Err(Refusal::Peer(response)) => return Ok(received(response)),
        Err(Refusal::Here(response)) => return Ok(response),
    };
    app.streams().spawn(link.run());
    Ok(upgrade.serve(app, kernel, feed, requests).into_response())
}

/// Attaches the client of a peer. The request is the stream from the client, the response the stream to it.
pub(super) async fn serve(
    State(app): State<App>,
    Extension(RelayedPrincipal(principal)): Extension<RelayedPrincipal>,
    id: Path<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let kernel = kernel_id(&id)?;
    let attach = attach_of(request.uri())?;
    let sought = ResourceRef::Kernel(kernel);
    if let Some(cluster) = app.cluster()
        && cluster.is_elsewhere(&principal, &sought).await?
    {
        return Ok(peers::not_here());
    }
    app.engine().kernel(&principal, kernel)?;
    let attachment = app.engine().attach(&principal, kernel, attach).await?;
    let limits = Limits {
        message_bytes: app.config().message_bytes,
        ..Limits::CLIENT
    };
    let (body, serving) = serve_channels(attachment, request.into_body(), limits, app.shutdown().clone());
    app.streams().spawn(serving);
    Ok(Response::new(body))
}

impl Source for RemoteFeed {
    async fn next(&mut self) -> Result<Vec<Delivery>, FeedClosed> {
        Self::next(self).await
    }

    fn acknowledge(&self, seq: u64) {
        Self::acknowledge(self, seq);
    }

    fn kernel_session(&self) -> String {
        Self::kernel_session(self)
    }
}

impl Sink for RemoteRequests {
    async fn send(&self, frame: Frame) -> Result<(), EngineError> {
        Self::send(self, frame).await
    }
}
