//! The objects of one sandbox: its pod with all of its confinement, and the secret with its keys.

use std::collections::BTreeMap;

use himalia_authority::KeyPairPem;
use himalia_link::{CA_FILE, CERT_FILE, CERT_KEY_FILE, KEY_FILE};
use himalia_provisioner::inside::{DATA_DIR, GATEWAY_DIR, HOSTNAME, KERNEL_DIR, RUNTIME_DIR, SHIM, WORK_DIR};
use himalia_provisioner::{
    Isolation, Limits, MountSource, Network, SandboxError, SandboxId, SandboxSpec, SharedMount, shows_data,
};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, EmptyDirVolumeSource, LocalObjectReference,
    PersistentVolumeClaimVolumeSource, Pod, PodDNSConfig, PodSecurityContext, PodSpec, ResourceRequirements,
    SeccompProfile, Secret, SecretVolumeSource, SecurityContext, Toleration, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::config::{KubernetesConfig, PORT, PodKind};
use crate::names::{AUTHORITY, CALLER, ISOLATION, Names};

pub(crate) const CONTAINER: &str = "kernel";
/// The init container.
pub(crate) const AGENT: &str = "agent";
/// Directory of the secret in the init container.
const SECRET_DIR: &str = "/himalia/secret";
/// The directory of the shim in a pod.
const PROGRAM_DIR: &str = "/himalia/bin";

const MIB: u64 = 1 << 20;
/// Sizes of what must have one although the caller wants no limit.
const WORK_BYTES: u64 = 1024 * MIB;
const TMP_BYTES: u64 = 256 * MIB;
/// The shim, the kernel's package, and what the container writes elsewhere.
const AGENT_BYTES: u64 = 64 * MIB;
/// Keys and certificates.
const KEYS_BYTES: u64 = MIB;
/// Sockets, connection files and no more.
const RUNTIME_BYTES: u64 = 16 * MIB;
/// Limits below which nothing starts.
pub(crate) const LEAST_MEMORY: u64 = 32 * MIB;
pub(crate) const LEAST_CPU_MILLIS: u32 = 10;
/// Grace period of a pod that the cluster ends, in seconds.
const GRACE_SECONDS: i64 = 10;

/// Inputs of a pod in addition to the spec.
pub(crate) struct Parts<'a> {
    pub(crate) id: SandboxId,
    pub(crate) names: &'a Names,
    /// The fingerprint of the authority that certifies it.
    pub(crate) authority: &'a str,
    pub(crate) config: &'a KubernetesConfig,
    pub(crate) kind: &'a PodKind,
    pub(crate) image: &'a str,
    /// The claim for kept files.
    pub(crate) claim: Option<&'a str>,
}

/// Checks limits that no pod can have.
pub(crate) fn check_limits(limits: &Limits) -> Result<(), SandboxError> {
    let bad = |field: &'static str, reason: String| Err(SandboxError::BadSpec { field, reason });
    if limits.memory_bytes.is_some_and(|bytes| bytes < LEAST_MEMORY) {
        return bad("memory", format!("must be at least {} MiB", LEAST_MEMORY / MIB));
    }
    if limits.cpu_millis.is_some_and(|millis| millis < LEAST_CPU_MILLIS) {
        return bad("cpu", format!("must be at least {LEAST_CPU_MILLIS} thousandths"));
    }
    for (field, value) in [
        ("disk", limits.disk_bytes),
        ("tmp", limits.tmp_bytes),
        ("shm", limits.shm_bytes),
    ] {
        if value == Some(0) {
            return bad(field, "must not be zero".to_owned());
        }
    }
    Ok(())
}

/// The secret that the init container copies. It is deleted as soon as the shim runs.
pub(crate) fn secret(parts: &Parts<'_>, ca: &str, pair: &KeyPairPem, key: &str) -> Secret {
    let data = [
        (CA_FILE, ca),
        (CERT_FILE, &pair.cert),
        (CERT_KEY_FILE, &pair.key),
        (KEY_FILE, key),
    ];
    Secret {
        metadata: ObjectMeta {
            name: Some(Names::object(parts.id)),
            labels: Some(parts.names.labels_of(parts.id)),
            annotations: Some(parts.names.made_by()),
            ..ObjectMeta::default()
        },
        data: Some(
            data.into_iter()
                .map(|(name, text)| (name.to_owned(), ByteString(text.as_bytes().to_vec())))
                .collect(),
        ),
        immutable: Some(true),
        ..Secret::default()
    }
}

