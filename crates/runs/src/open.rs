//! The start: what continues by itself, and what other crates call back.

use std::sync::Arc;

use himalia_engine::Engine;

use crate::commands::Commands;
use crate::runs::Runs;
use crate::skills::SandboxSkills;
use crate::step_prompts::StepPrompts;

impl Runs {
    /// Keeps the runs of an engine: continues the runs of workflows that an earlier process left, and serves skills to code of sessions and
    /// the prompts of steps. Once for an engine, within a tokio runtime. Schedules and webhooks wait for [`Runs::start_triggers`].
    pub fn open(engine: Engine) -> Self {
        let commands = Arc::new(Commands::new(engine));
        let engine = &commands.engine;
        engine.serve_skills(Arc::new(SandboxSkills::new(&commands)));
        engine.serve_workflow_runs(Arc::new(StepPrompts::new(&commands)));
        let keeping = Arc::clone(&commands);
        commands
            .services
            .spawn(async move { keeping.keep_workflows().await });
        Self { commands }
    }
}
