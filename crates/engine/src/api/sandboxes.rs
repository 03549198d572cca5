//! Sessions with the sandboxes that they run in, branches, templates and pools.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use himalia_model::{
    Action, Branch, EngineError, ForkKernel, KernelId, Object, PoolStatus, Principal, ProvisionerInfo, Role,
    SessionChange, SessionId, SessionInfo, StartSession, TemplateInfo,
};
use himalia_sandbox::{SandboxError, Usage};
use himalia_session::{Pool, SessionKernel, ended_info, ended_session, not_done, over};
use tokio::time::timeout;

use super::Engine;

/// How long a measurement may take.
const USAGE_TIME: Duration = Duration::from_secs(10);

impl Engine {
    /// Starts a kernel as [`Engine::start_kernel`] does, and tells what is around it.
    pub async fn start_session(
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

    /// The session of this name (`start.session_name`), which is started if there is none; whether it was. Calls with one name
    /// take turns, so that they find one session. A template that `start` names must be the session's:
    /// [`EngineError::Conflict`]; the rest of `start` counts for a new one only.
    pub async fn put_session(
        &self,
        principal: &Principal,
        start: StartSession,
    ) -> Result<(SessionInfo, bool), EngineError> {
        self.allow(principal, Action::Create, Object::Kernels)?;
        let (handle, started) = self.inner.start_named(principal, start, true).await?;
        Ok((handle.info(), started))
    }

    /// The session that a text names: by its id, which need not be one, or by the name that its owner gave it. Names are the
    /// principal's own, also for the operator. A name is that of a session that lives; [`EngineError::NameEnded`] tells of the last
    /// one that had it.
    pub fn find_session(&self, principal: &Principal, text: &str) -> Result<SessionId, EngineError> {
        if let Ok(id) = text.parse::<SessionId>() {
            let additional = |handle: Arc<SessionKernel>| handle.session().role == Role::Additional;
            return if self.seen(principal, id.first_kernel()).is_some_and(additional) {
                Err(EngineError::no_session(text))
            } else {
                Ok(id)
            };
        }
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
        found.map(|handle| handle.session_id()).ok_or_else(absent)
    }

    /// Changes what its owner may change of a session. Within its template's limits.
    pub async fn change_session(
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

    /// Every session that the principal sees: its first kernel with what is around it, in order of their start; those that wait in a
    /// pool have no owner and are not listed.
    pub fn session_infos(&self, principal: &Principal) -> Result<Vec<SessionInfo>, EngineError> {
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

    /// One kernel with what is around it; of a session that is over what it was, as long as its log is kept.
    /// [`EngineError::Removed`] afterwards.
    pub fn session_info(&self, principal: &Principal, id: KernelId) -> Result<SessionInfo, EngineError> {
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

    /// What the sandbox of a session uses now, measured from outside; branches share their sandbox. Errors:
    /// [`EngineError::KernelDead`] when it is gone, [`EngineError::Timeout`] when its provisioner does not say in time,
    /// [`EngineError::Unavailable`] while its container engine is away.
    pub async fn session_usage(&self, principal: &Principal, id: SessionId) -> Result<Usage, EngineError> {
        let id = id.first_kernel();
        self.allow(principal, Action::Read, Object::Kernel(id))?;
        let handle = self.handle(principal, id)?;
        let lease = &handle.lease();
        let measured = timeout(USAGE_TIME, lease.provisioner().inspect(lease.id())).await;
        let Ok(measured) = measured else {
            return Err(EngineError::Timeout {
                what: "measuring the sandbox",
                seconds: USAGE_TIME.as_secs(),
            });
        };
        match measured.map(|info| info.usage) {
            Ok(Some(usage)) => Ok(usage),
            Ok(None) | Err(SandboxError::NotFound(_)) => Err(EngineError::KernelDead {
                cause: "its sandbox is gone".into(),
            }),
            Err(error) => Err(not_done(lease.id(), "cannot measure a sandbox", &error)),
        }
    }

    /// Bytes of memory that the sandboxes of these sessions use, measured within the last seconds, for lists; branches share their
    /// sandbox. Sessions that the principal does not see, and those whose use is unknown, are left out.
    pub async fn session_memory(
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

    /// Makes branches of a kernel, one after another: each has the parent's variables as of now, in a process of its own
    /// in the same sandbox. One result for each that was tried, in order; after a failure no other one is. If the caller
    /// goes away meanwhile they are ended again.
    ///
    /// # Errors
    /// When nothing was tried. With `atomic` also the failure of any branch; those before it are ended then.
    pub async fn fork_kernel(
        &self,
        principal: &Principal,
        id: KernelId,
        fork: ForkKernel,
    ) -> Result<Vec<Result<Branch, EngineError>>, EngineError> {
        self.allow(principal, Action::Fork, Object::Kernel(id))?;
        self.allow(principal, Action::Create, Object::Kernels)?;
        let parent = self.handle(principal, id)?;
        self.inner.budget.start(principal)?;
        self.inner.check_disk(principal).await?;
        self.inner.fork_kernel(parent, fork).await
    }

    /// Every template: those of the configuration, then one for each other kernelspec.
    pub async fn templates(&self, principal: &Principal) -> Result<Vec<TemplateInfo>, EngineError> {
        self.allow(principal, Action::Read, Object::Kernelspec(None))?;
        self.inner.templates.list(&self.inner.catalog).await
    }

    /// Every pool, by the names of their templates. For the operator: their counts tell what others do.
    pub fn pools(&self, principal: &Principal) -> Result<Vec<PoolStatus>, EngineError> {
        self.allow(principal, Action::Read, Object::Upkeep)?;
        let pools = self.inner.pools.get();
        Ok(pools
            .into_iter()
            .flat_map(|pools| pools.values())
            .map(Pool::status)
            .collect())
    }

    /// Every provisioner, in order of preference.
    pub fn provisioners(&self, principal: &Principal) -> Result<Vec<ProvisionerInfo>, EngineError> {
        self.allow(principal, Action::Read, Object::Upkeep)?;
        Ok(self.inner.provisioners.infos())
    }
}
