//! Streams: who waits for which.

use std::collections::HashMap;
use std::sync::Arc;

use himalia_shim_protocol::NETWORK_STREAM;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::stream::StreamConnection;

/// Streams of the network that wait until they are served; more are closed. As many as a session may have.
const NETWORK_WAITING: usize = 256;

#[derive(Debug, Default)]
pub struct Streams {
    /// Requested streams of files that have not come yet.
    expected: Mutex<HashMap<String, oneshot::Sender<StreamConnection>>>,
    /// Receiver of network streams.
    network: Mutex<Option<mpsc::Sender<StreamConnection>>>,
}

/// One that was asked for. Dropping it stops the wait.
#[derive(Debug)]
pub struct ExpectedStream {
    streams: Arc<Streams>,
    name: String,
    socket: oneshot::Receiver<StreamConnection>,
}

impl Streams {
    /// A new name to wait for.
    pub fn expect(self: &Arc<Self>) -> ExpectedStream {
        let name = uuid::Uuid::new_v4().simple().to_string();
        let (tell, socket) = oneshot::channel();
        self.expected.lock().insert(name.clone(), tell);
        ExpectedStream {
            streams: Arc::clone(self),
            name,
            socket,
        }
    }

    /// Returns the receiver of network streams from now on; without one they are closed.
    pub fn network(&self) -> mpsc::Receiver<StreamConnection> {
        let (sender, receiver) = mpsc::channel(NETWORK_WAITING);
        *self.network.lock() = Some(sender);
        receiver
    }

    /// One has come. It is closed if it is not expected any more.
    pub(super) fn arrive(&self, name: &str, socket: StreamConnection) {
        if name == NETWORK_STREAM {
            let network = self.network.lock();
            if network
                .as_ref()
                .is_none_or(|network| network.try_send(socket).is_err())
            {
                tracing::debug!("a stream of the network that is not served");
            }
            return;
        }
        let waiting = self.expected.lock().remove(name);
        if waiting.is_none_or(|waiting| waiting.send(socket).is_err()) {
            tracing::debug!("a stream that is not expected");
        }
    }
}

impl ExpectedStream {
    /// Name that the shim's hello has to give.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for it. `None` when it cannot come any more.
    pub async fn arrival(mut self) -> Option<StreamConnection> {
        (&mut self.socket).await.ok()
    }
}

impl Drop for ExpectedStream {
    fn drop(&mut self) {
        self.streams.expected.lock().remove(&self.name);
    }
}
