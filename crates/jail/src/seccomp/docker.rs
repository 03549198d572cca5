//! The list as a profile of Docker (`--security-opt seccomp=FILE`), which containerd, podman and runc read too.

use serde_json::{Value, json};

use super::lists::{ABSENT, ALLOWED, ALLOWED_X86_64};
use super::{CONDITIONAL, Comparison};

/// The profile as indented JSON, with a line end. Names that an architecture does not have are passed over by the
/// engines; calls newer than the list get `ENOSYS` from runc (1.0.0-rc94 and later) by itself.
pub fn docker_profile() -> String {
    let names: Vec<&str> = ALLOWED.iter().chain(ALLOWED_X86_64).copied().collect();
    let mut syscalls = vec![
        json!({"names": names, "action": "SCMP_ACT_ALLOW"}),
        json!({"names": ABSENT, "action": "SCMP_ACT_ERRNO", "errnoRet": libc::ENOSYS}),
    ];
    for conditional in CONDITIONAL {
        for all in conditional.any_of {
            let args: Vec<Value> = all.iter().map(argument).collect();
            syscalls.push(json!({"names": [conditional.name], "action": "SCMP_ACT_ALLOW", "args": args}));
        }
    }
    let profile = json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": libc::EPERM,
        "archMap": [
            {"architecture": "SCMP_ARCH_X86_64", "subArchitectures": []},
            {"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": []},
        ],
        "syscalls": syscalls,
    });
    format!("{profile:#}\n")
}

/// `value` is the mask and `valueTwo` what must be left, as in `SCMP_CMP_MASKED_EQ` of libseccomp.
fn argument(it: &Comparison) -> Value {
    json!({"index": it.argument, "value": it.mask, "valueTwo": it.value, "op": "SCMP_CMP_MASKED_EQ"})
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docker/seccomp.json");

    #[test]
    fn the_file_in_the_repository_is_this_profile() {
        let file = std::fs::read_to_string(FILE).unwrap();
        assert!(
            file == docker_profile(),
            "docker/seccomp.json is old: himalia-jail seccomp-profile > docker/seccomp.json"
        );
    }
}
