//! At the replica of the client: the WebSocket, and its link to the owner.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use himalia_engine::{Delivery, EngineError, FeedClosed, KernelId, Principal};
use himalia_wire::v1::Frame;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use super::link::{Attached, Attaching, Link};
use crate::app::App;
use crate::cluster::{Cluster, Routes};
use crate::error::ApiError;
use crate::jupyter::{AskedChannels, Sink, Source};

/// Serves the channels of a kernel of another replica.
pub(crate) async fn open(
    app: &App,
    cluster: &Cluster,
    principal: &Principal,
    kernel: KernelId,
    mut request: Request,
) -> Result<Response, ApiError> {
    let asked = AskedChannels::new(&mut request)?;
    let attaching = Attaching {
        cluster: cluster.clone(),
        principal: principal.clone(),
        kernel,
        wire_session: asked.attach.wire_session.clone(),
        routes: request.extensions().get::<Routes>().cloned(),
    };
    let upstream = match attaching.attach(asked.attach.after).await? {
        Attached::Upstream(upstream) => upstream,
        Attached::Refused(refused) => return Ok(refused),
    };
    let shared = Arc::new(Shared::default());
    let (deliver, deliveries) = mpsc::channel(1);
    let (ask, asking) = mpsc::channel(1);
    let (acknowledge, acknowledged) = watch::channel(0);
    let link = Link {
        attaching,
        shared: Arc::clone(&shared),
        deliveries: deliver,
        requests: asking,
        acknowledged,
        last: asked.attach.after.unwrap_or(0),
    };
    app.streams().spawn(link.run(upstream));
    let feed = RemoteFeed {
        deliveries,
        acknowledge,
        shared,
    };
    let requests = RemoteRequests(ask);
    Ok(asked.serve(app, kernel, feed, requests).into_response())
}

/// What the WebSocket and its link know together.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) kernel_session: Mutex<String>,
    /// The headers of requests that no owner has accepted yet, by number.
    pub(super) open: Mutex<BTreeMap<u64, Bytes>>,
}

/// The feed of another replica. Positions count when they have reached the owner.
struct RemoteFeed {
    deliveries: mpsc::Receiver<Result<Vec<Delivery>, FeedClosed>>,
    acknowledge: watch::Sender<u64>,
    shared: Arc<Shared>,
}

impl Source for RemoteFeed {
    async fn next(&mut self) -> Result<Vec<Delivery>, FeedClosed> {
        self.deliveries.recv().await.unwrap_or(Err(FeedClosed::Draining))
    }

    fn acknowledge(&self, seq: u64) {
        self.acknowledge.send_if_modified(|position| {
            let more = seq > *position;
            *position = seq.max(*position);
            more
        });
    }

    fn kernel_session(&self) -> String {
        self.shared.kernel_session.lock().clone()
    }
}

/// The queue of another replica.
struct RemoteRequests(mpsc::Sender<Frame>);

impl Sink for RemoteRequests {
    /// Returns once the request is on its way. The owner tells the client what becomes of it.
    async fn send(&self, frame: Frame) -> Result<(), EngineError> {
        // What the owner would refuse, and the client has to know before it sends more.
        frame
            .peek()
            .map_err(|error| EngineError::bad_request("message", error.to_string()))?;
        let sent = self.0.send(frame).await;
        sent.map_err(|_| EngineError::unavailable("the replica of this kernel is gone"))
    }
}
