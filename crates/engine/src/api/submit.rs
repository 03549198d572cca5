//! One command for an execution and its feed.

use std::sync::Arc;

use himalia_executions::{Execute, ExecutionFeed, SubmittedExecution};
use himalia_model::{EngineError, KernelId, Principal, Role, SessionId};
use himalia_session::SessionKernel;

use super::Commands;
use super::ended::SessionLog;
use crate::audit::Subject;

/// The kernel that runs the code.
#[derive(Clone, Copy, Debug)]
pub enum ExecutionTarget<'a> {
    /// A kernel.
    Kernel(KernelId),
    /// A kernel of a session.
    Session {
        /// The id or the name of the session.
        session: &'a str,
        /// The id of the kernel; `None`: the first one.
        kernel: Option<&'a str>,
    },
}

/// The first event of a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedStart {
    /// The first event of the execution, also if an earlier call with the same key has sent it.
    Beginning,
    /// The next one: earlier events are in the result, and are not read again.
    Now,
}

impl ExecutionTarget<'_> {
    /// The subject of a call before its kernel is known.
    pub(crate) fn subject(self) -> Subject<'static> {
        match self {
            Self::Kernel(id) => Subject::Kernel(id),
            Self::Session { session, .. } => match session.parse::<SessionId>() {
                Ok(id) => Subject::Kernel(id.first_kernel()),
                Err(_) => Subject::Gateway,
            },
        }
    }
}

impl Commands {
    pub(crate) async fn submit(
        &self,
        principal: &Principal,
        target: ExecutionTarget<'_>,
        wanted: Execute,
        from: FeedStart,
    ) -> Result<(SubmittedExecution, ExecutionFeed), EngineError> {
        let handle = self.target(principal, target)?;
        // A caller that can have no feed starts nothing.
        let pace = self.inner.budget.paced_stream(principal)?;
        let submitted = self.execute_in(principal, &handle, wanted).await?;
        let id = submitted.id;
        let source = if handle.is_over() {
            self.log(principal, id.kernel)?
        } else {
            SessionLog::Live(handle)
        };
        let begun = self.known_in(principal, source, id).await?;
        let feed = match from {
            FeedStart::Beginning => self.feed_after(principal, begun, id, 0, pace).await?,
            FeedStart::Now => self.feed_from_now(principal, begun, id, pace).await?,
        };
        Ok((submitted, feed))
    }

    /// Looks up a kernel in which the principal may run code.
    fn target(
        &self,
        principal: &Principal,
        target: ExecutionTarget<'_>,
    ) -> Result<Arc<SessionKernel>, EngineError> {
        let (session, kernel) = match target {
            ExecutionTarget::Kernel(id) => {
                self.may_execute(principal, id)?;
                return self.handle(principal, id);
            }
            ExecutionTarget::Session { session, kernel } => (session, kernel),
        };
        let first = if let Ok(id) = session.parse::<SessionId>() {
            self.may_execute(principal, id.first_kernel())?;
            self.first_kernel(principal, session, id)?
        } else {
            let named = self.named_session(principal, session)?;
            self.may_execute(principal, named.id())?;
            named
        };
        match kernel {
            None => Ok(first),
            Some(text) => self.kernel_of(first, text),
        }
    }

    /// The first kernel of the session with this id.
    fn first_kernel(
        &self,
        principal: &Principal,
        text: &str,
        id: SessionId,
    ) -> Result<Arc<SessionKernel>, EngineError> {
        match self.handle(principal, id.first_kernel()) {
            Ok(handle) if handle.session().role != Role::Additional => Ok(handle),
            Ok(_) | Err(EngineError::NotFound { .. }) => Err(EngineError::no_session(text)),
            Err(error) => Err(error),
        }
    }
}
