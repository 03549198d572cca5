//! The link to the shim as the state machine uses it: which lanes are connected, what may be sent already, and when to
//! acknowledge. The requests themselves are in the [`GatewayLink`].

use bytes::Bytes;
use himalia_shim_protocol::{
    Command, GatewayLink, KernelEntry, Kind, Lane, LaneResume, LinkCheck, PendingFull, PerLane, RequestId,
    ToGateway,
};

use crate::event::Effect;

/// Acknowledge after this many microseconds …
const ACK_AFTER: u64 = 15_000;
/// … or this many messages …
const ACK_MESSAGES: u64 = 64;
/// … or this many bytes, whichever is first.
const ACK_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Outbox {
    link: GatewayLink,
    connected: PerLane<bool>,
    /// A hello of this lane was seen in this epoch, so that its marks of earlier epochs are final.
    heard: PerLane<bool>,
    /// True if the work of earlier epochs is settled: requests of this one may be sent.
    greeted: bool,
    ack_at: Option<u64>,
    unacked_bytes: usize,
}

impl Outbox {
    pub(crate) fn new(kernel: u16, epoch: u64, stored: PerLane<u64>) -> Self {
        Self {
            link: GatewayLink::new(kernel, epoch, stored),
            connected: PerLane::default(),
            heard: PerLane::default(),
            greeted: false,
            ack_at: None,
            unacked_bytes: 0,
        }
    }

    /// The kernel has a new sandbox. What waited for the one before is given up: it may have been done there. Numbers of requests
    /// continue.
    pub(crate) fn begin_again(&mut self) {
        self.link.begin_again();
        self.connected = PerLane::default();
        self.heard = PerLane::default();
        self.greeted = false;
        self.ack_at = None;
        self.unacked_bytes = 0;
    }

    /// The version that the sandbox speaks, as of its latest welcome.
    pub(crate) fn set_protocol(&mut self, version: u16) {
        self.link.set_protocol(version);
    }

    /// True if both lanes have said hello in this epoch and the work of earlier ones is settled, so that requests may be numbered and sent.
    pub(crate) fn greeted(&self) -> bool {
        self.greeted
    }

    /// True if a command gets to the shim at once.
    pub(crate) fn takes_commands(&self) -> bool {
        self.connected.now && self.greeted
    }

    pub(crate) fn position(&self, lane: Lane) -> u64 {
        self.link.position(lane)
    }

    pub(crate) fn received(&self, lane: Lane) -> u64 {
        self.link.received(lane)
    }

    /// Numbers a command; it goes out as soon as everything before it has.
    pub(crate) fn command(
        &mut self,
        command: &Command,
        out: &mut Vec<Effect>,
    ) -> Result<RequestId, PendingFull> {
        let id = self.link.command(command)?;
        self.flush(Lane::Now, out);
        Ok(id)
    }

    /// Numbers a message; it goes out after [`Self::may_send`].
    pub(crate) fn message(&mut self, lane: Lane, frame: Bytes) -> Result<RequestId, PendingFull> {
        self.link.message(lane, frame)
    }

    /// True if an order to start again is on its way.
    pub(crate) fn restarts(&self) -> bool {
        self.link
            .pending(Lane::Now)
            .any(|pending| pending.kind == Kind::Restart)
    }

    /// The record of a request is in the journal, under `seq`.
    pub(crate) fn may_send(&mut self, lane: Lane, id: RequestId, seq: u64, out: &mut Vec<Effect>) {
        self.link.recorded(lane, id.number, seq);
        self.flush(lane, out);
    }

    /// A request is given up before it was sent; its frame, if it was still here.
    pub(crate) fn give_up(&mut self, lane: Lane, id: RequestId, out: &mut Vec<Effect>) -> Option<Bytes> {
        let frame = self.link.give_up(lane, id.number);
        self.flush(lane, out);
        frame
    }

    fn flush(&mut self, lane: Lane, out: &mut Vec<Effect>) {
        if !self.connected[lane] || !self.greeted {
            return;
        }
        while let Some(pending) = self.link.take_ready(lane) {
            out.push(Effect::Send(lane, pending));
        }
    }