pub(crate) fn pod(parts: &Parts<'_>, spec: &SandboxSpec, level: Isolation) -> Pod {
    let caller = serde_json::to_string(&spec.labels).unwrap_or_default();
    Pod {
        metadata: ObjectMeta {
            name: Some(Names::object(parts.id)),
            labels: Some(parts.names.labels_of(parts.id)),
            annotations: Some(
                [
                    (CALLER, caller.as_str()),
                    (ISOLATION, level.as_str()),
                    (AUTHORITY, parts.authority),
                    // The autoscaler ends no node for it.
                    ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
                ]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into_iter()
                .chain(parts.names.made_by())
                .collect(),
            ),
            ..ObjectMeta::default()
        },
        spec: Some(pod_spec(parts, spec)),
        status: None,
    }
}

fn pod_spec(parts: &Parts<'_>, spec: &SandboxSpec) -> PodSpec {
    let (config, kind) = (parts.config, parts.kind);
    let resources = resources(parts, &spec.limits);
    PodSpec {
        restart_policy: Some("Never".to_owned()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        host_users: kind.host_users,
        runtime_class_name: kind.runtime_class.clone(),
        hostname: Some(HOSTNAME.to_owned()),
        // Nothing resolves names in a sandbox without a network.
        dns_policy: Some("None".to_owned()),
        dns_config: Some(PodDNSConfig {
            nameservers: Some(vec!["127.0.0.1".to_owned()]),
            ..PodDNSConfig::default()
        }),
        node_selector: (!kind.node_selector.is_empty()).then(|| kind.node_selector.clone()),
        tolerations: Some(tolerations(config)),
        active_deadline_seconds: kind
            .deadline
            .map(|time| i64::try_from(time.as_secs().max(1)).unwrap_or(i64::MAX)),
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        image_pull_secrets: Some(
            config
                .pull_secrets
                .iter()
                .map(|name| LocalObjectReference { name: name.clone() })
                .collect(),
        ),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(config.uid),
            run_as_group: Some(config.uid),
            fs_group: Some(config.uid),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                ..SeccompProfile::default()
            }),
            ..PodSecurityContext::default()
        }),
        init_containers: Some(vec![agent(parts, resources.clone())]),
        containers: vec![kernel(parts, spec, resources)],
        volumes: Some(volumes(parts, spec)),
        ..PodSpec::default()
    }
}

/// Copies the shim, the kernel's package and the keys, and ends.
fn agent(parts: &Parts<'_>, resources: ResourceRequirements) -> Container {
    let arguments = [
        "install",
        "--keys-from",
        SECRET_DIR,
        "--keys-to",
        GATEWAY_DIR,
        "--program-to",
        PROGRAM_DIR,
        "--package-from",
        "/kernel",
        "--package-to",
        KERNEL_DIR,
    ];
    Container {
        name: AGENT.to_owned(),
        image: Some(parts.config.agent_image.clone()),
        image_pull_policy: Some(parts.config.pull_policy.clone()),
        command: Some(vec!["/himalia-shim".to_owned()]),
        args: Some(arguments.map(str::to_owned).into()),
        resources: Some(resources),
        security_context: Some(confined()),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        volume_mounts: Some(vec![
            mount("secret", SECRET_DIR, true),
            mount("keys", GATEWAY_DIR, false),
            mount("program", PROGRAM_DIR, false),
            mount("package", KERNEL_DIR, false),
        ]),
        ..Container::default()
    }
}

fn kernel(parts: &Parts<'_>, spec: &SandboxSpec, resources: ResourceRequirements) -> Container {
    let mut mounts = vec![
        mount("keys", GATEWAY_DIR, false),
        mount("program", PROGRAM_DIR, true),
        mount("package", KERNEL_DIR, true),
        mount("runtime", RUNTIME_DIR, false),
        mount("work", WORK_DIR, false),
        mount("tmp", "/tmp", false),
    ];
    if shows_data(spec) {
        mounts.push(mount("work", DATA_DIR, false));
    }
    if spec.limits.shm_bytes.is_some() {
        mounts.push(mount("shm", "/dev/shm", false));
    }
    for (at, shared) in spec.mounts.iter().enumerate() {
        mounts.extend(shared_mount(at, shared));
    }
    Container {
        name: CONTAINER.to_owned(),
        image: Some(parts.image.to_owned()),
        image_pull_policy: Some(parts.config.pull_policy.clone()),
        command: Some(vec![SHIM.to_owned()]),
        args: Some(arguments(spec)),
        working_dir: Some(WORK_DIR.to_owned()),
        ports: Some(vec![ContainerPort {
            name: Some("shim".to_owned()),
            container_port: i32::from(PORT),
            ..ContainerPort::default()
        }]),
        resources: Some(resources),
        security_context: Some(confined()),
        // The end of the shim's log, when it fails.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        volume_mounts: Some(mounts),
        ..Container::default()
    }
}

