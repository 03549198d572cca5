use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use himalia_shim_protocol::{Origin, RequestId};
use himalia_wire::{Channel, DuplicateGuard, Error, Limits, Signer, header, v1, zmq};
use tokio::time::sleep;

use super::Kernel;
use super::session::Flow;
use super::sockets::Receiver;

/// Messages from this size on are verified on another thread, so that the now lane is not behind them.
const LARGE_BYTES: usize = 1 << 20;
/// Errors in a row after which the socket is given up.
const ERRORS_MAX: u32 = 100;

/// Reads one socket of a kernel, and does nothing else: it never waits for the gateway.
pub(super) struct Reader {
    pub(super) kernel: Rc<Kernel>,
    pub(super) channel: Channel,
    pub(super) incarnation: u32,
    pub(super) signer: Rc<Signer>,
    pub(super) flow: Rc<Flow>,
    /// How much was dropped: a hostile kernel must not fill the log.
    pub(super) dropped: Cell<u64>,
}

/// A message that was checked and framed.
struct Framed {
    signature: Bytes,
    answers: Option<RequestId>,
    droppable: bool,
    frame: Bytes,
}

impl Reader {
    /// Reads for ever; returns the reason when the socket is broken.
    pub(super) async fn run(self, mut receiver: Receiver) -> String {
        let mut guard = DuplicateGuard::new();
        let mut errors = 0;
        loop {
            match receiver.next().await {
                Ok(frames) => {
                    errors = 0;
                    self.flow.touch();
                    self.take(frames, &mut guard).await;
                }
                Err(error) => {
                    errors += 1;
                    self.log(&error);
                    if errors >= ERRORS_MAX {
                        return format!("{}: {error}", self.channel.as_str());
                    }
                    // One error need not be the end of the stream; many in a row must not spin.
                    sleep(Duration::from_millis(u64::from(errors))).await;
                }
            }
        }
    }

    async fn take(&self, frames: Vec<Bytes>, guard: &mut DuplicateGuard) {
        let bytes: usize = frames.iter().map(Bytes::len).fold(0, usize::saturating_add);
        let channel = self.channel;
        let framed = if bytes < LARGE_BYTES {
            check(frames, channel, &self.signer)
        } else {
            let signer = (*self.signer).clone();
            match tokio::task::spawn_blocking(move || check(frames, channel, &signer)).await {
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
                    self.kernel
                        .outlet
                        .loss(self.kernel.number, channel, self.incarnation, bytes);
                }
            }
        }
    }

    fn put(&self, framed: Framed) {
        if matches!(self.channel, Channel::Shell | Channel::Control) {
            self.kernel.note_echo(framed.answers.is_some());
        }
        let origin = Origin {
            incarnation: self.incarnation,
            answers: framed.answers,
        };
        self.kernel.outlet.message(
            self.kernel.number,
            self.channel,
            origin,
            framed.frame,
            framed.droppable,
        );
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

fn check(frames: Vec<Bytes>, channel: Channel, signer: &Signer) -> Result<Framed, Error> {
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
    let droppable = iopub && is_droppable(&header::peek(&message.parts.header)?.msg_type);
    Ok(Framed {
        signature: message.signature,
        answers,
        droppable,
        frame: v1::encode(channel, &message.parts),
    })
}

/// Output whose loss may be marked by a gap. Everything else carries state.
fn is_droppable(msg_type: &str) -> bool {
    matches!(msg_type, "stream" | "display_data" | "update_display_data")
}
