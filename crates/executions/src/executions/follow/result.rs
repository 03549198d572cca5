//! What came of an execution, as callers see it.

use himalia_model::{from_micros, wall_micros};
use himalia_outcome::Excerpt;

use super::{End, Follower};
use crate::{Death, ExecutionResult, ExecutionStatus, ExecutionUsage, QuotaLoss, TextTruncated};

impl Follower<Excerpt> {
    /// What came of it so far.
    pub(crate) fn result(&self) -> ExecutionResult {
        let outcome = self.fold.outcome();
        let over = self.ended.as_ref().map(|(at, ended)| (*at, ended));
        let now = over.map_or_else(wall_micros, |(at, _)| at);
        let status = match (over, self.began) {
            (Some((_, ended)), _) => ended.status.into(),
            (None, Some(_)) => ExecutionStatus::Running,
            (None, None) => ExecutionStatus::Queued,
        };
        let millis = |from: u64, to: u64| to.saturating_sub(from) / 1000;
        let text = outcome.text;
        let truncated = (text.bytes_omitted > 0).then(|| TextTruncated {
            bytes_total: text.bytes_total,
            bytes_shown: text.bytes_shown(),
            from: text.head.len() as u64,
            to: text.bytes_total - text.tail.len() as u64,
        });
        let more = truncated.map_or_else(String::new, |cut| {
            let (id, offset) = (self.id, cut.from);
            format!(": GET /v1/executions/{id}/output?cursor={offset}")
        });
        let death = over.and_then(|(_, ended)| {
            Some(Death {
                cause: ended.cause.clone()?,
                incarnation: ended.incarnation,
                next_incarnation: ended.incarnation
                    + u32::from(matches!(ended.status, End::KernelDied | End::OomKilled)),
                variables_lost: ended.variables_lost.clone(),
            })
        });
        let models = &self.calls.models;
        ExecutionResult {
            id: self.id,
            session: self.id.kernel,
            language: self.language,
            caller: self.caller.clone(),
            client: self.client.clone(),
            metadata: self.metadata.clone(),
            status,
            ran: over.map_or(self.began.is_some(), |(_, ended)| ended.ran),
            kernel: self.kernel(),
            execution_count: outcome.execution_count,
            created: from_micros(self.created),
            queued_ms: millis(self.created, self.began.unwrap_or(now)),
            duration_ms: self.began.map_or(0, |began| millis(began, now)),
            position: (status == ExecutionStatus::Queued).then_some(self.ahead),
            text: text.text(&more),
            truncated,
            outputs: outcome.outputs,
            outputs_omitted: outcome.outputs_omitted,
            artifacts: outcome.artifacts,
            artifacts_omitted: outcome.artifacts_omitted,
            error: outcome.error.map(|error| self.network.explain(error)),
            exit_code: outcome.notes.exit_code,
            failed_before: over.map_or(0, |(_, ended)| ended.failed_before),
            failures_in_a_row: over.map_or(0, |(_, ended)| ended.failures),
            variables: outcome.notes.variables,
            files: outcome.notes.files,
            usage: ExecutionUsage {
                cpu_ms: outcome.notes.usage.cpu_ms,
                peak_memory_bytes: outcome.notes.usage.peak_memory_bytes,
                bytes_out: self.bytes_out,
                network_sent_bytes: self.network.sent_bytes,
                network_received_bytes: self.network.received_bytes,
                tool_calls: self.calls.tools.calls,
                tool_calls_refused: self.calls.tools.refused,
                tool_calls_failed: self.calls.tools.failed,
                tool_calls_unknown: self.calls.tools.unknown,
                tool_reply_bytes: self.calls.tools.reply_bytes,
                model_calls: models.calls.calls,
                model_calls_refused: models.calls.refused,
                model_calls_failed: models.calls.failed,
                model_calls_unknown: models.calls.unknown,
                model_calls_cached: models.cached,
                model_input_tokens: models.used.input_tokens,
                model_output_tokens: models.used.output_tokens,
                model_spend: models.used.spend,
            },
            input: outcome
                .input
                .filter(|_| over.is_none())
                .map(|input| self.named(input)),
            prompts: self.prompts.open(self.id.kernel),
            death,
            detached: self.detached,
            gaps: self.gaps + outcome.unreadable,
            quota: (self.removed > 0).then_some(QuotaLoss {
                records_removed: self.removed,
            }),
            seq: self.seq,
        }
    }
}
