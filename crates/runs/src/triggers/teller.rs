//! The task that tells webhooks of prompts what persons are asked. It reads what is new: steps that began to wait and whose prompts no webhook has
//! yet, and kernels whose latest prompt is later than the one that it has seen. A webhook that is new to it gets all that is open, a page at
//! a time.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use himalia_engine::{LatestPrompt, PromptPlace};
use himalia_executions::{PromptInfo, PromptName, PromptState};
use himalia_model::{EngineError, KernelId, Principal};
use himalia_store::TriggerRecord;
use tokio::time::Instant;
use uuid::Uuid;

use super::definition::{definition, stored};
use super::kind::TriggerKind;
use super::{prompts, runner};
use crate::Commands;
use crate::workflows::step_prompt_info;

/// The time between two looks for new prompts.
const LOOK: Duration = Duration::from_secs(1);
/// Steps of one look.
const STEPS: i64 = 20;
/// Prompts that a new webhook gets in one look.
const PAGE: usize = 100;
/// The pause before a webhook gets all that is open again, after one of them could not be added.
const PAUSE: Duration = Duration::from_secs(30);

/// The task.
pub(super) struct Teller {
    commands: Arc<Commands>,
    /// The latest prompt of each kernel that was posted.
    latest: HashMap<KernelId, u64>,
    hooks: HashMap<Uuid, Progress>,
}

/// The progress of a webhook.
enum Progress {
    /// It gets what is open, after this place.
    Listing(Option<PromptPlace>),
    /// It gets what is new.
    Complete,
    /// Something was not added: it gets all again, from this time on.
    Failed(Instant),
}

/// A webhook and who sees what is posted.
struct Hook {
    record: TriggerRecord,
    principal: Principal,
}

impl Teller {
    pub(super) fn new(commands: Arc<Commands>) -> Self {
        Self {
            commands,
            latest: HashMap::new(),
            hooks: HashMap::new(),
        }
    }

