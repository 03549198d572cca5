//! Settings of the Docker provisioner.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use crate::{DEFAULT_HOST_UIDS, Isolation, SandboxError, host_uid_parts};

/// Bytes of a name of an image, a runtime or a network.
const MAX_NAME_BYTES: usize = 255;
/// Names of networks that have another meaning for the engine, or expose the host.
const RESERVED_NETWORKS: &[&str] = &["none", "host", "bridge", "default"];

/// Settings of a [`crate::DockerProvisioner`]. All paths are as the *engine* sees them: a gateway that runs in a
/// container itself has them mounted at the same places as on the host.
#[derive(Clone, Debug)]
pub struct DockerConfig {
    /// The directory for sockets: short, mode 0700, owned by this user, of this provisioner alone. Made when it is
    /// missing.
    pub run_dir: PathBuf,
    /// The `himalia-shim` binary; static, as it runs in any image. Its file system must allow execution.
    pub shim: PathBuf,
    /// The directory that holds the Python package `himalia_kernel`, readable by all users.
    pub kernel_dir: PathBuf,
    /// The engine's unix socket.
    pub socket: PathBuf,
    /// Images that sandboxes may have; the first is the one they get when they name none.
    pub images: Vec<String>,
    /// Runtimes that sandboxes may have, by their names in the engine, and the level that each gives: `container`,
    /// `gvisor` or `microvm`.
    pub runtimes: BTreeMap<String, Isolation>,
    /// The runtime of sandboxes that name none.
    pub runtime: String,
    /// Networks of the engine that sandboxes may ask for.
    pub networks: Vec<String>,
    /// Ranges of user ids, of whose upper halves each container gets one for itself. Only gateways may use them on the
    /// engine's host; several at one engine see each other's containers.
    pub host_uids: Vec<RangeInclusive<u32>>,
    /// Some of these that no container gets, as something else has them.
    pub host_uids_taken: BTreeSet<u32>,
    /// Longest wait for the answer to one call of the engine.
    pub call_deadline: Duration,
    /// Longest wait for the start of a container, everything included.
    pub start_deadline: Duration,
}

impl DockerConfig {
    /// The settings for these paths: the image `himalia-kernel`, runtimes `runc` and `runsc`, no network, the usual
    /// socket.
    pub fn new(
        run_dir: impl Into<PathBuf>,
        shim: impl Into<PathBuf>,
        kernel_dir: impl Into<PathBuf>,
    ) -> Self {
        Self {
            run_dir: run_dir.into(),
            shim: shim.into(),
            kernel_dir: kernel_dir.into(),
            socket: PathBuf::from("/var/run/docker.sock"),
            images: vec!["himalia-kernel".to_owned()],
            runtimes: BTreeMap::from([
                ("runc".to_owned(), Isolation::Container),
                ("runsc".to_owned(), Isolation::Gvisor),
            ]),
            runtime: "runc".to_owned(),
            networks: Vec::new(),
            host_uids: host_uid_parts(&DEFAULT_HOST_UIDS),
            host_uids_taken: BTreeSet::new(),
            call_deadline: Duration::from_secs(20),
            start_deadline: Duration::from_mins(1),
        }
    }

    /// Checks everything that does not need the engine.
    pub(super) fn check(&self) -> Result<(), SandboxError> {
        let bad = |field: &'static str, reason: String| Err(SandboxError::BadSpec { field, reason });
        for (field, path) in [
            ("run_dir", &self.run_dir),
            ("shim", &self.shim),
            ("kernel_dir", &self.kernel_dir),
            ("socket", &self.socket),
        ] {
            if !path.is_absolute() || path.to_str().is_none() {
                return bad(
                    field,
                    format!("{} is not an absolute path in UTF-8", path.display()),
                );
            }
        }
        if self.images.is_empty() {
            return bad("images", "are empty: at least one is needed".to_owned());
        }
        for (field, name) in (self.images.iter().map(|name| ("images", name)))
            .chain(self.runtimes.keys().map(|name| ("runtimes", name)))
            .chain(self.networks.iter().map(|name| ("networks", name)))
        {
            if !is_name(name) {
                return bad(
                    field,
                    format!("must be names of letters, digits, '-', '_' and '.', not {name:?}"),
                );
            }
        }
        if let Some(name) = self.networks.iter().find(|name| is_reserved_network(name)) {
            return bad(
                "networks",
                format!("hold {name:?}, which is not a network of its own"),
            );
        }
        if let Some((name, level)) = self
            .runtimes
            .iter()
            .find(|(_, level)| **level < Isolation::Container)
        {
            return bad(
                "runtimes",
                format!("say that {name} gives {level}; it is at least container"),
            );
        }
        if !self.runtimes.contains_key(&self.runtime) {
            return bad("runtime", format!("{:?} is not among the runtimes", self.runtime));
        }
        Ok(())
    }
}

fn is_reserved_network(name: &str) -> bool {
    RESERVED_NETWORKS.contains(&name) || name.starts_with("container:")
}

/// Returns true if the engine accepts the text as a name. Colons, slashes and at signs belong to images.
fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@".contains(&byte);
    text.len() <= MAX_NAME_BYTES
        && text.bytes().all(plain)
        && text
            .bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> DockerConfig {
        DockerConfig::new(
            "/run/himalia/docker",
            "/usr/bin/himalia-shim",
            "/usr/share/himalia",
        )
    }

    #[test]
    fn the_plain_settings_are_fine() {
        config().check().unwrap();
    }

    #[test]
    fn what_cannot_work_is_named() {
        type Change = fn(&mut DockerConfig);
        let wrong: [(&str, Change); 9] = [
            ("run_dir", |config| config.run_dir = "run".into()),
            ("images", |config| config.images.clear()),
            ("images", |config| config.images.push("a b".to_owned())),
            ("images", |config| config.images.push("-v".to_owned())),
            ("networks", |config| config.networks.push("host".to_owned())),
            ("networks", |config| {
                config.networks.push("container:x".to_owned());
            }),
            ("networks", |config| config.networks.push(String::new())),
            ("runtime", |config| config.runtime = "kata".to_owned()),
            ("runtimes", |config| {
                config.runtimes.insert("runc".to_owned(), Isolation::Namespaces);
            }),
        ];
        for (name, spoil) in wrong {
            let mut config = config();
            spoil(&mut config);
            match config.check() {
                Err(SandboxError::BadSpec { field, .. }) => assert_eq!(field, name),
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}
