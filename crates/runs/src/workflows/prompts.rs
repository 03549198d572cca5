//! Steps that ask a person. The question is a row of its step, written when the step begins to wait: to show it reads no run.

use std::time::Duration;

use himalia_engine::Object;
use himalia_engine::{ListedPrompt, PromptPlace};
use himalia_executions::{PromptInfo, PromptKind, PromptName, PromptState, StepPromptId};
use himalia_model::{Action, EngineError, Principal, from_micros};
use himalia_outcome::shown_prompt;
use himalia_store::{StepAnswer, StepPromptFilter, StepPromptPlace, StepPromptRecord, WAITING};
use himalia_workflows::{Attempt, AttemptStatus, MAX_INPUT_BYTES, Run};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::runs::no_step;
use super::view::SHOWN_BYTES;
use super::{records, stored};
use crate::Commands;

/// Bytes that a row of a prompt takes beside its question, about.
const ROW_BYTES: usize = 256;

/// The question of a step, as it is stored.
#[derive(Serialize, Deserialize)]
struct Question {
    text: String,
    options: Vec<String>,
    /// The inputs of the step, as a person sees them.
    inputs: Value,
}

/// The question that is written with an attempt, if that begins to wait for a person.
pub(super) fn question(run: &Run, attempt: &Attempt) -> Result<Option<String>, EngineError> {
    let step = run.workflow().step(&attempt.place.step);
    let Some(approval) = step.and_then(|step| step.approval.as_ref()) else {
        return Ok(None);
    };
    if attempt.status != AttemptStatus::Waiting {
        return Ok(None);
    }
    // It has begun, so that its inputs are within the bound.
    let inputs = run.inputs_of(&attempt.place.step, attempt.place.item, MAX_INPUT_BYTES);
    let question = Question {
        text: approval.text.clone(),
        options: approval.options.clone(),
        inputs: shown_inputs(Value::Object(inputs.unwrap_or_default()), &attempt.place.step),
    };
    let written = serde_json::to_string(&question);
    written
        .map(Some)
        .map_err(|error| EngineError::internal("writing a question", error))
}

/// Inputs as a person sees them. Of long ones the person sees the beginning and the end, how much is between them, the digest of all, and
/// where all of them are.
fn shown_inputs(inputs: Value, step: &str) -> Value {
    let text = inputs.to_string();
    if text.len() <= SHOWN_BYTES {
        return inputs;
    }
    let start = text.floor_char_boundary(SHOWN_BYTES / 2);
    let end = text.ceil_char_boundary(text.len().saturating_sub(SHOWN_BYTES / 2));
    let (first, last) = (
        text.get(..start).unwrap_or_default(),
        text.get(end..).unwrap_or_default(),
    );
    let digest = hex::encode(Sha256::digest(&text));
    Value::String(format!(
        "{first}… [{} of {} bytes are not shown; SHA-256 {digest}; GET /v1/runs/…/steps/{step} returns all] …{last}",
        end.saturating_sub(start),
        text.len()
    ))
}

/// A step that asks or has asked, as a prompt.
pub(crate) fn info(record: StepPromptRecord) -> Result<PromptInfo, EngineError> {
    let question: Question = records::json_of(&record.prompt)?;
    let (state, reason) = match record.status.as_str() {
        WAITING => (PromptState::Open, None),
        _ if record.answer.is_some() => (PromptState::Answered, None),
        _ => {
            let failure = record.error.as_deref().map(records::failure_of).transpose()?;
            let reason = failure.map(|failure| failure.message);
            let reason = reason.filter(|text| !text.is_empty());
            let reason = reason.unwrap_or_else(|| "the run has ended".to_owned());
            (PromptState::Withdrawn, Some(reason))
        }
    };
    let time = |micros: i64| from_micros(u64::try_from(micros).unwrap_or(0));
    Ok(PromptInfo {
        id: PromptName::Step(StepPromptId {
            run: record.run.clone(),
            step: record.step.clone(),
        }),
        session: None,
        run: Some(record.run),
        step: Some(record.step),
        execution: None,
        kind: PromptKind::Step,
        text: shown_prompt(&question.text),
        options: question.options,
        tool: None,
        arguments: (state == PromptState::Open).then_some(question.inputs),
        password: false,
        created: time(record.begun_micros),
        expires: record.due_micros.map(time),
        state,
        answer: record.answer,
        answered_by: record.answered_by,
        reason,
    })
}

impl Commands {
    /// Steps of the workflows that the principal sees which wait for an answer: the first `most` after a place.
    pub(crate) async fn waiting_steps(
        &self,
        principal: &Principal,
        after: Option<&PromptPlace>,
        most: usize,
    ) -> Result<Vec<ListedPrompt>, EngineError> {
        let of_all = principal.is_operator();
        let filter = StepPromptFilter {
            owner: (!of_all).then(|| principal.owner().to_owned()),
            after: after.map(place),
            limit: i64::try_from(most).unwrap_or(i64::MAX),
        };
        let _turn = self.services.turn(principal).await?;
        let found = self.services.store().step_prompts(filter).await.map_err(stored)?;
        let bytes = found.iter().map(|record| record.prompt.len() + ROW_BYTES).sum();
        let listed = || {
            let listed = found.into_iter().map(|record| {
                let turn = if of_all {
                    u32::try_from(record.turn).unwrap_or(u32::MAX)
                } else {
                    0
                };
                Ok(ListedPrompt {
                    prompt: info(record)?,
                    turn,
                })
            });
            listed.collect()
        };
        himalia_budget::work(bytes, listed)
    }

