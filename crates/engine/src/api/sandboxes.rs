//! Sessions with the sandboxes that they run in, branches, templates and pools.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::access::Object;
use himalia_kernel::{ModelCallTotals, NetworkTotals, ToolCallTotals};
use himalia_model::{
    Action, Branch, EngineError, ForkKernel, KernelId, PoolStatus, Principal, ProvisionerInfo, Role,
    SessionChange, SessionId, SessionInfo, StartSession, TemplateInfo,
};
use himalia_provisioner::{MeasuredBy, SandboxError, Usage};
use himalia_session::{Pool, SessionKernel, ended_info, ended_session, not_done, over};
use tokio::time::timeout;

use super::Commands;

/// How long a measurement may take.
const USAGE_TIME: Duration = Duration::from_secs(10);

/// What a session uses.
#[derive(Clone, Copy, Debug)]
pub struct SessionUsage {
    /// Its sandbox, measured now. Branches share theirs.
    pub sandbox: Usage,
    /// Its connections to the network, those that have ended.
    pub network: NetworkTotals,
    /// Its calls of tools.
    pub tool_calls: ToolCallTotals,
    /// Its calls of models.
    pub model_calls: ModelCallTotals,
    /// Characters that were returned to models about it.
    pub returned_chars: u64,
}

impl Commands {
    pub(crate) async fn start_session(
        &self,
        principal: &Principal,
        start: StartSession,
    ) -> Result<SessionInfo, EngineError> {
        self.allow(principal, Action::Create, Object::Kernels)?;
        let handle = match start.session_name {
            None => self.inner.start_kernel(principal, start).await?,
            Some(_) => self.inner.start_named(principal, start, false).await?.0,
        };
        Ok(handle.info())
    }

    pub(crate) async fn start_run_session(
        &self,
        principal: &Principal,
        start: StartSession,
    ) -> Result<(SessionInfo, bool), EngineError> {
        self.allow(principal, Action::Create, Object::Kernels)?;
        let (handle, started) = match start.session_name {
            None => (self.inner.start_chosen(principal, start).await?, true),
            Some(_) => self.inner.start_named(principal, start, false).await?,
        };
        Ok((handle.info(), started))
    }

    pub(crate) async fn put_session(
        &self,
        principal: &Principal,
        start: StartSession,
    ) -> Result<(SessionInfo, bool), EngineError> {
        self.allow(principal, Action::Create, Object::Kernels)?;
        let (handle, started) = self.inner.start_named(principal, start, true).await?;
        Ok((handle.info(), started))
    }

    pub(crate) fn find_session(&self, principal: &Principal, text: &str) -> Result<SessionId, EngineError> {
        if let Ok(id) = text.parse::<SessionId>() {
            let additional = |handle: Arc<SessionKernel>| handle.session().role == Role::Additional;
            return if self.seen(principal, id.first_kernel()).is_some_and(additional) {
                Err(EngineError::no_session(text))
            } else {
                Ok(id)
            };
        }
        self.named_session(principal, text)
            .map(|handle| handle.session_id())
    }

    /// The first kernel of the session with this name of the principal's own.
    pub(super) fn named_session(
        &self,
        principal: &Principal,
        text: &str,
    ) -> Result<Arc<SessionKernel>, EngineError> {
        self.allow(principal, Action::Read, Object::Gateway)?;
        let found = self.inner.named(principal.owner(), text);
        let found = found.filter(|handle| !handle.is_over());
        let absent = || match self.inner.ended.named(principal.owner(), text) {
            Some(last) => EngineError::NameEnded {
                name: text.chars().take(64).flat_map(char::escape_debug).collect(),
                last: ended_session(&last),
            },
            None => EngineError::no_session(text),
        };
        found.ok_or_else(absent)
    }

    pub(crate) async fn change_session(
        &self,
        principal: &Principal,
        id: SessionId,
        change: SessionChange,
    ) -> Result<SessionInfo, EngineError> {
        let id = id.first_kernel();
        self.allow(principal, Action::Update, Object::Kernel(id))?;
        let handle = self.handle(principal, id)?;
        self.inner.change_session(&handle, change).await
    }

    pub(crate) fn session_infos(&self, principal: &Principal) -> Result<Vec<SessionInfo>, EngineError> {
        self.allow(principal, Action::Read, Object::Gateway)?;
        let all = self.inner.registry.all();
        Ok(all
            .iter()
            .filter(|handle| {
                let session = handle.session();
                !handle.is_over() && session.role != Role::Additional && principal.sees(&session.owner)
            })
            .map(|handle| handle.info())
            .collect())
    }

