use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use himalia_shim_protocol::shim_link::Body;
use himalia_shim_protocol::{Origin, RequestId};
use himalia_wire::{Channel, DuplicateGuard, Error, Limits, Parts, Signer, header, v1, zmq};

use super::Kernel;
use super::connection::ReceivedData;
use super::private;
use super::session::Flow;
use super::sockets::Receiver;
use crate::outlet::Flush;

/// Messages from this size on are verified on another thread, so that the now lane is not behind them, and are sent from the
/// memory that they were received in.
const LARGE_BYTES: usize = 1 << 20;

/// Reads one socket of a kernel, and does nothing else: it never waits for the gateway.
pub(super) struct Reader {
    pub(super) kernel: Rc<Kernel>,
    pub(super) channel: Channel,
    pub(super) incarnation: u32,
    pub(super) signer: Rc<Signer>,
    pub(super) flow: Rc<Flow>,
    /// Number of dropped messages, so that a hostile kernel cannot fill the log.
    pub(super) dropped: Cell<u64>,
}

/// A message that was checked and framed.
struct FramedMessage {
    signature: Bytes,
    answers: Option<RequestId>,
    flush: Flush,
    /// Busy state, if the message is a status.
    busy: Option<bool>,
    content: Content,
}

enum Content {
    /// For the gateway: a v1 frame.
    Frame(Body),
    /// An answer to a request of the shim's own.
    Private(Parts),
}

impl Reader {
    /// Reads for ever; returns the reason when the socket is broken.
    pub(super) async fn run(self, mut receiver: Receiver) -> String {
        let mut guard = DuplicateGuard::new();
        loop {
            match receiver.next().await {
                Ok(ReceivedData::Message(frames)) => {
                    self.flow.touch();
                    self.take(frames, &mut guard).await;
                }
                Ok(ReceivedData::TooLarge(bytes)) => {
                    self.flow.touch();
                    self.log("a message above the limits");
                    self.loss(usize::try_from(bytes).unwrap_or(usize::MAX));
                }
                Ok(ReceivedData::End) => {
                    // The process ends, too, or has ended: that is seen elsewhere.
                    self.flow.ended();
                    return std::future::pending().await;
                }
                Err(error) => return format!("{}: {error}", self.channel.as_str()),
            }
            // Many messages may be here already: the other tasks have their turn all the same.
            tokio::task::coop::consume_budget().await;
        }
    }

    fn loss(&self, bytes: usize) {
        let Kernel { outlet, number, .. } = &*self.kernel;
        outlet.loss(*number, self.channel, self.incarnation, bytes);
    }

    async fn take(&self, frames: Vec<Bytes>, guard: &mut DuplicateGuard) {
        let bytes: usize = frames.iter().map(Bytes::len).fold(0, usize::saturating_add);
        let channel = self.channel;
        let framed = if bytes < LARGE_BYTES {
            check(frames, channel, &self.signer, self.kernel.private.expected())
        } else {
            let signer = (*self.signer).clone();
            let private = self.kernel.private.expected().map(ToOwned::to_owned);
            let check = move || check(frames, channel, &signer, private.as_deref());
            match tokio::task::spawn_blocking(check).await {
                Ok(framed) => framed,
                Err(error) => return self.log(&error.to_string()),
            }
        };
        match framed {
            Ok(framed) if guard.check(&framed.signature) => self.put(framed),
            Ok(_) => self.log("a message that had come before"),
            Err(error) => {
                self.log(&error.to_string());
                if error.is_too_large() {
                    self.loss(bytes);
                }
            }
        }
    }

