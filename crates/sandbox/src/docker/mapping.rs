//! Engines that map the user ids of containers to others on the host.

use crate::{Isolation, SandboxError};

/// Mapping of user ids, as the engine reports it. An engine that maps ids has a bounded range of them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Mapping {
    /// No mapping: an id in a container is the same id on the host.
    None,
    /// `userns-remap`: containers are in a user namespace, the engine is not.
    Remap,
    /// The engine is in a user namespace, with its containers.
    Rootless,
}

impl Mapping {
    /// From the security options in the engine's properties.
    pub(super) fn of(options: &[String]) -> Self {
        let has = |name: &str| {
            options
                .iter()
                .any(|option| option.split(',').any(|part| part == name))
        };
        if has("name=rootless") {
            Self::Rootless
        } else if has("name=userns") {
            Self::Remap
        } else {
            Self::None
        }
    }

    /// Refuses levels that no sandbox of such an engine can have.
    pub(super) fn check(self, isolation: Isolation) -> Result<(), SandboxError> {
        // It opens what is mounted as the mapped root, which the gateway's run directory keeps out. runc opens it as
        // root.
        if self == Self::Remap && isolation == Isolation::Gvisor {
            return Err(SandboxError::BadSpec {
                field: "isolation",
                reason: "gvisor is not supported by an engine with userns-remap, where gVisor cannot mount the gateway's files; \
                         use an engine without it, or the level container"
                    .to_owned(),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(options: &[&str]) -> Mapping {
        let options: Vec<_> = options.iter().map(|&option| option.to_owned()).collect();
        Mapping::of(&options)
    }

    #[test]
    fn engines_tell_whether_they_map() {
        assert_eq!(
            mapping(&["name=seccomp,profile=default", "name=cgroupns"]),
            Mapping::None
        );
        // As Docker 20.10 with `--userns-remap=default` says it.
        assert_eq!(
            mapping(&["name=seccomp,profile=default", "name=userns"]),
            Mapping::Remap
        );
        assert_eq!(
            mapping(&["name=seccomp,profile=builtin", "name=rootless"]),
            Mapping::Rootless
        );
    }

    #[test]
    fn gvisor_with_userns_remap_is_refused() {
        let refused = Mapping::Remap.check(Isolation::Gvisor).unwrap_err().to_string();
        assert!(refused.contains("userns-remap"), "{refused}");
        assert!(Mapping::Remap.check(Isolation::Container).is_ok());
        for mapping in [Mapping::None, Mapping::Rootless] {
            assert!(mapping.check(Isolation::Gvisor).is_ok(), "{mapping:?}");
        }
    }
}
