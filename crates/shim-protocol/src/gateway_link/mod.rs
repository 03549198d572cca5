mod outgoing;

use bytes::Bytes;

use outgoing::Queue;

use crate::packet::command_body;
use crate::{Command, Gap, HEAD_BYTES, KernelEntry, Kind, Lane, PerLane, ProtocolError, RequestId, Resume};

/// Most requests that wait to be sent and accepted, per lane.
const PENDING_MAX: usize = 4096;
/// Most bytes of them, per lane; one request may always wait, whatever its size.
const PENDING_BYTES: usize = 256 * 1024 * 1024;

/// The gateway's side of the link, for one kernel. It knows which links were received and stored, which acknowledgement
/// is due, and keeps every request until the shim has accepted it.
///
/// The order of use: `check` what arrives, store what is [`LinkCheck::Next`], tell with [`GatewayLink::stored`], send
/// [`GatewayLink::take_ack`] once per batch. While a lane is connected send what [`GatewayLink::take_ready`] gives. After
/// each hello send the [`Resume`] in the welcome; what was sent and not accepted is ready again then.
#[derive(Debug)]
pub struct GatewayLink {
    kernel: u16,
    epoch: u64,
    next_number: u64,
    /// Version of the connections, once there was one.
    protocol: Option<u16>,
    lanes: PerLane<LaneState>,
}

#[derive(Debug, Default)]
struct LaneState {
    received: u64,
    stored: u64,
    acked: u64,
    requests: Queue,
}

/// A request that the shim has not accepted yet (or not said so).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PendingRequest {
    /// Number in this epoch.
    pub number: u64,
    /// Kind of the frame.
    pub kind: Kind,
    /// The head of its frame, to be followed by the body.
    pub head: [u8; HEAD_BYTES],
    /// The body of its frame.
    pub body: Bytes,
}

/// Reason why a request was not queued. [`PendingFull::Full`] passes when [`GatewayLink::accepted`] makes room.
#[derive(Debug, thiserror::Error)]
pub enum PendingFull {
    /// The bound is reached.
    #[error("{requests} requests of {bytes} bytes wait for the kernel's sandbox on lane {lane}")]
    Full {
        /// The lane.
        lane: Lane,
        /// Number of queued requests.
        requests: usize,
        /// Size of the queued requests in bytes.
        bytes: usize,
    },
    /// The shim speaks a version of the protocol that does not have the command. Nothing waits then.
    #[error("{command} needs version {needs} of the shim protocol, this shim speaks {speaks}")]
    Version {
        /// Name of the command.
        command: &'static str,
        /// First version that has it.
        needs: u16,
        /// Version of the connection; the first one before the first hello.
        speaks: u16,
    },
    /// The body does not fit its kind.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
}

/// Meaning of a link number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LinkCheck {
    /// The next one: store it.
    Next,
    /// Already received: ignore it.
    Seen,
    /// The links `from..=to` before it are missing although they were not marked: store that loss, then it.
    Hole {
        /// First missing.
        from: u64,
        /// Last missing.
        to: u64,
    },
}

/// Result of a hello for one kernel and lane.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LaneResume {
    /// For the welcome.
    pub resume: Resume,
    /// Links that neither side has: they were acknowledged, and the gateway lost them. Store the loss.
    pub lost: Option<(u64, u64)>,
    /// The shim is behind what was stored: it is not the one that gave those numbers. Its links are taken as new.
    pub rewound: bool,
}

impl GatewayLink {
    /// A link of this gateway's `epoch` that continues after what was `stored` per lane (0: nothing).
    pub fn new(kernel: u16, epoch: u64, stored: PerLane<u64>) -> Self {
        let lane = |stored| LaneState {
            received: stored,
            stored,
            acked: 0,
            ..LaneState::default()
        };
        Self {
            kernel,
            epoch,
            next_number: 1,
            protocol: None,
            lanes: PerLane {
                now: lane(stored.now),
                data: lane(stored.data),
            },
        }
    }

    /// The kernel has another shim, in a new sandbox: nothing was received from it, and nothing waits for it. What waited for the
    /// one before is dropped. Numbers of requests continue.
    pub fn begin_again(&mut self) {
        self.protocol = None;
        self.lanes = PerLane::default();
    }

    /// The kernel's number on this link.
    pub fn kernel(&self) -> u16 {
        self.kernel
    }

