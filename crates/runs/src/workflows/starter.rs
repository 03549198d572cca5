//! The caller who started a run, as it is stored: what it is and may do, and by which token. A run ends with the rights of its token.

use himalia_model::{CallOrigin, EngineError, Principal};
use serde::{Deserialize, Serialize};

use super::records::json_of;
use crate::triggers::Holder;

/// The caller who started a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Starter {
    /// The identity and the rights of the caller, without the way in which its call came.
    pub(super) principal: Principal,
    pub(super) holder: Holder,
}

impl Starter {
    /// As it is stored.
    pub(super) fn written(principal: &Principal) -> Result<String, EngineError> {
        let starter = Self {
            principal: principal.clone().until(None).came(CallOrigin::default()),
            holder: Holder::of(principal),
        };
        serde_json::to_string(&starter).map_err(|error| EngineError::internal("a principal", error))
    }

    /// Reads a stored starter.
    pub(super) fn read(text: &str) -> Result<Self, EngineError> {
        json_of(text)
    }
}