    /// Until the gateway stops.
    pub(super) async fn run(mut self) {
        let stop = self.commands.services.stopping().clone();
        let commands = self.commands.clone();
        loop {
            let more = self.look().await.unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot look for prompts to tell of");
                false
            });
            let pause = if more { Duration::ZERO } else { LOOK };
            tokio::select! {
                () = stop.cancelled() => return,
                () = commands.triggers.asks.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Returns true if there is more to do at once.
    async fn look(&mut self) -> Result<bool, EngineError> {
        let hooks = self.read_hooks().await?;
        if hooks.is_empty() {
            self.latest.clear();
            return Ok(false);
        }
        let now = self.commands.trigger_time().await?;
        let steps = self.tell_of_steps(&hooks, now).await?;
        let kernels = self.tell_of_kernels(&hooks, now).await;
        let listed = self.tell_what_is_open(&hooks, now).await?;
        if steps || kernels || listed.0 {
            self.commands.triggers.wake();
        }
        Ok(steps || listed.1)
    }

    /// The webhooks whose makers see something. Once that is not so any more, nothing is posted.
    async fn read_hooks(&mut self) -> Result<Vec<Hook>, EngineError> {
        let store = self.commands.services.store();
        let records = store
            .triggers(None, TriggerKind::Prompts.as_str().to_owned())
            .await;
        let mut hooks = Vec::new();
        for record in records.map_err(stored)? {
            let definition = definition(&record)?;
            if let Ok(principal) = runner::holder(&self.commands, &record, &definition) {
                hooks.push(Hook { record, principal });
            }
        }
        let there = |id: &Uuid| hooks.iter().any(|hook| hook.record.id == *id);
        self.hooks.retain(|id, _| there(id));
        for hook in &hooks {
            self.hooks
                .entry(hook.record.id)
                .or_insert(Progress::Listing(None));
        }
        Ok(hooks)
    }

    /// Posts the prompts of steps that no webhook received, some of each owner; whether there were any.
    async fn tell_of_steps(&mut self, hooks: &[Hook], now: i64) -> Result<bool, EngineError> {
        let commands = self.commands.clone();
        let store = commands.services.store();
        let found = store.untold_step_prompts(STEPS).await.map_err(stored)?;
        let mut told = Vec::with_capacity(found.len());
        for record in found {
            told.push((record.run.clone(), record.step.clone()));
            let owner = record.owner.clone();
            let prompt = step_prompt_info(record)?;
            self.tell(hooks, &owner, &prompt, now).await;
        }
        if told.is_empty() {
            return Ok(false);
        }
        store.set_told(told).await.map_err(stored)?;
        Ok(true)
    }

    /// Tells of prompts of kernels that are new; whether there were any.
    async fn tell_of_kernels(&mut self, hooks: &[Hook], now: i64) -> bool {
        let (commands, operator) = (Arc::clone(&self.commands), Principal::operator());
        let all = commands.engine.latest_prompts(&operator).unwrap_or_default();
        let there: HashSet<KernelId> = all.iter().map(|one| one.kernel).collect();
        self.latest.retain(|kernel, _| there.contains(kernel));
        let mut any = false;
        for LatestPrompt {
            kernel,
            owner,
            seq: latest,
        } in all
        {
            let told = self.latest.get(&kernel).copied().unwrap_or(0);
            if latest <= told {
                continue;
            }
            let mut last = told;
            // A kernel that has ended meanwhile asks nothing any more.
            let asked = commands
                .engine
                .prompts(&operator, kernel)
                .await
                .unwrap_or_default();
            for prompt in asked
                .into_iter()
                .filter(|prompt| prompt.state == PromptState::Open)
            {
                if let PromptName::Kernel(id) = prompt.id
                    && id.seq > told
                {
                    last = last.max(id.seq);
                    any = true;
                    self.tell(hooks, &owner, &prompt, now).await;
                }
            }
            self.latest.insert(kernel, last.max(latest));
        }
        any
    }

    /// Gives webhooks that are new a page of what is open: whether there was something, and whether there is more.
    async fn tell_what_is_open(&mut self, hooks: &[Hook], now: i64) -> Result<(bool, bool), EngineError> {
        let (mut any, mut more) = (false, false);
        for hook in hooks {
            let after = match self.hooks.get(&hook.record.id) {
                Some(Progress::Listing(after)) => after.clone(),
                Some(Progress::Failed(until)) if *until <= Instant::now() => None,
                _ => continue,
            };
            let page = self
                .commands
                .engine
                .open_prompts(&hook.principal, after, PAGE)
                .await?;
            let mut progress = match page.next {
                Some(next) => Progress::Listing(Some(next)),
                None => Progress::Complete,
            };
            for one in page.prompts {
                any = true;
                if let Err(error) = prompts::add(&self.commands, &hook.record, &one.prompt, now).await {
                    progress = failed(&hook.record, &error);
                    break;
                }
            }
            more |= matches!(progress, Progress::Listing(_));
            self.hooks.insert(hook.record.id, progress);
        }
        Ok((any, more))
    }

    /// Adds a prompt to the runs of each webhook whose maker sees it. What was added before has its key, and is there once.
    async fn tell(&mut self, hooks: &[Hook], owner: &str, prompt: &PromptInfo, now: i64) {
        for hook in hooks.iter().filter(|hook| hook.principal.sees(owner)) {
            if let Err(error) = prompts::add(&self.commands, &hook.record, prompt, now).await {
                self.hooks.insert(hook.record.id, failed(&hook.record, &error));
            }
        }
    }
}

fn failed(hook: &TriggerRecord, error: &EngineError) -> Progress {
    tracing::warn!(id = %hook.id, owner = hook.owner, %error, "cannot deliver a prompt to a webhook");
    Progress::Failed(Instant::now() + PAUSE)
}
