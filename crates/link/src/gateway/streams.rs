//! Connections for transfers of files: who waits for which.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::stream::StreamConnection;

/// Those of one link that were asked for and have not come.
#[derive(Debug, Default)]
pub struct Streams(Mutex<HashMap<String, oneshot::Sender<StreamConnection>>>);

/// One that was asked for. Dropping it stops the wait.
#[derive(Debug)]
pub struct Expected {
    streams: Arc<Streams>,
    name: String,
    socket: oneshot::Receiver<StreamConnection>,
}

impl Streams {
    /// A new name to wait for.
    pub fn expect(self: &Arc<Self>) -> Expected {
        let name = uuid::Uuid::new_v4().simple().to_string();
        let (tell, socket) = oneshot::channel();
        self.0.lock().insert(name.clone(), tell);
        Expected {
            streams: Arc::clone(self),
            name,
            socket,
        }
    }

    /// One has come. It is closed if it is not expected any more.
    pub(super) fn arrive(&self, name: &str, socket: StreamConnection) {
        let waiting = self.0.lock().remove(name);
        if waiting.is_none_or(|waiting| waiting.send(socket).is_err()) {
            tracing::debug!("a stream that is not expected");
        }
    }
}

impl Expected {
    /// What the shim's hello will say.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for it. `None` when it cannot come any more.
    pub async fn arrival(mut self) -> Option<StreamConnection> {
        (&mut self.socket).await.ok()
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.streams.0.lock().remove(&self.name);
    }
}
