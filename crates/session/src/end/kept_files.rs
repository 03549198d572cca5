//! Files that outlive their sandbox: they go when the last session that uses them has ended.

use std::collections::HashSet;

use himalia_model::{FilesMode, KernelId, SandboxConfig};
use himalia_provisioner::Provisioner;
use himalia_store::KernelRecord;

use crate::templates::Plan;
use crate::{Lease, Provisioners, Registry};

/// A name for the files of a new session, if they are kept. It is the gateway's own and random: a caller that chooses a
/// session's id, or knows one, comes to the files of no other session by it, and a start that fails removes its own alone.
pub(crate) fn new_name(plan: &Plan) -> Option<String> {
    (plan.session.sandbox.files == FilesMode::Session).then(|| KernelId::random().to_string())
}

/// Removes the files of an ended session, unless others use them, a branch or its parent, dead or alive: the last of
/// them does it.
pub(crate) async fn forget_kept_files(registry: &Registry, lease: &Lease, sandbox: &SandboxConfig) {
    let Some(name) = &sandbox.kept_files else { return };
    let others = registry.all_unordered();
    let is_used = others
        .iter()
        .any(|other| !other.is_over() && other.session().sandbox.kept_files.as_ref() == Some(name));
    if !is_used && !lease.is_shared() {
        remove_kept_files(lease.provisioner().as_ref(), name).await;
    }
}

/// Removes files. Failures are logged; the next gateway tries again.
pub(crate) async fn remove_kept_files(provisioner: &dyn Provisioner, name: &str) {
    if let Err(error) = provisioner.remove_files(name).await {
        tracing::warn!(files = name, %error, "the files of a session that has ended remain");
    }
}

/// Names of the files that belong to kernels of the store.
pub(crate) fn known_files(rows: &[KernelRecord]) -> HashSet<String> {
    let kept = |row: &KernelRecord| {
        let name = row.session.pointer("/sandbox/kept_files")?;
        name.as_str().map(str::to_owned)
    };
    rows.iter().filter_map(kept).collect()
}

/// Removes files that are not `known`: of sessions whose end, or whose start, was under way when the gateway was killed.
/// Only before the first kernel is started.
pub(crate) async fn remove_unknown_files(provisioners: &Provisioners, known: &HashSet<String>) {
    for provisioner in provisioners.iter() {
        match provisioner.kept_files().await {
            Ok(names) => {
                for name in names.iter().filter(|name| !known.contains(*name)) {
                    tracing::info!(
                        files = name,
                        "removing the files of a session that is not there any more"
                    );
                    remove_kept_files(provisioner, name).await;
                }
            }
            Err(error) => {
                tracing::error!(kind = %provisioner.kind(), %error, "cannot list the files of sessions");
            }
        }
    }
}
