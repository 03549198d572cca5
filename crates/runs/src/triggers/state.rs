//! The state that commands on triggers share with the tasks that start runs and post prompts.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use himalia_model::Principal;
use tokio::sync::Notify;

/// The principal of the mark of a token, as long as the token is valid.
pub(super) type TokenMarks = Box<dyn Fn(&str) -> Option<Principal> + Send + Sync>;

/// The state that commands and the task that starts runs share.
#[derive(Default)]
pub(crate) struct Triggers {
    pub(super) marked: OnceLock<TokenMarks>,
    pub(super) wake: Notify,
    /// Persons are asked something, or a webhook is there that does not know what.
    pub(crate) asks: Notify,
    /// True if there may be something to do.
    pub(super) any: AtomicBool,
}

impl std::fmt::Debug for Triggers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Triggers")
    }
}

impl Triggers {
    /// Returns true once it is known which tokens are valid: when the gateway listens.
    pub(crate) fn knows_tokens(&self) -> bool {
        self.marked.get().is_some()
    }

    /// Something changed.
    pub(crate) fn wake(&self) {
        self.any.store(true, Ordering::Release);
        self.wake.notify_one();
    }
}
