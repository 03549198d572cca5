//! Connections for transfers of files: who waits for which.

use std::collections::HashMap;
use std::sync::Arc;

use himalia_shim_protocol::Decoder;
use parking_lot::Mutex;
use tokio::net::UnixStream;
use tokio::sync::oneshot;

/// A proven connection for one stream.
#[derive(Debug)]
pub struct StreamSocket {
    /// The connection.
    pub socket: UnixStream,
    /// May hold bytes that came after the hello.
    pub decoder: Decoder,
}

/// Those of one link that were asked for and have not come.
#[derive(Debug, Default)]
pub struct Streams(Mutex<HashMap<String, oneshot::Sender<StreamSocket>>>);

/// One that was asked for. Nobody waits for it any more once this is dropped.
#[derive(Debug)]
pub struct Expected {
    streams: Arc<Streams>,
    name: String,
    socket: oneshot::Receiver<StreamSocket>,
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

    /// One has come. It is closed if nobody waits for it.
    pub(super) fn arrive(&self, name: &str, socket: StreamSocket) {
        let waiting = self.0.lock().remove(name);
        if waiting.is_none_or(|waiting| waiting.send(socket).is_err()) {
            tracing::debug!("a stream that nobody waits for");
        }
    }
}

impl Expected {
    /// What the shim's hello will say.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits for it. `None` when it cannot come any more.
    pub async fn arrival(mut self) -> Option<StreamSocket> {
        (&mut self.socket).await.ok()
    }
}

impl Drop for Expected {
    fn drop(&mut self) {
        self.streams.0.lock().remove(&self.name);
    }
}
