//! Removes sandboxes that an earlier gateway process left.

use super::config::LocalConfig;
use super::member::clean;
use super::noted::{Details, Record};
use crate::SandboxId;
use crate::host::layout::Layout;
use crate::host::short;

/// Ends and removes the given sandboxes; gives back those of which nothing is left. Blocks.
pub(super) fn sweep(ids: Vec<SandboxId>, config: &LocalConfig, layout: &Layout) -> Vec<SandboxId> {
    let gone = |id: &SandboxId| layout.sandboxes().is_ok_and(|left| !left.contains(id));
    ids.into_iter()
        .filter(|id| {
            // Without a record there is no mark; the shim is still known by its command line.
            let record = read_or_blank(*id, layout);
            let (killed, _) = clean(&record, config, layout);
            tracing::info!(sandbox = %short(*id), killed, "removed an unknown sandbox");
            gone(id)
        })
        .collect()
}

fn read_or_blank(id: SandboxId, layout: &Layout) -> Record {
    Record::read(&layout.record(id), id)
        // The name itself is a mark that no process has.
        .unwrap_or_else(|| {
            Record::new(
                id,
                id.to_string(),
                std::collections::BTreeMap::new(),
                Details::default(),
            )
        })
}
