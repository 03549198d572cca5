//! The publisher: one task that owns the socket and says welcome to each subscriber.

use anyhow::Result;
use bytes::Bytes;
use himalia_wire::{Parts, Signer, zmq};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use zeromq::{Socket, SocketRecv, SocketSend, XPubSocket, ZmqMessage};

use super::maker::Maker;

/// Messages that wait for the socket. When they are this many, the script waits: nothing is dropped.
const QUEUE: usize = 1000;

enum Command {
    Publish { topic: Bytes, parts: Parts },
    Flush(oneshot::Sender<()>),
}

/// Publishes, in order.
#[derive(Clone, Debug)]
pub(super) struct Iopub {
    queue: mpsc::Sender<Command>,
    maker: Maker,
}

impl Iopub {
    /// Binds the socket and starts its task.
    pub(super) async fn bind(endpoint: &str, signer: Signer, maker: Maker, welcome: bool) -> Result<Self> {
        let mut socket = XPubSocket::new();
        super::router::unlink(endpoint);
        socket.bind(endpoint).await?;
        let (queue, commands) = mpsc::channel(QUEUE);
        tokio::spawn(publish(socket, commands, signer, welcome.then(|| maker.clone())));
        Ok(Self { queue, maker })
    }

    pub(super) async fn send(&self, parts: Parts, topic: impl Into<Bytes>) {
        // The task ends with the process.
        let _ = self
            .queue
            .send(Command::Publish {
                topic: topic.into(),
                parts,
            })
            .await;
    }

    pub(super) async fn status(&self, parent: &Bytes, state: &str) {
        let content = json!({ "execution_state": state });
        self.send(
            self.maker.message("status", parent, &content),
            "kernel.fake.status",
        )
        .await;
    }

    pub(super) async fn stream(&self, parent: &Bytes, name: &'static str, text: &str) {
        let content = json!({ "name": name, "text": text });
        let topic = if name == "stdout" {
            "stream.stdout"
        } else {
            "stream.stderr"
        };
        self.send(self.maker.message("stream", parent, &content), topic)
            .await;
    }

    /// Returns when everything before it is written to the sockets.
    pub(super) async fn flush(&self) {
        let (done, wait) = oneshot::channel();
        if self.queue.send(Command::Flush(done)).await.is_ok() {
            let _ = wait.await;
        }
    }
}

async fn publish(
    mut socket: XPubSocket,
    mut commands: mpsc::Receiver<Command>,
    signer: Signer,
    welcome: Option<Maker>,
) {
    loop {
        tokio::select! {
            subscription = socket.recv() => {
                let Ok(message) = subscription else { continue };
                let frame = message.into_vec().pop().unwrap_or_default();
                if let (Some(maker), Some((1, topic))) = (&welcome, frame.split_first()) {
                    let content = json!({ "subscription": String::from_utf8_lossy(topic) });
                    let parts = maker.message("iopub_welcome", &Bytes::new(), &content);
                    send(&mut socket, &[], &parts, &signer).await;
                }
            }
            command = commands.recv() => match command {
                None => return,
                Some(Command::Flush(done)) => { let _ = done.send(()); }
                Some(Command::Publish { topic, parts }) => send(&mut socket, &[topic], &parts, &signer).await,
            },
        }
    }
}

async fn send(socket: &mut XPubSocket, identities: &[Bytes], parts: &Parts, signer: &Signer) {
    if let Ok(message) = ZmqMessage::try_from(zmq::encode(identities, parts, signer)) {
        // A subscriber that went away is no error.
        let _ = socket.send(message).await;
    }
}
