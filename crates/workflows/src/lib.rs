//! Workflows: named, versioned definitions whose steps are runs of skills, and what a run of one does next. Pure: nothing in here waits, has
//! a clock, or knows how a workflow is stored or a skill is run.
//!
//! ```text
//! a definition   Definition (definition.rs): steps, wires (wire.rs), schemas
//! publishing     Workflow (workflow.rs): skills pinned; check.rs: ids, cycles; typing.rs: what each wire carries, by fit.rs
//! a run          Run (run.rs): what happened in, what to do out; values.rs: what a step gets
//! ```

mod check;
mod definition;
mod fit;
mod run;
mod typing;
mod values;
mod wire;
mod workflow;

pub use definition::{Approval, Definition, InputValue, Map, Retries, SkillRef, Step};
pub use himalia_skills::Invalid;
pub use run::{Attempt, AttemptId, AttemptStatus, Effect, End, Failure, Outcome, Run, RunStatus};
pub use values::TooLarge;
pub use wire::{Root, Wire};
pub use workflow::{PinnedSkill, Workflow, wanted_version};

pub const MAX_STEPS: usize = 100;
/// Items of one `map`.
pub const MAX_ITEMS: usize = 1000;
/// Attempts of a step that run at a time, by `parallel` of a map, and of a whole run.
pub const MAX_PARALLEL: u32 = 16;
/// Retries of a step.
pub const MAX_RETRIES: u32 = 10;
/// Seconds between two attempts.
pub const MAX_WAIT_S: u32 = 3600;
/// Bytes of a definition, as JSON.
pub const MAX_DEFINITION_BYTES: usize = 256 << 10;
/// Bytes of the inputs of a run, and of those of one step, as JSON.
pub const MAX_INPUT_BYTES: usize = 128 << 10;
/// Bytes of the outputs of all steps of a run, as JSON.
pub const MAX_RUN_BYTES: usize = 8 << 20;
/// Bytes of an answer of a person.
pub const MAX_ANSWER_BYTES: usize = 200;

#[cfg(test)]
mod sim;
