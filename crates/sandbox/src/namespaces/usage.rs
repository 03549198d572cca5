//! Resource usage of a sandbox, measured from outside.

use std::collections::HashMap;

use super::record::Record;
use crate::host::proc::{self, Process, ProcessId, Tree, family, resident};
use crate::{SandboxId, Usage};

/// Resource usage of a sandbox. The memory is the control group's value if there is a group.
pub(super) fn usage(record: &Record, init: ProcessId) -> Usage {
    let all = Process::all().unwrap_or_default();
    in_tree(record, init, &Tree::of(&all))
}

/// The resource use of each of these that lives. `/proc` is read once.
pub(super) fn usages(records: impl Iterator<Item = Record>) -> HashMap<SandboxId, Usage> {
    let all = Process::all().unwrap_or_default();
    let tree = Tree::of(&all);
    let living = records.filter_map(|record| record.living_shim().map(|shim| (record, shim.id)));
    living
        .map(|(record, init)| (record.id, in_tree(&record, init, &tree)))
        .collect()
}

fn in_tree(record: &Record, init: ProcessId, tree: &Tree<'_>) -> Usage {
    let sum = proc::usage(tree.family([init]).iter());
    Usage {
        rss_bytes: record.details.groups.memory_bytes().unwrap_or(sum.rss_bytes),
        ..sum
    }
}

/// The memory in use by each of these that lives. `/proc` is read at most once, for those without a control group.
pub(super) fn memory(records: impl Iterator<Item = Record>) -> HashMap<SandboxId, u64> {
    let mut processes = None;
    let living = records.filter_map(|record| record.living_shim().map(|shim| (record, shim.id)));
    living
        .map(|(record, init)| {
            let used = record.details.groups.memory_bytes().unwrap_or_else(|| {
                let all = processes.get_or_insert_with(|| Process::all().unwrap_or_default());
                resident(&family(all, init))
            });
            (record.id, used)
        })
        .collect()
}
