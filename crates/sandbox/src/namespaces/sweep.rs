//! Removes sandboxes and control groups that an earlier gateway process left.

use std::collections::HashSet;

use super::ending;
use super::inner::Inner;
use super::record::Record;
use crate::host::short;
use crate::{SandboxError, SandboxId};

/// Ends and removes sandboxes that are neither watched nor in `keep`, and returns those that are completely removed.
/// Blocks.
pub(super) fn sweep(inner: &Inner, keep: &[SandboxId]) -> Result<Vec<SandboxId>, SandboxError> {
    // Groups first, records second: a sandbox that starts in between has its record before its groups.
    let groups = inner.config.cgroups.names();
    let ids = inner.members.strangers(inner.layout.sandboxes()?, keep);
    let mut removed = Vec::new();
    for id in ids {
        let record = ending::read_or_blank(id, &inner.layout);
        if let Err(error) = ending::kill(&record) {
            tracing::error!(sandbox = %short(id), %error, "an unknown sandbox remains");
            continue;
        }
        inner.forget(&record);
        if inner.layout.sandboxes().is_ok_and(|left| !left.contains(&id)) {
            tracing::info!(sandbox = %short(id), "removed an unknown sandbox");
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
            tracing::warn!(%error, "an unknown control group remains");
        }
    }
    Ok(())
}
