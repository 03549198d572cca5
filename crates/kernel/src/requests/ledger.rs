//! Requests on their way: who asked, and what is still to come.
//!
//! A request is done when its reply *and* the `idle` of its iopub have been seen, in either order. Types without a
//! reply (`comm_msg` …) are done at their `idle`. Entries are found by request number, which kernels echo, or else by
//! the parent's `msg_id` and `session`.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::ops::Bound;

use himalia_shim_protocol::{Lane, RequestId};
use himalia_wire::Channel;

use super::kind::{RequestKind, lane_of};
use crate::event::Request;
use crate::trace::RequestTiming;

/// Requests that are kept; beyond it the oldest one that is not an unanswered `execute_request` is forgotten.
pub(crate) const MAX_OPEN: usize = 4096;
/// With so many unanswered requests no other one is sent, so that a kernel that is busy for long finds a bounded number.
/// Those do not count that came before one that was answered on their channel: kernels answer in order, or never.
pub(crate) const MAX_UNANSWERED: usize = 1000;
/// Requests lost with a process of which it is known whose they were; the latest ones.
const MAX_LOST: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts about one request"
)]
pub(crate) struct Entry {
    /// Journal number of its request record.
    pub(crate) seq: u64,
    /// Hash of principal and wire session; 0 = the engine itself.
    pub(crate) owner: u64,
    /// Hash of `msg_id` and `session`.
    pub(crate) parent: u64,
    pub(crate) channel: Channel,
    pub(crate) kind: RequestKind,
    pub(crate) replied: bool,
    pub(crate) idle: bool,
    /// The kernel has said that it is busy with it, and it counts as activity.
    pub(crate) busy: bool,
    /// A later one of its channel was answered before.
    pub(crate) overtaken: bool,
    /// Place of the request in its trace, if it is traced. Not kept in checkpoints.
    pub(crate) way: Option<Box<RequestTiming>>,
}

impl Entry {
    /// A request that was just sent, with the journal number of its record.
    pub(crate) fn new(seq: u64, request: &Request) -> Self {
        let Request {
            owner,
            kind,
            parent,
            ref frame,
            ref trace,
        } = *request;
        let channel = frame.channel();
        Self {
            seq,
            owner,
            parent,
            channel,
            kind,
            replied: false,
            idle: false,
            busy: false,
            overtaken: false,
            way: trace.as_ref().map(|trace| Box::new(RequestTiming::new(**trace))),
        }
    }

    /// The lane that the request came on.
    pub(super) fn lane(&self) -> Lane {
        lane_of(self.channel)
    }
}

/// Effect of a reply or an idle on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) id: RequestId,
    pub(crate) kind: RequestKind,
    /// True if both ends have been seen now, for the first time.
    pub(crate) done: bool,
}

type ParentIndex = HashMap<u64, Vec<RequestId>, BuildHasherDefault<DefaultHasher>>;

/// All open requests of one kernel, in order of their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    open: BTreeMap<RequestId, Entry>,
    by_parent: ParentIndex,
    unanswered: usize,
    /// The requests that the kernel works on.
    working: usize,
    /// The latest that was answered: on shell, on control.
    answered: [Option<RequestId>; 2],
    /// Requests that were forgotten with a process. The shim may still report that one never ran.
    lost: BTreeMap<RequestId, Entry>,
    /// Open ones that are traced and that the shim has not accepted.
    unaccepted_ways: usize,
    /// Traces of requests that have ended, and whether they were lost.
    ended_ways: Vec<(Box<RequestTiming>, bool)>,
}

impl Entry {
    /// True if a reply is still to be expected. Kernels go idle without one on types that they do not know.
    fn unanswered(&self) -> bool {
        self.kind.replies() && !self.replied && !self.idle && !self.overtaken
    }

    /// Returns true if the kernel works on the request, and that counts as activity.
    fn works(&self) -> bool {
        self.busy && !self.idle && !self.replied
    }

    /// True if it is traced, and the shim is not known to have accepted it.
    fn awaits_acceptance(&self) -> bool {
        self.way.as_ref().is_some_and(|way| !way.is_accepted())
    }
}

