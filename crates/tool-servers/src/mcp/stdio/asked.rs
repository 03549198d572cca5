//! The requests that a program has not answered.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::call::CallError;
use crate::mcp::ticket::Ticket;

/// Requests that were given up, whose late answers are known.
const MAX_GIVEN_UP: usize = 1024;

/// For whom an answer is.
#[derive(Debug)]
pub(super) enum AnswerTarget {
    Us(Ticket),
    Rmcp,
    /// The asking task no longer waits.
    NoOne,
}

/// Requests in progress, by number.
#[derive(Debug, Default)]
pub(super) struct OpenRequests(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    open: BTreeMap<i64, AnswerTarget>,
    given_up: VecDeque<i64>,
    /// Reason why no more answers come.
    ended: Option<&'static str>,
}

impl OpenRequests {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request is about to be written.
    pub(super) fn ask(&self, number: i64, whose: AnswerTarget) {
        let mut state = self.state();
        match (state.ended, whose) {
            (Some(reason), AnswerTarget::Us(ticket)) => {
                ticket.answer(Err(CallError::Lost(reason.to_owned())));
            }
            (_, whose) => {
                state.open.insert(number, whose);
            }
        }
    }

    /// For whom the answer to a request is, which has come. `None`: no one has asked.
    pub(super) fn take(&self, number: i64) -> Option<AnswerTarget> {
        let mut state = self.state();
        if let Some(whose) = state.open.remove(&number) {
            return Some(whose);
        }
        let at = state.given_up.iter().position(|one| *one == number)?;
        state.given_up.remove(at);
        Some(AnswerTarget::NoOne)
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
            AnswerTarget::Us(ticket) => Some(ticket.most()),
            AnswerTarget::Rmcp | AnswerTarget::NoOne => None,
        });
        most.max().unwrap_or_default()
    }

    /// No more answers come: what was asked may have been done.
    pub(super) fn end(&self, reason: &'static str) {
        let mut state = self.state();
        state.ended = Some(reason);
        for whose in std::mem::take(&mut state.open).into_values() {
            if let AnswerTarget::Us(ticket) = whose {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_is_read_from_the_beginning_of_an_answer_alone() {
        for (head, expected) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{"cont"#, Some(7)),
            (r#"{ "id" : "12" , "result": "#, Some(12)),
            (r#"{"jsonrpc":"2.0","result":{"id":7,"#, None),
            (r#"{"jsonrpc":"2.0","method":"x","id":7"#, None),
            (r#"{"jsonrpc":"2.0","result":"#, None),
            ("xxxxxx", None),
        ] {
            assert_eq!(number_in(head.as_bytes()), expected, "{head}");
        }
    }

    #[test]
    fn a_late_answer_is_known_and_one_that_no_one_asked_for_is_not() {
        let asked = OpenRequests::default();
        let (ticket, _guard) = Ticket::new(100, Vec::new(), None);
        asked.ask(1, AnswerTarget::Us(ticket.clone()));
        assert_eq!(asked.longest(), 100);
        assert!(asked.give_up(1) && !asked.give_up(1) && !asked.give_up(2));
        assert_eq!(asked.longest(), 0);
        assert!(matches!(asked.take(1), Some(AnswerTarget::NoOne)) && asked.take(1).is_none());
        for number in 0..5000 {
            asked.ask(number, AnswerTarget::Rmcp);
            asked.give_up(number);
        }
        assert_eq!(asked.state().given_up.len(), MAX_GIVEN_UP);
        asked.ask(1, AnswerTarget::Us(ticket.clone()));
        asked.end("it has ended");
        assert!(matches!(ticket.take(), Some(Err(CallError::Lost(_)))));
        asked.ask(2, AnswerTarget::Us(ticket.clone()));
        assert!(matches!(ticket.take(), Some(Err(CallError::Lost(_)))));
    }
}
