//! The body of the engine's call that creates a container: all of its confinement.

use std::collections::{BTreeMap, HashMap};

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, Mount,
    MountBindOptions, MountBindOptionsPropagationEnum, MountType, ResourcesUlimits, RestartPolicy,
    RestartPolicyNameEnum,
};

use super::client::Facts;
use super::{seccomp, volume};
use crate::inside::{DATA_DIR, GATEWAY_DIR, HOSTNAME, KERNEL_DIR, RUNTIME_DIR, SHIM, WORK_DIR};
use crate::{Enforcement, Isolation, Limits, Network, SandboxError, SandboxSpec, shows_data};

const MIB: u64 = 1 << 20;
/// Sizes of what must have one although the caller wants no limit.
const TMP_BYTES: u64 = 256 * MIB;
const SHM_BYTES: u64 = 64 * MIB;
const WORK_BYTES: u64 = 1024 * MIB;
/// Sockets, connection files and no more.
const RUNTIME_BYTES: u64 = 16 * MIB;
/// A directory with a link.
const LINK_BYTES: u64 = 64 << 10;
/// Processes and threads where the caller wants no limit: a container without one can exhaust the host.
const PIDS: i64 = 1024;
/// Processes and threads of gVisor's own kernel, in addition to the sandbox's: some 25 on two processors, more on more. gVisor cannot
/// refuse a process: one too many ends it.
const GVISOR_PIDS: i64 = 128;
/// Open files likewise.
const OPEN_FILES: i64 = 4096;
/// Score that makes the OOM killer prefer sandboxes to other processes of the host; the shim raises the score of its kernels further.
const OOM_SCORE_ADJ: i64 = 200;
/// Limits below which nothing starts.
const LEAST_MEMORY: u64 = 32 * MIB;
const LEAST_CPU_MILLIS: u32 = 10;

/// Parts of the container that are not in the spec.
#[derive(Clone, Debug)]
pub(super) struct Parts<'a> {
    pub(super) image: &'a str,
    pub(super) image_env: &'a BTreeMap<String, String>,
    pub(super) runtime: &'a str,
    pub(super) isolation: Isolation,
    /// User of everything in the sandbox.
    pub(super) uid: u32,
    /// Group id of the sandbox's user.
    pub(super) gid: u32,
    pub(super) network: &'a str,
    pub(super) gateway_dir: &'a str,
    pub(super) shim: &'a str,
    pub(super) kernel_dir: &'a str,
    pub(super) volume: Option<&'a str>,
    /// Mounts of the operator.
    pub(super) shared: Vec<Mount>,
    pub(super) labels: HashMap<String, String>,
}

/// Checks limits that no engine would take.
pub(super) fn check_limits(limits: &Limits) -> Result<(), SandboxError> {
    let bad = |field: &'static str, reason: String| Err(SandboxError::BadSpec { field, reason });
    if limits.memory_bytes.is_some_and(|bytes| bytes < LEAST_MEMORY) {
        return bad("memory", format!("must be at least {} MiB", LEAST_MEMORY / MIB));
    }
    if limits.cpu_millis.is_some_and(|millis| millis < LEAST_CPU_MILLIS) {
        return bad("cpu", format!("must be at least {LEAST_CPU_MILLIS} thousandths"));
    }
    for (field, value) in [
        ("pids", limits.pids.map(u64::from)),
        ("disk", limits.disk_bytes),
        ("tmp", limits.tmp_bytes),
        ("shm", limits.shm_bytes),
        ("open_files", limits.open_files),
    ] {
        if value == Some(0) {
            return bad(field, "must not be zero".to_owned());
        }
    }
    Ok(())
}

/// Variables of its kernels.
pub(super) fn kernel_env(image_env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut env = image_env.clone();
    env.insert("HOME".to_owned(), WORK_DIR.to_owned());
    let python = match env.get("PYTHONPATH") {
        Some(path) if !path.is_empty() => format!("{KERNEL_DIR}:{path}"),
        _ => KERNEL_DIR.to_owned(),
    };
    env.insert("PYTHONPATH".to_owned(), python);
    env
}

/// The body of the call that creates it.
pub(super) fn build(spec: &SandboxSpec, facts: &Facts, parts: &Parts<'_>) -> ContainerCreateBody {
    ContainerCreateBody {
        hostname: Some(HOSTNAME.to_owned()),
        user: Some(format!("{}:{}", parts.uid, parts.gid)),
        attach_stdin: Some(false),
        attach_stdout: Some(false),
        attach_stderr: Some(false),
        tty: Some(false),
        open_stdin: Some(false),
        env: Some(
            parts
                .image_env
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect(),
        ),
        // A check of the image's own would start processes in the sandbox.
        healthcheck: Some(HealthConfig {
            test: Some(vec!["NONE".to_owned()]),
            ..HealthConfig::default()
        }),
        image: Some(parts.image.to_owned()),
        working_dir: Some(WORK_DIR.to_owned()),
        entrypoint: Some(vec![SHIM.to_owned()]),
        cmd: Some(arguments(spec)),
        network_disabled: Some(parts.network == "none"),
        labels: Some(parts.labels.clone()),
        stop_signal: Some("SIGTERM".to_owned()),
        host_config: Some(host_config(spec, facts, parts)),
        ..ContainerCreateBody::default()
    }
}

