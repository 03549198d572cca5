use std::collections::VecDeque;
use std::io;

use bytes::Bytes;

use super::Body;
use super::item::Item;
use super::spill::{Spill, SpillStore};
use crate::packet::to_json;
use crate::{Gap, GapReason, Kind, LinkRange, Origin, PerLane, ProtocolError};

/// Bounds of an outbox.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WindowLimits {
    /// Bytes in memory. One frame may always be there, whatever its size.
    pub memory: usize,
    /// Bytes in the spill file. Droppable messages are refused from seven eighths of it on, everything at the whole.
    pub spill: u64,
}

impl WindowLimits {
    /// Bounds per kernel: 2 MiB in memory and 64 MiB in the spill file on the now lane, 16 MiB and 1 GiB on data.
    pub const PER_LANE: PerLane<Self> = PerLane {
        now: Self {
            memory: 2 << 20,
            spill: 64 << 20,
        },
        data: Self {
            memory: 16 << 20,
            spill: 1 << 30,
        },
    };
}

/// Destination of a pushed message.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Placement {
    /// Into memory.
    Memory,
    /// Into the spill file.
    Spilled,
    /// Nowhere; a gap stands in its place.
    Dropped,
}

/// Messages of one lane of one kernel for the gateway, in order: in memory (sent or not, unacknowledged), then in the spill file (never
/// sent), then an open gap.
#[derive(Debug)]
pub(super) struct Outbox<S> {
    kernel: u16,
    pub(super) limits: WindowLimits,
    memory: VecDeque<Item>,
    memory_bytes: usize,
    /// Index in `memory` of the next to send.
    cursor: usize,
    spill: Spill<S>,
    gap: Option<Gap>,
    last: u64,
    acked: u64,
    /// Highest link that was ever sent.
    sent: u64,
}

impl<S: SpillStore> Outbox<S> {
    pub(super) fn new(kernel: u16, store: S, limits: WindowLimits) -> Self {
        Self {
            kernel,
            limits,
            memory: VecDeque::new(),
            memory_bytes: 0,
            cursor: 0,
            spill: Spill::new(store, kernel),
            gap: None,
            last: 0,
            acked: 0,
            sent: 0,
        }
    }

    pub(super) fn push_message(
        &mut self,
        origin: Origin,
        frame: Body,
        droppable: bool,
    ) -> Result<Placement, ProtocolError> {
        let item = Item::message(self.kernel, self.last + 1, origin, frame)?;
        self.push(item, origin.incarnation, droppable)
    }

    pub(super) fn push_event(
        &mut self,
        kind: Kind,
        incarnation: u32,
        body: Bytes,
    ) -> Result<Placement, ProtocolError> {
        let item = Item::other(kind, self.kernel, self.last + 1, body)?;
        self.push(item, incarnation, false)
    }

    pub(super) fn push_loss(
        &mut self,
        incarnation: u32,
        bytes: u64,
        reason: GapReason,
    ) -> Result<Placement, ProtocolError> {
        let link = self.last + 1;
        let gap = Gap {
            incarnation,
            from: link,
            to: link,
            messages: 1,
            bytes,
            reason,
        };
        let item = self.gap_item(gap)?;
        self.push(item, incarnation, false)
    }

    fn push(&mut self, item: Item, incarnation: u32, droppable: bool) -> Result<Placement, ProtocolError> {
        self.last += 1;
        if self.spill.is_empty() && self.gap.is_none() && self.fits(item.cost()) {
            self.keep(item);
            return Ok(Placement::Memory);
        }
        let bytes = item.wire_bytes() as u64;
        let quota = if droppable {
            self.limits.spill / 8 * 7
        } else {
            self.limits.spill
        };
        let reason = if self.spill.bytes() + bytes > quota {
            GapReason::Quota
        } else if self.spill_out(&item).is_ok() {
            return Ok(Placement::Spilled);
        } else {
            GapReason::Spill
        };
        self.widen_gap(incarnation, item.link(), item.body().len() as u64, reason)?;
        Ok(Placement::Dropped)
    }

    fn fits(&self, cost: usize) -> bool {
        self.memory.is_empty() || self.memory_bytes + cost <= self.limits.memory
    }

    fn keep(&mut self, item: Item) {
        self.memory_bytes += item.cost();
        self.memory.push_back(item);
    }

