//! Language models of sessions: what a session may use of the configured ones, and its calls of them.
//!
//! ```text
//! ask      call.rs: the request is read, the cache is asked, the tree of the session has a place for it (crate llm), the log has the call
//!            (crate kernel), then Models::send, once; then the log has its end, and the tree and the session what it took
//! count    hold.rs: what the call may take, and has taken, of the tree and of the tenant's day
//! answer   answer.rs: replies as they come, in one piece or event by event (pump.rs)
//! ```

mod answer;
mod call;
mod hold;
mod pump;

use std::fmt;
use std::sync::Arc;

use himalia_budget::Budget;
use himalia_credentials::CredentialSource;
use himalia_llm::{Cache, Models, Trees};
use himalia_model::{EngineError, LlmConfig, Session};

use crate::Credentials;
use crate::meter::Meter;
use crate::tools::sees;

/// The language models of a gateway.
pub(crate) struct Llm {
    models: Models,
    trees: Trees,
    cache: Cache,
    credentials: Arc<Credentials>,
    /// Daily quotas of owners, and their usage.
    budget: Arc<Budget>,
    meter: Arc<Meter>,
}

impl Llm {
    /// Sets up the clients of the models.
    ///
    /// # Errors
    /// [`EngineError::BadRequest`] on `models`.
    pub(crate) async fn open(
        configs: &[LlmConfig],
        credentials: &Arc<Credentials>,
        (budget, meter): (&Arc<Budget>, &Arc<Meter>),
    ) -> Result<Self, EngineError> {
        let (all, source) = (configs.to_vec(), Arc::clone(credentials));
        // It reads the certificates of this machine.
        let made = tokio::task::spawn_blocking(move || {
            let source: Arc<dyn CredentialSource> = source;
            Models::new(all, &source)
        });
        let made = made
            .await
            .map_err(|error| EngineError::internal("cannot set up the models", error))?;
        Ok(Self {
            models: made.map_err(|reason| EngineError::bad_request("models", reason))?,
            trees: Trees::default(),
            cache: Cache::default(),
            credentials: Arc::clone(credentials),
            budget: Arc::clone(budget),
            meter: Arc::clone(meter),
        })
    }

    /// The models that a session may use, in the order of its template.
    pub(crate) fn names(&self, session: &Session) -> Vec<String> {
        let models = session.sandbox.models.models.iter();
        let visible = models.filter(|name| self.visible(session, name).is_some());
        visible.cloned().collect()
    }

    /// A model, if a session may use it.
    fn visible(&self, session: &Session, name: &str) -> Option<&LlmConfig> {
        let named = session.sandbox.models.models.iter().any(|one| one == name);
        let config = self.models.config(name).filter(|_| named)?;
        sees(session, &config.owner).then_some(config)
    }
}

impl fmt::Debug for Llm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Llm").field(&self.models).finish()
    }
}
