//! Names and labels by which the containers and volumes of one gateway are found.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::{Files, Isolation, SandboxError, SandboxId};

/// The gateway that a container or volume belongs to.
pub(super) const INSTANCE: &str = "himalia.instance";
/// The sandbox that a container belongs to.
pub(super) const SANDBOX: &str = "himalia.sandbox";
/// Role of a container: the sandbox itself ([`ROLE_SANDBOX`]), or the preparation of its volume ([`ROLE_HELPER`]).
pub(super) const ROLE: &str = "himalia.role";
pub(super) const ROLE_SANDBOX: &str = "sandbox";
pub(super) const ROLE_HELPER: &str = "helper";
/// The user id of a container, or of the files in a volume.
pub(super) const UID: &str = "himalia.uid";
const ISOLATION: &str = "himalia.isolation";
const LIMITS: &str = "himalia.limits";
/// The name under which a volume's files are kept.
const FILES: &str = "himalia.files";
/// Before the names of a caller's labels, so that they can never be ours.
const CALLER: &str = "himalia.label.";

/// Characters of a name of kept files.
const MAX_FILES_NAME: usize = 64;

/// Names and labels of all objects that one gateway creates in the engine.
#[derive(Clone, Debug)]
pub(super) struct Names {
    instance: String,
}

/// Values of the labels of a sandbox's container.
#[derive(Clone, Debug)]
pub(super) struct Labels {
    pub(super) id: SandboxId,
    pub(super) isolation: Isolation,
    pub(super) limits: crate::LimitReport,
    pub(super) caller: BTreeMap<String, String>,
}

impl Names {
    /// For the gateway with this run directory, which only one gateway can have at a time.
    pub(super) fn new(run_dir: &Path) -> Self {
        let digest = Sha256::digest(run_dir.as_os_str().as_bytes());
        Self {
            instance: hex::encode(&digest[..8]),
        }
    }

    /// A number that differs from gateway to gateway.
    pub(super) fn seed(&self) -> u64 {
        u64::from_str_radix(&self.instance, 16).unwrap_or(0)
    }

    pub(super) fn container(&self, id: SandboxId) -> String {
        format!("himalia-{}-{id}", self.instance)
    }

    /// The container that prepares a sandbox's volume.
    pub(super) fn helper(&self, id: SandboxId) -> String {
        format!("{}-files", self.container(id))
    }

    /// The volume of kept files.
    pub(super) fn volume(&self, name: &str) -> String {
        format!("himalia-{}-{name}", self.instance)
    }

    /// Filter for everything of this gateway.
    pub(super) fn filter(&self) -> HashMap<String, Vec<String>> {
        HashMap::from([("label".to_owned(), vec![format!("{INSTANCE}={}", self.instance)])])
    }

    pub(super) fn volume_labels(&self, name: &str, uid: u32) -> HashMap<String, String> {
        HashMap::from([
            (INSTANCE.to_owned(), self.instance.clone()),
            (UID.to_owned(), uid.to_string()),
            (FILES.to_owned(), name.to_owned()),
        ])
    }

    pub(super) fn helper_labels(&self, id: SandboxId) -> HashMap<String, String> {
        HashMap::from([
            (INSTANCE.to_owned(), self.instance.clone()),
            (SANDBOX.to_owned(), id.to_string()),
            (ROLE.to_owned(), ROLE_HELPER.to_owned()),
        ])
    }

    pub(super) fn labels(&self, labels: &Labels, uid: u32) -> HashMap<String, String> {
        let limits = serde_json::to_string(&labels.limits).unwrap_or_default();
        let own = [
            (INSTANCE, self.instance.clone()),
            (SANDBOX, labels.id.to_string()),
            (ROLE, ROLE_SANDBOX.to_owned()),
            (UID, uid.to_string()),
            (ISOLATION, labels.isolation.to_string()),
            (LIMITS, limits),
        ];
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
        let caller = labels.caller.iter();
        own.chain(caller.map(|(name, value)| (format!("{CALLER}{name}"), value.clone())))
            .collect()
    }
}

