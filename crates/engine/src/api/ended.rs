//! Ended sessions, and the logs of sessions whether they have ended or not.

use std::collections::HashSet;
use std::sync::Arc;

use crate::access::Object;
use himalia_executions::Provenance;
use himalia_journal::{Journal, may_block};
use himalia_model::{Action, EngineError, KernelId, Principal, Role, SessionInfo};
use himalia_session::{EndedSessionSnapshot, MAX_KEPT, SessionKernel, ended_info, provenance};
use himalia_store::EndedRecord;

use super::Commands;

/// Where the log of a session is.
#[derive(Debug)]
pub(super) enum SessionLog {
    /// The kernel lives, or is just ending: then its log is complete.
    Live(Arc<SessionKernel>),
    /// It has ended, and the log is kept. While the journal is open it is not removed.
    Ended(Journal, Box<EndedSessionSnapshot>),
}

impl SessionLog {
    pub(super) fn journal(&self) -> &Journal {
        match self {
            Self::Live(handle) => &handle.journal,
            Self::Ended(journal, _) => journal,
        }
    }

    /// The name of its kernelspec; empty if that was not written down.
    pub(super) fn kernelspec(&self) -> String {
        match self {
            Self::Live(handle) => handle.session().kernelspec.clone(),
            Self::Ended(_, ended) => ended.session.kernelspec.clone(),
        }
    }

    /// The tenant that it belongs to, or the operator.
    pub(super) fn owner(&self) -> String {
        match self {
            Self::Live(handle) => handle.session().owner.clone(),
            Self::Ended(_, ended) => ended.session.owner.clone(),
        }
    }

    /// What an execution in it ran in. None of it changes in a session's life.
    pub(super) fn provenance(&self) -> Provenance {
        match self {
            Self::Live(handle) => provenance(&handle.session()),
            Self::Ended(_, ended) => provenance(&ended.session),
        }
    }

    /// Whether nothing will be written to it any more.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Live(handle) => handle.is_over(),
            Self::Ended(..) => true,
        }
    }
}

impl Commands {
    pub(crate) fn ended_sessions(&self, principal: &Principal) -> Result<Vec<SessionInfo>, EngineError> {
        self.allow(principal, Action::Read, Object::Gateway)?;
        let inner = &self.inner;
        let kept = inner.ended.retention().time;
        let mut shown = HashSet::new();
        let is_mine = |row: &EndedRecord| {
            let living = inner.registry.get(KernelId(row.id));
            let living = living.is_some_and(|handle| !handle.is_over());
            !living
                && principal.sees(&row.owner)
                && EndedSessionSnapshot::of_record(row).session.role != Role::Additional
        };
        // An end that is not written down yet comes before all others.
        let ending = inner.registry.all_unordered().into_iter();
        let ending = ending.filter_map(|handle| inner.ended.ending(&handle));
        let ending = ending.filter(|row| row.removed_micros.is_none());
        let all = ending.chain(inner.ended.kept_of(|owner| principal.sees(owner)));
        let mine = all.filter(|row| is_mine(row) && shown.insert(row.id));
        Ok(mine.take(MAX_KEPT).map(|row| ended_info(&row, kept)).collect())
    }

    /// Whether the log of a session can be read: it lives, or ends and is kept.
    pub(super) fn has_log(&self, handle: &SessionKernel) -> bool {
        let is_kept = || {
            let row = self.inner.ended.ending(handle);
            row.is_some_and(|row| row.removed_micros.is_none())
        };
        !handle.is_over() || is_kept()
    }

    /// The log of a session, whether it lives or not. Errors as of [`Engine::handle`], but for an ended one whose log
    /// is kept.
    pub(super) fn log(&self, principal: &Principal, id: KernelId) -> Result<SessionLog, EngineError> {
        let inner = &self.inner;
        if let Some(handle) = self.seen(principal, id) {
            return if self.has_log(&handle) {
                Ok(SessionLog::Live(handle))
            } else {
                Err(inner.over(&handle))
            };
        }
        let (journal, row) = may_block(|| inner.ended_log(principal, id))?;
        Ok(SessionLog::Ended(
            journal,
            Box::new(EndedSessionSnapshot::of_record(&row)),
        ))
    }
}
