//! Names, labels and annotations of what the provisioner makes.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use himalia_provisioner::SandboxId;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sha2::{Digest, Sha256};

/// Label with the creator of an object; the value is [`MANAGER`].
pub(crate) const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
pub(crate) const MANAGER: &str = "himalia";
/// Label with the gateway that created the object.
pub(crate) const GATEWAY: &str = "himalia.internal/gateway";
/// Label with the sandbox of the object.
pub(crate) const SANDBOX: &str = "himalia.internal/sandbox";
/// Label with the replica that created the object.
pub(crate) const REPLICA: &str = "himalia.internal/replica";
/// The level of the sandbox.
pub(crate) const ISOLATION: &str = "himalia.internal/isolation";
/// The fingerprint of the authority that certifies the sandbox.
pub(crate) const AUTHORITY: &str = "himalia.internal/authority";
/// The caller's labels, as JSON: their values need not be those of a label.
pub(crate) const CALLER: &str = "himalia.internal/labels";
/// The name of kept files.
pub(crate) const FILES: &str = "himalia.internal/files";
/// Last part of the names in sandbox certificates.
const DOMAIN: &str = "sandbox.himalia.internal";

/// Names of one gateway's objects.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    pub(crate) gateway: String,
    /// This replica of it, if it is not alone.
    pub(crate) replica: Option<String>,
}

impl Names {
    /// The name of a sandbox's pod and secret.
    pub(crate) fn object(id: SandboxId) -> String {
        format!("himalia-{id}")
    }

    /// Name in the certificate of a sandbox.
    pub(crate) fn certified(id: SandboxId) -> String {
        format!("{id}.{DOMAIN}")
    }

    /// The name of the claim for kept files. The name of the files is in an annotation.
    pub(crate) fn claim(&self, files: &str) -> String {
        let digest = Sha256::digest(format!("{}\0{files}", self.gateway).as_bytes());
        format!("himalia-files-{}", hex::encode(&digest[..10]))
    }

    /// Labels of everything.
    pub(crate) fn labels(&self) -> BTreeMap<String, String> {
        [(MANAGED_BY, MANAGER), (GATEWAY, &self.gateway)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    /// Creator, as an annotation.
    pub(crate) fn made_by(&self) -> BTreeMap<String, String> {
        let replica = self.replica.iter();
        replica.map(|name| (REPLICA.to_owned(), name.clone())).collect()
    }

    /// The same as a selector, of pods and secrets.
    pub(crate) fn selector(&self) -> String {
        format!("{MANAGED_BY}={MANAGER},{GATEWAY}={}", self.gateway)
    }

    /// Labels of what belongs to a sandbox.
    pub(crate) fn labels_of(&self, id: SandboxId) -> BTreeMap<String, String> {
        let mut labels = self.labels();
        labels.insert(SANDBOX.to_owned(), id.to_string());
        labels
    }
}

pub(crate) fn age(metadata: &ObjectMeta, now: SystemTime) -> Duration {
    let created = metadata.creation_timestamp.as_ref();
    let created = created.map_or(now, |time| time.0.into());
    now.duration_since(created).unwrap_or_default()
}

/// The replica that made an object.
pub(crate) fn maker(metadata: &ObjectMeta) -> Option<&str> {
    metadata.annotations.as_ref()?.get(REPLICA).map(String::as_str)
}

/// The sandbox that an object belongs to.
pub(crate) fn sandbox_of(metadata: &ObjectMeta) -> Option<SandboxId> {
    metadata.labels.as_ref()?.get(SANDBOX)?.parse().ok()
}
