//! One call of a model.

use std::sync::Arc;

use himalia_credentials::Mask;
use himalia_egress::Body;
use himalia_kernel::{Answer as KernelAnswer, Callee, Command, ToolCallBegin, ToolOutcome};
use himalia_llm::{Answer, CachedAnswer, Estimate, Failure, PreparedRequest, Request, Runs, TreeId, Whole};
use himalia_model::{LlmConfig, LlmError, LlmErrorCode, ModelUse, ToolCaller};
use himalia_sandbox_api::AskModel;
use http::Response;
use serde_json::Value;
use tokio::time::Instant;

use super::hold::{Day, Hold};
use super::{Llm, answer, pump};
use crate::SessionKernel;
use crate::tools::{BegunCall, cut, mask, shown};

/// Characters of a request and of a reply in the log.
const REQUEST_CHARS: usize = 2000;
const REPLY_CHARS: usize = 4000;
/// Characters of a name in the log.
const NAME_CHARS: usize = 200;
/// Characters of why there is no reply.
const REASON_CHARS: usize = 2000;

impl Llm {
    /// Asks a model for a session, once. Everything that becomes of it is in the session's log.
    ///
    /// # Errors
    /// Nothing was sent, or there is no reply.
    pub(crate) async fn ask(
        &self,
        kernel: &Arc<SessionKernel>,
        asked: AskModel,
    ) -> Result<Response<Body>, LlmError> {
        let session = kernel.session();
        let request = Request::read(asked.endpoint, &asked.body)?;
        let name = request.model().map(str::to_owned);
        let name = name.or_else(|| self.names(&session).into_iter().next());
        let name = name.unwrap_or_default();
        let config = self.visible(&session, &name);
        let credential =
            config.and_then(|config| Some((config.owner.as_str(), config.credential.as_deref()?)));
        let mask = mask(&self.credentials, &session, credential).await;
        let what = ToolCallBegin {
            callee: Callee::Model,
            tool: cut(&name, NAME_CHARS),
            caller: ToolCaller::Code,
            arguments: match &mask {
                Some(mask) => shown(&request.shown(), None, mask, REQUEST_CHARS),
                None => "(not shown: the gateway cannot read its credentials now)".to_owned(),
            },
            arguments_bytes: asked.body.len() as u64,
            line: asked.line,
        };
        let mask = mask.unwrap_or_else(|| Mask::new([]));
        let Some(config) = config else {
            let error = unknown(&name, &self.names(&session));
            return Err(refuse(kernel, what, error).await);
        };
        let prepared = match request.prepare(config) {
            Ok(prepared) => prepared,
            Err(error) => return Err(refuse(kernel, what, error).await),
        };
        let keeps = asked.cache.unwrap_or(prepared.is_fixed) && !prepared.is_stream;
        if keeps && let Some(kept) = self.cache.find(&session.owner, &prepared.key) {
            let begun = begin(kernel, what).await?;
            let took = ModelUse {
                cached: true,
                ..ModelUse::default()
            };
            note(begun, ToolOutcome::Done, &kept.text, kept.body.len(), took, &mask).await;
            return Ok(answer::cached(kept.body));
        }
        let deadline = Instant::now() + config.call_time;
        let limits = &session.sandbox.models.limits;
        let tree = tree(kernel).await?;
        let held = self
            .trees
            .hold(tree, limits, prepared.estimate, config.prices, deadline);
        let held = match held.await {
            Ok(held) => held,
            Err(cap) => {
                let wanted = wanted(cap.name, config, prepared.estimate);
                return Err(refuse(kernel, what, answer::over(&cap, wanted)).await);
            }
        };
        let (owner, estimate) = (&session.owner, prepared.estimate);
        let held = match Day::hold(&self.budget, &self.meter, owner, estimate, config.prices) {
            Ok(day) => Hold::new(held, day),
            Err(over) => {
                held.settle(&ModelUse::default());
                return Err(refuse(kernel, what, answer::over_in_day(&over)).await);
            }
        };
        let begun = match begin(kernel, what).await {
            Ok(begun) => begun,
            Err(error) => {
                held.settle(&ModelUse::default());
                return Err(error);
            }
        };
        match self.models.send(&name, &prepared, deadline).await {
            Ok(Answer::Whole(whole)) => {
                let kept = keeps.then_some(session.owner.as_str());
                Ok(self.whole(begun, held, whole, &prepared, kept, &mask).await)
            }
            Ok(Answer::Stream(stream)) => {
                let pieces = pump::start(*stream, begun, held, mask, REPLY_CHARS, deadline);
                Ok(answer::stream(pieces))
            }
            Err(failure) => Err(failed(begun, held, &failure).await),
        }
    }

