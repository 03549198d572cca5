//! Starts a pod. A start that fails leaves nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use himalia_provisioner::{
    Files, MountKind, Network, SandboxError, SandboxHandle, SandboxId, SandboxSpec, check_mounts,
};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::PostParams;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use crate::error::{call, code, failed};
use crate::files;
use crate::inner::Inner;
use crate::member::Member;
use crate::names::Names;
use crate::observe::{Obstacle, PodPhase, UNSCHEDULABLE};
use crate::pod::{self, Parts};

/// Time to wait for an obstacle to pass, except the lack of a node.
const OBSTACLE_TIME: Duration = Duration::from_secs(30);

/// The namespace may have no more.
const QUOTA: &str = "quota";

/// Kinds of mounts that pods support.
pub(crate) const MOUNTS: &[MountKind] = &[MountKind::Claim];

/// Checks what no call is needed for.
pub(crate) fn check(inner: &Inner, spec: &SandboxSpec) -> Result<(), SandboxError> {
    spec.check()?;
    pod::check_limits(&spec.limits)?;
    if let Network::Open(name) = &spec.network {
        return Err(SandboxError::NetworkUnsupported { wanted: name.clone() });
    }
    check_mounts(&spec.mounts, MOUNTS)?;
    let given = inner.config.kind(spec.runtime.as_deref())?.isolation;
    if spec.minimum > given {
        return Err(SandboxError::Isolation {
            wanted: spec.minimum,
            given,
        });
    }
    inner.config.image(spec.image.as_deref())?;
    Ok(())
}

/// Starts a sandbox in a task of its own: a caller that goes away leaves nothing half-made.
pub(crate) async fn start(inner: &Arc<Inner>, spec: SandboxSpec) -> Result<SandboxHandle, SandboxError> {
    check(inner, &spec)?;
    inner.follow();
    let isolation = inner.config.kind(spec.runtime.as_deref())?.isolation;
    let member = inner.insert(Member::new(SandboxId::generate()?, isolation));
    let (mut answer, wanted) = oneshot::channel();
    let inner = Arc::clone(inner);
    tokio::spawn(async move {
        let started = match make(&inner, &member, &spec, &mut answer).await {
            Ok(()) => inner.handle(&member),
            Err(error) => Err(error),
        };
        match started {
            Ok(handle) => {
                if answer.send(Ok(handle)).is_err() {
                    undo(&inner, &member).await;
                }
            }
            // Without the API server nothing can be removed now, and the caller does not wait for that.
            Err(error @ SandboxError::Cluster { away: true, .. }) => {
                let _ = answer.send(Err(error));
                undo(&inner, &member).await;
            }
            Err(error) => {
                undo(&inner, &member).await;
                // Last: who learns of a failure finds nothing left.
                let _ = answer.send(Err(error));
            }
        }
    });
    wanted.await.map_err(|_| SandboxError::Closed)?
}

/// Removes what a start has left that failed, or that no caller waits for.
async fn undo(inner: &Arc<Inner>, member: &Member) {
    member.stopping.store(true, Ordering::Release);
    if let Err(error) = inner.delete(member.id, 0).await {
        tracing::warn!(sandbox = %member.id, %error, "what a failed start left stays until the next start");
    }
    inner.forget(member.id);
}

