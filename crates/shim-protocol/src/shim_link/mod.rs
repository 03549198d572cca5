//! The shim's side of the link: what is kept for the gateway, what was accepted from it.

mod body;
mod item;
mod outbox;
mod requests;
mod spill;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::handshake::{Hello, KernelEntry, KernelState, Welcome};
use crate::packet::event_body;
use crate::{Event, GapReason, Lane, Origin, PerLane, ProtocolError, RequestId, VersionRange};

pub use body::Body;
pub use item::Item;
pub use outbox::{Placement, WindowLimits};
pub use requests::{Accept, UNFINISHED_MAX};
pub use spill::SpillStore;

use outbox::Outbox;
use requests::Requests;

/// Most kernels of one shim, kernel 0 (the shim itself) not counted.
pub const KERNELS_MAX: usize = 64;

/// Process of a kernel, as a hello reports it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ProcessView {
    /// Present or last incarnation.
    pub incarnation: u32,
    /// Process id while it runs.
    pub pid: Option<i32>,
    /// State of the kernel.
    pub state: KernelState,
    /// Unix time in milliseconds of its start.
    pub start_ms: u64,
    /// Does it answer heartbeats?
    pub alive: bool,
}

impl Default for ProcessView {
    fn default() -> Self {
        Self {
            incarnation: 0,
            pid: None,
            state: KernelState::New,
            start_ms: 0,
            alive: true,
        }
    }
}

/// State of one shim's kernels that must survive a gateway. Pure: time, sockets and files are the caller's; the spill file is behind
/// [`SpillStore`].
#[derive(Debug)]
pub struct ShimLink<S> {
    protocol: VersionRange,
    epoch_seen: u64,
    connected: PerLane<Option<Connection>>,
    kernels: BTreeMap<u16, KernelLink<S>>,
    /// Kernel at which the next round over the kernels begins, per lane.
    turn: PerLane<u16>,
}

#[derive(Clone, Copy, Debug)]
struct Connection {
    epoch: u64,
    protocol: u16,
}

#[derive(Debug)]
struct KernelLink<S> {
    process: ProcessView,
    requests: Requests,
    outboxes: PerLane<Outbox<S>>,
}

impl<S: SpillStore> ShimLink<S> {
    /// A link that speaks `protocol` and has no kernel but 0, which stands for the shim. `spills` are for kernel 0.
    pub fn new(protocol: VersionRange, spills: PerLane<S>) -> Self {
        let mut link = Self {
            protocol,
            epoch_seen: 0,
            connected: PerLane::default(),
            kernels: BTreeMap::new(),
            turn: PerLane::default(),
        };
        link.insert(0, spills, WindowLimits::PER_LANE);
        link
    }

    fn insert(&mut self, kernel: u16, spills: PerLane<S>, limits: PerLane<WindowLimits>) {
        let outboxes = PerLane {
            now: Outbox::new(kernel, spills.now, limits.now),
            data: Outbox::new(kernel, spills.data, limits.data),
        };
        let link = KernelLink {
            process: ProcessView::default(),
            requests: Requests::default(),
            outboxes,
        };
        self.kernels.insert(kernel, link);
    }

    /// Makes room for a kernel.
    ///
    /// # Errors
    /// [`ProtocolError::State`] above [`KERNELS_MAX`] kernels, or when it is there already.
    pub fn add_kernel(
        &mut self,
        kernel: u16,
        spills: PerLane<S>,
        limits: PerLane<WindowLimits>,
    ) -> Result<(), ProtocolError> {
        if self.kernels.contains_key(&kernel) {
            return Err(ProtocolError::State(format!("kernel {kernel} exists")));
        }
        if self.kernels.len() > KERNELS_MAX {
            return Err(ProtocolError::State(format!(
                "a shim has at most {KERNELS_MAX} kernels"
            )));
        }
        self.insert(kernel, spills, limits);
        Ok(())
    }

    /// Sets what hellos say of a kernel's process. A new incarnation forgets the unfinished requests of the old one.
    pub fn set_process(&mut self, kernel: u16, process: ProcessView) {
        if let Some(link) = self.kernels.get_mut(&kernel) {
            if process.incarnation != link.process.incarnation {
                link.requests.clear_unfinished();
            }
            link.process = process;
        }
    }

    /// The hello for a new connection of `lane`. The lane counts as disconnected until its welcome.
    pub fn hello(&mut self, lane: Lane, key: &str, build: &str, pid: i32) -> Hello {
        self.disconnected(lane);
        let kernels = self
            .kernels
            .iter()
            .map(|(kernel, link)| link.entry(*kernel))
            .collect();
        Hello {
            lane,
            key: key.to_owned(),
            versions: self.protocol,
            build: build.to_owned(),
            epoch_seen: self.epoch_seen,
            pid,
            kernels,
            stream: None,
        }
    }

