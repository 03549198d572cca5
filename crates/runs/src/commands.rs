//! The commands: each listed method one command or query, authorised before anything else. The public interface is [`Runs`](crate::Runs),
//! which notes each call.

use std::sync::Arc;

use himalia_engine::Object;
use himalia_engine::{Engine, Services};
use himalia_model::{Action, EngineError, Principal};
use himalia_session::Room;

use crate::triggers::Triggers;
use crate::workflows::Drivers;

/// The implementation of [`Runs`](crate::Runs), which notes each call.
#[derive(Clone)]
pub(crate) struct Commands {
    pub(crate) engine: Engine,
    pub(crate) services: Services,
    pub(crate) workflows: Arc<Drivers>,
    pub(crate) triggers: Arc<Triggers>,
}

impl std::fmt::Debug for Commands {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Commands")
    }
}

impl Commands {
    pub(crate) fn new(engine: Engine) -> Self {
        Self {
            services: engine.services(),
            engine,
            workflows: Arc::default(),
            triggers: Arc::default(),
        }
    }

    /// The first thing that every command does.
    pub(crate) fn allow(
        &self,
        principal: &Principal,
        action: Action,
        object: Object<'_>,
    ) -> Result<(), EngineError> {
        self.services.allow(principal, action, object)
    }

    /// As [`Services::in_turn`].
    pub(crate) async fn in_turn<T>(
        &self,
        principal: &Principal,
        work: impl FnOnce() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.services.in_turn(principal, work).await
    }

    /// As [`Engine::answer_in_turn`].
    pub(crate) async fn answer_in_turn<T>(
        &self,
        principal: &Principal,
        bytes: usize,
        make: impl FnOnce() -> T,
    ) -> Result<T, EngineError> {
        self.engine.answer_in_turn(principal, bytes, make).await
    }

    /// As [`Services::room`].
    pub(crate) async fn room(&self, owner: &str, bytes: usize) -> Result<Room, EngineError> {
        self.services.room(owner, bytes).await
    }
}
