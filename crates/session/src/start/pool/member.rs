//! One kernel that waits.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use himalia_kernel::{Command, Phase, Rules, Stage};
use himalia_kernelspecs::is_ours;
use himalia_model::{EngineError, KernelId};
use himalia_store::RuntimePaths;
use tokio::time::timeout;

use crate::templates::warm_zygote;
use crate::{SessionKernel, SessionManager};

/// Modules that our launcher imports before the kernel answers.
const PRELOAD_VARIABLE: &str = "HIMALIA_PRELOAD";

/// A kernel that was started and has no owner yet.
#[derive(Debug)]
pub(crate) struct PooledKernel {
    pub(super) handle: Arc<SessionKernel>,
    pub(super) paths: RuntimePaths,
    /// Command line that it was started with, for a comparison with the one of a new start.
    pub(super) argv: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
}

impl PooledKernel {
    /// True if it can be claimed now.
    pub(super) fn is_fit(&self) -> bool {
        is_fit(&self.handle)
    }

    /// Waits until it cannot be claimed any more.
    pub(super) fn unfit(&self) -> impl Future<Output = ()> + Send + 'static {
        let handle = Arc::downgrade(&self.handle);
        let (mut snapshot, mut stage) = (self.handle.snapshot.clone(), self.handle.stage.clone());
        async move {
            while handle.upgrade().is_some_and(|handle| is_fit(&handle)) {
                let changed = tokio::select! {
                    changed = snapshot.changed() => changed,
                    changed = stage.changed() => changed,
                };
                if changed.is_err() {
                    return;
                }
            }
        }
    }

    /// Ends it. Returns when nothing of it is left running.
    pub(crate) async fn end(self) {
        self.handle.order(Command::Stop("pool")).await;
        self.handle.gone().await;
    }
}

fn is_fit(handle: &SessionKernel) -> bool {
    let snapshot = handle.snapshot.borrow();
    *handle.stage.borrow() == Stage::Present
        && snapshot.phase == Phase::Running
        && snapshot.ready
        && snapshot.connected
        && snapshot.alive
}

impl SessionManager {
    /// Starts a kernel of a template without an owner, and waits until it is ready. A failure leaves nothing.
    pub(super) async fn start_pooled(self: &Arc<Self>, template: &str) -> Result<PooledKernel, EngineError> {
        let (plan, launch) = self.plan_of_template(template).await?;
        warm_zygote(&plan, &launch, self.catalog.host()).await;
        let id = (KernelId::random(), self.time().micros());
        let (prepared, mut spec) = self.new_sandbox(&plan, &launch, id).await?;
        if !spec.via_zygote && is_ours(&plan.spec) && !plan.preload.is_empty() {
            spec.env
                .insert(PRELOAD_VARIABLE.to_owned(), plan.preload.join(","));
        }
        // One that crashes while it waits is replaced, not started again.
        let mut core = self.new_core(&prepared);
        core.set_rules(Rules::default());
        let paths = prepared.paths.clone();
        let handle = self.start_actor(prepared, core, None, None).await?;
        self.first_process(&handle, spec).await?;
        let mut snapshot = handle.snapshot.clone();
        let up = snapshot.wait_for(|now| now.ready || now.phase != Phase::Running);
        let limit = self.config.ready_timeout;
        let fit = timeout(limit, up).await.is_ok() && is_fit(&handle);
        let pooled = PooledKernel {
            handle,
            paths,
            argv: launch.argv,
            env: launch.base_env,
        };
        if fit {
            return Ok(pooled);
        }
        let reason = pooled.handle.model().reason;
        pooled.end().await;
        Err(EngineError::KernelStart {
            cause: reason.unwrap_or_else(|| "it did not become ready".to_owned()),
            stderr_tail: String::new(),
        })
    }
}
