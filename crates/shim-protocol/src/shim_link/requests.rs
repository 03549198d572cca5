use std::collections::VecDeque;

use crate::{Lane, PerLane, RequestId, RequestMarks};

/// Most requests of one kernel that are listed as accepted and not answered; beyond it the oldest is forgotten.
pub const UNFINISHED_MAX: usize = 1024;

/// Decision about a request that has arrived.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Accept {
    /// It is new and now counts as accepted: do it.
    New(RequestId),
    /// It was accepted before: do nothing.
    Duplicate,
    /// There is no such kernel; only a `start` makes one.
    NoKernel(RequestId),
}

/// Accepted requests of one kernel: a high-water mark per lane, and the unanswered requests, whose number is bounded.
#[derive(Debug, Default)]
pub(super) struct Requests {
    epoch: u64,
    high: PerLane<u64>,
    /// Mark that the gateway last received, per lane.
    told: PerLane<u64>,
    unfinished: VecDeque<RequestId>,
}

impl Requests {
    /// The marks move to a later epoch only here, so that what the older gateway had sent stays known until then.
    pub(super) fn accept(&mut self, lane: Lane, request: RequestId) -> Accept {
        if request.epoch > self.epoch {
            self.epoch = request.epoch;
            self.high = PerLane::default();
            self.told = PerLane::default();
        }
        if request.epoch < self.epoch || request.number <= self.high[lane] {
            return Accept::Duplicate;
        }
        self.high[lane] = request.number;
        Accept::New(request)
    }

    /// The list is for information only: that a request was accepted is known by the marks alone.
    pub(super) fn track(&mut self, request: RequestId) {
        if self.unfinished.len() >= UNFINISHED_MAX {
            self.unfinished.pop_front();
        }
        self.unfinished.push_back(request);
    }

    pub(super) fn finish(&mut self, request: RequestId) {
        if let Some(at) = self.unfinished.iter().position(|other| *other == request) {
            self.unfinished.remove(at);
        }
    }

    pub(super) fn clear_unfinished(&mut self) {
        self.unfinished.clear();
    }

    pub(super) fn unfinished(&self) -> usize {
        self.unfinished.len()
    }

    /// The hello has told everything.
    pub(super) fn hello_sent(&mut self, lane: Lane) {
        self.told[lane] = self.high[lane];
    }

    pub(super) fn take_accepted(&mut self, lane: Lane) -> Option<u64> {
        let high = self.high[lane];
        if self.told[lane] == high {
            return None;
        }
        self.told[lane] = high;
        Some(high)
    }

    pub(super) fn marks(&self) -> RequestMarks {
        RequestMarks {
            epoch: self.epoch,
            high: self.high,
            unfinished: self.unfinished.iter().copied().collect(),
        }
    }
}
