//! The replica of the client: a feed and a queue as those of a kernel of this replica.

use std::sync::Arc;

use himalia_engine::{Delivery, EngineError, FeedClosed};
use himalia_wire::v1::Frame;
use tokio::sync::{mpsc, watch};

use super::attach::{AttachRequest, AttachResponse, Refusal};
use super::link::{Link, LinkedClient, SharedState};
use crate::error::RelayError;

/// The channels of a kernel of another replica.
#[derive(Debug)]
pub struct RemoteChannels {
    /// The messages of the kernel.
    pub feed: RemoteFeed,
    /// The queue of the kernel.
    pub requests: RemoteRequests,
    /// The task between both and the owner: run it until it ends.
    pub link: Link,
}

/// Attaches a client to the owner of its kernel, behind the message `after`. `Ok(Err(_))`: the owner has refused it.
pub async fn open_channels(
    attaching: AttachRequest,
    after: Option<u64>,
) -> Result<Result<RemoteChannels, Refusal>, RelayError> {
    let upstream = match attaching.attach(after).await? {
        AttachResponse::Upstream(upstream) => upstream,
        AttachResponse::Refused(refusal) => return Ok(Err(refusal)),
    };
    let shared = Arc::new(SharedState::default());
    let (deliver, deliveries) = mpsc::channel(1);
    let (ask, asking) = mpsc::channel(1);
    let (acknowledge, acknowledged) = watch::channel(0);
    let client = LinkedClient {
        attaching,
        shared: Arc::clone(&shared),
        deliveries: deliver,
        requests: asking,
        acknowledged,
        last: after.unwrap_or(0),
    };
    let link = Link { client, upstream };
    let feed = RemoteFeed {
        deliveries,
        acknowledge,
        shared,
    };
    let requests = RemoteRequests(ask);
    Ok(Ok(RemoteChannels { feed, requests, link }))
}

/// The feed of another replica. Positions count when they have reached the owner.
#[derive(Debug)]
pub struct RemoteFeed {
    deliveries: mpsc::Receiver<Result<Vec<Delivery>, FeedClosed>>,
    acknowledge: watch::Sender<u64>,
    shared: Arc<SharedState>,
}

impl RemoteFeed {
    /// Waits for messages, as [`himalia_engine::Feed::next`].
    pub async fn next(&mut self) -> Result<Vec<Delivery>, FeedClosed> {
        self.deliveries.recv().await.unwrap_or(Err(FeedClosed::Draining))
    }

    /// Notes the position of the client, as [`himalia_engine::Feed::acknowledge`].
    pub fn acknowledge(&self, seq: u64) {
        self.acknowledge.send_if_modified(|position| {
            let more = seq > *position;
            *position = seq.max(*position);
            more
        });
    }

    /// The session id of the kernel, as [`himalia_engine::Feed::kernel_session`].
    pub fn kernel_session(&self) -> String {
        self.shared.kernel_session.lock().clone()
    }
}

/// The queue of another replica.
#[derive(Debug)]
pub struct RemoteRequests(mpsc::Sender<Frame>);

impl RemoteRequests {
    /// Returns once the request is on its way. The owner reports a failure in the feed.
    pub async fn send(&self, frame: Frame) -> Result<(), EngineError> {
        // What the owner would refuse, and the client has to know before it sends more.
        frame
            .peek()
            .map_err(|error| EngineError::bad_request("message", error.to_string()))?;
        let sent = self.0.send(frame).await;
        sent.map_err(|_| EngineError::unavailable("the replica of this kernel is gone"))
    }
}