    /// The gateway's epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The id that the next request gets, for the record that is written before it is made.
    pub fn next_request(&self) -> RequestId {
        RequestId {
            epoch: self.epoch,
            number: self.next_number,
        }
    }

    /// The version of a connection has been chosen; tell it with each welcome. Before the first, it is the lowest.
    pub fn set_protocol(&mut self, version: u16) {
        self.protocol = Some(version);
    }

    /// Version of the connections, once there was one.
    pub fn protocol(&self) -> Option<u16> {
        self.protocol
    }

    /// Takes up a command: numbers it and keeps it until accepted. It is ready at once, on the now lane.
    ///
    /// # Errors
    /// [`PendingFull`]; no number is used up then.
    pub fn command(&mut self, command: &Command) -> Result<RequestId, PendingFull> {
        let kind = command.kind();
        let needs = kind.since();
        let speaks = self.protocol.unwrap_or(crate::PROTOCOL_MIN);
        if needs > speaks {
            return Err(PendingFull::Version {
                command: kind.as_str(),
                needs,
                speaks,
            });
        }
        self.request(Lane::Now, kind, command_body(command)?.into(), true)
    }

    /// Takes up a message (a validated v1 frame): control on the now lane, shell and stdin on data. It is ready once it is
    /// [`GatewayLink::recorded`].
    ///
    /// # Errors
    /// [`PendingFull`]; no number is used up then.
    pub fn message(&mut self, lane: Lane, frame: Bytes) -> Result<RequestId, PendingFull> {
        self.request(lane, Kind::Message, frame, false)
    }

    fn request(
        &mut self,
        lane: Lane,
        kind: Kind,
        body: Bytes,
        ready: bool,
    ) -> Result<RequestId, PendingFull> {
        let id = self.next_request();
        let number = id.number;
        let head = crate::encode_head(kind, self.kernel, number, body.len())?;
        let queue = &mut self.lanes[lane].requests;
        let (requests, bytes) = (queue.len(), queue.bytes());
        if requests >= PENDING_MAX || (requests > 0 && bytes + body.len() > PENDING_BYTES) {
            return Err(PendingFull::Full {
                lane,
                requests,
                bytes,
            });
        }
        self.next_number += 1;
        let request = PendingRequest {
            number,
            kind,
            head,
            body,
        };
        queue.push(request, ready);
        Ok(id)
    }

    /// The record of a message is written, under the number `record` (not 0): it is ready.
    pub fn recorded(&mut self, lane: Lane, number: u64, record: u64) {
        self.lanes[lane].requests.recorded(number, record);
    }

    /// Removes a message that was not sent; its number stays used. Returns its frame.
    pub fn give_up(&mut self, lane: Lane, number: u64) -> Option<Bytes> {
        self.lanes[lane].requests.give_up(number)
    }

    /// The next request to write to the lane, in the order of numbers; it counts as sent. `None` while the next one waits for its
    /// record. Call it only while the lane is connected.
    pub fn take_ready(&mut self, lane: Lane) -> Option<PendingRequest> {
        self.lanes[lane].requests.take_ready()
    }

    /// The shim has accepted all requests of the lane up to `number`.
    pub fn accepted(&mut self, lane: Lane, number: u64) {
        self.lanes[lane].requests.accepted(number);
    }

    /// The shim will not do the message with this number: its record is done with.
    pub fn refused(&mut self, number: u64) {
        for lane in Lane::ALL {
            self.lanes[lane].requests.refused(number);
        }
    }

    /// Requests that are not known to be accepted, in order.
    pub fn pending(&self, lane: Lane) -> impl Iterator<Item = &PendingRequest> {
        self.lanes[lane].requests.iter()
    }

    /// Returns true if a request of this epoch is not known to be accepted.
    pub fn is_pending(&self, number: u64) -> bool {
        Lane::ALL
            .into_iter()
            .any(|lane| self.lanes[lane].requests.contains(number))
    }

    /// Messages with a record that are not known to be accepted: number, number of the record.
    pub fn recorded_pending(&self, lane: Lane) -> impl Iterator<Item = (u64, u64)> {
        self.lanes[lane].requests.with_record()
    }

