//! Sandboxes that are being killed: what their code says meanwhile is no answer of theirs.

use std::collections::HashMap;
use std::sync::Arc;

use himalia_engine::{Engine, Principal, SessionId};
use parking_lot::Mutex;

/// Sandboxes that clients are killing now, with the number of calls. Clones name the same table.
#[derive(Clone, Debug, Default)]
pub(crate) struct KilledSandboxes(Arc<Mutex<HashMap<SessionId, u32>>>);

impl KilledSandboxes {
    /// A call that kills a sandbox, for as long as the guard lives.
    pub(crate) fn enter(&self, session: SessionId) -> KillCall {
        *self.0.lock().entry(session).or_default() += 1;
        KillCall {
            all: self.clone(),
            session,
        }
    }

    /// True if a sandbox is gone or about to go. Clients then expect that the connection breaks: they look whether it still runs, and
    /// say that it was killed.
    pub(crate) fn is_gone(&self, engine: &Engine, principal: &Principal, session: SessionId) -> bool {
        self.0.lock().contains_key(&session) || engine.kernel(principal, session.first_kernel()).is_err()
    }
}

/// One call that kills.
#[derive(Debug)]
pub(crate) struct KillCall {
    all: KilledSandboxes,
    session: SessionId,
}

impl Drop for KillCall {
    fn drop(&mut self) {
        let mut all = self.all.0.lock();
        if let Some(calls) = all.get_mut(&self.session) {
            *calls -= 1;
            if *calls == 0 {
                all.remove(&self.session);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_is_killed_while_a_call_lasts() {
        let killed = KilledSandboxes::default();
        let session = SessionId(uuid::Uuid::nil());
        let first = killed.enter(session);
        let second = killed.enter(session);
        drop(first);
        assert!(killed.0.lock().contains_key(&session));
        drop(second);
        assert!(killed.0.lock().is_empty());
    }
}
