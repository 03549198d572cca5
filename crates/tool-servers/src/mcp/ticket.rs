//! A question of ours, as it passes `rmcp` on its way to the transport: with its bounds, and with a place for the answer.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use himalia_upstream::SentFlag;
use http::{HeaderName, HeaderValue};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::questions::Line;
use crate::call::CallError;

/// The result of a request as JSON, and the bytes of its response.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) result: Bytes,
    pub(super) bytes: usize,
}

/// Rides in the extensions of a request, which are not sent. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Ticket(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    most: usize,
    headers: Vec<(HeaderName, HeaderValue)>,
    person: Option<Line>,
    sent: SentFlag,
    given_up: CancellationToken,
    /// True if no part of it may be sent any more.
    closed: Mutex<bool>,
    answer: Mutex<Option<Result<Answer, CallError>>>,
}

impl Ticket {
    /// For an answer of at most so many bytes to a request with these headers in addition to those of `rmcp`. `person` answers what the server asks meanwhile. When the guard is dropped, the request is not sent any more, or its connection is closed.
    pub(super) fn new(
        most: usize,
        headers: Vec<(HeaderName, HeaderValue)>,
        person: Option<Line>,
    ) -> (Self, DropGuard) {
        let given_up = CancellationToken::new();
        let guard = given_up.clone().drop_guard();
        let inner = Inner {
            most,
            headers,
            person,
            sent: SentFlag::default(),
            given_up,
            closed: Mutex::new(false),
            answer: Mutex::new(None),
        };
        (Self(Arc::new(inner)), guard)
    }

    pub(super) fn most(&self) -> usize {
        self.0.most
    }

    pub(super) fn headers(&self) -> &[(HeaderName, HeaderValue)] {
        &self.0.headers
    }

    pub(super) fn person(&self) -> Option<&Line> {
        self.0.person.as_ref()
    }

    pub(super) fn sent(&self) -> &SentFlag {
        &self.0.sent
    }

    /// It is about to be sent, unless that is too late.
    pub(super) fn begin(&self) -> bool {
        let closed = self.0.closed.lock().unwrap_or_else(PoisonError::into_inner);
        if *closed || self.is_given_up() {
            return false;
        }
        self.0.sent.note();
        true
    }

    /// It is too late to send it. Whether it may have been sent.
    pub(super) fn close(&self) -> bool {
        *self.0.closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.sent.is_sent()
    }

    /// True if the caller no longer waits.
    pub(super) fn is_given_up(&self) -> bool {
        self.0.given_up.is_cancelled()
    }

    /// Ends when the caller no longer waits.
    pub(super) async fn given_up(&self) {
        self.0.given_up.cancelled().await;
    }

    /// Puts the answer down, before `rmcp` hears that there is one.
    pub(super) fn answer(&self, answer: Result<Answer, CallError>) {
        *self.0.answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
    }

    pub(super) fn take(&self) -> Option<Result<Answer, CallError>> {
        self.0
            .answer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }
}