    /// Appends to the spill file, after the open gap if there is one.
    fn spill_out(&mut self, item: &Item) -> io::Result<()> {
        if let Some(gap) = self.gap {
            let marker = self.gap_item(gap).map_err(io::Error::other)?;
            self.spill.append(&marker)?;
            self.gap = None;
        }
        self.spill.append(item)
    }

    /// Adds one link to the open gap. Gaps do not cross incarnations.
    fn widen_gap(
        &mut self,
        incarnation: u32,
        link: u64,
        bytes: u64,
        reason: GapReason,
    ) -> Result<(), ProtocolError> {
        if let Some(gap) = self.gap.take_if(|gap| gap.incarnation != incarnation) {
            // The marker is tiny: it goes to memory's end if the spill file cannot take it and nothing is in it.
            let marker = self.gap_item(gap)?;
            if self.spill.is_empty() {
                self.keep(marker);
            } else if self.spill.append(&marker).is_err() {
                self.gap = Some(Gap { incarnation, ..gap });
            }
        }
        let gap = self.gap.get_or_insert(Gap {
            incarnation,
            from: link,
            to: link,
            messages: 0,
            bytes: 0,
            reason,
        });
        gap.to = link;
        gap.messages += 1;
        gap.bytes += bytes;
        Ok(())
    }

    fn gap_item(&self, gap: Gap) -> Result<Item, ProtocolError> {
        Item::other(Kind::Gap, self.kernel, gap.to, to_json(Kind::Gap, &gap)?.into())
    }

    /// Forgets everything up to `last`.
    pub(super) fn acknowledge(&mut self, last: u64) {
        while let Some(item) = self.memory.pop_front_if(|item| item.link() <= last) {
            self.memory_bytes -= item.cost();
            self.cursor = self.cursor.saturating_sub(1);
        }
        if self.memory.is_empty() && self.memory.capacity() > 1024 {
            self.memory.shrink_to(64);
        }
        self.acked = self.acked.max(last);
    }

    /// Sends everything that is not acknowledged again.
    pub(super) fn rewind(&mut self) {
        self.cursor = 0;
    }

    /// Is there something to send, as far as is known without reading the spill file?
    pub(super) fn ready(&self) -> bool {
        let more_room = self.memory.is_empty() || self.memory_bytes < self.limits.memory;
        self.cursor < self.memory.len() || (more_room && !(self.spill.is_empty() && self.gap.is_none()))
    }

    pub(super) fn next_item(&mut self) -> Option<Item> {
        if self.cursor >= self.memory.len() {
            self.refill();
        }
        let item = self.memory.get(self.cursor)?.clone();
        self.cursor += 1;
        self.sent = self.sent.max(item.link());
        Some(item)
    }

    /// Moves the oldest spilled frame, or the open gap, into memory.
    fn refill(&mut self) {
        let (empty, room) = (
            self.memory.is_empty(),
            self.limits.memory.saturating_sub(self.memory_bytes),
        );
        match self.spill.take(|bytes| empty || bytes + 512 <= room) {
            Ok(Some(item)) => self.keep(item),
            Ok(None) if self.spill.is_empty() => {
                if let Some(gap) = self.gap.take()
                    && let Ok(marker) = self.gap_item(gap)
                {
                    self.keep(marker);
                }
            }
            Ok(None) => {}
            Err(_) => self.lose_spill(),
        }
    }

    /// The spill file cannot be read: everything in it becomes a gap.
    fn lose_spill(&mut self) {
        let bytes = self.spill.bytes();
        self.spill.clear();
        let from = self.memory.back().map_or(self.acked, Item::link).max(self.sent) + 1;
        let (to, tail, incarnation) = match self.gap.take() {
            Some(gap) => (gap.to, gap.bytes, gap.incarnation),
            None => (self.last, 0, 0),
        };
        let gap = Gap {
            incarnation,
            from,
            to,
            messages: to + 1 - from,
            bytes: bytes + tail,
            reason: GapReason::Spill,
        };
        if let Ok(marker) = self.gap_item(gap) {
            self.keep(marker);
        }
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    pub(super) fn is_drained(&self) -> bool {
        self.acked == self.last
    }

    pub(super) fn held(&self) -> (usize, u64) {
        (self.memory_bytes, self.spill.bytes())
    }
}

impl<S> Outbox<S> {
    #[cfg(test)]
    pub(super) fn spill_for_tests(&mut self) -> &mut S {
        self.spill.store_for_tests()
    }

    pub(super) fn range(&self) -> LinkRange {
        LinkRange {
            first: self.acked + 1,
            last: self.last,
        }
    }
}
