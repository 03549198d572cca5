//! Skills, workflows, their runs, and the schedules and webhooks that start them.
//!
//! A client of the [`Engine`](himalia_engine::Engine): a run is a session and an execution of the principal that it acts for, so that each is
//! authorised, counted and noted as that of any caller. Everything that a facade may do goes through [`Runs`]. A call past one of the two
//! lists of commands does not compile:
//!
//! ```compile_fail,E0616
//! fn past_the_list(engine: &himalia_engine::Engine) {
//!     let _ = &engine.commands;
//! }
//! ```
//! ```compile_fail,E0616
//! fn past_the_list(runs: &himalia_runs::Runs) {
//!     let _ = &runs.commands;
//! }
//! ```

#![warn(missing_docs)]

mod attempt;
mod commands;
mod list;
mod open;
mod run;
mod runs;
mod skills;
mod step_prompts;
mod triggers;
mod workflows;

pub(crate) use commands::Commands;
pub use himalia_schedules::{MAX_CRON_BYTES, MIN_INTERVAL_S, MissedPolicy, Overlap};
pub use himalia_skills::{
    Draft, Files as SkillFiles, Invalid as InvalidSkill, Kind as SkillKind, Manifest, SKILL_FILE, Skill,
    TestCase, Violation,
};
pub use himalia_workflows::{
    Approval, Attempt, AttemptStatus, Definition as WorkflowDefinition, Failure as StepFailure,
    MAX_ANSWER_BYTES as MAX_STEP_ANSWER_BYTES, SkillRef, Workflow,
};
pub use list::COMMANDS;
pub use run::{
    MAX_RUN_PAGE, RunError, RunFeed, RunFilter, RunInfo, RunKind, RunOrigin, RunOriginKind, RunPage,
    RunPlace, RunState, RunView, id_of_run, uuid_of_run,
};
pub use runs::Runs;
pub use skills::{BegunRun, MAX_SKILL_VERSIONS, MAX_SKILLS_BYTES, RunSkill, SkillInfo, SkillStep};
pub use triggers::{
    AnswerSigner, AskedRun, CallbackSecret, DeliveriesOf, DeliveryAttempt, DeliveryInfo, DeliveryState,
    MAX_CALLBACK_URL, MAX_CALLBACKS, MAX_DELIVERIES, MAX_OPEN_CALLBACKS, MAX_OPEN_RUNS, MAX_TRIGGER_NAME,
    MAX_TRIGGERS, MAX_WEBHOOK_BYTES, NewSecrets, NewTrigger, RunTarget, Runnable, Times, TriggerChange,
    TriggerInfo, TriggerKind, WebhookMessage,
};
pub use workflows::{
    MAX_RUNS, MAX_RUNS_IN_PROGRESS, MAX_WORKFLOW_VERSIONS, MAX_WORKFLOWS_BYTES, RunUntil, StartRun,
    StartedRun, StepState, StepView, WorkflowInfo,
};