    /// Takes in the kernel's entry of a hello on `lane` (absent: the shim does not know the kernel yet).
    pub fn hello(&mut self, lane: Lane, entry: Option<&KernelEntry>) -> LaneResume {
        let links = entry.map(|entry| entry.links[lane]).unwrap_or_default();
        if let Some(marks) = entry.map(|entry| &entry.requests)
            && marks.epoch == self.epoch
        {
            self.accepted(lane, marks.high[lane]);
        }
        let state = &mut self.lanes[lane];
        state.requests.send_again();
        let rewound = links.last < state.stored;
        if rewound {
            state.stored = links.first.saturating_sub(1).min(links.last);
            state.received = state.stored;
        }
        let lost = (links.first > state.received.saturating_add(1)).then(|| {
            let from = state.received + 1;
            state.received = links.first - 1;
            (from, state.received)
        });
        // What is received and not yet stored comes again and is ignored then. A loss is acknowledged with the next
        // thing that is stored.
        let after = state.stored.max(links.first.saturating_sub(1));
        state.acked = after;
        LaneResume {
            resume: Resume {
                kernel: self.kernel,
                after,
            },
            lost,
            rewound,
        }
    }

    /// A message or event with this link has arrived.
    pub fn check(&mut self, lane: Lane, link: u64) -> LinkCheck {
        self.span(lane, link, link)
    }

    /// A gap has arrived: `Next` means store it; `Hole` means that more is missing before it.
    pub fn check_gap(&mut self, lane: Lane, gap: &Gap) -> LinkCheck {
        self.span(lane, gap.from, gap.to)
    }

    fn span(&mut self, lane: Lane, from: u64, to: u64) -> LinkCheck {
        let state = &mut self.lanes[lane];
        if to <= state.received {
            return LinkCheck::Seen;
        }
        let expected = state.received + 1;
        state.received = to;
        if from > expected {
            LinkCheck::Hole {
                from: expected,
                to: from - 1,
            }
        } else {
            LinkCheck::Next
        }
    }

    /// Records that all messages in the lane up to `link` are stored.
    pub fn stored(&mut self, lane: Lane, link: u64) {
        let state = &mut self.lanes[lane];
        state.stored = state.stored.max(link.min(state.received));
    }

    /// Highest stored link.
    pub fn position(&self, lane: Lane) -> u64 {
        self.lanes[lane].stored
    }

    /// Highest received link, stored or not.
    pub fn received(&self, lane: Lane) -> u64 {
        self.lanes[lane].received
    }

    /// Number of messages that are stored and not acknowledged. Acknowledge after a batch, at the latest after 4 MiB of messages or 20 ms:
    /// the shim's window is 16 MiB.
    pub fn unacknowledged(&self, lane: Lane) -> u64 {
        let state = &self.lanes[lane];
        state.stored.saturating_sub(state.acked)
    }

    /// The link to acknowledge, if there is something new; it counts as sent.
    pub fn take_ack(&mut self, lane: Lane) -> Option<u64> {
        let state = &mut self.lanes[lane];
        if state.stored <= state.acked {
            return None;
        }
        state.acked = state.stored;
        Some(state.stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bind, PROTOCOL_MIN, Stop};

    #[test]
    fn another_shim_begins_with_nothing_and_numbers_go_on() {
        let mut link = GatewayLink::new(1, 1, PerLane { now: 3, data: 500 });
        link.set_protocol(PROTOCOL_MIN);
        let first = link.message(Lane::Data, Bytes::from_static(b"x")).unwrap();
        link.begin_again();
        assert_eq!(link.pending(Lane::Data).count(), 0);
        assert_eq!((link.position(Lane::Data), link.protocol()), (0, None));
        assert_eq!(link.check(Lane::Data, 1), LinkCheck::Next);
        assert_eq!(link.next_request().number, first.number + 1);
    }

    /// As with a shim of a version before the first one: it has none of the commands.
    #[test]
    fn commands_of_a_later_version_than_the_shims_are_refused() {
        let mut link = GatewayLink::new(1, 1, PerLane::default());
        link.set_protocol(PROTOCOL_MIN - 1);
        for command in [
            Command::Bind(Box::<Bind>::default()),
            Command::Close(Stop { grace_ms: 1 }),
        ] {
            let error = link.command(&command).unwrap_err();
            assert!(matches!(
                error,
                PendingFull::Version {
                    needs: 1,
                    speaks: 0,
                    ..
                }
            ));
            assert!(error.to_string().starts_with(command.kind().as_str()), "{error}");
        }
        assert_eq!(link.pending(Lane::Now).count(), 0);
        link.set_protocol(PROTOCOL_MIN);
        assert_eq!(link.command(&Command::Interrupt).unwrap().number, 1);
    }
}