/// The sandbox that a container belongs to, whatever its role.
pub(super) fn sandbox_of(labels: &HashMap<String, String>) -> Option<SandboxId> {
    labels.get(SANDBOX)?.parse().ok()
}

/// The user id of a container, or of the files in a volume.
pub(super) fn uid_of(labels: &HashMap<String, String>) -> Option<u32> {
    labels.get(UID)?.parse().ok()
}

/// The name under which the files of a volume are kept.
pub(super) fn files_of(labels: &HashMap<String, String>) -> Option<String> {
    labels.get(FILES).cloned()
}

impl Labels {
    /// `None` for a container that is not a sandbox.
    pub(super) fn read(labels: &HashMap<String, String>) -> Option<Self> {
        if labels.get(ROLE)? != ROLE_SANDBOX {
            return None;
        }
        let caller = labels.iter().filter_map(|(name, value)| {
            let name = name.strip_prefix(CALLER)?;
            Some((name.to_owned(), value.clone()))
        });
        Some(Self {
            id: sandbox_of(labels)?,
            // An unreadable level is the weakest: nothing is promised that may not be there.
            isolation: labels
                .get(ISOLATION)
                .and_then(|level| level.parse().ok())
                .unwrap_or_default(),
            limits: labels
                .get(LIMITS)
                .and_then(|limits| serde_json::from_str(limits).ok())
                .unwrap_or_default(),
            caller: caller.collect(),
        })
    }
}

/// Checks the name of kept files.
pub(super) fn check_files(files: &Files) -> Result<(), SandboxError> {
    let Files::Session(name) = files else {
        return Ok(());
    };
    check_files_name(name)
}

pub(super) fn check_files_name(name: &str) -> Result<(), SandboxError> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    if !name.is_empty() && name.len() <= MAX_FILES_NAME && name.bytes().all(plain) {
        return Ok(());
    }
    Err(SandboxError::BadSpec {
        field: "files",
        reason: format!("must have a name of 1 to {MAX_FILES_NAME} characters of a-z, 0-9, _ and -"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Enforcement, LimitReport};

    #[test]
    fn labels_come_back_and_a_caller_cannot_forge_ours() {
        let names = Names::new(Path::new("/run/himalia"));
        let labels = Labels {
            id: SandboxId::generate().unwrap(),
            isolation: Isolation::Gvisor,
            limits: LimitReport {
                disk: Enforcement::Hard,
                ..LimitReport::default()
            },
            caller: BTreeMap::from([
                ("session".to_owned(), "a=b,\"c\"\n".to_owned()),
                (SANDBOX.to_owned(), "f".repeat(32)),
            ]),
        };
        let read = Labels::read(&names.labels(&labels, 1001)).unwrap();
        assert_eq!(read.id, labels.id);
        assert_eq!(read.isolation, labels.isolation);
        assert_eq!(read.limits, labels.limits);
        assert_eq!(read.caller, labels.caller);
        assert!(Labels::read(&names.helper_labels(labels.id)).is_none());
        assert_eq!(sandbox_of(&names.helper_labels(labels.id)), Some(labels.id));
    }

    #[test]
    fn gateways_with_other_run_directories_have_other_names() {
        let one = Names::new(Path::new("/run/himalia"));
        let other = Names::new(Path::new("/run/himalia2"));
        assert_ne!(one.filter(), other.filter());
        assert_ne!(one.volume("a"), other.volume("a"));
        assert_eq!(one.filter(), Names::new(Path::new("/run/himalia")).filter());
    }

    #[test]
    fn names_of_files_are_plain() {
        for good in ["a", "0123-abc_d", &"x".repeat(64)] {
            check_files_name(good).unwrap();
        }
        for bad in ["", "A", "a/b", "..", "a b", "é", &"x".repeat(65)] {
            assert!(check_files_name(bad).is_err(), "{bad}");
        }
    }
}
