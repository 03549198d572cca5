//! Why a connection ends, as the code and text of a close frame.
//!
//! `JupyterLab` does not reconnect after 1000 and 1001, so these two are never sent while the kernel lives.
//!
//! | code | when | what a client should do |
//! |---|---|---|
//! | 1000 | the kernel is gone; `status: dead` was sent before. Of events: there are no more | nothing |
//! | 1002 | broken WebSocket protocol | fix the client |
//! | 1003 | a text message on the v1 subprotocol, which is binary; any message where events are sent | fix the client |
//! | 1007 | a message that is not what its framing says, or a text that is not UTF-8 | fix the client |
//! | 1008 | pings or pongs without end | ping less |
//! | 1009 | a message over a size limit | send less |
//! | 1011 | the kernel's log cannot be read | reconnect |
//! | 1012 | the gateway stops | reconnect with the same `session_id`, for events with `after`: nothing is lost |
//! | 1013 | the client took nothing, or answered no ping, for too long | the same |
//! | 4001 | a newer connection uses the same `session_id` | nothing |

use std::borrow::Cow;

use himalia_engine::FeedClosed;

/// A close code with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Close {
    pub(crate) code: u16,
    /// Cut to 123 bytes when sent.
    pub(crate) reason: Cow<'static, str>,
}

impl Close {
    fn new(code: u16, reason: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            reason: reason.into(),
        }
    }

    /// For the end of a feed.
    pub(crate) fn of(closed: &FeedClosed) -> Self {
        match closed {
            FeedClosed::KernelGone => Self::kernel_gone(),
            FeedClosed::Draining => Self::draining(),
            FeedClosed::Replaced => Self::replaced(),
            _ => Self::internal(),
        }
    }

    pub(crate) fn complete() -> Self {
        Self::new(1000, "there are no more events")
    }

    pub(crate) fn kernel_gone() -> Self {
        Self::new(1000, "the kernel is gone")
    }

    pub(crate) fn protocol(reason: &'static str) -> Self {
        Self::new(1002, reason)
    }

    pub(crate) fn unsupported(reason: &'static str) -> Self {
        Self::new(1003, reason)
    }

    pub(crate) fn invalid(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(1007, reason)
    }

    pub(crate) fn too_often(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(1008, reason)
    }

    pub(crate) fn too_big(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::new(1009, reason)
    }

    pub(crate) fn internal() -> Self {
        Self::new(1011, "the log of the kernel cannot be read")
    }

    pub(crate) fn draining() -> Self {
        Self::new(1012, "the gateway stops")
    }

    pub(crate) fn stalled() -> Self {
        Self::new(1013, "too slow; reconnect to continue")
    }

    pub(crate) fn silent() -> Self {
        Self::new(1013, "no answer to pings; reconnect to continue")
    }

    pub(crate) fn replaced() -> Self {
        Self::new(4001, "replaced by a newer connection")
    }

    /// The payload of the close frame: at most 125 bytes.
    pub(crate) fn payload(&self) -> Vec<u8> {
        let mut end = self.reason.len().min(123);
        while !self.reason.is_char_boundary(end) {
            end -= 1;
        }
        let mut payload = self.code.to_be_bytes().to_vec();
        payload.extend_from_slice(self.reason.as_bytes().get(..end).unwrap_or_default());
        payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_reasons_are_cut_between_characters() {
        let payload = Close::invalid("é".repeat(100)).payload();
        assert_eq!(payload.len(), 2 + 122);
        assert!(std::str::from_utf8(&payload[2..]).is_ok());
    }
}