    /// The hello of a stream's connection.
    pub fn stream_hello(&self, stream: &str, key: &str, build: &str, pid: i32) -> Hello {
        Hello {
            lane: Lane::Now,
            key: key.to_owned(),
            versions: self.protocol,
            build: build.to_owned(),
            epoch_seen: self.epoch_seen,
            pid,
            kernels: Vec::new(),
            stream: Some(stream.to_owned()),
        }
    }

    /// Takes in a welcome; the lane sends again from the positions in it. True when the other lane must be closed,
    /// because it belongs to an older gateway.
    ///
    /// # Errors
    /// The connection must be closed: [`ProtocolError::Epoch`] for an older gateway, [`ProtocolError::Version`],
    /// [`ProtocolError::Resume`].
    pub fn welcome(&mut self, lane: Lane, welcome: &Welcome) -> Result<bool, ProtocolError> {
        let Welcome { protocol, epoch, .. } = *welcome;
        if epoch < self.epoch_seen || epoch == 0 {
            return Err(ProtocolError::Epoch {
                offered: epoch,
                seen: self.epoch_seen,
            });
        }
        if !self.protocol.holds(protocol) {
            VersionRange {
                min: protocol,
                max: protocol,
            }
            .negotiate(self.protocol)?;
        }
        for resume in &welcome.resume {
            if let Some(link) = self.kernels.get_mut(&resume.kernel) {
                let last = link.outboxes[lane].sent();
                if resume.after > last {
                    let (kernel, after) = (resume.kernel, resume.after);
                    return Err(ProtocolError::Resume {
                        kernel,
                        lane,
                        after,
                        last,
                    });
                }
            }
        }
        self.epoch_seen = epoch;
        for link in self.kernels.values_mut() {
            link.outboxes[lane].rewind();
            link.requests.hello_sent(lane);
        }
        for resume in &welcome.resume {
            if let Some(link) = self.kernels.get_mut(&resume.kernel) {
                link.outboxes[lane].acknowledge(resume.after);
            }
        }
        self.connected[lane] = Some(Connection { epoch, protocol });
        let other = match lane {
            Lane::Now => Lane::Data,
            Lane::Data => Lane::Now,
        };
        let stale = self.connected[other].is_some_and(|connection| connection.epoch < epoch);
        if stale {
            self.disconnected(other);
        }
        Ok(stale)
    }

    /// The lane's connection is gone.
    pub fn disconnected(&mut self, lane: Lane) {
        self.connected[lane] = None;
    }

    /// Highest epoch seen.
    pub fn epoch_seen(&self) -> u64 {
        self.epoch_seen
    }

    /// The protocol version of a connected lane.
    pub fn protocol(&self, lane: Lane) -> Option<u16> {
        self.connected[lane].map(|connection| connection.protocol)
    }

    /// A request has arrived on `lane`: do it only when [`Accept::New`].
    ///
    /// # Errors
    /// [`ProtocolError::State`] for number 0 or on a lane without a welcome.
    pub fn accept(&mut self, lane: Lane, kernel: u16, number: u64) -> Result<Accept, ProtocolError> {
        let Some(connection) = self.connected[lane] else {
            return Err(ProtocolError::State(format!(
                "a request before the welcome of lane {lane}"
            )));
        };
        if number == 0 {
            return Err(ProtocolError::State("a request without a number".into()));
        }
        let request = RequestId {
            epoch: connection.epoch,
            number,
        };
        match self.kernels.get_mut(&kernel) {
            Some(link) => Ok(link.requests.accept(lane, request)),
            None => Ok(Accept::NoKernel(request)),
        }
    }

    /// The accepted request will be answered by the kernel. Beyond [`UNFINISHED_MAX`] the oldest is forgotten.
    pub fn track(&mut self, kernel: u16, request: RequestId) {
        if let Some(link) = self.kernels.get_mut(&kernel) {
            link.requests.track(request);
        }
    }

    /// The kernel has answered the request.
    pub fn finish(&mut self, kernel: u16, request: RequestId) {
        if let Some(link) = self.kernels.get_mut(&kernel) {
            link.requests.finish(request);
        }
    }

    /// Number of tracked requests that the kernel has not answered.
    pub fn unfinished(&self, kernel: u16) -> usize {
        self.kernels
            .get(&kernel)
            .map_or(0, |link| link.requests.unfinished())
    }

    /// The next `accepted` that is due on the lane, as kernel and number.
    pub fn take_accepted(&mut self, lane: Lane) -> Option<(u16, u64)> {
        self.connected[lane]?;
        self.kernels
            .iter_mut()
            .find_map(|(kernel, link)| Some((*kernel, link.requests.take_accepted(lane)?)))
    }

