//! What is being started while the gateway stops.

#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common;

use std::sync::Arc;

use common::{TestEngine, op};
use himalia_engine::{Drain, Engine, EngineError, StartSession};
use himalia_provisioner::{
    BoxFuture, Provisioner, SandboxError, SandboxHandle, SandboxId, SandboxInfo, SandboxSpec,
};
use himalia_sandbox::LocalProvisioner;
use himalia_testkit::assert_eventually;
use himalia_testkit::patience::within;
use tokio::sync::Semaphore;

/// Plain processes, each of which is started when the test says so.
#[derive(Debug)]
struct Held {
    within: Arc<LocalProvisioner>,
    asked: Arc<Semaphore>,
    may: Arc<Semaphore>,
}

impl Provisioner for Held {
    passed_on!(within);

    fn start(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<SandboxHandle, SandboxError>> {
        Box::pin(async {
            self.asked.add_permits(1);
            self.may.acquire().await.unwrap().forget();
            self.within.start(spec).await
        })
    }

    fn adopt(&self, id: SandboxId) -> BoxFuture<'_, Result<SandboxHandle, SandboxError>> {
        self.within.adopt(id)
    }

    fn inspect(&self, id: SandboxId) -> BoxFuture<'_, Result<SandboxInfo, SandboxError>> {
        self.within.inspect(id)
    }
}

/// Stops a gateway while the sandbox of a start is made; returns the provisioner when both have ended.
async fn stopped_meanwhile(place: &TestEngine, drain: Drain) -> Arc<LocalProvisioner> {
    let (config, within_it) = place.parts();
    let within_it = Arc::new(within_it);
    let (asked, may) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let provisioner = Held {
        within: Arc::clone(&within_it),
        asked: Arc::clone(&asked),
        may: Arc::clone(&may),
    };
    let engine = Engine::open(config, Arc::new(provisioner)).await.unwrap();
    let starter = engine.clone();
    let started = tokio::spawn(async move {
        starter
            .start_kernel(&op(), StartSession::default())
            .await
            .map(drop)
    });
    within("the start", asked.acquire())
        .await
        .unwrap()
        .unwrap()
        .forget();
    let stopper = engine.clone();
    let stopped = tokio::spawn(async move { stopper.drain(&op(), drain).await });
    assert_eventually!(!engine.ready());
    let late = engine.start_kernel(&op(), StartSession::default()).await;
    assert!(matches!(late, Err(EngineError::Unavailable { .. })), "{late:?}");
    may.add_permits(1);
    within("the stop", stopped).await.unwrap().unwrap().unwrap();
    let _ = within("the start", started).await.unwrap().unwrap();
    within_it
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_under_way_is_ended_with_the_others() {
    let place = TestEngine::new();
    let provisioner = stopped_meanwhile(&place, Drain::StopKernels).await;
    assert!(provisioner.list().await.unwrap().is_empty());
    assert!(place.is_clean());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_under_way_is_left_to_the_next_gateway_with_the_others() {
    let place = TestEngine::new();
    let provisioner = stopped_meanwhile(&place, Drain::KeepKernels).await;
    assert_eq!(provisioner.list().await.unwrap().len(), 1);
    drop(provisioner);
    let next = place.open().await;
    assert_eq!(next.kernels(&op()).unwrap().len(), 1);
    common::stop(next).await;
    assert!(place.is_clean());
}
