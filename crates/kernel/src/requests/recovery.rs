//! The requests of a kernel from the records of its journal.

use std::collections::BTreeSet;
use std::sync::Arc;

use himalia_journal::Record;
use himalia_shim_protocol::Lane;
use himalia_wire::v1::Frame;
use himalia_wire::{Channel, Limits};

use super::carried::{CarriedRequest, held_again};
use super::kind::{RequestKind, lane_of};
use super::ledger::{Entry, Progress};
use super::state::Requests;
use crate::messages::word;
use crate::meta::RecordMeta;

impl Requests {
    /// A request record. Returns what kind of request it is, if it may be sent again.
    pub(crate) fn fold_request(&mut self, record: &Record, meta: &RecordMeta) -> Option<RequestKind> {
        let held = held_again(record)?;
        let id = meta.request_id();
        let (kind, lane) = (held.request.kind, lane_of(held.request.channel()));
        if meta.link != 0
            && let Some(old) = self.carried[lane].remove(&meta.link)
        {
            self.ledger.remove(old.id);
        }
        if held.request.channel() != Channel::Stdin {
            self.ledger.insert(id, Entry::new(record.seq, &held.request));
        }
        let carried = CarriedRequest {
            id,
            confirmed: false,
            held: Some(held),
        };
        self.carried[lane].insert(record.seq, carried);
        Some(kind)
    }

    /// The record of a message of the kernel. Returns what it did if it is a reply.
    pub(crate) fn fold_message(&mut self, record: &Record, meta: &RecordMeta) -> Option<Progress> {
        let id = meta.request_id();
        // Whatever answers a request proves that it was accepted.
        if let Some(entry) = self.ledger.get(id)
            && meta.word & (word::IDLE | word::REPLY | word::WORKS) != 0
        {
            self.carried[entry.lane()].remove(&entry.seq);
        }
        if meta.channel == Some(Channel::Stdin) && !meta.synthetic {
            self.secret_asked = meta.word & word::SECRET != 0;
            if let Ok(frame) = Frame::parse(record.body.clone(), &Limits::KERNEL)
                && let Ok(header) = frame.peek()
            {
                self.note_asked(&header, meta.owner);
            }
        }
        if meta.word & word::WORKS != 0 {
            self.ledger.works_on(id);
        }
        if meta.word & word::IDLE != 0 {
            self.ledger.idle(id);
        }
        if meta.word & word::REPLY == 0 {
            return None;
        }
        if meta.synthetic {
            self.ledger.take(id);
            return None;
        }
        self.ledger.replied(id)
    }

    /// An earlier gateway has found out which requests were never accepted. What was not confirmed had been.
    pub(crate) fn fold_carried(&mut self, records: Vec<u64>) {
        let confirmed: BTreeSet<u64> = records.into_iter().collect();
        for lane in Lane::ALL {
            self.carried[lane].retain(|seq, carried| {
                carried.confirmed = confirmed.contains(seq);
                carried.confirmed
            });
        }
    }

    /// The shim has refused a request.
    pub(crate) fn fold_refused(&mut self, record: u64, again: bool) {
        if let Some(id) = self.ledger.of_record(record) {
            self.never_ran(id, again);
        } else if !again {
            // It was to go again, and could not.
            for lane in Lane::ALL {
                self.carried[lane].remove(&record);
            }
        }
    }

    /// Forgets what a process that ended had accepted.
    pub(crate) fn fold_process_ended(&mut self) {
        let carried = &self.carried;
        self.ledger.lose(|id| {
            let mut lanes = Lane::ALL.into_iter();
            lanes.any(|lane| carried[lane].values().any(|carried| carried.id == id))
        });
    }

    /// All records are read. `read` gets a record by its number.
    pub(crate) fn read_carried(&mut self, mut read: impl FnMut(u64) -> Option<Arc<Record>>) {
        for lane in Lane::ALL {
            self.carried[lane].retain(|seq, carried| {
                if carried.held.is_none() {
                    carried.held = read(*seq).and_then(|record| held_again(&record));
                }
                carried.held.is_some()
            });
        }
    }
}
