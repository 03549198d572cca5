use std::time::Duration;

use super::super::mapping::Mapping;
use super::*;
use crate::{LimitReport, MountSource, SandboxKey, SharedMount};

pub(in crate::docker) fn facts() -> Facts {
    Facts {
        version: "24.0".to_owned(),
        api: "1.43".to_owned(),
        cgroup_version: None,
        runc: None,
        cpu_millis: 2000,
        runtimes: BTreeMap::from([("runc".to_owned(), Vec::new())]),
        limits: LimitReport {
            cpu: Enforcement::Cgroup,
            ..LimitReport::default()
        },
        seccomp: true,
        mapping: Mapping::None,
        warnings: Vec::new(),
    }
}

fn body(change: impl FnOnce(&mut SandboxSpec), volume: Option<&str>) -> ContainerCreateBody {
    body_at(Isolation::Container, change, volume)
}

fn body_at(
    isolation: Isolation,
    change: impl FnOnce(&mut SandboxSpec),
    volume: Option<&str>,
) -> ContainerCreateBody {
    let mut spec = SandboxSpec::new(SandboxKey::generate().unwrap());
    change(&mut spec);
    let parts = Parts {
        image: "sha256:1",
        image_env: &BTreeMap::from([("PATH".to_owned(), "/bin".to_owned())]),
        runtime: "runc",
        isolation,
        uid: 200_001,
        gid: 200_001,
        network: "none",
        gateway_dir: "/run/h/1",
        shim: "/usr/bin/himalia-shim",
        kernel_dir: "/usr/share/h",
        volume,
        shared: Vec::new(),
        labels: HashMap::new(),
    };
    build(&spec, &facts(), &parts)
}

#[test]
fn everything_is_closed_unless_it_is_wanted() {
    let body = body(|_| {}, None);
    let host = body.host_config.unwrap();
    assert_eq!(body.user.as_deref(), Some("200001:200001"));
    assert_eq!(body.network_disabled, Some(true));
    assert_eq!(host.network_mode.as_deref(), Some("none"));
    assert!(!body.cmd.unwrap().contains(&"--network".to_owned()));
    assert_eq!(host.cap_drop.unwrap(), ["ALL"]);
    assert_eq!(host.cap_add, None);
    assert_eq!(host.privileged, Some(false));
    assert_eq!(host.readonly_rootfs, Some(true));
    assert_eq!(host.ipc_mode.as_deref(), Some("private"));
    assert_eq!(
        (host.pid_mode, host.uts_mode, host.userns_mode),
        (None, None, None)
    );
    assert_eq!(
        (host.devices, host.device_requests, host.binds),
        (None, None, None)
    );
    assert_eq!(host.pids_limit, Some(PIDS));
    let security = host.security_opt.unwrap();
    assert!(security.contains(&"no-new-privileges".to_owned()));
    assert!(security.iter().any(|option| option.starts_with("seccomp={")));
    assert!(
        host.mounts
            .unwrap()
            .iter()
            .all(|mount| mount.read_only == Some(true))
    );
    // The engine's own masks of /proc and /sys stay.
    assert_eq!(host.masked_paths, None);
    assert_eq!(host.readonly_paths, None);
}

#[test]
fn what_is_in_memory_is_added_to_the_memory() {
    let limits = |spec: &mut SandboxSpec| {
        spec.limits = Limits {
            memory_bytes: Some(100 * MIB),
            tmp_bytes: Some(10 * MIB),
            shm_bytes: Some(20 * MIB),
            disk_bytes: Some(30 * MIB),
            ..Limits::default()
        };
    };
    let host = body(limits, None).host_config.unwrap();
    assert_eq!(host.memory, Some(signed(160 * MIB + RUNTIME_BYTES)));
    assert_eq!(host.memory_swap, host.memory);
    assert_eq!(host.shm_size, Some(signed(20 * MIB)));
    assert!(host.tmpfs.unwrap()[WORK_DIR].starts_with("size=31457280,mode=0700,exec,uid=200001,gid=200001,"));
    let host = body(limits, Some("kept")).host_config.unwrap();
    assert_eq!(host.memory, Some(signed(130 * MIB + RUNTIME_BYTES)));
    assert!(!host.tmpfs.unwrap().contains_key(WORK_DIR));
    assert_eq!(
        host.mounts.unwrap().last().unwrap().source.as_deref(),
        Some("kept")
    );
}

