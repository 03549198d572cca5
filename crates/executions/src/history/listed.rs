//! The list of executions of a session that has ended, as its kernel would have given it.

use himalia_kernel::{MAX_RECENT, title};
use himalia_model::{KernelId, from_micros};

use super::cells::{Cells, RanCell};
use super::export::HistoryStatus;
use crate::{ExecutionBrief, ExecutionId, ExecutionStatus};

/// The latest thousand native executions, in the order in which they came.
pub fn briefs(kernel: KernelId, cells: &Cells) -> Vec<ExecutionBrief> {
    let (mut ran, _) = cells.in_order();
    ran.retain(|ran| ran.native);
    ran.sort_by_key(|ran| ran.seq);
    let omitted = ran.len().saturating_sub(MAX_RECENT);
    ran.iter()
        .skip(omitted)
        .map(|ran| brief(kernel, cells, ran))
        .collect()
}

fn brief(kernel: KernelId, cells: &Cells, ran: &RanCell) -> ExecutionBrief {
    ExecutionBrief {
        id: ExecutionId { kernel, seq: ran.seq },
        status: status(cells.status(ran)),
        created: from_micros(ran.at_micros),
        title: title(&ran.code),
        language: ran.language,
        caller: ran.caller.clone().unwrap_or_default(),
        client: ran.client.clone(),
        metadata: ran.metadata.clone(),
    }
}

/// A native execution is never aborted: it is sent again.
fn status(status: HistoryStatus) -> ExecutionStatus {
    match status {
        HistoryStatus::Queued => ExecutionStatus::Queued,
        HistoryStatus::Running => ExecutionStatus::Running,
        HistoryStatus::Ok => ExecutionStatus::Ok,
        HistoryStatus::Error => ExecutionStatus::Error,
        HistoryStatus::Timeout => ExecutionStatus::Timeout,
        HistoryStatus::Interrupted => ExecutionStatus::Interrupted,
        HistoryStatus::Aborted | HistoryStatus::KernelDied => ExecutionStatus::KernelDied,
        HistoryStatus::OomKilled => ExecutionStatus::OomKilled,
    }
}
