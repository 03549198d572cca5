//! Sandboxes and control groups that an earlier gateway process left.

use std::collections::HashSet;

use super::ending;
use super::inner::Inner;
use super::record::Record;
use crate::host::short;
use crate::{SandboxError, SandboxId};

/// Ends and removes what nobody watches and nobody wants to keep; gives back the sandboxes of which nothing is left.
/// Blocks.
pub(super) fn sweep(inner: &Inner, keep: &[SandboxId]) -> Result<Vec<SandboxId>, SandboxError> {
    // Groups first, records second: a sandbox that starts in between has its record before its groups.
    let groups = inner.config.cgroups.names();
    let ids = inner.members.strangers(inner.layout.sandboxes()?, keep);
    let mut removed = Vec::new();
    for id in ids {
        let record = ending::read_or_blank(id, &inner.layout);
        if let Err(error) = ending::kill(&record) {
            tracing::error!(sandbox = %short(id), %error, "a sandbox that nobody knows remains");
            continue;
        }
        inner.forget(&record);
        if inner.layout.sandboxes().is_ok_and(|left| !left.contains(&id)) {
            tracing::info!(sandbox = %short(id), "removed a sandbox that nobody knows");
            removed.push(id);
        }
    }
    remove_groups(inner, groups)?;
    Ok(removed)
}

/// Removes groups that no record names.
fn remove_groups(inner: &Inner, groups: Vec<String>) -> Result<(), SandboxError> {
    let known: HashSet<String> = inner
        .layout
        .sandboxes()?
        .into_iter()
        .filter_map(|id| Record::read(&inner.layout.record(id), id))
        .map(|record| record.mark)
        .collect();
    for name in groups.into_iter().filter(|name| !known.contains(name)) {
        if let Err(error) = inner.config.cgroups.all(&name).remove() {
            tracing::warn!(%error, "a control group that nobody knows remains");
        }
    }
    Ok(())
}
