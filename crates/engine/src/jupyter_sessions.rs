//! Sessions of the Jupyter REST API: a path bound to a kernel, kept in the store.
//!
//! The rules are `jupyter_server`'s (`services/sessions`), with two differences: a kernel that was exchanged by a
//! change is left alone while another session uses it, and no request that stops waiting leaves half of its work.
//! Deleting a session ends its kernel even if another session uses it, since that is what a client
//! means by it; the other session is dropped when it is next read.

mod engine;
mod input;
#[cfg(test)]
mod tests;
mod view;

use std::future::Future;
use std::sync::Arc;

use crate::access::Object;
use himalia_model::{
    Action, EngineError, JupyterSessionId, KernelId, KernelModel, KernelRef, NewSession, Principal,
    SessionModel, SessionPatch, StartSession, now_micros,
};
use himalia_session::{Gate, Turn, not_stored};
use himalia_store::{JupyterSessionRecord, Scope, Store, StoreError};
use input::{check, start_for};
use view::{existing, model, show};

use crate::access::authorise;

/// What sessions need of kernels. Each call is authorised by its implementation.
pub(crate) trait Kernels: Clone + Send + Sync + 'static {
    /// One kernel; [`EngineError::NotFound`] when it is gone.
    fn kernel(&self, principal: &Principal, id: KernelId) -> Result<KernelModel, EngineError>;

    fn start(
        &self,
        principal: &Principal,
        start: StartSession,
    ) -> impl Future<Output = Result<KernelModel, EngineError>> + Send;

    /// Ends a kernel, unless it is that of a native session; [`EngineError::NotFound`] when it is gone.
    fn shutdown(
        &self,
        principal: &Principal,
        id: KernelId,
    ) -> impl Future<Output = Result<(), EngineError>> + Send;
}

/// All Jupyter sessions. Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct JupyterSessions {
    store: Arc<dyn Store>,
    paths: Arc<Gate>,
}

