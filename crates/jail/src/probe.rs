//! `probe`: tests whether sandboxes can be created on this host.

use himalia_jail::{Device, Failure, HostIds, Mount, Plan, ProbeReport, Step};
use rustix::process::geteuid;

use crate::exec::{Finish, start};

/// Makes a small sandbox with all kinds of mounts, locks a process in and lets it end. `host_ids` are for root.
pub(crate) fn run(host_ids: HostIds) -> ProbeReport {
    let target = |path: &str| path.into();
    let plan = Plan {
        host_ids: geteuid().is_root().then_some(host_ids),
        hostname: "probe".to_owned(),
        mounts: vec![
            Mount::Bind {
                source: "/usr".into(),
                target: target("/usr"),
                read_only: true,
            },
            Mount::Device { device: Device::Null },
            Mount::Pty,
            Mount::Tmpfs {
                target: target("/tmp"),
                size_bytes: 1 << 20,
                mode: 0o1777,
            },
        ],
    };
    let failure = start(&plan, &[], &Finish::Leave).err();
    ProbeReport {
        hint: failure.as_ref().map(hint),
        failure,
        linux: rustix::system::uname().release().to_string_lossy().into_owned(),
        max_user_namespaces: setting("user/max_user_namespaces"),
    }
}

/// A number below `/proc/sys`.
fn setting(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/sys/{name}")).ok()?;
    text.trim().parse().ok()
}

/// The settings are asked only to explain a failure: whether sandboxes work is what trying shows.
fn hint(failure: &Failure) -> String {
    let text = if setting("user/max_user_namespaces") == Some(0) {
        "user namespaces are switched off: set sysctl user.max_user_namespaces above 0"
    } else if setting("kernel/unprivileged_userns_clone") == Some(0) {
        "user namespaces are for root only: set sysctl kernel.unprivileged_userns_clone=1"
    } else if setting("kernel/apparmor_restrict_unprivileged_userns") == Some(1) {
        "AppArmor restricts user namespaces (Ubuntu 24.04 and later): install a profile with `userns,` for himalia-jail, \
         or set sysctl kernel.apparmor_restrict_unprivileged_userns=0"
    } else {
        match failure.step {
            Step::Namespaces => {
                "namespaces are forbidden here, as in a container with a default profile: use Docker sandboxes, or run \
                 outside of the container"
            }
            Step::Proc => {
                "/proc is masked here, as in a container: mounting another one is forbidden. Run outside of the \
                 container, or unmask it (docker run --security-opt systempaths=unconfined)"
            }
            Step::Mounts => "Linux 5.12 or newer is needed, and a security module must not forbid mounts",
            Step::IdMap => {
                "the ids for sandboxes must exist here: this system may be a user namespace itself"
            }
            Step::Seccomp => "Linux must be built with CONFIG_SECCOMP_FILTER",
            _ => "see the error",
        }
    };
    text.to_owned()
}
