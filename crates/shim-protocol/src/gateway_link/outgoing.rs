use std::collections::VecDeque;

use bytes::Bytes;

use super::PendingRequest;

/// A request from when it is numbered until the shim has accepted it.
#[derive(Debug)]
struct OutgoingRequest {
    request: PendingRequest,
    state: State,
    /// Number of its record, 0 for none.
    record: u64,
}

/// State of a request before its acceptance.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    /// The record is not written: neither the request nor a later one of its lane may be sent.
    Unrecorded,
    /// It may be sent.
    Ready,
    /// It was sent, and is sent again after each hello until it is accepted.
    Sent,
}

/// The requests of one lane in the order of their numbers, which is the order in which they are sent: the sent ones come first.
#[derive(Debug, Default)]
pub(super) struct Queue {
    requests: VecDeque<OutgoingRequest>,
    bytes: usize,
}

impl Queue {
    /// Adds a request with the next number. `ready`: it needs no record.
    pub(super) fn push(&mut self, request: PendingRequest, ready: bool) {
        self.bytes += request.body.len();
        let state = if ready { State::Ready } else { State::Unrecorded };
        self.requests.push_back(OutgoingRequest {
            request,
            state,
            record: 0,
        });
    }

    fn find(&self, number: u64) -> Option<usize> {
        self.requests
            .binary_search_by_key(&number, |outgoing| outgoing.request.number)
            .ok()
    }

    /// The record of a request is written.
    pub(super) fn recorded(&mut self, number: u64, record: u64) {
        let found = self.find(number).and_then(|at| self.requests.get_mut(at));
        if let Some(outgoing) = found.filter(|outgoing| outgoing.state == State::Unrecorded) {
            (outgoing.state, outgoing.record) = (State::Ready, record);
        }
    }

    /// Removes a request that was not sent. Returns its body.
    pub(super) fn give_up(&mut self, number: u64) -> Option<Bytes> {
        let at = self.find(number)?;
        if self.requests.get(at)?.state == State::Sent {
            return None;
        }
        let body = self.requests.remove(at)?.request.body;
        self.bytes -= body.len();
        Some(body)
    }

    /// The next request to send; it counts as sent.
    pub(super) fn take_ready(&mut self) -> Option<PendingRequest> {
        let first = self
            .requests
            .partition_point(|outgoing| outgoing.state == State::Sent);
        let outgoing = self.requests.get_mut(first)?;
        if outgoing.state != State::Ready {
            return None;
        }
        outgoing.state = State::Sent;
        Some(outgoing.request.clone())
    }

    /// A new connection: what was sent on an earlier one is sent again.
    pub(super) fn send_again(&mut self) {
        let sent = self
            .requests
            .iter_mut()
            .take_while(|outgoing| outgoing.state == State::Sent);
        sent.for_each(|outgoing| outgoing.state = State::Ready);
    }

    /// The shim has accepted all up to `number`. What was not sent stays, whatever a shim says.
    pub(super) fn accepted(&mut self, number: u64) {
        let accepted =
            |first: &mut OutgoingRequest| first.state == State::Sent && first.request.number <= number;
        while let Some(outgoing) = self.requests.pop_front_if(accepted) {
            self.bytes -= outgoing.request.body.len();
        }
    }

    /// Forgets the record of a request that the shim will not do.
    pub(super) fn refused(&mut self, number: u64) {
        if let Some(outgoing) = self.find(number).and_then(|at| self.requests.get_mut(at)) {
            outgoing.record = 0;
        }
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        self.find(number).is_some()
    }

    /// Requests that have a record, with its number.
    pub(super) fn with_record(&self) -> impl Iterator<Item = (u64, u64)> {
        let recorded = self.requests.iter().filter(|outgoing| outgoing.record != 0);
        recorded.map(|outgoing| (outgoing.request.number, outgoing.record))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &PendingRequest> {
        self.requests.iter().map(|outgoing| &outgoing.request)
    }

    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HEAD_BYTES, Kind};

    fn queue(requests: &[(u64, bool)]) -> Queue {
        let mut queue = Queue::default();
        for &(number, ready) in requests {
            let pending = PendingRequest {
                number,
                kind: Kind::Message,
                head: [0; HEAD_BYTES],
                body: Bytes::from_static(b"code"),
            };
            queue.push(pending, ready);
        }
        queue
    }

    fn ready(queue: &mut Queue) -> Vec<u64> {
        std::iter::from_fn(|| queue.take_ready())
            .map(|pending| pending.number)
            .collect()
    }

    #[test]
    fn a_request_without_a_record_holds_back_what_is_behind_it() {
        let mut queue = queue(&[(1, true), (3, false), (4, true)]);
        assert_eq!(ready(&mut queue), [1]);
        queue.recorded(3, 30);
        assert_eq!(ready(&mut queue), [3, 4]);
        queue.recorded(3, 31);
        assert_eq!(queue.with_record().collect::<Vec<_>>(), [(3, 30)]);
    }

    #[test]
    fn what_was_sent_is_sent_again_until_it_is_accepted() {
        let mut queue = queue(&[(1, true), (2, true), (5, false)]);
        assert_eq!(ready(&mut queue), [1, 2]);
        queue.accepted(1);
        queue.send_again();
        assert_eq!(ready(&mut queue), [2]);
        queue.recorded(5, 9);
        queue.refused(5);
        assert_eq!((queue.with_record().count(), queue.len()), (0, 2));
        queue.accepted(5);
        assert_eq!(queue.len(), 1, "it was not sent");
        assert_eq!(ready(&mut queue), [5]);
        queue.accepted(5);
        assert_eq!((queue.len(), queue.bytes()), (0, 0));
    }

    #[test]
    fn only_what_was_not_sent_can_be_given_up() {
        let mut queue = queue(&[(1, true), (2, false), (3, true)]);
        assert_eq!(ready(&mut queue), [1]);
        assert_eq!(queue.give_up(1), None);
        assert_eq!(queue.give_up(2).as_deref(), Some(&b"code"[..]));
        assert_eq!(queue.give_up(2), None);
        assert!(!queue.contains(2) && queue.contains(1));
        assert_eq!((ready(&mut queue), queue.bytes()), (vec![3], 8));
    }
}
