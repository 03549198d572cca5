//! Checks and adds signatures, and routes messages.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use himalia_wire::{Channel, DuplicateGuard, Limits, Parts, Signer, build, header, v1, zmq};
use parking_lot::Mutex;
use serde_json::json;

use crate::outbox::{Frames, Outbox};
use crate::requests::Requests;
use crate::routes::Routes;

/// State that all connections share.
#[derive(Debug)]
pub(crate) struct Hub {
    signer: Signer,
    /// Names this client to the gateway.
    session: String,
    requests: Requests,
    routes: Mutex<Routes>,
    /// Signatures of requests, so that one that was overheard is not run again.
    seen: Mutex<DuplicateGuard>,
    /// Signatures of what clients got: a gateway that was killed may send its last messages again, and clients take none twice.
    delivered: Mutex<DuplicateGuard>,
    /// Clients of the ROUTER sockets, by their identities.
    clients: Mutex<HashMap<(Channel, Bytes), Arc<Outbox>>>,
    subscribers: Mutex<Vec<Arc<Outbox>>>,
}

impl Hub {
    pub(crate) fn new(signer: Signer, session: String) -> Self {
        Self {
            signer,
            session,
            requests: Requests::new(),
            routes: Mutex::default(),
            seen: Mutex::default(),
            delivered: Mutex::default(),
            clients: Mutex::default(),
            subscribers: Mutex::default(),
        }
    }

    pub(crate) fn session(&self) -> &str {
        &self.session
    }

    pub(crate) fn requests(&self) -> &Requests {
        &self.requests
    }

    /// A client of a ROUTER has this identity; `false` if another one has it.
    pub(crate) fn join(&self, channel: Channel, identity: Bytes, outbox: &Arc<Outbox>) -> bool {
        let mut clients = self.clients.lock();
        let holder = clients
            .entry((channel, identity))
            .or_insert_with(|| Arc::clone(outbox));
        Arc::ptr_eq(holder, outbox)
    }

    /// A client gets what the kernel publishes from now on.
    pub(crate) fn subscribe(&self, outbox: &Arc<Outbox>) {
        self.subscribers.lock().push(Arc::clone(outbox));
    }

    /// A connection ended.
    pub(crate) fn leave(&self, outbox: &Arc<Outbox>) {
        outbox.close();
        self.clients.lock().retain(|_, other| !Arc::ptr_eq(other, outbox));
        self.subscribers
            .lock()
            .retain(|other| !Arc::ptr_eq(other, outbox));
    }

    /// Welcome message for a new subscriber, as from kernels (JEP 65).
    pub(crate) fn welcome(&self, subscription: &[u8]) -> Frames {
        let content = json!({ "subscription": String::from_utf8_lossy(subscription) });
        let parts = build::message(&self.session, "iopub_welcome", None, &content);
        zmq::encode(&[Bytes::copy_from_slice(subscription)], &parts, &self.signer)
    }

    /// A message from a client, with the identity frames in front; waits while too much waits for the gateway.
    pub(crate) async fn request(&self, channel: Channel, frames: Frames) -> himalia_wire::Result<()> {
        let incoming = zmq::decode(frames, &self.signer, &Limits::CLIENT)?;
        let head = header::peek(&incoming.parts.header)?;
        if !self.seen.lock().check(&incoming.signature) {
            return Err(himalia_wire::Error::BadSignature);
        }
        if head.msg_type.ends_with("_request") {
            // Copies, since the frames are parts of whole read buffers.
            let copies = incoming
                .identities
                .iter()
                .map(|frame| Bytes::copy_from_slice(frame));
            self.routes.lock().add(&head.msg_id, copies.collect());
        }
        let frame = v1::encode(channel, &incoming.parts);
        self.requests.put(channel == Channel::Control, frame).await;
        Ok(())
    }

    /// A message from the gateway; waits for clients that are slow. A reply without a known request is dropped.
    pub(crate) async fn deliver(&self, frame: &Bytes) {
        let Ok((channel, parts)) = v1::decode(frame, &Limits::KERNEL) else {
            return;
        };
        if channel == Channel::Iopub {
            return self.publish(&parts).await;
        }
        let Ok(Some(parent)) = header::peek_parent(&parts.parent_header) else {
            return;
        };
        let identities = match channel {
            // The sockets of a client have one identity.
            Channel::Stdin => {
                let routes = self.routes.lock();
                let asker = routes.find(&parent.msg_id).and_then(<[Bytes]>::first);
                asker.cloned().map(|identity| vec![identity])
            }
            _ => self.routes.lock().take(&parent.msg_id),
        };
        let Some(identities) = identities else { return };
        let Some(identity) = identities.first().cloned() else {
            return;
        };
        let client = self.clients.lock().get(&(channel, identity)).cloned();
        if let Some(client) = client {
            client.put(zmq::encode(&identities, &parts, &self.signer)).await;
        }
    }

