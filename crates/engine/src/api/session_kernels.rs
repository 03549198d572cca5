//! Commands on the additional kernels of a session.

use std::sync::Arc;

use crate::access::Object;
use himalia_kernel::Command;
use himalia_model::{Action, EngineError, KernelId, NewKernel, Principal, Role, SessionId, SessionInfo};
use himalia_session::SessionKernel;

use super::Commands;

impl Commands {
    pub(crate) async fn start_session_kernel(
        &self,
        principal: &Principal,
        session: SessionId,
        wanted: NewKernel,
    ) -> Result<SessionInfo, EngineError> {
        self.allow(principal, Action::Execute, Object::Kernel(session.first_kernel()))?;
        self.allow(principal, Action::Create, Object::Kernels)?;
        let session = self.session_handle(principal, session)?;
        self.inner.budget.start(principal)?;
        let handle = self.inner.start_additional(session, wanted).await?;
        Ok(handle.info())
    }

    pub(crate) fn session_kernels(
        &self,
        principal: &Principal,
        session: SessionId,
    ) -> Result<Vec<SessionInfo>, EngineError> {
        self.allow(principal, Action::Read, Object::Kernel(session.first_kernel()))?;
        let first = self.session_handle(principal, session)?;
        let additional = self.inner.registry.additional(first.session_id()).into_iter();
        let additional = additional.filter(|handle| !handle.is_over());
        Ok(std::iter::once(first)
            .chain(additional)
            .map(|handle| handle.info())
            .collect())
    }

    pub(crate) fn session_kernel(
        &self,
        principal: &Principal,
        session: SessionId,
        kernel: Option<&str>,
    ) -> Result<KernelId, EngineError> {
        let Some(text) = kernel else {
            return Ok(session.first_kernel());
        };
        self.allow(principal, Action::Read, Object::Kernel(session.first_kernel()))?;
        let first = self.session_handle(principal, session)?;
        Ok(self.kernel_of(first, text)?.id())
    }

    /// The kernel with this id of a session: the first one, or an additional one.
    pub(super) fn kernel_of(
        &self,
        first: Arc<SessionKernel>,
        text: &str,
    ) -> Result<Arc<SessionKernel>, EngineError> {
        let id = text.parse().ok();
        if id == Some(first.id()) {
            return Ok(first);
        }
        let other = id.and_then(|id| self.inner.registry.get(id));
        let of_session = |handle: &Arc<SessionKernel>| {
            !handle.is_over() && handle.session().is_additional_of(first.session_id())
        };
        other.filter(of_session).ok_or_else(|| EngineError::NotFound {
            what: "Kernel",
            id: text.chars().take(64).flat_map(char::escape_debug).collect(),
        })
    }

    pub(crate) async fn end_session_kernel(
        &self,
        principal: &Principal,
        session: SessionId,
        kernel: &str,
    ) -> Result<(), EngineError> {
        self.allow(principal, Action::Delete, Object::Kernel(session.first_kernel()))?;
        let id = self.session_kernel(principal, session, Some(kernel))?;
        if id == session.first_kernel() {
            return Err(EngineError::Conflict {
                reason: "this is the first kernel of its session: end the session to end it".to_owned(),
            });
        }
        let handle = self.handle(principal, id)?;
        handle.order(Command::Stop("killed_by_user")).await;
        handle.gone().await;
        Ok(())
    }

    /// The first kernel of a session.
    fn session_handle(
        &self,
        principal: &Principal,
        session: SessionId,
    ) -> Result<Arc<SessionKernel>, EngineError> {
        let unknown = || EngineError::no_session(&session.to_string());
        let handle = self
            .handle(principal, session.first_kernel())
            .map_err(|_| unknown())?;
        if handle.session().role == Role::Additional {
            return Err(unknown());
        }
        Ok(handle)
    }
}
