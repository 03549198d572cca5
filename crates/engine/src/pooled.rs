//! Kernels that wait in pools, for starts that are served by the replica that has one.

use crate::access::Object;
use himalia_model::{Action, EngineError, HeldKernel, Origin, Principal};

use crate::Engine;
use crate::api::allow;

/// How the search for a kernel that is ready at another replica went, for a start that found none here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// Another replica had one, and the start was relayed to it.
    Served,
    /// No other one had one.
    NoneReady,
    /// A replica that was to have one did not respond, or was lost while it handled the start.
    Failed,
}

impl Engine {
    /// The template whose pool would serve a start with this template or kernelspec; `None` if it has no pool, or the principal may
    /// start nothing.
    pub async fn pooled_template(
        &self,
        principal: &Principal,
        name: Option<&str>,
        origin: Origin,
    ) -> Option<String> {
        self.may_start(principal).ok()?;
        self.commands.inner.pooled_template(name, origin).await
    }

    /// Holds a kernel of a template's pool for a few seconds, for a start of the principal that has it with [`Principal::holding`].
    /// `None`: none is ready, or the principal may start nothing here now.
    pub async fn hold_kernel(&self, principal: &Principal, template: &str) -> Option<HeldKernel> {
        self.may_start(principal).ok()?;
        self.commands.inner.hold_kernel(principal, template).await
    }

    /// The start that a kernel was held for has ended; if it did not claim the kernel, others may.
    pub fn release_held(&self, held: &HeldKernel) {
        self.commands.inner.release_held(held);
    }

    /// Names and addresses of other replicas that have kernels of a template's pool ready, those with the most first.
    pub async fn ready_elsewhere(
        &self,
        template: &str,
        most: u32,
    ) -> Result<Vec<(String, String)>, EngineError> {
        let found = self.commands.inner.ready_elsewhere(template, most).await?;
        Ok(found.into_iter().map(|one| (one.name, one.address)).collect())
    }

    /// A start found nothing ready here, and other replicas were searched.
    pub fn searched(&self, search: Search) {
        let replicas = self.commands.inner.metrics.replicas();
        replicas.searched(match search {
            Search::Served => "served",
            Search::NoneReady => "none_ready",
            Search::Failed => "failed",
        });
    }

    fn may_start(&self, principal: &Principal) -> Result<(), EngineError> {
        allow(&self.commands.inner, principal, Action::Create, Object::Kernels)
    }
}