    fn put(&self, framed: FramedMessage) {
        let frame = match framed.content {
            Content::Private(parts) => {
                if let Some(late) = self.kernel.private.take(self.channel, &parts) {
                    self.kernel.too_late(&late);
                }
                return;
            }
            Content::Frame(_) if self.kernel.muted.get() => return,
            Content::Frame(frame) => frame,
        };
        if matches!(self.channel, Channel::Shell | Channel::Control) {
            self.kernel.note_echo(framed.answers.is_some());
        }
        if let Some(busy) = framed.busy {
            self.kernel.busy.set(busy);
        }
        let flush = if is_followed(self.channel, self.kernel.busy.get()) {
            Flush::Coalesce
        } else {
            framed.flush
        };
        let origin = Origin {
            incarnation: self.incarnation,
            answers: framed.answers,
        };
        self.kernel
            .outlet
            .message(self.kernel.number, self.channel, origin, frame, flush);
    }

    /// Says what was dropped, ever more rarely: the 1st, 2nd, 4th, 8th … time.
    fn log(&self, what: &str) {
        let times = self.dropped.get().saturating_add(1);
        self.dropped.set(times);
        if times.is_power_of_two() {
            let (kernel, channel) = (self.kernel.number, self.channel.as_str());
            tracing::warn!(kernel, channel, times, "dropped: {what}");
        }
    }
}

/// `private` is the wire session of the shim's own requests, while there is something to look for.
fn check(
    frames: Vec<Bytes>,
    channel: Channel,
    signer: &Signer,
    private: Option<&str>,
) -> Result<FramedMessage, Error> {
    let message = zmq::decode(frames, signer, &Limits::KERNEL)?;
    let iopub = channel == Channel::Iopub;
    let answers = if iopub {
        None
    } else {
        message
            .identities
            .iter()
            .find_map(|identity| RequestId::from_identity(identity))
    };
    let (flush, busy) = if iopub {
        flush(
            &header::peek(&message.parts.header)?.msg_type,
            &message.parts.content,
        )
    } else {
        (Flush::Immediate, None)
    };
    let content = if private.is_some_and(|session| private::is_for(session, &message.parts)) {
        Content::Private(message.parts)
    } else if message.parts.byte_len() < LARGE_BYTES {
        Content::Frame(v1::encode(channel, &message.parts).into())
    } else {
        Content::Frame(v1::encode_shared(channel, &message.parts).into())
    };
    Ok(FramedMessage {
        signature: message.signature,
        answers,
        flush,
        busy,
        content,
    })
}

/// The reply of a busy kernel is followed by its idle.
fn is_followed(channel: Channel, busy: bool) -> bool {
    channel == Channel::Shell && busy
}

/// Flush mode of an iopub message, and the busy state if it is a status. The content of a status is searched, not parsed: a wrong guess
/// costs a moment.
fn flush(msg_type: &str, content: &[u8]) -> (Flush, Option<bool>) {
    match msg_type {
        "stream" | "display_data" | "update_display_data" => (Flush::Lossy, None),
        "execute_input" => (Flush::Coalesce, None),
        "status" if content.windows(6).any(|word| word == b"\"busy\"") => (Flush::Coalesce, Some(true)),
        "status" => (Flush::Immediate, Some(false)),
        _ => (Flush::Immediate, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_and_replies_before_their_idle_are_coalesced() {
        let busy = flush("status", br#"{"execution_state": "busy"}"#);
        assert_eq!(busy, (Flush::Coalesce, Some(true)));
        let idle = flush("status", br#"{"execution_state": "idle"}"#);
        assert_eq!(idle, (Flush::Immediate, Some(false)));
        assert_eq!(flush("execute_input", b"{}"), (Flush::Coalesce, None));
        assert_eq!(flush("stream", b"\"busy\""), (Flush::Lossy, None));
        assert_eq!(flush("error", b"{}"), (Flush::Immediate, None));
        assert!(is_followed(Channel::Shell, true));
        assert!(!is_followed(Channel::Shell, false));
        // What is asked of a person, and what a busy kernel says on control, waits for nothing.
        assert!(!is_followed(Channel::Stdin, true) && !is_followed(Channel::Control, true));
    }
}