#[test]
fn no_more_processors_are_asked_for_than_there_are() {
    let nano = |millis: u32| {
        body(|spec| spec.limits.cpu_millis = Some(millis), None)
            .host_config
            .unwrap()
            .nano_cpus
    };
    assert_eq!(nano(1500), Some(1_500_000_000));
    assert_eq!(nano(2000), None);
    assert_eq!(nano(64_000), None);
}

#[test]
fn gvisor_has_processes_of_its_own_beside_those_of_the_sandbox() {
    let pids = |isolation| {
        let body = body_at(isolation, |spec| spec.limits.pids = Some(64), None);
        body.host_config.unwrap().pids_limit
    };
    assert_eq!(pids(Isolation::Container), Some(64));
    assert_eq!(pids(Isolation::Gvisor), Some(64 + GVISOR_PIDS));
}

#[test]
fn the_shim_is_told_its_places_and_times() {
    let command = body(|spec| spec.orphan_ttl = Some(Duration::from_millis(10)), None);
    assert_eq!(command.entrypoint.unwrap(), [SHIM]);
    let command = command.cmd.unwrap().join(" ");
    assert!(command.starts_with("--gateway-dir /himalia/gw --runtime-dir /himalia/run --spill-dir /session"));
    assert!(command.ends_with("--orphan-ttl 1"));
}

#[test]
fn kernels_have_the_image_s_variables_and_our_package() {
    let image = BTreeMap::from([
        ("PATH".to_owned(), "/opt/bin".to_owned()),
        ("PYTHONPATH".to_owned(), "/opt/lib".to_owned()),
        ("HOME".to_owned(), "/root".to_owned()),
    ]);
    let env = kernel_env(&image);
    assert_eq!(env["PATH"], "/opt/bin");
    assert_eq!(env["PYTHONPATH"], "/himalia/kernel:/opt/lib");
    assert_eq!(env["HOME"], "/session");
    assert_eq!(kernel_env(&BTreeMap::new())["PYTHONPATH"], "/himalia/kernel");
}

#[test]
fn limits_that_cannot_work_are_named() {
    let check = |change: fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        check_limits(&limits).map_err(|error| error.to_string())
    };
    check(|_| {}).unwrap();
    check(|limits| limits.memory_bytes = Some(LEAST_MEMORY)).unwrap();
    assert!(
        check(|limits| limits.memory_bytes = Some(1))
            .unwrap_err()
            .starts_with("memory ")
    );
    assert!(
        check(|limits| limits.cpu_millis = Some(0))
            .unwrap_err()
            .starts_with("cpu ")
    );
    assert!(
        check(|limits| limits.pids = Some(0))
            .unwrap_err()
            .starts_with("pids ")
    );
    assert!(
        check(|limits| limits.disk_bytes = Some(0))
            .unwrap_err()
            .starts_with("disk ")
    );
}

#[test]
fn a_network_through_the_gateway_is_a_proxy_and_no_device() {
    let body = body(|spec| spec.network = Network::Allow, None);
    assert!(body.cmd.unwrap().contains(&"--network".to_owned()));
    assert_eq!(body.network_disabled, Some(true));
    assert_eq!(body.host_config.unwrap().network_mode.as_deref(), Some("none"));
}

#[test]
fn the_work_directory_is_shown_where_clients_look_for_it() {
    let shown = |target: Option<&str>| {
        let body = body(
            |spec| {
                spec.show_data = true;
                spec.mounts.extend(target.map(|target| SharedMount {
                    name: "a".to_owned(),
                    source: MountSource::Volume("a".to_owned()),
                    target: target.into(),
                    read_only: true,
                    owner: None,
                }));
            },
            None,
        );
        let link = body.cmd.unwrap().join(" ").contains("--work-link /mnt/data");
        assert_eq!(
            body.host_config.unwrap().tmpfs.unwrap().contains_key("/mnt"),
            link
        );
        link
    };
    assert!(shown(None) && shown(Some("/mnt/other")));
    // The operator has the place.
    for taken in ["/mnt", "/mnt/data", "/mnt/data/a"] {
        assert!(!shown(Some(taken)), "{taken}");
    }
    assert!(
        !body(|_| {}, None)
            .cmd
            .unwrap()
            .contains(&"--work-link".to_owned())
    );
}
