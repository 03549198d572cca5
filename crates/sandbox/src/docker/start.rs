//! Starts a container. A start that fails leaves nothing.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bollard::query_parameters::{CreateContainerOptionsBuilder, StartContainerOptions};
use himalia_link::KEY_FILE;
use tokio::sync::oneshot;

use super::body::{self, Parts};
use super::ending;
use super::inner::Inner;
use super::mapping::Mapping;
use super::member::{Details, Member};
use super::names::{self, Labels};
use super::volume::{Volume, remove_container};
use super::{image, network, shared};
use crate::host::blocking;
use crate::{
    Enforcement, Files, Isolation, LimitReport, SandboxError, SandboxHandle, SandboxId, SandboxKey,
    SandboxSpec, check_mounts,
};

/// Starts a sandbox in a task of its own: a caller that goes away leaves nothing half-made.
pub(super) async fn start(
    inner: &Arc<Inner>,
    spec: SandboxSpec,
    isolation: Isolation,
) -> Result<SandboxHandle, SandboxError> {
    let id = SandboxId::generate()?;
    let member = Member::starting(id, inner.names.container(id));
    inner.insert(Arc::clone(&member));
    let (answer, wanted) = oneshot::channel();
    let inner = Arc::clone(inner);
    tokio::spawn(async move {
        let deadline = inner.config.start_deadline;
        let made = tokio::time::timeout(deadline, make(&inner, &member, &spec, isolation)).await;
        let made = made.unwrap_or_else(|_| {
            let seconds = deadline.as_secs_f32();
            Err(inner
                .client
                .reason(format!("did not start a container in {seconds} s")))
        });
        match made {
            Ok(details) => {
                if member.go_live(details) {
                    ending::see_to(&inner, Arc::clone(&member));
                }
                let given = inner
                    .handle(&member)
                    .is_some_and(|handle| answer.send(Ok(handle)).is_ok());
                if !given {
                    member.stopping.store(true, Ordering::Release);
                    let _ = remove_container(&inner.client, &member.container).await;
                    if member.died(None) {
                        ending::see_to(&inner, member);
                    }
                }
            }
            Err(error) => {
                member.give_up();
                let undone = undo(Arc::clone(&inner), Arc::clone(&member));
                // An engine that hangs must not make the caller wait as well; the rest is done when it is back.
                let _ = tokio::time::timeout(inner.config.call_deadline, undone).await;
                let _ = answer.send(Err(error));
            }
        }
    });
    wanted.await.map_err(|_| SandboxError::Closed)?
}

/// Removes what a failed start left, in a separate task, so that it continues when the caller is dropped.
async fn undo(inner: Arc<Inner>, member: Arc<Member>) {
    let task = tokio::spawn(async move {
        ending::remove(&inner, &member).await;
        inner.forget(member.id);
    });
    let _ = task.await;
}

async fn make(
    inner: &Inner,
    member: &Member,
    spec: &SandboxSpec,
    isolation: Isolation,
) -> Result<Details, SandboxError> {
    let (client, config) = (&inner.client, &inner.config);
    let facts = client.facts().await?;
    let runtime = spec.runtime.as_ref().unwrap_or(&config.runtime);
    if !facts.runtimes.contains_key(runtime) {
        let known: Vec<_> = facts.runtimes.keys().map(String::as_str).collect();
        let known = known.join(", ");
        return Err(SandboxError::BadSpec {
            field: "runtime",
            reason: format!(
                "{runtime} is unknown to the engine, which has {known}; its daemon.json names them"
            ),
        });
    }
    facts.mapping.check(isolation)?;
    let image = image::look_up(client, inner.image(spec)?).await?;
    let network = network::mode(inner, &spec.network, (&image, runtime, isolation)).await?;
    member.in_engine.store(true, Ordering::Release);
    let shared = shared::shared(inner, (member.id, &image.id), spec, facts.mapping).await?;
    let gateway_dir = files(inner, member.id, spec.key.clone()).await?;
    let uid = inner
        .uids
        .of(
            client,
            &inner.names,
            (member.id, spec),
            facts.mapping != Mapping::None,
            shared.owner,
        )
        .await?;
    let volume = volume(inner, (member.id, uid), spec, &image.id).await?;
    let disk = volume
        .as_ref()
        .map_or(Enforcement::Hard, |volume| volume.enforcement);
    let labels = Labels {
        id: member.id,
        isolation,
        limits: LimitReport { disk, ..facts.limits },
        caller: spec.labels.clone(),
    };
    let parts = Parts {
        image: &image.id,
        image_env: &image.env,
        runtime,
        isolation,
        uid,
        gid: shared.owner.map_or(uid, |owner| owner.gid),
        network: &network,
        gateway_dir: &gateway_dir,
        shim: &config.shim.to_string_lossy(),
        kernel_dir: &config.kernel_dir.to_string_lossy(),
        volume: volume.as_ref().map(|volume| volume.name.as_str()),
        shared: shared.mounts,
        labels: inner.names.labels(&labels, uid),
    };
    let body = body::build(spec, &facts, &parts);
    let options = CreateContainerOptionsBuilder::new()
        .name(&member.container)
        .build();
    let created = client.call(async |docker| docker.create_container(Some(options), body).await);
    let created = created
        .await
        .map_err(|error| client.error("cannot make a container", error))?;
    for warning in created.warnings {
        tracing::debug!(%warning, "the container engine warns");
    }
    let started = client.call(async |docker| {
        docker
            .start_container(&member.container, None::<StartContainerOptions>)
            .await
    });
    started
        .await
        .map_err(|error| client.error("cannot start a container", error))?;
    Ok(Details {
        labels,
        env: body::kernel_env(&image.env),
        image: Some(image.id),
    })
}

/// Makes the gateway's directory with the key. The sandbox's user is not ours, so it must be readable by others; they
/// do not get through the run directory.
async fn files(inner: &Inner, id: SandboxId, key: SandboxKey) -> Result<String, SandboxError> {
    let layout = inner.layout.clone();
    let dir = blocking(move || {
        let dir = layout.create_gateway_dir(id)?;
        layout.write_key(id, &key)?;
        let file = dir.join(KEY_FILE);
        std::fs::set_permissions(&file, Permissions::from_mode(0o644))
            .map_err(|error| SandboxError::io(&file, error))?;
        Ok(dir)
    });
    Ok(dir.await??.to_string_lossy().into_owned())
}

async fn volume(
    inner: &Inner,
    (id, uid): (SandboxId, u32),
    spec: &SandboxSpec,
    image: &str,
) -> Result<Option<Volume>, SandboxError> {
    let Files::Session(name) = &spec.files else {
        return Ok(None);
    };
    let volume = inner.volumes.prepare(
        &inner.client,
        &inner.names,
        (id, image),
        (name, spec.limits.disk_bytes, uid),
    );
    volume.await.map(Some)
}

/// Checks the parts of a spec that need no engine.
pub(super) fn check(spec: &SandboxSpec) -> Result<(), SandboxError> {
    spec.check()?;
    names::check_files(&spec.files)?;
    check_mounts(&spec.mounts, shared::MOUNTS)?;
    body::check_limits(&spec.limits)
}