fn arguments(spec: &SandboxSpec) -> Vec<String> {
    let mut arguments: Vec<String> = [
        "--gateway-dir",
        GATEWAY_DIR,
        "--runtime-dir",
        RUNTIME_DIR,
        "--spill-dir",
        WORK_DIR,
        "--image-env",
        "--count-oom",
        "--listen",
    ]
    .map(str::to_owned)
    .into();
    arguments.push(format!("[::]:{PORT}"));
    if let Some(ttl) = spec.orphan_ttl {
        arguments.extend(["--orphan-ttl".to_owned(), ttl.as_secs().max(1).to_string()]);
    }
    if spec.network == Network::Allow {
        arguments.push("--network".to_owned());
    }
    arguments
}

/// Security context of both containers.
fn confined() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        privileged: Some(false),
        read_only_root_filesystem: Some(true),
        run_as_non_root: Some(true),
        capabilities: Some(Capabilities {
            drop: Some(vec!["ALL".to_owned()]),
            add: None,
        }),
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            ..SeccompProfile::default()
        }),
        ..SecurityContext::default()
    }
}

/// Resources of the container: limits are requests.
fn resources(parts: &Parts<'_>, limits: &Limits) -> ResourceRequirements {
    let disk = if parts.claim.is_some() {
        0
    } else {
        limits.disk_bytes.unwrap_or(WORK_BYTES)
    };
    let storage = disk
        .saturating_add(limits.tmp_bytes.unwrap_or(TMP_BYTES))
        .saturating_add(AGENT_BYTES);
    let memory = limits.memory_bytes.unwrap_or(parts.config.memory_bytes);
    let millis = limits.cpu_millis.unwrap_or(parts.config.cpu_millis);
    let mut all = BTreeMap::from([
        ("cpu".to_owned(), Quantity(format!("{millis}m"))),
        ("memory".to_owned(), bytes(memory)),
        ("ephemeral-storage".to_owned(), bytes(storage)),
    ]);
    for (name, count) in &parts.kind.resources {
        all.insert(name.clone(), Quantity(count.to_string()));
    }
    ResourceRequirements {
        requests: Some(all.clone()),
        limits: Some(all),
        ..ResourceRequirements::default()
    }
}

fn volumes(parts: &Parts<'_>, spec: &SandboxSpec) -> Vec<Volume> {
    let limits = &spec.limits;
    let mut volumes = vec![
        Volume {
            name: "secret".to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(Names::object(parts.id)),
                default_mode: Some(0o440),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        },
        empty("keys", KEYS_BYTES, true),
        empty("program", AGENT_BYTES, false),
        empty("package", AGENT_BYTES, false),
        empty("runtime", RUNTIME_BYTES, true),
        match parts.claim {
            Some(claim) => claimed("work", claim, false),
            None => empty("work", limits.disk_bytes.unwrap_or(WORK_BYTES), false),
        },
        empty("tmp", limits.tmp_bytes.unwrap_or(TMP_BYTES), false),
    ];
    if let Some(size) = limits.shm_bytes {
        volumes.push(empty("shm", size, true));
    }
    for (at, shared) in spec.mounts.iter().enumerate() {
        if let MountSource::Claim { claim, .. } = &shared.source {
            volumes.push(claimed(&format!("shared-{at}"), claim, shared.read_only));
        }
    }
    volumes
}

/// The cluster's own would keep the pods of a node that does not respond for five minutes.
fn tolerations(config: &KubernetesConfig) -> Vec<Toleration> {
    let seconds = i64::try_from(config.node_grace.as_secs()).unwrap_or(i64::MAX);
    ["not-ready", "unreachable"]
        .map(|what| Toleration {
            key: Some(format!("node.kubernetes.io/{what}")),
            operator: Some("Exists".to_owned()),
            effect: Some("NoExecute".to_owned()),
            toleration_seconds: Some(seconds),
            ..Toleration::default()
        })
        .into()
}

fn mount(name: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: Some(read_only),
        ..VolumeMount::default()
    }
}

/// The place of a claim that the operator shares. A subdirectory that is missing is made by the node.
fn shared_mount(at: usize, shared: &SharedMount) -> Option<VolumeMount> {
    let MountSource::Claim { subdirectory, .. } = &shared.source else {
        return None;
    };
    let subdirectory = subdirectory.to_string_lossy().into_owned();
    Some(VolumeMount {
        sub_path: Some(subdirectory).filter(|path| !path.is_empty()),
        ..mount(
            &format!("shared-{at}"),
            &shared.target.to_string_lossy(),
            shared.read_only,
        )
    })
}

fn empty(name: &str, size: u64, memory: bool) -> Volume {
    Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            medium: memory.then(|| "Memory".to_owned()),
            size_limit: Some(bytes(size)),
        }),
        ..Volume::default()
    }
}

fn claimed(name: &str, claim: &str, read_only: bool) -> Volume {
    Volume {
        name: name.to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claim.to_owned(),
            read_only: Some(read_only),
        }),
        ..Volume::default()
    }
}

/// A size as the API takes it.
pub(crate) fn bytes(size: u64) -> Quantity {
    Quantity(size.to_string())
}

#[cfg(test)]
#[path = "pod_tests.rs"]
mod tests;
