//! Environment of an execution.

use std::path::Path;

use himalia_model::{Isolation, SessionLimits};
use schemars::JsonSchema;
use serde::Serialize;

/// Characters of the name of an environment that a gateway built: the beginning of the hash of its lock file.
const HASH_CHARS: usize = 16;

/// The environment that an execution ran in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Provenance {
    /// The kernelspec.
    pub kernelspec: String,
    /// The template.
    pub template: String,
    /// The level of the sandbox.
    pub isolation: Isolation,
    /// The name of the image, where one was named.
    pub image: Option<String>,
    /// The digest of the image that the sandbox was started from; null without containers.
    pub image_digest: Option<String>,
    /// The first 16 hexadecimal digits of the SHA-256 of the lock file of the Python environment, if the gateway built that.
    pub lock_hash: Option<String>,
    /// The first 16 hexadecimal digits of a SHA-256 of the names and versions of the Python packages that the kernel could import when
    /// the execution ended: another one after an installation. From kernels that tell.
    pub packages_hash: Option<String>,
    /// The limits of the session. Absent limits have no bound.
    pub limits: SessionLimits,
}

/// The hash of the lock file of the environment that a program of this host is in, if a gateway built it: such an environment
/// is named by it. Looks at the disk.
pub fn lock_hash(program: &str) -> Option<String> {
    let environment = Path::new(program).parent()?.parent()?;
    let name = environment.file_name()?.to_str()?;
    let is_hash = name.len() == HASH_CHARS && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    let locked = || environment.join("himalia/requirements.lock").is_file();
    (is_hash && locked()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_that_was_built_is_named_by_its_lock_file() {
        let root = tempfile::tempdir().unwrap();
        let environment = root.path().join("0123456789abcdef");
        let program = environment.join("bin/python3");
        let found = || lock_hash(program.to_str().unwrap());
        assert_eq!(found(), None);
        std::fs::create_dir_all(environment.join("himalia")).unwrap();
        std::fs::write(environment.join("himalia/requirements.lock"), "").unwrap();
        assert_eq!(found().as_deref(), Some("0123456789abcdef"));
        for other in ["python3", "/usr/bin/python3", ""] {
            assert_eq!(lock_hash(other), None);
        }
    }
}