    /// A whole reply: a success, or an error of the server.
    async fn whole(
        &self,
        begun: BegunCall,
        held: Hold,
        whole: Whole,
        prepared: &PreparedRequest,
        keep: Option<&str>,
        mask: &Mask,
    ) -> Response<Body> {
        held.settle(&whole.took);
        if whole.status.is_success() {
            if let Some(owner) = keep {
                let answered = CachedAnswer {
                    body: whole.body.clone(),
                    text: cut(&whole.text, REPLY_CHARS),
                };
                self.cache.keep(owner, prepared.key, answered);
            }
            note(
                begun,
                ToolOutcome::Done,
                &whole.text,
                whole.body.len(),
                whole.took,
                mask,
            )
            .await;
        } else {
            let text = shown(&Value::from(whole.text.as_str()), None, mask, REASON_CHARS);
            let reason = format!("{}: {text}", whole.status.as_u16());
            let mut end = begun.end(
                ToolOutcome::Failed,
                Some((LlmErrorCode::Failed.as_str(), &reason)),
            );
            end.reply_bytes = whole.body.len() as u64;
            begun.write(end).await;
        }
        answer::whole(whole)
    }
}

/// The session has no such model.
fn unknown(name: &str, there: &[String]) -> LlmError {
    let shown = cut(name, NAME_CHARS);
    let message = match there {
        [] => "this session has no models".to_owned(),
        _ => format!("this session has no model {shown:?}; it has {}", there.join(", ")),
    };
    let mut error = LlmError::new(LlmErrorCode::UnknownModel, message);
    error.param = Some("model".to_owned());
    error
}

/// Share of a cap that a call may take.
fn wanted(cap: &str, config: &LlmConfig, estimate: Estimate) -> f64 {
    let (input, output) = (estimate.input_tokens, estimate.output_tokens);
    if cap == "model_spend" {
        let prices = config.prices.unwrap_or_default();
        return prices.spend(input, output).units();
    }
    #[expect(clippy::cast_precision_loss, reason = "a count is shown, not counted with")]
    {
        input.saturating_add(output) as f64
    }
}

/// The tree that a call is of: what runs now, or what ran at the top when its code started the first session of this branch.
async fn tree(kernel: &SessionKernel) -> Result<TreeId, LlmError> {
    if let Some(place) = kernel.session().tree {
        return Ok(TreeId {
            kernel: place.root.first_kernel(),
            runs: place.root_execution.map_or(Runs::Nothing, Runs::Execution),
        });
    }
    let runs = match kernel.order(Command::TellRunning).await {
        Some(Ok(KernelAnswer::Running {
            execution: Some(seq), ..
        })) => Runs::Execution(seq),
        Some(Ok(KernelAnswer::Running {
            request: Some(id), ..
        })) => Runs::Request(id.epoch, id.number),
        Some(Ok(KernelAnswer::Running { .. })) => Runs::Nothing,
        _ => return Err(gone()),
    };
    Ok(TreeId {
        kernel: kernel.handle().id(),
        runs,
    })
}

fn gone() -> LlmError {
    LlmError::new(LlmErrorCode::Unavailable, "the session has ended")
}

/// Writes that a model is about to be called.
async fn begin(kernel: &SessionKernel, what: ToolCallBegin) -> Result<BegunCall, LlmError> {
    let limits = kernel.session().sandbox.tools.limits;
    let begun = kernel
        .order(Command::BeginToolCall(Box::new(what.clone()), limits))
        .await;
    match begun {
        Some(Ok(KernelAnswer::ToolCallBegun { call: number, .. })) => {
            Ok(BegunCall::new(kernel.handle(), number, &what))
        }
        Some(Ok(KernelAnswer::ToolCallOverLimit(_))) => {
            let message = "too many calls of this session have not ended";
            let error = LlmError::new(LlmErrorCode::Unavailable, message).with_hint("Wait for some of them.");
            Err(refuse(kernel, what, error).await)
        }
        Some(Err(error)) => Err(LlmError::new(LlmErrorCode::Unavailable, error.to_string())),
        Some(Ok(_)) | None => Err(gone()),
    }
}

/// Notes that a call was not made, and why.
async fn refuse(kernel: &SessionKernel, what: ToolCallBegin, error: LlmError) -> LlmError {
    let noted = kernel.order(Command::RefuseToolCall {
        what: Box::new(what),
        code: error.code.as_str().to_owned(),
        reason: cut(&error.message, REASON_CHARS),
    });
    // A kernel that has ended has no log to write to.
    let _ = noted.await;
    error
}

/// Notes a reply.
async fn note(begun: BegunCall, outcome: ToolOutcome, text: &str, bytes: usize, took: ModelUse, mask: &Mask) {
    let mut end = begun.end(outcome, None);
    end.reply = Some(shown(&Value::from(text), None, mask, REPLY_CHARS));
    end.reply_bytes = bytes as u64;
    end.model_use = Some(took);
    begun.write(end).await;
}

/// Notes that there is no reply.
async fn failed(begun: BegunCall, held: Hold, failure: &Failure) -> LlmError {
    let (outcome, error) = answer::failure(&begun.tool, failure);
    // What is not known to be less is what it might.
    if matches!(failure, Failure::Unavailable(_) | Failure::Failed(_)) {
        held.settle(&ModelUse::default());
    }
    let end = begun.end(outcome, Some((error.code.as_str(), &error.message)));
    begun.write(end).await;
    error
}
