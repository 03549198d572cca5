//! Kind of a request, its lane, and the hash by which answers find it.

use std::hash::{DefaultHasher, Hash, Hasher};

use himalia_shim_protocol::Lane;
use himalia_wire::Channel;

/// Kind of a request, as far as the engine needs it. Stored in the request record's `word`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RequestKind {
    /// `execute_request`: always gets a reply and an idle.
    Execute = 1,
    /// Any other `…_request`: gets a reply and an idle from kernels that know it.
    Request = 2,
    /// No reply, an idle only.
    Notice = 3,
    /// `shutdown_request{restart: false}`: the kernel is meant to end.
    Shutdown = 4,
    /// `kernel_info_request` of the engine itself, for readiness.
    Probe = 5,
    /// A question of the engine itself: done with its reply.
    Question = 6,
}

impl RequestKind {
    /// Kind for a request record's `word`; kinds of a later version are requests.
    pub fn from_word(word: u32) -> Self {
        [
            Self::Execute,
            Self::Notice,
            Self::Shutdown,
            Self::Probe,
            Self::Question,
        ]
        .into_iter()
        .find(|kind| *kind as u32 == word)
        .unwrap_or(Self::Request)
    }

    /// True for questions of the engine itself. Such a request is not sent again: the engine asks anew, or says that it could not.
    pub(crate) fn is_engines(self) -> bool {
        matches!(self, Self::Probe | Self::Question)
    }

    pub(super) fn replies(self) -> bool {
        self != Self::Notice
    }
}

/// The hash by which a request is found when a message names it as its parent.
pub fn parent_key(msg_id: &str, session: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (msg_id, session).hash(&mut hasher);
    hasher.finish()
}

/// The lane that requests of a channel, and their answers, use.
pub(crate) fn lane_of(channel: Channel) -> Lane {
    if channel == Channel::Control {
        Lane::Now
    } else {
        Lane::Data
    }
}