    async fn publish(&self, parts: &Parts) {
        let topic = header::peek(&parts.header)
            .map_or_else(|_| Bytes::new(), |head| Bytes::from(head.msg_type.into_owned()));
        let Some(frames) = self.encode(&[topic], parts) else {
            return;
        };
        let subscribers = self.subscribers.lock().clone();
        for subscriber in subscribers {
            subscriber.put(frames.clone()).await;
        }
    }

    /// The frames of a message; `None` for one that clients got before.
    fn encode(&self, identities: &[Bytes], parts: &Parts) -> Option<Frames> {
        let frames = zmq::encode(identities, parts, &self.signer);
        // Behind the identities and the delimiter.
        let signature = frames.get(identities.len() + 1)?;
        self.delivered.lock().check(signature).then_some(frames)
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::flow::Flow;
    use crate::outbox::{OutboxReceiver, outbox};

    fn client() -> (Arc<Outbox>, OutboxReceiver) {
        let (outbox, waiting) = outbox(Arc::new(Flow::default()), CancellationToken::new());
        (Arc::new(outbox), waiting)
    }

    fn hub() -> Hub {
        Hub::new(Signer::new("hmac-sha256", b"key").unwrap(), "session".to_owned())
    }

    /// A request of a client with this identity, and its header.
    fn request(hub: &Hub, identity: &'static str) -> (Frames, Bytes) {
        let parts = build::kernel_info_request(identity);
        let header = parts.header.clone();
        (zmq::encode(&[Bytes::from(identity)], &parts, &hub.signer), header)
    }

    #[tokio::test]
    async fn replies_go_to_who_asked_and_questions_to_its_stdin() {
        let hub = hub();
        let ((one, mut to_one), (other, mut to_other), (stdin, mut to_stdin)) =
            (client(), client(), client());
        assert!(hub.join(Channel::Shell, "one".into(), &one));
        assert!(hub.join(Channel::Shell, "other".into(), &other));
        assert!(hub.join(Channel::Stdin, "one".into(), &stdin));
        assert!(!hub.join(Channel::Shell, "one".into(), &other), "it is in use");
        let (frames, header) = request(&hub, "one");
        hub.request(Channel::Shell, frames.clone()).await.unwrap();
        assert!(
            hub.request(Channel::Shell, frames).await.is_err(),
            "it was overheard"
        );
        hub.requests.next().await.unwrap();
        let answer = |channel, kind| {
            v1::encode(
                channel,
                &build::message("kernel", kind, Some(&header), &json!({})),
            )
        };
        hub.deliver(&answer(Channel::Stdin, "input_request")).await;
        hub.deliver(&answer(Channel::Shell, "kernel_info_reply")).await;
        hub.deliver(&answer(Channel::Shell, "kernel_info_reply")).await;
        for frames in [to_stdin.next().await.unwrap(), to_one.next().await.unwrap()] {
            let got = zmq::decode(frames, &hub.signer, &Limits::KERNEL).unwrap();
            assert_eq!(got.identities, ["one"]);
        }
        hub.leave(&one);
        hub.leave(&other);
        drop((one, other, stdin, hub));
        assert!(to_one.next().await.is_none() && to_other.next().await.is_none());
    }

    #[tokio::test]
    async fn what_the_gateway_sends_again_is_published_once() {
        let hub = hub();
        let ((one, mut to_one), (other, mut to_other)) = (client(), client());
        let first = v1::encode(Channel::Iopub, &build::status("kernel", "busy"));
        hub.deliver(&first).await;
        hub.subscribe(&one);
        hub.subscribe(&other);
        let second = v1::encode(Channel::Iopub, &build::status("kernel", "idle"));
        for frame in [&first, &second, &second] {
            hub.deliver(frame).await;
        }
        drop((one, other, hub));
        for waiting in [&mut to_one, &mut to_other] {
            assert_eq!(waiting.next().await.unwrap()[0], "status");
            assert!(waiting.next().await.is_none());
        }
    }
}
