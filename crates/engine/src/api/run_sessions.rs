//! Queries on the sessions of runs, for the crate that keeps the runs: it finds them again by names and ids.

use crate::access::Object;
use himalia_model::{Action, EngineError, KernelId, Principal, StartSession};

use super::Commands;

/// A session that has or had a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedSession {
    /// The id of the session.
    pub kernel: KernelId,
    /// True if it has not ended.
    pub lives: bool,
    /// True if it has ended, or is ending.
    pub ends: bool,
}

/// A kernel whose log can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedKernel {
    /// The tenant of its session, or the operator.
    pub owner: String,
    /// The name of its kernelspec; empty if that was not written down.
    pub kernelspec: String,
}

impl Commands {
    pub(crate) fn session_started_once(
        &self,
        principal: &Principal,
        name: &str,
        start: &StartSession,
    ) -> Result<Option<KernelId>, EngineError> {
        self.allow(principal, Action::Read, Object::Gateway)?;
        self.inner.started_once(principal, name, start)
    }

    pub(crate) fn session_named(
        &self,
        principal: &Principal,
        name: &str,
    ) -> Result<Option<NamedSession>, EngineError> {
        self.allow(principal, Action::Read, Object::Gateway)?;
        if let Some(handle) = self.inner.named(principal.owner(), name) {
            return Ok(Some(NamedSession {
                kernel: handle.id(),
                lives: true,
                ends: handle.ends(),
            }));
        }
        let ended = self.inner.ended.named(principal.owner(), name);
        Ok(ended.map(|row| NamedSession {
            kernel: KernelId(row.id),
            lives: false,
            ends: true,
        }))
    }

    pub(crate) fn logged_kernel(
        &self,
        principal: &Principal,
        kernel: KernelId,
    ) -> Result<LoggedKernel, EngineError> {
        self.allow(principal, Action::Read, Object::Kernel(kernel))?;
        let log = self.log(principal, kernel)?;
        Ok(LoggedKernel {
            owner: log.owner(),
            kernelspec: log.kernelspec(),
        })
    }
}
