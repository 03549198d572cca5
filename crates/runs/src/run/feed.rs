//! The states that a run goes through, as a client follows them.

use std::time::Duration;

use himalia_budget::HeldShare;
use himalia_engine::Object;
use himalia_model::{Action, EngineError, Principal};
use tokio::time::{Instant, sleep_until};

use super::RunView;
use crate::Commands;
use crate::workflows::RunUntil;

/// The time between two looks at a run.
const LOOK: Duration = Duration::from_secs(1);

/// The states of a run. It holds a place of its owner among clients of events.
pub struct RunFeed {
    commands: Commands,
    principal: Principal,
    id: String,
    next: Instant,
    ended: bool,
    _place: HeldShare,
}

impl std::fmt::Debug for RunFeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RunFeed").field(&self.id).finish()
    }
}

impl Commands {
    pub(crate) async fn follow_run(&self, principal: &Principal, id: &str) -> Result<RunFeed, EngineError> {
        self.allow(principal, Action::Read, Object::Workflows)?;
        self.find_run(principal, id).await?;
        Ok(RunFeed {
            commands: self.clone(),
            principal: principal.clone(),
            id: id.to_owned(),
            next: Instant::now(),
            ended: false,
            _place: self.services.stream(principal)?,
        })
    }
}

impl RunFeed {
    /// The run as it is now, about once a second, and once when it has ended; `None` after that. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<RunView>, EngineError> {
        if self.ended {
            return Ok(None);
        }
        sleep_until(self.next).await;
        let commands = &self.commands;
        let view = commands
            .run_view(&self.principal, &self.id, Instant::now(), RunUntil::Ended)
            .await?;
        self.next = Instant::now() + LOOK;
        self.ended = view.info.status.is_over();
        Ok(Some(view))
    }
}
