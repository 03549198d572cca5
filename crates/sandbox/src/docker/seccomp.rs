//! The filter of system calls for containers.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::Isolation;

/// The seccomp profile, for engines. It leaves out what Docker's own allows and a kernel does not need: `io_uring`,
/// new namespaces, tracing of other processes.
pub const SECCOMP_PROFILE: &str = include_str!("../../../../docker/seccomp.json");

/// The call that libc makes for each new process, and does without only if it "does not exist".
const CLONE3: &str = "clone3";

/// The profile for a level. gVisor answers every refusal with "not permitted", whatever error the profile names, so
/// that no process could be started there: `clone3` is allowed, its name spaces are those of gVisor's own kernel.
pub(super) fn profile(isolation: Isolation) -> Cow<'static, str> {
    if isolation != Isolation::Gvisor {
        return Cow::Borrowed(SECCOMP_PROFILE);
    }
    let Ok(mut profile) = serde_json::from_str::<Value>(SECCOMP_PROFILE) else {
        return Cow::Borrowed(SECCOMP_PROFILE);
    };
    let Some(rules) = profile.get_mut("syscalls").and_then(Value::as_array_mut) else {
        return Cow::Borrowed(SECCOMP_PROFILE);
    };
    for rule in rules.iter_mut() {
        if let Some(names) = rule.get_mut("names").and_then(Value::as_array_mut) {
            names.retain(|name| name != CLONE3);
        }
    }
    rules.push(json!({"names": [CLONE3], "action": "SCMP_ACT_ALLOW"}));
    Cow::Owned(profile.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(profile: &str, call: &str) -> Vec<String> {
        let profile: Value = serde_json::from_str(profile).unwrap();
        let rules = profile["syscalls"].as_array().unwrap().clone();
        let named = |rule: &&Value| rule["names"].as_array().unwrap().iter().any(|name| name == call);
        let actions = rules.iter().filter(named).map(|rule| rule["action"].to_string());
        actions.collect()
    }

    #[test]
    fn only_gvisor_may_clone_by_the_new_call() {
        assert_eq!(
            action(&profile(Isolation::Container), CLONE3),
            ["\"SCMP_ACT_ERRNO\""]
        );
        assert_eq!(
            action(&profile(Isolation::Gvisor), CLONE3),
            ["\"SCMP_ACT_ALLOW\""]
        );
        assert!(action(&profile(Isolation::Gvisor), "unshare").is_empty());
    }
}
