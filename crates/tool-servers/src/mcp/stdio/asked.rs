//! The requests that a program has not answered.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::call::CallError;
use crate::mcp::ticket::Ticket;

/// Requests that were given up, whose late answers are known.
const MAX_GIVEN_UP: usize = 1024;

/// For whom an answer is.
#[derive(Debug)]
pub(super) enum For {
    Us(Ticket),
    Rmcp,
    /// Who asked does not wait any more.
    NoOne,
}

/// What is asked now, by number.
#[derive(Debug, Default)]
pub(super) struct Asked(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    open: BTreeMap<i64, For>,
    given_up: VecDeque<i64>,
    /// Why no more answers come.
    ended: Option<&'static str>,
}

impl Asked {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request is about to be written.
    pub(super) fn ask(&self, number: i64, whose: For) {
        let mut state = self.state();
        match (state.ended, whose) {
            (Some(reason), For::Us(ticket)) => ticket.answer(Err(CallError::Lost(reason.to_owned()))),
            (_, whose) => {
                state.open.insert(number, whose);
            }
        }
    }

    /// For whom the answer to a request is, which has come. `None`: no one has asked.
    pub(super) fn take(&self, number: i64) -> Option<For> {
        let mut state = self.state();
        if let Some(whose) = state.open.remove(&number) {
            return Some(whose);
        }
        let at = state.given_up.iter().position(|one| *one == number)?;
        state.given_up.remove(at);
        Some(For::NoOne)
    }

    /// No one waits for this answer any more. Whether it had not come.
    pub(super) fn give_up(&self, number: i64) -> bool {
        let mut state = self.state();
        let was_open = state.open.remove(&number).is_some();
        if was_open {
            state.given_up.push_back(number);
            if state.given_up.len() > MAX_GIVEN_UP {
                state.given_up.pop_front();
            }
        }
        was_open
    }

    /// The most bytes of an answer that may come.
    pub(super) fn longest(&self) -> usize {
        let state = self.state();
        let most = state.open.values().filter_map(|whose| match whose {
            For::Us(ticket) => Some(ticket.most()),
            For::Rmcp | For::NoOne => None,
        });
        most.max().unwrap_or_default()
    }

    /// No more answers come: what was asked may have been done.
    pub(super) fn end(&self, reason: &'static str) {
        let mut state = self.state();
        state.ended = Some(reason);
        for whose in std::mem::take(&mut state.open).into_values() {
            if let For::Us(ticket) = whose {
                ticket.answer(Err(CallError::Lost(reason.to_owned())));
            }
        }
    }
}

/// The number of the request that a message answers, of which only the beginning is there. Servers write it before the result.
pub(super) fn number_in(head: &[u8]) -> Option<i64> {
    let text = String::from_utf8_lossy(head);
    let (before, rest) = text.split_once("\"id\"")?;
    if before.contains("\"result\"") || before.contains("\"method\"") {
        return None;
    }
    let value = rest.trim_start().strip_prefix(':')?.trim_start();
    let digits: String = value
        .trim_start_matches('"')
        .chars()
        .take_while(|letter| letter.is_ascii_digit() || *letter == '-')
        .collect();
    digits.parse().ok()
}
