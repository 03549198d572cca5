//! Changes to the limits of a running container.

use bollard::models::{ContainerUpdateBody, HostConfig};
use bollard::query_parameters::InspectContainerOptions;

use super::body;
use super::client::Facts;
use super::inner::Inner;
use super::member::Member;
use super::usage;
use crate::ChangedLimit;
use crate::inside::WORK_DIR;
use crate::{Enforcement, FixedLimit, Isolation, LimitChange, LimitReport, Limits, SandboxError};

/// The first limit that cannot be changed in a container at this level.
pub(super) fn fixed(level: Isolation, change: &LimitChange) -> Option<FixedLimit> {
    let is_too_low = body::check_limits(&change.to).is_err();
    change.first_fixed(|changed| match *changed {
        _ if level >= Isolation::Gvisor => Some("cannot be changed by this runtime"),
        _ if is_too_low => Some("is one that no container can have"),
        ChangedLimit {
            field: "open_files", ..
        } => Some("is set when a process starts"),
        ChangedLimit {
            field: "disk_bytes" | "tmp_bytes" | "shm_bytes",
            ..
        } => Some("is set when a container starts"),
        ChangedLimit { is_dropped: true, .. } => Some("cannot be taken away"),
        _ => None,
    })
}

/// Has the engine change the limits.
pub(super) async fn apply(
    inner: &Inner,
    member: &Member,
    change: &LimitChange,
) -> Result<LimitReport, SandboxError> {
    let details = member.details().ok_or(SandboxError::NotFound(member.id))?;
    let level = details.labels.isolation;
    if let Some(fixed) = fixed(level, change) {
        return Err(fixed.into_error());
    }
    let (client, container) = (&inner.client, &member.container);
    let error = |error| client.error("cannot change the limits of a container", error);
    let facts = client.facts().await?;
    let found = client
        .call(async |docker| {
            docker
                .inspect_container(container, None::<InspectContainerOptions>)
                .await
        })
        .await
        .map_err(error)?;
    let host = found.host_config.unwrap_or_default();
    let body = update(&change.to, &host, level, &facts);
    let used = usage::measure(client, container)
        .await
        .map_or(0, |usage| usage.rss_bytes);
    // Some engines would have processes killed until the rest fits.
    if let Some(bytes) = change.to.memory_bytes.filter(|bytes| *bytes <= used) {
        return Err(SandboxError::BadSpec {
            field: "memory_bytes",
            reason: format!("would be {bytes}, the sandbox has {used} already"),
        });
    }
    client
        .call(async |docker| docker.update_container(container, body).await)
        .await
        .map_err(error)?;
    Ok(details.labels.limits)
}

/// The limits of a container that was made as `host` says.
fn update(limits: &Limits, host: &HostConfig, level: Isolation, facts: &Facts) -> ContainerUpdateBody {
    let in_memory = host.tmpfs.as_ref().is_some_and(|all| all.contains_key(WORK_DIR));
    let memory = body::memory(limits, !in_memory);
    ContainerUpdateBody {
        memory,
        // The same as the memory: no swap.
        memory_swap: memory,
        pids_limit: Some(body::pids(limits, level)),
        // The engine refuses more than there are.
        nano_cpus: limits
            .cpu_millis
            .filter(|_| facts.limits.cpu == Enforcement::Cgroup)
            .map(|millis| i64::from(millis.min(facts.cpu_millis)) * 1_000_000),
        ..ContainerUpdateBody::default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::body::tests::facts;
    use super::*;

    const MIB: u64 = 1 << 20;

    fn change(from: Limits, to: Limits) -> LimitChange {
        LimitChange {
            from,
            to,
            runtime: None,
        }
    }

    #[test]
    fn groups_can_be_changed_and_file_systems_cannot() {
        let memory = |bytes| Limits {
            memory_bytes: Some(bytes),
            ..Limits::default()
        };
        let fixed = |level, from, to| fixed(level, &change(from, to)).map(|fixed| fixed.field);
        let container = Isolation::Container;
        assert_eq!(fixed(container, memory(512 * MIB), memory(64 * MIB)), None);
        assert_eq!(fixed(container, Limits::default(), memory(64 * MIB)), None);
        assert_eq!(
            fixed(container, memory(512 * MIB), Limits::default()),
            Some("memory_bytes")
        );
        // A start refuses it, and says why.
        assert_eq!(
            fixed(container, Limits::default(), memory(1)),
            Some("memory_bytes")
        );
        assert_eq!(
            fixed(Isolation::Gvisor, memory(512 * MIB), memory(64 * MIB)),
            Some("memory_bytes")
        );
        let sized = Limits {
            tmp_bytes: Some(MIB),
            ..memory(64 * MIB)
        };
        assert_eq!(fixed(container, memory(64 * MIB), sized), Some("tmp_bytes"));
    }

    #[test]
    fn file_systems_in_memory_count_beside_the_limit() {
        let facts = facts();
        let limits = Limits {
            memory_bytes: Some(100 * MIB),
            pids: Some(20),
            cpu_millis: Some(4000),
            disk_bytes: Some(10 * MIB),
            tmp_bytes: Some(5 * MIB),
            shm_bytes: Some(MIB),
            open_files: None,
        };
        let mut host = HostConfig::default();
        // With its files in a volume: `/tmp`, `/dev/shm` and the shim's own 16 MiB.
        let body = update(&limits, &host, Isolation::Container, &facts);
        assert_eq!(body.memory, Some(122 << 20));
        assert_eq!((body.memory_swap, body.pids_limit), (body.memory, Some(20)));
        assert_eq!(body.nano_cpus, Some(2_000_000_000));
        host.tmpfs = Some(HashMap::from([(WORK_DIR.to_owned(), String::new())]));
        let body = update(&limits, &host, Isolation::Container, &facts);
        assert_eq!(body.memory, Some(132 << 20));
    }
}