fn arguments(spec: &SandboxSpec) -> Vec<String> {
    let mut arguments = vec![
        "--gateway-dir".to_owned(),
        GATEWAY_DIR.to_owned(),
        "--runtime-dir".to_owned(),
        RUNTIME_DIR.to_owned(),
        "--spill-dir".to_owned(),
        WORK_DIR.to_owned(),
    ];
    if let Some(ttl) = spec.orphan_ttl {
        arguments.extend(["--orphan-ttl".to_owned(), ttl.as_secs().max(1).to_string()]);
    }
    if spec.network == Network::Allow {
        arguments.push("--network".to_owned());
    }
    if shows_data(spec) {
        arguments.extend(["--work-link".to_owned(), DATA_DIR.to_owned()]);
    }
    arguments
}

fn host_config(spec: &SandboxSpec, facts: &Facts, parts: &Parts<'_>) -> HostConfig {
    let limits = &spec.limits;
    let mut tmpfs = tmpfs(limits, parts.volume.is_some());
    if shows_data(spec) {
        // The engine has no links: the shim makes it, and the root is read-only.
        tmpfs.insert("/mnt", (LINK_BYTES, "mode=0755,noexec"));
    }
    let memory = memory(limits, parts.volume.is_some());
    let mut mounts = vec![
        bind(parts.gateway_dir, GATEWAY_DIR),
        bind(parts.shim, SHIM),
        bind(parts.kernel_dir, KERNEL_DIR),
    ];
    mounts.extend(parts.volume.map(volume::mount));
    mounts.extend(parts.shared.iter().cloned());
    HostConfig {
        runtime: Some(parts.runtime.to_owned()),
        network_mode: Some(parts.network.to_owned()),
        cap_drop: Some(vec!["ALL".to_owned()]),
        privileged: Some(false),
        security_opt: Some(vec![
            "no-new-privileges".to_owned(),
            format!("seccomp={}", seccomp::profile(parts.isolation)),
        ]),
        readonly_rootfs: Some(true),
        ipc_mode: Some("private".to_owned()),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        // The shim is the first process and reaps by itself.
        init: Some(false),
        memory,
        // The same as the memory: no swap.
        memory_swap: memory,
        pids_limit: Some(pids(limits, parts.isolation)),
        // More than there are is refused by the engine, and means no limit.
        nano_cpus: limits
            .cpu_millis
            .filter(|millis| facts.limits.cpu == Enforcement::Cgroup && *millis < facts.cpu_millis)
            .map(|millis| i64::from(millis) * 1_000_000),
        oom_score_adj: Some(OOM_SCORE_ADJ),
        ulimits: Some(vec![
            ulimit("nofile", limits.open_files.map_or(OPEN_FILES, signed)),
            ulimit("core", 0),
        ]),
        shm_size: Some(signed(shm(limits))),
        tmpfs: Some(
            tmpfs
                .into_iter()
                .map(|(path, (bytes, mode))| {
                    (
                        path.to_owned(),
                        tmpfs_options(bytes, mode, (parts.uid, parts.gid)),
                    )
                })
                .collect(),
        ),
        mounts: Some(mounts),
        log_config: Some(HostConfigLogConfig {
            typ: Some("json-file".to_owned()),
            config: Some(HashMap::from([
                ("max-size".to_owned(), "128k".to_owned()),
                // The older half is kept, so that the end can be shown after a turn.
                ("max-file".to_owned(), "2".to_owned()),
            ])),
        }),
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            maximum_retry_count: None,
        }),
        auto_remove: Some(false),
        ..HostConfig::default()
    }
}

/// Memory of the container, in bytes: what file systems in memory hold comes on top of the limit.
pub(super) fn memory(limits: &Limits, has_volume: bool) -> Option<i64> {
    let in_memory = tmpfs(limits, has_volume)
        .values()
        .fold(shm(limits), |sum, (bytes, _)| sum.saturating_add(*bytes));
    limits
        .memory_bytes
        .map(|bytes| signed(bytes.saturating_add(in_memory)))
}

fn shm(limits: &Limits) -> u64 {
    limits.shm_bytes.unwrap_or(SHM_BYTES)
}

pub(super) fn pids(limits: &Limits, isolation: Isolation) -> i64 {
    let own = if isolation == Isolation::Gvisor {
        GVISOR_PIDS
    } else {
        0
    };
    limits.pids.map_or(PIDS, i64::from) + own
}

/// Sizes and modes of file systems in memory, by place. What is not for all is the sandbox's user's.
///
/// The engine gives a mount over an existing directory that directory's mode; `/tmp` is 1777 in nearly every image, and
/// belongs to the sandbox's user in the others. Programs may be run there, since packages that compile do.
fn tmpfs(limits: &Limits, has_volume: bool) -> BTreeMap<&'static str, (u64, &'static str)> {
    let tmp = limits.tmp_bytes.unwrap_or(TMP_BYTES);
    let mut all = BTreeMap::from([
        ("/tmp", (tmp, "mode=1777,exec")),
        (RUNTIME_DIR, (RUNTIME_BYTES, "mode=0700,noexec")),
    ]);
    if !has_volume {
        let work = limits.disk_bytes.unwrap_or(WORK_BYTES);
        all.insert(WORK_DIR, (work, "mode=0700,exec"));
    }
    all
}

fn tmpfs_options(bytes: u64, mode: &str, (uid, gid): (u32, u32)) -> String {
    format!("size={bytes},{mode},uid={uid},gid={gid},nosuid,nodev")
}

fn bind(source: &str, target: &str) -> Mount {
    Mount {
        target: Some(target.to_owned()),
        source: Some(source.to_owned()),
        typ: Some(MountType::BIND),
        read_only: Some(true),
        bind_options: Some(MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            ..MountBindOptions::default()
        }),
        ..Mount::default()
    }
}

fn ulimit(name: &str, value: i64) -> ResourcesUlimits {
    ResourcesUlimits {
        name: Some(name.to_owned()),
        soft: Some(value),
        hard: Some(value),
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
pub(super) mod tests;
