//! Sandboxes that are lost, and the next one, as the engine makes it: the move is in the log, then in the row, then the first
//! process is ordered.

use std::collections::BTreeSet;

use himalia_shim_protocol::{Lane, PerLane};

use super::check::key_of;
use super::shim::{Sent, SimShim};
use super::world::{World, spec};
use crate::event::{Command, Event};
use crate::executions::records::SandboxLoss;
use crate::life::Phase;
use crate::life::records::LifecycleRecord;
use crate::meta::RecordKind;
use crate::rules::Rules;

/// What a sandbox had sent that is gone.
#[derive(Debug, Default)]
pub(super) struct Gone {
    pub(super) sent: PerLane<Vec<Sent>>,
    pub(super) dropped: BTreeSet<u64>,
}

impl World {
    /// The sandbox ends with all that is in it, whether it is watched or not.
    pub(super) fn lose_sandbox(&mut self) {
        if self.losses_left == 0 || !self.sandbox_lives {
            return;
        }
        self.losses_left -= 1;
        self.note(|| "the sandbox is lost".to_owned());
        self.retire();
        self.step(Event::SandboxGone("sandbox_lost".to_owned()));
    }

    /// The sandbox is gone. What the model knows of requests stays.
    fn retire(&mut self) {
        self.sandbox_lives = false;
        self.row_names_it = false;
        self.ordered_move = false;
        let next = SimShim::new(&mut self.rng);
        let before = std::mem::replace(&mut self.shim, next);
        self.shim.remember(&before);
        if Lane::ALL.into_iter().any(|lane| !before.sent[lane].is_empty()) {
            let gone = Gone {
                sent: before.sent,
                dropped: before.dropped,
            };
            self.gone.insert(self.moves(), gone);
        }
        self.wires = PerLane::default();
    }

    /// Moves that are in the log.
    fn moves(&self) -> usize {
        let records = self.disk.records.iter();
        records.filter(|record| is_move(record)).count()
    }

    /// A new gateway finds the sandbox that its row names, or none; one that no row names is swept.
    pub(super) fn find_sandbox(&mut self) {
        if self.sandbox_lives && !self.row_names_it {
            self.retire();
        }
        if !self.sandbox_lives {
            self.step(Event::SandboxGone("sandbox_lost".to_owned()));
        }
    }

    /// The next step towards a sandbox for a kernel whose own is gone, if there is one to do.
    pub(super) fn go_on(&mut self) -> bool {
        let Some(gateway) = &self.gateway else {
            return false;
        };
        let snapshot = gateway.core.snapshot();
        if gateway.at_disk.is_some() || !gateway.core.is_written() {
            return false;
        }
        if self.ordered_move {
            self.ordered_move = false;
            self.row_names_it = true;
            let waiter = self.waiter();
            let command = Command::Start(Box::new(spec()));
            self.step(Event::Command { waiter, command });
            return true;
        }
        if !snapshot.lost || snapshot.phase != Phase::Dead || self.ended.is_some() {
            return false;
        }
        if self.sandbox_lives {
            // It was given up.
            self.retire();
        }
        self.sandbox_lives = true;
        self.ordered_move = true;
        let (waiter, rules) = (
            self.waiter(),
            Rules {
                restart_limit: 5,
                ..Rules::default()
            },
        );
        let lost = SandboxLoss::default();
        self.step(Event::NewSandbox { waiter, rules, lost });
        true
    }

    fn waiter(&mut self) -> u64 {
        let waiter = self.next_waiter;
        self.next_waiter += 1;
        self.waiters.insert(waiter);
        waiter
    }

    /// Requests that were sent to sandboxes that are gone: each ran or is lost, and it is not known which.
    pub(super) fn sent_before(&self) -> BTreeSet<String> {
        let last = self.disk.records.iter().rposition(|record| is_move(record));
        let before = &self.disk.records[..last.unwrap_or(0)];
        let requests = before
            .iter()
            .filter(|record| RecordKind::from_byte(record.kind) == Some(RecordKind::Request));
        requests.map(|record| key_of(&record.body)).collect()
    }
}

/// Whether the record says that the kernel continues in a new sandbox.
pub(super) fn is_move(record: &himalia_journal::Record) -> bool {
    RecordKind::from_byte(record.kind) == Some(RecordKind::Lifecycle)
        && matches!(
            serde_json::from_slice(&record.body),
            Ok(LifecycleRecord::NewSandbox { .. })
        )
}
