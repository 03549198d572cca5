//! Result of an execution for callers.

use himalia_model::{from_micros, wall_micros};
use himalia_outcome::Excerpt;

use super::{End, Follower};
use crate::{Death, ExecutionId, ExecutionResult, ExecutionStatus, ExecutionUsage, QuotaLoss, TextTruncated};

impl Follower<Excerpt> {
    /// Result so far.
    pub(crate) fn result(&self) -> ExecutionResult {
        let outcome = self.fold.outcome();
        let over = self.ended.as_ref().map(|(at, ended)| (*at, ended));
        let now = over.map_or_else(wall_micros, |(at, _)| at);
        // The channels of a kernel have no order between them: what it asks can come before the message that it is busy.
        let has_begun = self.began.is_some() || self.asks();
        let status = match over {
            Some((_, ended)) => ended.status.into(),
            None if has_begun => ExecutionStatus::Running,
            None => ExecutionStatus::Queued,
        };
        let millis = |from: u64, to: u64| to.saturating_sub(from) / 1000;
        let text = outcome.text;
        let truncated = (text.bytes_omitted > 0).then(|| TextTruncated {
            bytes_total: text.bytes_total,
            bytes_shown: text.bytes_shown(),
            from: text.head.len() as u64,
            to: text.bytes_total.saturating_sub(text.tail.len() as u64),
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
            ran: over.map_or(has_begun, |(_, ended)| ended.ran),
            kernel: self.kernel(),
            execution_count: outcome.execution_count,
            created: from_micros(self.created),
            queued_ms: millis(self.created, self.began.unwrap_or(now)),
            duration_ms: self.began.map_or(0, |began| millis(began, now)),
            position: (status == ExecutionStatus::Queued).then_some(self.ahead),
            behind: self
                .behind
                .filter(|_| status == ExecutionStatus::Queued)
                .map(|seq| ExecutionId {
                    kernel: self.id.kernel,
                    seq,
                }),
            stuck: self.stuck(),
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

#[cfg(test)]
mod tests {
    use himalia_journal::Record;
    use himalia_kernel::{ExecutionRecord, Language, RecordKind, RecordMeta, owner_of, word};
    use himalia_model::KernelId;
    use himalia_wire::{Channel, build, v1};
    use serde_json::{Value, json};

    use super::*;

    fn message(seq: u64, channel: Channel, word: u32, kind: &str, content: &Value) -> Record {
        let meta = RecordMeta {
            owner: owner_of(1),
            channel: Some(channel),
            word,
            ..RecordMeta::default()
        };
        Record {
            seq,
            at_micros: seq * 1000,
            kind: RecordKind::Message as u8,
            meta: meta.encode(),
            body: v1::encode(channel, &build::message("k", kind, None, content)),
        }
    }

    #[test]
    fn what_asks_before_the_kernel_says_that_it_is_busy_is_running() {
        let id = ExecutionId {
            kernel: KernelId(uuid::Uuid::nil()),
            seq: 1,
        };
        let mut follower = Follower::new(id, Language::Kernel, String::new(), 100, Excerpt::new(100));
        assert_eq!(follower.result().status, ExecutionStatus::Queued);
        let question = json!({"prompt": "Name? ", "password": false});
        follower.record(&message(2, Channel::Stdin, 0, "input_request", &question));
        let result = follower.result();
        assert_eq!(
            (result.status, result.position, result.ran),
            (ExecutionStatus::Running, None, true)
        );
        assert_eq!(result.input.unwrap().prompt, "Name? ");
        let busy = message(
            3,
            Channel::Iopub,
            word::BEGAN,
            "status",
            &json!({"execution_state": "busy"}),
        );
        follower.record(&busy);
        assert_eq!(follower.result().status, ExecutionStatus::Running);
        assert!(follower.asks());
    }

    fn execution(seq: u64, owner: u64, event: &ExecutionRecord) -> Record {
        let meta = RecordMeta {
            owner,
            ..RecordMeta::default()
        };
        Record {
            seq,
            at_micros: seq * 1000,
            kind: RecordKind::Execution as u8,
            meta: meta.encode(),
            body: event.to_body(),
        }
    }

    fn submitted(behind: Option<u64>, stuck: bool) -> ExecutionRecord {
        let submission = json!({"event": "submitted", "code": "x", "timeout_ms": null, "on_timeout": "interrupt", "text_chars": 1,
            "allow_stdin": false, "store_history": true, "expect_incarnation": null, "key": null, "caller": "a",
            "ahead": u32::from(behind.is_some()), "turn": 2, "behind": behind, "stuck": stuck});
        serde_json::from_value(submission).unwrap()
    }

    #[test]
    fn an_execution_knows_the_one_that_it_waits_for() {
        let kernel = KernelId(uuid::Uuid::nil());
        let id = |seq| ExecutionId { kernel, seq };
        let follower = || Follower::new(id(5), Language::Kernel, String::new(), 100, Excerpt::new(100));
        let ended = ExecutionRecord::Ended {
            status: End::Timeout,
            cause: None,
            ran: true,
            failed_before: 0,
            variables_lost: None,
            failures: 0,
            turn: 1,
        };
        let mut waits = follower();
        waits.record(&execution(5, 0, &submitted(Some(3), false)));
        assert_eq!((waits.result().behind, waits.result().stuck), (Some(id(3)), None));
        assert!(!waits.is_notified());
        waits.record(&execution(6, owner_of(3), &ExecutionRecord::Stuck));
        let stuck = waits.result().stuck.unwrap();
        assert_eq!(stuck.execution, id(3));
        assert!(stuck.hint.contains(&id(3).to_string()) && stuck.hint.contains("restart"));
        assert!(waits.is_notified() && !waits.is_settled());
        waits.record(&execution(7, owner_of(3), &ended));
        assert_eq!((waits.result().behind, waits.result().stuck), (None, None));
        // One that comes later, which then ignores interrupts itself.
        let mut waits = follower();
        let (event, _) = waits.tell(&execution(5, 0, &submitted(Some(3), true)));
        assert!(
            matches!(event.unwrap().kind, crate::ExecutionEventKind::Stuck(stuck) if stuck.execution == id(3))
        );
        assert!(waits.is_notified());
        let sent = ExecutionRecord::Sent {
            attempt: 1,
            replaced: None,
        };
        waits.record(&execution(8, owner_of(5), &sent));
        assert!(!waits.is_notified() && waits.result().stuck.is_none());
        waits.record(&execution(9, owner_of(5), &ExecutionRecord::Stuck));
        assert_eq!(waits.result().stuck.unwrap().execution, id(5));
        waits.record(&execution(10, owner_of(5), &ended));
        assert_eq!(waits.result().stuck, None);
    }
}
