//! Report for the operator about the engine, before the first sandbox starts.

use std::collections::BTreeMap;

use super::image;
use super::inner::Inner;
use crate::{Enforcement, Isolation, LimitReport, SandboxError};

/// The argument by which gVisor lets sandboxes connect to sockets of the host that are mounted into them.
const HOST_SOCKETS: &str = "--host-uds=open";
/// The argument by which gVisor's own kernel heeds the profile too.
const PROFILE: &str = "--oci-seccomp";
/// The first runc without CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881, of each series that has one.
const FIXED_RUNC: [(u32, u32, u32); 2] = [(1, 2, 8), (1, 3, 3)];

/// The state of a container engine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct EngineReport {
    pub version: String,
    /// Version of its interface.
    pub api: String,
    /// Generation of control groups, `1` or `2`, where the engine tells.
    pub cgroup_version: Option<String>,
    /// Mechanisms that enforce the limits of a sandbox with files in memory.
    pub limits: LimitReport,
    /// The allowed runtimes with their levels, and whether the engine has them.
    pub runtimes: BTreeMap<String, (Isolation, bool)>,
    /// The allowed images, and what keeps each from being used.
    pub images: BTreeMap<String, Option<String>>,
    /// Problems and their remedies, one sentence each.
    pub warnings: Vec<String>,
}

pub(super) async fn report(inner: &Inner) -> Result<EngineReport, SandboxError> {
    let facts = inner.client.facts().await?;
    let mut warnings = Vec::new();
    let mut runtimes = BTreeMap::new();
    for (name, level) in &inner.config.runtimes {
        let arguments = facts.runtimes.get(name);
        runtimes.insert(name.clone(), (*level, arguments.is_some()));
        if let (Some(_), Err(error)) = (arguments, facts.mapping.check(*level)) {
            warnings.push(format!("runtime {name}: {error}"));
        }
        for (argument, why) in [
            (HOST_SOCKETS, "its sandboxes cannot reach the gateway"),
            (PROFILE, "its sandboxes have no seccomp filter inside"),
        ] {
            let there = arguments.is_none_or(|all| all.iter().any(|one| one == argument));
            if *level == Isolation::Gvisor && !there {
                warnings.push(format!(
                    "runtime {name} lacks {argument} in its runtimeArgs in daemon.json: {why}"
                ));
            }
        }
    }
    if let Some(version) = &facts.runc
        && parse(version).is_some_and(|version| !is_fixed(version))
    {
        warnings.push(format!(
            "runc {version} has CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881, which lead out of a container, unless its \
             distribution fixed them; 1.2.8 and 1.3.3 are the first without"
        ));
    }
    if !facts.seccomp {
        warnings.push("the engine has no seccomp: containers may make every system call".to_owned());
    }
    warnings.extend(facts.warnings.iter().map(|text| text.trim().to_owned()));
    let mut images = BTreeMap::new();
    let mut usable = None;
    for name in &inner.config.images {
        let problem = match image::look_up(&inner.client, name).await {
            Ok(image) => {
                usable.get_or_insert(image);
                None
            }
            Err(error) => Some(error.to_string()),
        };
        images.insert(name.clone(), problem);
    }
    for name in &inner.config.networks {
        // Without an image there is nothing to try a network with, and nothing that could join it.
        let Some(image) = &usable else { break };
        let network = crate::Network::Open(name.clone());
        let with = (image, inner.config.runtime.as_str(), inner.level);
        if let Err(error) = super::network::mode(inner, &network, with).await {
            warnings.push(error.to_string());
        }
    }
    Ok(EngineReport {
        limits: LimitReport {
            disk: Enforcement::Hard,
            ..facts.limits
        },
        version: facts.version,
        api: facts.api,
        cgroup_version: facts.cgroup_version,
        runtimes,
        images,
        warnings,
    })
}

fn is_fixed(version: (u32, u32, u32)) -> bool {
    let (major, minor, patch) = version;
    FIXED_RUNC
        .iter()
        .any(|fixed| (fixed.0, fixed.1) == (major, minor) && patch >= fixed.2)
        || (major, minor) > (1, 3)
}

/// The three numbers at the start of a version.
fn parse(version: &str) -> Option<(u32, u32, u32)> {
    let mut numbers = version
        .split(|character: char| !character.is_ascii_digit())
        .map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some((next()?, next()?, next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_holes_of_runc_are_known() {
        for old in ["1.1.5+ds1", "1.1.12", "1.2.7", "1.3.0"] {
            assert!(!is_fixed(parse(old).unwrap()), "{old}");
        }
        for new in ["1.2.8", "1.3.3-ds1", "1.4.0"] {
            assert!(is_fixed(parse(new).unwrap()), "{new}");
        }
        assert_eq!(parse("unknown"), None);
    }
}