    /// Keeps a message of a kernel for the gateway. `droppable` are the kinds whose loss may be marked by a gap when
    /// the spill file is full: stream, `display_data`, `update_display_data`.
    ///
    /// # Errors
    /// [`ProtocolError`] for an unknown kernel or a frame above the limit of a message; nothing is kept then.
    pub fn push_message(
        &mut self,
        kernel: u16,
        lane: Lane,
        origin: Origin,
        frame: impl Into<Body>,
        droppable: bool,
    ) -> Result<Placement, ProtocolError> {
        let outbox = self.outbox(kernel, lane)?;
        outbox.push_message(origin, frame.into(), droppable)
    }

    /// Marks the loss of one message that cannot be kept at all, in its place.
    ///
    /// # Errors
    /// [`ProtocolError::State`] for an unknown kernel.
    pub fn push_loss(
        &mut self,
        kernel: u16,
        lane: Lane,
        incarnation: u32,
        bytes: u64,
        reason: GapReason,
    ) -> Result<Placement, ProtocolError> {
        self.outbox(kernel, lane)?.push_loss(incarnation, bytes, reason)
    }

    /// Keeps a lifecycle event for the gateway. Fills in the last data link of `exited`.
    ///
    /// # Errors
    /// [`ProtocolError`] for an unknown kernel or an event above the limit of its kind.
    pub fn push_event(&mut self, kernel: u16, mut event: Event) -> Result<Placement, ProtocolError> {
        if let Event::Exited(exited) = &mut event {
            exited.last_data = self.outbox(kernel, Lane::Data)?.last();
        }
        let incarnation = self
            .kernels
            .get(&kernel)
            .map_or(0, |link| link.process.incarnation);
        let body = event_body(&event)?;
        self.outbox(kernel, Lane::Now)?
            .push_event(event.kind(), incarnation, body.into())
    }

    fn outbox(&mut self, kernel: u16, lane: Lane) -> Result<&mut Outbox<S>, ProtocolError> {
        self.kernels
            .get_mut(&kernel)
            .map(|link| &mut link.outboxes[lane])
            .ok_or_else(|| ProtocolError::State(format!("no kernel {kernel}")))
    }

    /// The gateway has stored everything of the lane up to `last`.
    ///
    /// # Errors
    /// [`ProtocolError::State`] for a link that was never sent.
    pub fn acknowledge(&mut self, kernel: u16, lane: Lane, last: u64) -> Result<(), ProtocolError> {
        let Ok(outbox) = self.outbox(kernel, lane) else {
            return Ok(());
        };
        if last > outbox.sent() {
            let sent = outbox.sent();
            let text = format!("kernel {kernel}: ack of {lane} {last}, but {sent} is the last that was sent");
            return Err(ProtocolError::State(text));
        }
        outbox.acknowledge(last);
        Ok(())
    }

    /// The next frame to write on the lane; it counts as sent. Kernels take turns. `None` when the lane is not
    /// connected, all is sent, or the window is full of what is not acknowledged. An event that the version of the
    /// connection does not have is replaced by a gap.
    pub fn next_item(&mut self, lane: Lane) -> Option<Item> {
        let protocol = self.connected[lane]?.protocol;
        let turn = self.turn[lane];
        let order = self.kernels.range(turn..).chain(self.kernels.range(..turn));
        let ready = order.map(|(kernel, link)| (*kernel, &link.outboxes[lane]));
        let kernel = ready
            .into_iter()
            .find(|(_, outbox)| outbox.ready())
            .map(|(kernel, _)| kernel)?;
        self.turn[lane] = kernel.wrapping_add(1);
        let link = self.kernels.get_mut(&kernel)?;
        let item = link.outboxes[lane].next_item()?;
        if item.kind().since() <= protocol {
            return Some(item);
        }
        // The gateway does not know the kind: it would take the link for lost without a word.
        Some(item.as_gap(kernel, link.process.incarnation).unwrap_or(item))
    }

    /// Is everything of every kernel sent and acknowledged?
    pub fn is_drained(&self) -> bool {
        self.kernels
            .values()
            .all(|link| Lane::ALL.iter().all(|lane| link.outboxes[*lane].is_drained()))
    }

    /// Bytes in memory and in the spill file, for a kernel's lane.
    pub fn held(&self, kernel: u16, lane: Lane) -> (usize, u64) {
        self.kernels
            .get(&kernel)
            .map_or((0, 0), |link| link.outboxes[lane].held())
    }
}

impl<S> KernelLink<S> {
    fn entry(&self, kernel: u16) -> KernelEntry {
        KernelEntry {
            kernel,
            incarnation: self.process.incarnation,
            pid: self.process.pid,
            state: self.process.state,
            start_ms: self.process.start_ms,
            alive: self.process.alive,
            links: PerLane {
                now: self.outboxes.now.range(),
                data: self.outboxes.data.range(),
            },
            requests: self.requests.marks(),
        }
    }
}