impl JupyterSessions {
    /// Those in this store.
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            paths: Arc::default(),
        }
    }

    /// The principal's sessions, oldest first. Those whose kernel is gone are dropped.
    pub(crate) async fn list(
        &self,
        kernels: &impl Kernels,
        principal: &Principal,
    ) -> Result<Vec<SessionModel>, EngineError> {
        authorise(principal, Action::Read, Object::Gateway)?;
        let mut models = Vec::new();
        let mut gone = Vec::new();
        for record in self.records(principal).await? {
            match model(kernels, principal, &record)? {
                Some(model) => models.push(model),
                None => gone.push(record.id),
            }
        }
        if !gone.is_empty() {
            self.store.delete_jupyter_sessions(gone).await.map_err(stored)?;
        }
        Ok(models)
    }

    /// One session; [`EngineError::NotFound`] when there is none or its kernel is gone.
    pub(crate) async fn get(
        &self,
        kernels: &impl Kernels,
        principal: &Principal,
        id: JupyterSessionId,
    ) -> Result<SessionModel, EngineError> {
        authorise(principal, Action::Read, Object::JupyterSession(id))?;
        let record = self.record(principal, id).await?;
        if let Some(model) = model(kernels, principal, &record)? {
            return Ok(model);
        }
        self.forget(id).await?;
        Err(no_session(id))
    }

    /// The session with the path of `new`, made if there is none: on the kernel that it names, on a new kernel with
    /// the id that it names if there is no such kernel, else on a new kernel of the kernelspec that it names.
    pub(crate) async fn create<K: Kernels>(
        &self,
        kernels: &K,
        principal: &Principal,
        new: NewSession,
    ) -> Result<SessionModel, EngineError> {
        authorise(principal, Action::Create, Object::JupyterSessions)?;
        check("path", &new.path, true)?;
        check("type", &new.kind, true)?;
        check("name", new.name.as_deref().unwrap_or_default(), false)?;
        let (this, kernels, principal) = (self.clone(), kernels.clone(), principal.clone());
        to_the_end(async move { this.create_checked(&kernels, &principal, new).await }).await
    }

    async fn create_checked(
        &self,
        kernels: &impl Kernels,
        principal: &Principal,
        new: NewSession,
    ) -> Result<SessionModel, EngineError> {
        let _turn = self.turn(principal.owner(), &new.path).await;
        for record in self.records(principal).await? {
            if record.path != new.path {
                continue;
            }
            if let Some(model) = model(kernels, principal, &record)? {
                return Ok(model);
            }
            self.forget(JupyterSessionId(record.id)).await?;
        }
        let (kernel, started) = match existing(kernels, principal, &new.kernel)? {
            Some(kernel) => (kernel, false),
            None => (kernels.start(principal, start_for(&new)).await?, true),
        };
        let id = JupyterSessionId::random();
        let record = JupyterSessionRecord {
            id: id.0,
            owner: principal.owner().to_owned(),
            path: new.path,
            name: new.name.unwrap_or_default(),
            kind: new.kind,
            kernel_id: kernel.id.0,
            created_micros: now_micros(),
        };
        if let Err(error) = self.store.insert_jupyter_session(record.clone()).await {
            if started {
                end(kernels, principal, kernel.id).await;
            }
            return Err(stored(error));
        }
        Ok(show(&record, kernel))
    }

    /// Changes what `patch` names. A changed kernel: the old one is ended unless another session uses it.
    ///
    /// # Errors
    /// [`EngineError::BadRequest`] on `kernel.id` when there is no such kernel; [`EngineError::NoSuchKernelspec`].
    pub(crate) async fn patch<K: Kernels>(
        &self,
        kernels: &K,
        principal: &Principal,
        id: JupyterSessionId,
        patch: SessionPatch,
    ) -> Result<SessionModel, EngineError> {
        authorise(principal, Action::Update, Object::JupyterSession(id))?;
        for (field, text, filled) in [
            ("path", &patch.path, true),
            ("type", &patch.kind, true),
            ("name", &patch.name, false),
        ] {
            check(field, text.as_deref().unwrap_or("unchanged"), filled)?;
        }
        let (this, kernels, principal) = (self.clone(), kernels.clone(), principal.clone());
        to_the_end(async move { this.patch_checked(&kernels, &principal, id, patch).await }).await
    }

    async fn patch_checked(
        &self,
        kernels: &impl Kernels,
        principal: &Principal,
        id: JupyterSessionId,
        patch: SessionPatch,
    ) -> Result<SessionModel, EngineError> {
        let known = self.record(principal, id).await?;
        let _turn = self.turn(&known.owner, &known.path).await;
        let before = self.record(principal, id).await?;
        let principal = &principal.in_place_of(&before.owner);
        if model(kernels, principal, &before)?.is_none() {
            self.forget(id).await?;
            return Err(no_session(id));
        }
        let mut record = before.clone();
        record.path = patch.path.unwrap_or(record.path);
        record.name = patch.name.unwrap_or(record.name);
        record.kind = patch.kind.unwrap_or(record.kind);
        let started = self
            .exchange(kernels, principal, &mut record, patch.kernel)
            .await?;
        match self.store.update_jupyter_session(record.clone()).await {
            Ok(true) => {}
            failed => {
                if let Some(kernel) = started {
                    end(kernels, principal, kernel).await;
                }
                return Err(failed.map_or_else(stored, |_| no_session(id)));
            }
        }
        if record.kernel_id != before.kernel_id && !self.is_used(before.kernel_id).await? {
            end(kernels, principal, KernelId(before.kernel_id)).await;
        }
        model(kernels, principal, &record)?.ok_or_else(|| no_session(id))
    }

    /// Gives the session the kernel that is asked for; a kernel that was started for it is given back.
    async fn exchange(
        &self,
        kernels: &impl Kernels,
        principal: &Principal,
        record: &mut JupyterSessionRecord,
        wanted: Option<KernelRef>,
    ) -> Result<Option<KernelId>, EngineError> {
        let Some(wanted) = wanted else { return Ok(None) };
        if let Some(id) = wanted.id {
            if existing(kernels, principal, &wanted)?.is_none() {
                return Err(EngineError::bad_request(
                    "kernel.id",
                    format!("No such kernel: {id}"),
                ));
            }
            record.kernel_id = id.0;
            return Ok(None);
        }
        if wanted.name.is_none() {
            return Ok(None);
        }
        let new = NewSession {
            path: record.path.clone(),
            kernel: wanted,
            ..NewSession::default()
        };
        let kernel = kernels.start(principal, start_for(&new)).await?;
        record.kernel_id = kernel.id.0;
        Ok(Some(kernel.id))
    }

    /// Ends the session's kernel and forgets the session.
    ///
    /// # Errors
    /// [`EngineError::Gone`] when the kernel was deleted before; the session is forgotten then too.
    pub(crate) async fn delete<K: Kernels>(
        &self,
        kernels: &K,
        principal: &Principal,
        id: JupyterSessionId,
    ) -> Result<(), EngineError> {
        authorise(principal, Action::Delete, Object::JupyterSession(id))?;
        let (this, kernels, principal) = (self.clone(), kernels.clone(), principal.clone());
        to_the_end(async move {
            let known = this.record(&principal, id).await?;
            let _turn = this.turn(&known.owner, &known.path).await;
            let record = this.record(&principal, id).await?;
            match kernels.shutdown(&principal, KernelId(record.kernel_id)).await {
                Ok(()) => this.forget(id).await,
                Err(error) if error.is_absent() => {
                    this.forget(id).await?;
                    Err(EngineError::Gone {
                        reason: "Kernel deleted before session".to_owned(),
                    })
                }
                Err(other) => Err(other),
            }
        })
        .await
    }

    /// One change of a path at a time, among those of its owner.
    async fn turn(&self, owner: &str, path: &str) -> Turn {
        self.paths.enter(&format!("{owner}/{path}")).await
    }

    /// Those of the principal's own: a client takes the session that has its path for its document's, so the operator's has no
    /// sessions of tenants among them.
    async fn records(&self, principal: &Principal) -> Result<Vec<JupyterSessionRecord>, EngineError> {
        let mut records = self.store.jupyter_sessions(Scope::Own).await.map_err(stored)?;
        records.retain(|record| record.owner == principal.owner());
        Ok(records)
    }

    async fn record(
        &self,
        principal: &Principal,
        id: JupyterSessionId,
    ) -> Result<JupyterSessionRecord, EngineError> {
        let record = self.store.jupyter_session(id.0).await.map_err(stored)?;
        record
            .filter(|record| principal.sees(&record.owner))
            .ok_or_else(|| no_session(id))
    }

    async fn is_used(&self, kernel: uuid::Uuid) -> Result<bool, EngineError> {
        let all = self.store.jupyter_sessions(Scope::Own).await.map_err(stored)?;
        Ok(all.iter().any(|record| record.kernel_id == kernel))
    }

    async fn forget(&self, id: JupyterSessionId) -> Result<(), EngineError> {
        self.store
            .delete_jupyter_sessions(vec![id.0])
            .await
            .map(drop)
            .map_err(stored)
    }
}

/// Ends a kernel that nothing refers to any more. The caller's result does not depend on it.
async fn end(kernels: &impl Kernels, principal: &Principal, id: KernelId) {
    match kernels.shutdown(principal, id).await {
        Ok(()) => {}
        Err(error) if error.is_absent() => {}
        Err(error) => tracing::warn!(kernel = %id, %error, "a kernel without a session was not ended"),
    }
}

/// Runs `work` to its end, even if the caller stops waiting: a client that hangs up must not leave a kernel without
/// its session.
async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, EngineError>> + Send + 'static,
) -> Result<T, EngineError> {
    match tokio::spawn(work).await {
        Ok(result) => result,
        Err(error) => Err(EngineError::internal("changing a session", error)),
    }
}

fn no_session(id: JupyterSessionId) -> EngineError {
    EngineError::NotFound {
        what: "Session",
        id: id.to_string(),
    }
}

fn stored(error: StoreError) -> EngineError {
    not_stored("reading or writing sessions", error)
}