    /// A new connection of the lane: the answer, then what the shim has not accepted yet.
    pub(crate) fn hello(
        &mut self,
        lane: Lane,
        entry: Option<&KernelEntry>,
        out: &mut Vec<Effect>,
    ) -> LaneResume {
        let resumed = self.link.hello(lane, entry);
        out.push(Effect::Welcome(lane, resumed.resume));
        self.connected[lane] = true;
        // Acknowledgements of the data lane travel here, and may have been lost with the connection before.
        let stored = self.link.position(Lane::Data);
        if lane == Lane::Now && self.heard.data && stored > 0 {
            out.push(Effect::Ack(Lane::Data, stored));
        }
        self.flush(lane, out);
        resumed
    }

    /// The first hello of this lane in this epoch. `true` if it is the last of the lanes.
    pub(crate) fn heard_hello(&mut self, lane: Lane) -> bool {
        let first = !self.heard[lane];
        self.heard[lane] = true;
        first && self.heard.now && self.heard.data
    }

    pub(crate) fn has_heard_hello(&self, lane: Lane) -> bool {
        self.heard[lane]
    }

    /// Notes that the work of earlier epochs is settled: requests may be sent.
    pub(crate) fn greet(&mut self, out: &mut Vec<Effect>) {
        self.greeted = true;
        for lane in Lane::ALL {
            self.flush(lane, out);
        }
    }

    pub(crate) fn lane_closed(&mut self, lane: Lane) {
        self.connected[lane] = false;
    }

    pub(crate) fn accepted(&mut self, lane: Lane, number: u64) {
        self.link.accepted(lane, number);
    }

    /// The shim says that it has accepted the request and will not do it.
    pub(crate) fn refused(&mut self, id: RequestId) {
        if id.epoch == self.link.epoch() {
            self.link.refused(id.number);
        }
    }

    /// Messages in the journal that are not known to be accepted, with the numbers of their records.
    pub(crate) fn unaccepted(&self, lane: Lane) -> impl Iterator<Item = (RequestId, u64)> {
        let epoch = self.link.epoch();
        let pending = self.link.recorded_pending(lane);
        pending.map(move |(number, seq)| (RequestId { epoch, number }, seq))
    }

    /// True if a request of this epoch may still be on its way.
    pub(crate) fn is_on_its_way(&self, id: RequestId) -> bool {
        id.epoch == self.link.epoch() && self.link.is_pending(id.number)
    }

    /// Looks up the link number of a frame; `None` for frames without one.
    pub(crate) fn check(&mut self, lane: Lane, frame: &ToGateway) -> Option<LinkCheck> {
        match frame {
            ToGateway::Message { link, .. } | ToGateway::Event { link, .. } => {
                Some(self.link.check(lane, *link))
            }
            ToGateway::Gap { gap, .. } => Some(self.link.check_gap(lane, gap)),
            _ => None,
        }
    }

    /// A message of the shim is in the journal. Acknowledged a little later, many at once.
    pub(crate) fn stored(&mut self, lane: Lane, link: u64, mono: u64) {
        self.link.stored(lane, link);
        self.ack_at.get_or_insert(mono + ACK_AFTER);
    }

    /// Bytes that the shim keeps until they are acknowledged.
    pub(crate) fn note_bytes(&mut self, bytes: usize) {
        self.unacked_bytes = self.unacked_bytes.saturating_add(bytes);
    }

    /// Acknowledges what is due.
    pub(crate) fn ack(&mut self, mono: u64, out: &mut Vec<Effect>) {
        let Some(at) = self.ack_at else { return };
        let many = Lane::ALL
            .iter()
            .any(|lane| self.link.unacknowledged(*lane) >= ACK_MESSAGES);
        if !(many || at <= mono || self.unacked_bytes >= ACK_BYTES) || !self.connected.now {
            return;
        }
        for lane in Lane::ALL {
            if let Some(link) = self.link.take_ack(lane) {
                out.push(Effect::Ack(lane, link));
            }
        }
        self.ack_at = None;
        self.unacked_bytes = 0;
    }

    /// When the next acknowledgement is due at the latest.
    pub(crate) fn ack_at(&self) -> Option<u64> {
        self.ack_at.filter(|_| self.connected.now)
    }
}
