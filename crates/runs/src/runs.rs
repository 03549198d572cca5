//! The handle of all runs.

use std::sync::Arc;

use himalia_engine::{CallNames, CommandCall, Effect, Engine, Subject};
use himalia_model::Principal;

use crate::commands::Commands;

/// Skills, workflows, their runs, and the schedules and webhooks that start them. Clones are cheap and name the same.
#[derive(Clone)]
pub struct Runs {
    pub(crate) commands: Arc<Commands>,
}

impl std::fmt::Debug for Runs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Runs")
    }
}

impl Runs {
    /// The engine that runs the sessions of runs.
    pub fn engine(&self) -> &Engine {
        &self.commands.engine
    }

    pub(crate) fn begin_call<'a>(
        &'a self,
        names: CallNames,
        effect: Effect,
        principal: &'a Principal,
        subject: Subject<'a>,
    ) -> CommandCall<'a> {
        self.commands.engine.begin_call(names, effect, principal, subject)
    }
}