    pub(crate) fn session_info(
        &self,
        principal: &Principal,
        id: KernelId,
    ) -> Result<SessionInfo, EngineError> {
        self.allow(principal, Action::Read, Object::Kernel(id))?;
        let row = match self.seen(principal, id) {
            Some(handle) if !handle.is_over() => return Ok(handle.info()),
            Some(handle) => self.inner.ended.ending(&handle),
            None => self.inner.ended.get(principal, id),
        };
        let row = row.ok_or_else(|| EngineError::no_kernel(id))?;
        if row.removed_micros.is_some() {
            return Err(over(&row));
        }
        Ok(ended_info(&row, self.inner.ended.retention().time))
    }

    pub(crate) async fn session_usage(
        &self,
        principal: &Principal,
        id: SessionId,
    ) -> Result<SessionUsage, EngineError> {
        let id = id.first_kernel();
        self.allow(principal, Action::Read, Object::Kernel(id))?;
        let handle = self.handle(principal, id)?;
        let lease = &handle.lease();
        let measured = timeout(USAGE_TIME, lease.usage()).await;
        let Ok(measured) = measured else {
            return Err(EngineError::Timeout {
                what: "measuring the sandbox",
                seconds: USAGE_TIME.as_secs(),
            });
        };
        match measured {
            Ok(Some(sandbox)) => Ok(SessionUsage {
                sandbox,
                network: handle.snapshot.borrow().network,
                tool_calls: handle.snapshot.borrow().tool_calls,
                model_calls: handle.snapshot.borrow().model_calls,
                returned_chars: handle.snapshot.borrow().returned.chars,
            }),
            Ok(None) if lease.provisioner().capabilities().measured_by == MeasuredBy::Shim => Err(
                EngineError::unavailable("the sandbox has not been measured yet; that happens every 10 s"),
            ),
            Ok(None) | Err(SandboxError::NotFound(_)) => Err(EngineError::KernelDead {
                cause: "its sandbox is gone".into(),
            }),
            Err(error) => Err(not_done(lease.id(), "cannot measure a sandbox", &error)),
        }
    }

    pub(crate) async fn session_memory(
        &self,
        principal: &Principal,
        ids: &[SessionId],
    ) -> Result<HashMap<SessionId, u64>, EngineError> {
        self.allow(principal, Action::Read, Object::Gateway)?;
        let seen = ids
            .iter()
            .filter_map(|id| self.seen(principal, id.first_kernel()));
        let (ids, leases): (Vec<SessionId>, Vec<_>) =
            seen.map(|handle| (handle.session_id(), handle.lease())).unzip();
        let used = self.inner.memory.read(&leases).await;
        let sessions = ids.into_iter().zip(&leases);
        Ok(sessions
            .filter_map(|(id, lease)| Some((id, *used.get(&lease.id())?)))
            .collect())
    }

    pub(crate) async fn fork_kernel(
        &self,
        principal: &Principal,
        id: KernelId,
        fork: ForkKernel,
    ) -> Result<Vec<Result<Branch, EngineError>>, EngineError> {
        self.allow(principal, Action::Fork, Object::Kernel(id))?;
        self.allow(principal, Action::Create, Object::Kernels)?;
        let parent = self.handle(principal, id)?;
        self.inner.budget.start(principal)?;
        self.inner.check_quotas(principal, true).await?;
        self.inner.fork_kernel(parent, fork).await
    }

    pub(crate) async fn templates(&self, principal: &Principal) -> Result<Vec<TemplateInfo>, EngineError> {
        self.allow(principal, Action::Read, Object::Kernelspec(None))?;
        let mut all = self.inner.templates.list(&self.inner.catalog).await?;
        if let Some(tenant) = self.inner.config.tenants.get(principal.owner()) {
            for info in &mut all {
                info.template.images.retain(|name| tenant.images.contains(name));
                info.template
                    .networks
                    .retain(|name| tenant.networks.contains(name));
            }
        }
        Ok(all)
    }

    pub(crate) fn pools(&self, principal: &Principal) -> Result<Vec<PoolStatus>, EngineError> {
        self.allow(principal, Action::Read, Object::Upkeep)?;
        let pools = self.inner.pools();
        Ok(pools
            .into_iter()
            .flat_map(|pools| pools.values())
            .map(Pool::status)
            .collect())
    }

    pub(crate) fn provisioners(&self, principal: &Principal) -> Result<Vec<ProvisionerInfo>, EngineError> {
        self.allow(principal, Action::Read, Object::Upkeep)?;
        Ok(self.inner.provisioners.infos())
    }
}