impl Ledger {
    pub(crate) fn is_full(&self) -> bool {
        self.unanswered >= MAX_UNANSWERED
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn get(&self, id: RequestId) -> Option<&Entry> {
        self.open.get(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (RequestId, &Entry)> {
        self.open.iter().map(|(id, entry)| (*id, entry))
    }

    /// Returns true if the kernel works on a request that counts as activity.
    pub(crate) fn is_working(&self) -> bool {
        self.working > 0
    }

    /// Returns true if an answer on the control channel is still to be expected.
    pub(crate) fn awaits_control(&self) -> bool {
        let waits = |entry: &Entry| entry.channel == Channel::Control && entry.unanswered();
        self.open.values().any(waits)
    }

    /// The oldest execution that was sent and not answered.
    pub(crate) fn oldest_execution(&self) -> Option<RequestId> {
        let waits = |entry: &Entry| entry.kind == RequestKind::Execute && entry.unanswered();
        self.iter().find_map(|(id, entry)| waits(entry).then_some(id))
    }

    /// Adds a request, making room if there is none.
    pub(crate) fn insert(&mut self, id: RequestId, entry: Entry) {
        if self.open.len() >= MAX_OPEN {
            let expected = |old: &Entry| old.kind == RequestKind::Execute && old.unanswered();
            let evict = self
                .open
                .iter()
                .find(|(_, old)| !expected(old))
                .map(|(id, _)| *id);
            if let Some(evict) = evict.or_else(|| self.open.keys().next().copied()) {
                self.remove(evict);
            }
        }
        self.unanswered += usize::from(entry.unanswered());
        self.working += usize::from(entry.works());
        self.unaccepted_ways += usize::from(entry.awaits_acceptance());
        self.by_parent.entry(entry.parent).or_default().push(id);
        self.open.insert(id, entry);
    }

    /// The journal number of a request, once it is known.
    pub(crate) fn set_seq(&mut self, id: RequestId, seq: u64) {
        if let Some(entry) = self.open.get_mut(&id) {
            entry.seq = seq;
        }
    }

    /// The oldest open request with this parent hash that has not seen its idle (`for_idle`) or its reply.
    pub(crate) fn find(&self, parent: u64, for_idle: bool) -> Option<RequestId> {
        let ids = self.by_parent.get(&parent)?;
        let waiting = |id: &&RequestId| {
            self.open
                .get(id)
                .is_some_and(|entry| if for_idle { !entry.idle } else { !entry.replied })
        };
        ids.iter().find(waiting).or_else(|| ids.first()).copied()
    }

    /// A reply to the request was seen.
    pub(crate) fn replied(&mut self, id: RequestId) -> Option<Progress> {
        self.mark(id, |entry| entry.replied = true)
    }

    /// The idle of the request was seen.
    pub(crate) fn idle(&mut self, id: RequestId) -> Option<Progress> {
        self.mark(id, |entry| entry.idle = true)
    }

    /// The kernel is busy with the request, which counts as activity.
    pub(crate) fn works_on(&mut self, id: RequestId) {
        if let Some(entry) = self.open.get_mut(&id) {
            let before = entry.works();
            entry.busy = true;
            self.working += usize::from(!before && entry.works());
        }
    }

    /// Output was lost, maybe the idle of requests that have no other end.
    pub(crate) fn output_lost(&mut self) {
        for entry in self.open.values_mut() {
            if entry.works() && !entry.kind.replies() {
                entry.busy = false;
                self.working -= 1;
            }
        }
    }

    fn mark(&mut self, id: RequestId, set: impl FnOnce(&mut Entry)) -> Option<Progress> {
        let entry = self.open.get_mut(&id)?;
        let (unanswered, works) = (entry.unanswered(), entry.works());
        set(entry);
        self.unanswered -= usize::from(unanswered && !entry.unanswered());
        self.working -= usize::from(works && !entry.works());
        let answered = entry.kind == RequestKind::Question && entry.replied;
        let done = answered || (entry.idle && (entry.replied || !entry.kind.replies()));
        let channel = entry.channel;
        let progress = Progress {
            id,
            kind: entry.kind,
            done,
        };
        if done {
            let way = self.remove(id).and_then(|entry| entry.way);
            self.ended_ways.extend(way.map(|way| (way, false)));
        }
        self.overtake(id, channel);
        Some(progress)
    }

    /// Requests before an answered one on its channel that have no answer will not get one, unless the kernel works on them:
    /// requests of subshells are answered meanwhile.
    fn overtake(&mut self, id: RequestId, channel: Channel) {
        let latest = &mut self.answered[usize::from(channel == Channel::Control)];
        if latest.is_some_and(|latest| latest >= id) {
            return;
        }
        let from = latest.replace(id).map_or(Bound::Unbounded, Bound::Included);
        for (_, entry) in self.open.range_mut((from, Bound::Excluded(id))) {
            if entry.channel == channel && entry.unanswered() && !entry.works() {
                entry.overtaken = true;
                self.unanswered -= 1;
            }
        }
    }

    /// Forgets a request.
    pub(crate) fn remove(&mut self, id: RequestId) -> Option<Entry> {
        let entry = self.open.remove(&id)?;
        self.unanswered -= usize::from(entry.unanswered());
        self.working -= usize::from(entry.works());
        self.unaccepted_ways -= usize::from(entry.awaits_acceptance());
        if let Some(ids) = self.by_parent.get_mut(&entry.parent) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_parent.remove(&entry.parent);
            }
        }
        Some(entry)
    }

    /// The kernel's process has ended: forgets all but what `keep` names, as far as it was not refused. Gives what is forgotten.
    pub(crate) fn lose(&mut self, keep: impl Fn(RequestId) -> bool) -> Vec<RequestId> {
        let gone: Vec<RequestId> = self.open.keys().copied().filter(|id| !keep(*id)).collect();
        for id in &gone {
            if let Some(mut entry) = self.remove(*id) {
                self.ended_ways.extend(entry.way.take().map(|way| (way, true)));
                self.insert_lost(*id, entry);
            }
        }
        gone
    }

    /// Trace of an open request.
    pub(crate) fn way(&mut self, id: RequestId) -> Option<&mut RequestTiming> {
        self.open.get_mut(&id)?.way.as_deref_mut()
    }

    /// The shim has accepted all of this lane up to this one.
    pub(crate) fn accepted(&mut self, lane: Lane, until: RequestId, wall: u64) {
        if self.unaccepted_ways == 0 {
            return;
        }
        for (_, entry) in self.open.range_mut(..=until) {
            if entry.lane() == lane
                && entry.awaits_acceptance()
                && let Some(way) = &mut entry.way
            {
                way.accepted(wall);
                self.unaccepted_ways -= 1;
            }
        }
    }

    /// Traced requests that have ended since the last call, and whether they were lost.
    pub(crate) fn take_ended_ways(&mut self) -> Vec<(Box<RequestTiming>, bool)> {
        std::mem::take(&mut self.ended_ways)
    }

    /// Adds to what was lost with a process.
    pub(crate) fn insert_lost(&mut self, id: RequestId, entry: Entry) {
        self.lost.insert(id, entry);
        if self.lost.len() > MAX_LOST {
            self.lost.pop_first();
        }
    }

    /// Requests that were lost with a process.
    pub(crate) fn iter_lost(&self) -> impl Iterator<Item = (RequestId, &Entry)> {
        self.lost.iter().map(|(id, entry)| (*id, entry))
    }

    /// One that was lost with a process.
    pub(crate) fn lost(&self, id: RequestId) -> Option<&Entry> {
        self.lost.get(&id)
    }

    /// A request that the shim may have refused: open, or lost with a process.
    pub(crate) fn refusable(&self, id: RequestId) -> Option<&Entry> {
        self.open.get(&id).or_else(|| self.lost.get(&id))
    }

    /// The one of [`Self::refusable`] whose record has this number.
    pub(crate) fn of_record(&self, seq: u64) -> Option<RequestId> {
        let mut all = self.iter().chain(self.iter_lost());
        all.find_map(|(id, entry)| (seq != 0 && entry.seq == seq).then_some(id))
    }

    /// Takes out one of [`Self::refusable`].
    pub(crate) fn take(&mut self, id: RequestId) -> Option<Entry> {
        self.remove(id).or_else(|| self.lost.remove(&id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> RequestId {
        RequestId { epoch: 1, number }
    }

    fn entry(kind: RequestKind, parent: u64) -> Entry {
        Entry {
            seq: 0,
            owner: 9,
            parent,
            channel: Channel::Shell,
            kind,
            replied: false,
            idle: false,
            busy: false,
            overtaken: false,
            way: None,
        }
    }

    #[test]
    fn done_is_reply_and_idle_in_either_order() {
        let mut ledger = Ledger::default();
        ledger.insert(id(1), entry(RequestKind::Execute, 1));
        ledger.insert(id(2), entry(RequestKind::Execute, 2));
        assert!(!ledger.replied(id(1)).unwrap().done);
        assert!(ledger.idle(id(1)).unwrap().done);
        assert!(!ledger.idle(id(2)).unwrap().done);
        assert!(ledger.replied(id(2)).unwrap().done);
        assert_eq!(ledger.len(), 0);
        assert_eq!(ledger.replied(id(2)), None);
    }

    #[test]
    fn notices_are_done_at_idle() {
        let mut ledger = Ledger::default();
        ledger.insert(id(1), entry(RequestKind::Notice, 1));
        assert!(ledger.idle(id(1)).unwrap().done);
    }

    #[test]
    fn equal_parents_are_served_in_order() {
        let mut ledger = Ledger::default();
        ledger.insert(id(1), entry(RequestKind::Execute, 7));
        ledger.insert(id(2), entry(RequestKind::Execute, 7));
        assert_eq!(ledger.find(7, true), Some(id(1)));
        ledger.idle(id(1));
        assert_eq!(ledger.find(7, true), Some(id(2)));
        assert_eq!(ledger.find(7, false), Some(id(1)));
        assert_eq!(ledger.find(8, true), None);
    }

    #[test]
    fn the_unanswerable_make_room() {
        let mut ledger = Ledger::default();
        ledger.insert(id(1), entry(RequestKind::Execute, 1));
        for number in 2..=MAX_OPEN as u64 + 1 {
            ledger.insert(id(number), entry(RequestKind::Request, number));
        }
        assert_eq!(ledger.len(), MAX_OPEN);
        assert!(ledger.get(id(1)).is_some() && ledger.get(id(2)).is_none());
        assert!(ledger.is_full());
        ledger.lose(|id| id.number <= 1000);
        assert!(!ledger.is_full());
    }

    #[test]
    fn what_a_kernel_passed_over_fills_nothing() {
        let mut ledger = Ledger::default();
        for number in 1..=2000 {
            ledger.insert(id(2 * number), entry(RequestKind::Request, 0));
            ledger.insert(id(2 * number + 1), entry(RequestKind::Execute, number));
            assert!(!ledger.replied(id(2 * number + 1)).unwrap().done);
            assert!(!ledger.is_full());
        }
        // A late answer is still an answer, and counts nothing twice.
        for number in 1..=2000 {
            ledger.replied(id(2 * number));
            ledger.remove(id(2 * number));
        }
        for number in 5000..5000 + MAX_UNANSWERED as u64 {
            assert!(!ledger.is_full());
            ledger.insert(id(number), entry(RequestKind::Execute, number));
        }
        assert!(ledger.is_full());
        // Another channel says nothing of this one.
        let mut control = entry(RequestKind::Request, 0);
        control.channel = Channel::Control;
        ledger.insert(id(9000), control);
        ledger.replied(id(9000));
        assert!(ledger.is_full());
    }

    #[test]
    fn what_is_lost_with_a_process_can_still_be_refused() {
        let mut ledger = Ledger::default();
        for number in 1..=3 {
            let seq = 10 + number;
            ledger.insert(
                id(number),
                Entry {
                    seq,
                    ..entry(RequestKind::Execute, number)
                },
            );
        }
        ledger.lose(|id| id.number == 3);
        assert_eq!((ledger.len(), ledger.iter_lost().count()), (1, 2));
        assert!(ledger.get(id(1)).is_none() && ledger.refusable(id(1)).is_some());
        assert_eq!(
            (ledger.of_record(12), ledger.of_record(13)),
            (Some(id(2)), Some(id(3)))
        );
        assert_eq!(ledger.take(id(2)).unwrap().seq, 12);
        assert!(ledger.take(id(2)).is_none());
        for number in 10..10 + MAX_LOST as u64 {
            ledger.insert_lost(id(number), entry(RequestKind::Execute, number));
        }
        assert!(ledger.take(id(1)).is_none() && ledger.take(id(10)).is_some());
    }

    #[test]
    fn what_a_kernel_does_not_know_fills_nothing() {
        let mut ledger = Ledger::default();
        for number in 1..=2000 {
            ledger.insert(id(number), entry(RequestKind::Request, number));
            ledger.idle(id(number));
        }
        assert!(!ledger.is_full());
    }
}