/// `answer`: whom the start is for. A call that is under way is not given up, because the cluster may carry it out later.
async fn make(
    inner: &Arc<Inner>,
    member: &Arc<Member>,
    spec: &SandboxSpec,
    answer: &mut oneshot::Sender<Result<SandboxHandle, SandboxError>>,
) -> Result<(), SandboxError> {
    let config = &inner.config;
    let claim = match &spec.files {
        Files::Ephemeral => None,
        Files::Session(name) => Some(files::ensure(inner, name, &spec.limits).await?),
    };
    let parts = Parts {
        id: member.id,
        names: &inner.names,
        authority: inner.authorities.fingerprint(),
        config,
        kind: config.kind(spec.runtime.as_deref())?,
        image: config.image(spec.image.as_deref())?,
        claim: claim.as_deref(),
    };
    let pair = inner.authorities.sandbox(&Names::certified(member.id))?;
    let secret = pod::secret(&parts, inner.authorities.cert(), &pair, spec.key.expose());
    create_secret(inner, &secret).await?;
    let made = create_pod(inner, &pod::pod(&parts, spec, member.isolation)).await?;
    member.made(made);
    tokio::select! {
        ran = runs(inner, member) => ran?,
        () = answer.closed() => return Err(SandboxError::Closed),
    }
    // The init container has copied it.
    inner.delete_secret(member.id).await
}

async fn create_secret(inner: &Inner, secret: &Secret) -> Result<(), SandboxError> {
    let (secrets, params) = (inner.secrets(), PostParams::default());
    let made = call("create a secret", async || {
        there(secrets.create(&params, secret).await.map(drop))
    });
    made.await.map_err(|error| failed("create a secret", &error))
}

async fn create_pod(inner: &Inner, pod: &Pod) -> Result<Pod, SandboxError> {
    let (pods, params) = (inner.pods(), PostParams::default());
    let name = pod.metadata.name.clone().unwrap_or_default();
    let made = call("create a pod", async || match pods.create(&params, pod).await {
        // Made by a call whose response was lost: no other pod has this name.
        Err(error) if code(&error) == Some(409) => pods.get(&name).await,
        made => made,
    });
    made.await.map_err(|error| match &error {
        // The one refusal that a caller can do something about.
        kube::Error::Api(status) if status.code == 403 && status.message.contains("exceeded quota") => {
            SandboxError::NotPlaced {
                code: QUOTA,
                reason: status.message.clone(),
            }
        }
        error => failed("create a pod", error),
    })
}

/// Treats an existing object as created: an earlier call whose response was lost made it.
fn there(result: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(error) if code(&error) != Some(409) => Err(error),
        _ => Ok(()),
    }
}

/// Waits until the shim runs.
async fn runs(inner: &Inner, member: &Member) -> Result<(), SandboxError> {
    let config = &inner.config;
    let began = Instant::now();
    let mut observed = member.observed.subscribe();
    let mut since: Option<(&'static str, Instant)> = None;
    loop {
        let now = observed.borrow_and_update().clone();
        let mut deadline = began + config.start_deadline;
        let mut why = None;
        match now {
            PodPhase::Running(_) => return Ok(()),
            PodPhase::Ended(end) => {
                return Err(SandboxError::NotPlaced {
                    code: "ended",
                    reason: format!("the pod ended at once: {} {}", end.cause, end.log)
                        .trim_end()
                        .to_owned(),
                });
            }
            PodPhase::Waiting(None) => since = None,
            PodPhase::Waiting(Some(obstacle)) => {
                if obstacle.is_final {
                    return Err(not_placed(obstacle));
                }
                let (_, from) = *since
                    .filter(|(code, _)| *code == obstacle.code)
                    .get_or_insert((obstacle.code, Instant::now()));
                since = Some((obstacle.code, from));
                let patience = match obstacle.code {
                    UNSCHEDULABLE => config.schedule_deadline,
                    _ => OBSTACLE_TIME,
                };
                deadline = deadline.min(from + patience);
                why = Some(obstacle);
            }
        }
        tokio::select! {
            changed = observed.changed() => changed.map_err(|_| SandboxError::Closed)?,
            () = sleep_until(deadline) => return Err(why.map_or_else(
                || SandboxError::NotPlaced {
                    code: "slow",
                    reason: format!("the pod does not run after {} s", config.start_deadline.as_secs()),
                },
                not_placed,
            )),
        }
    }
}

fn not_placed(obstacle: Obstacle) -> SandboxError {
    SandboxError::NotPlaced {
        code: obstacle.code,
        reason: obstacle.message,
    }
}
