//! While the container engine is away, a caller that needs it is asked to come back.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::{TestEngine, op, start, stop, until_state};
use himalia_engine::{Engine, EngineError, SessionId, StartSession};
use himalia_provisioner::{
    BoxFuture, DiskUse, Enforcement, Provisioner, SandboxError, SandboxHandle, SandboxId, SandboxInfo,
    SandboxSpec,
};
use himalia_sandbox::LocalProvisioner;

/// Plain processes, behind an engine that can be away.
#[derive(Debug)]
struct Restarted {
    within: LocalProvisioner,
    away: Arc<AtomicBool>,
}

impl Restarted {
    fn asked(&self) -> Result<(), SandboxError> {
        if self.away.load(Ordering::Acquire) {
            return Err(SandboxError::Engine {
                socket: "/run/engine.sock".into(),
                away: true,
                reason: "connection refused".to_owned(),
            });
        }
        Ok(())
    }
}

impl Provisioner for Restarted {
    passed_on!(within);

    fn start(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<SandboxHandle, SandboxError>> {
        Box::pin(async {
            self.asked()?;
            let mut sandbox = self.within.start(spec).await?;
            sandbox.limits.disk = Enforcement::Watched;
            Ok(sandbox)
        })
    }

    fn adopt(&self, id: SandboxId) -> BoxFuture<'_, Result<SandboxHandle, SandboxError>> {
        self.within.adopt(id)
    }

    fn inspect(&self, id: SandboxId) -> BoxFuture<'_, Result<SandboxInfo, SandboxError>> {
        Box::pin(async move {
            self.asked()?;
            self.within.inspect(id).await
        })
    }

    fn disk_use(&self, _: SandboxId) -> BoxFuture<'_, Result<Option<DiskUse>, SandboxError>> {
        Box::pin(async {
            self.asked()?;
            Ok(None)
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_that_needs_the_engine_says_the_same_while_it_is_away() {
    let place = TestEngine::new();
    let away = Arc::new(AtomicBool::new(false));
    let (config, within) = place.parts();
    let provisioner = Restarted {
        within,
        away: Arc::clone(&away),
    };
    let engine = Engine::open(config, Arc::new(provisioner)).await.unwrap();
    let id = start(&engine).await;
    until_state(&engine, id, "idle").await;
    engine
        .session_usage(&op(), SessionId::of_first_kernel(id))
        .await
        .unwrap();
    drop(engine.write_file(&op(), id, "x", BTreeMap::new()).await.unwrap());

    away.store(true, Ordering::Release);
    let refused = [
        engine
            .session_usage(&op(), SessionId::of_first_kernel(id))
            .await
            .unwrap_err(),
        engine
            .write_file(&op(), id, "x", BTreeMap::new())
            .await
            .err()
            .unwrap(),
        engine.write_archive(&op(), id, "").await.err().unwrap(),
        engine
            .start_kernel(&op(), StartSession::default())
            .await
            .unwrap_err(),
    ];
    for error in refused {
        assert!(matches!(error, EngineError::Unavailable { .. }), "{error:?}");
        assert_eq!(error.to_string(), "the container engine does not answer");
        assert!(error.retryable());
    }
    away.store(false, Ordering::Release);
    engine
        .session_usage(&op(), SessionId::of_first_kernel(id))
        .await
        .unwrap();
    stop(engine).await;
}