    /// The prompt of a step, when it has ended or after this time.
    pub(crate) async fn step_prompt(
        &self,
        principal: &Principal,
        id: &StepPromptId,
        wait: Duration,
    ) -> Result<PromptInfo, EngineError> {
        self.allow(principal, Action::Read, Object::Workflows)?;
        let until = Instant::now() + wait;
        loop {
            // Before the row is read: what changes afterwards is not missed.
            let changed = self.workflows.changed(&id.run);
            let found = self.asked(principal, &id.run, &id.step).await?;
            let found =
                found.ok_or_else(|| EngineError::no_prompt(&PromptName::Step(id.clone()).to_string()))?;
            if found.status != WAITING || Instant::now() >= until {
                return info(found);
            }
            self.until_changed(changed, Some(until)).await?;
        }
    }

    /// Answers what a step asks.
    pub(crate) async fn answer_step_prompt(
        &self,
        principal: &Principal,
        id: &StepPromptId,
        value: String,
    ) -> Result<PromptInfo, EngineError> {
        // What is not there, or not the tenant's, is unknown as a prompt.
        self.step_prompt(principal, id, Duration::ZERO).await?;
        self.answer_step(principal, &id.run, &id.step, value).await?;
        self.step_prompt(principal, id, Duration::ZERO).await
    }

    /// Writes an answer, once.
    pub(super) async fn answer_step(
        &self,
        principal: &Principal,
        run: &str,
        step: &str,
        value: String,
    ) -> Result<(), EngineError> {
        // A caller who runs code may not approve what that code does.
        self.allow(principal, Action::Approve, Object::Workflows)?;
        let conflict = |reason: &str| {
            Err(EngineError::Conflict {
                reason: format!("the step {step} {reason}"),
            })
        };
        let over = "does not wait for an answer: it has not begun, was answered, or has ended";
        let Some(asked) = self.asked(principal, run, step).await? else {
            let record = self.seen_run(principal, run).await?;
            let workflow = self.workflow_of(&record.brief).await?;
            let known = workflow.step(step).ok_or_else(|| no_step(step))?;
            return conflict(if known.approval.is_some() {
                over
            } else {
                "asks no person"
            });
        };
        let question: Question = records::json_of(&asked.prompt)?;
        if !question.options.contains(&value) {
            let reason = format!("must be one of: {}", question.options.join(", "));
            return Err(EngineError::bad_request("value", reason));
        }
        let answer = StepAnswer {
            run: run.to_owned(),
            step: step.to_owned(),
            answer: value,
            by: principal.name().to_owned(),
        };
        let answering = self.services.store().answer_workflow_step(answer);
        if !answering.await.map_err(stored)? {
            return conflict(over);
        }
        self.workflows.wake(run);
        Ok(())
    }

    /// A step of a run of the principal's tenant that asks or has asked a person; for the operator of any.
    async fn asked(
        &self,
        principal: &Principal,
        run: &str,
        step: &str,
    ) -> Result<Option<StepPromptRecord>, EngineError> {
        let store = self.services.store();
        let found = store.step_prompt(run.to_owned(), step.to_owned());
        let found = found.await.map_err(stored)?;
        Ok(found.filter(|record| principal.sees(&record.owner)))
    }
}

/// The place after which the steps that follow a prompt begin.
fn place(after: &PromptPlace) -> StepPromptPlace {
    let (run, step) = match after.id.parse() {
        Ok(PromptName::Step(id)) => (id.run, id.step),
        // Prompts of kernels come before those of steps of the same time.
        _ => (String::new(), String::new()),
    };
    let micros = after.created.unix_timestamp_nanos() / 1000;
    StepPromptPlace {
        turn: after.turn.into(),
        begun_micros: i64::try_from(micros).unwrap_or(i64::MAX),
        run,
        step,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_person_sees_both_ends_of_long_inputs() {
        let short = json!({"a": "b"});
        assert_eq!(shown_inputs(short.clone(), "sign"), short);
        let long = json!({"a": "ü".repeat(SHOWN_BYTES), "to": "the end"});
        let shown = shown_inputs(long.clone(), "sign");
        let shown = shown.as_str().unwrap();
        assert!(
            shown.starts_with("{\"a\":\"ü") && shown.ends_with("\"to\":\"the end\"}"),
            "{shown}"
        );
        let digest = hex::encode(Sha256::digest(long.to_string()));
        assert!(
            shown.contains(&digest) && shown.contains("bytes are not shown") && shown.contains("steps/sign")
        );
        assert!(shown.len() < SHOWN_BYTES + 300);
    }
}
