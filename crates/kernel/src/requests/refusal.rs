//! Requests that the shim has accepted and refused: they never ran.
//!
//! A message that only found no process, or no room, goes again under a new number once that may help. Its record is
//! read back from the journal, since a frame that the shim has accepted is not kept. Whatever else is refused ends
//! with the lifecycle record that says so.

use std::sync::Arc;

use himalia_journal::Record;
use himalia_shim_protocol::{Lane, RefusalKind, RequestRefused};

use super::carried::{CarriedRequest, held_again};
use super::kind::RequestKind;
use crate::core::Core;
use crate::event::{CommandError, Effect};
use crate::executions::records::execution_of;
use crate::life::Phase;
use crate::life::records::LifecycleRecord;

impl Core {
    /// Number of the record of a refused message, 0 if it is not known, and whether it is sent again. An order never is:
    /// its caller is notified.
    pub(crate) fn judge_refusal(&self, refused: &RequestRefused) -> (u64, bool) {
        let Some(entry) = self.requests.ledger.refusable(refused.request) else {
            return (0, false);
        };
        let again = refused.kind != RefusalKind::Never
            && self.life.phase() != Phase::Ended
            && entry.seq != 0
            && !entry.kind.is_engines()
            // A native execution goes back to its own queue.
            && execution_of(entry.owner).is_none()
            // A shim that takes back what was answered is not believed.
            && !entry.replied
            && !entry.idle;
        (entry.seq, again)
    }

    pub(crate) fn refused(&mut self, refused: &RequestRefused, again: bool, out: &mut Vec<Effect>) {
        let id = refused.request;
        tracing::info!(reason = %refused.reason, again, "the shim refused a request");
        let error = CommandError::Refused(refused.reason.clone());
        let waiters = self.life.waiters();
        waiters.answer(|what| what.request() == Some(id), &Err(error), out);
        self.outbox.refused(id);
        let entry = self.requests.never_ran(id, again);
        if entry
            .as_ref()
            .is_some_and(|entry| entry.kind == RequestKind::Question)
        {
            self.questions
                .failed(id, CommandError::Refused(refused.reason.clone()));
        }
        if let Some(seq) = entry.as_ref().and_then(|entry| execution_of(entry.owner)) {
            self.execution_refused(seq, refused.kind, &refused.reason);
        }
        let Some(entry) = entry.filter(|_| again) else {
            return;
        };
        let requests = &mut self.requests;
        requests.pause_after(refused.kind, entry.channel, self.now.mono);
        let carried = requests.carried[entry.lane()].get(&entry.seq);
        if carried.is_some_and(|carried| carried.held.is_none()) {
            out.push(Effect::Fetch(entry.seq));
        }
    }

    /// The answer to [`Effect::Fetch`]: the record of a refused request, if there still is one.
    pub(crate) fn fetched(&mut self, seq: u64, record: Option<&Arc<Record>>) {
        if self.fetched_lost(seq, record) {
            return;
        }
        let Some((lane, carried)) = Lane::ALL
            .into_iter()
            .find_map(|lane| Some((lane, self.requests.carried[lane].remove(&seq)?)))
        else {
            return;
        };
        let held = record.and_then(|record| held_again(record));
        let Some(held) = held.filter(|held| self.requests.backlog.takes_back(&held.request)) else {
            self.decide(&LifecycleRecord::Refused {
                reason: "it cannot be sent again".to_owned(),
                record: seq,
                again: false,
            });
            return;
        };
        if self.outbox.greeted() {
            self.requests.backlog.put_back(held);
            self.release();
        } else {
            // It takes its place when all that earlier epochs left is known.
            let held = Some(held);
            self.requests.carried[lane].insert(seq, CarriedRequest { held, ..carried });
        }
    }
}
