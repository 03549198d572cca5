//! Which replica of the gateway has a session.

use std::sync::Arc;

use crate::access::Object;
use himalia_model::{Action, EngineError, KernelId, Principal, ResourceRef, Role, SessionId, SessionOwner};
use himalia_session::SessionKernel;
use himalia_store::{Location, Lookup, StoreError};

use super::Commands;
use crate::Engine;

impl Engine {
    /// Whether this replica has it, as far as it knows without asking the store. Also what it had and keeps the log of.
    pub fn has(&self, principal: &Principal, sought: &ResourceRef) -> bool {
        self.commands.has(principal, sought)
    }

    /// The sessions that run at this replica, with their owners; `None` if there are more than `most`.
    pub fn owners_of_few(&self, most: usize) -> Option<Vec<(SessionId, String)>> {
        let fits = |kernel: &SessionKernel| !kernel.is_over() && kernel.session().role != Role::Additional;
        let few = self.commands.inner.registry.few(most, fits)?;
        let named = |kernel: &Arc<SessionKernel>| {
            let id = SessionId::of_first_kernel(kernel.id());
            (id, kernel.session().owner.clone())
        };
        Some(few.iter().map(named).collect())
    }

    /// Says where this replica listens for others: `host:port`.
    pub async fn listens_for_replicas(&self, address: String) -> Result<(), EngineError> {
        let said = self.commands.inner.store().set_address(address).await;
        said.map_err(|error| EngineError::internal("saying where this replica listens", error))
    }
}

impl Commands {
    /// Whether this replica has it, as far as it knows without asking the store. Also what it had and keeps the log of.
    pub(crate) fn has(&self, principal: &Principal, sought: &ResourceRef) -> bool {
        let kernel = match sought {
            ResourceRef::Kernel(id) => *id,
            ResourceRef::Session(text) => match self.find_session(principal, text) {
                Ok(id) => id.first_kernel(),
                Err(_) => return false,
            },
            ResourceRef::Run(name) => return self.inner.has_run(principal, name),
            ResourceRef::JupyterSession(_) | ResourceRef::JupyterPath(_) => return false,
        };
        let absent = || self.inner.ended.absent(principal, kernel);
        self.seen(principal, kernel).is_some() || !matches!(absent(), EngineError::NotFound { .. })
    }

    pub(crate) async fn session_owner(
        &self,
        principal: &Principal,
        sought: &ResourceRef,
    ) -> Result<Option<SessionOwner>, EngineError> {
        self.allow(principal, Action::Read, Object::Gateway)?;
        if self.has(principal, sought) {
            return Ok(Some(SessionOwner::Here));
        }
        let owner = principal.owner().to_owned();
        let wanted = match sought {
            ResourceRef::Kernel(id) => [Some(Lookup::Kernel(id.0)), Some(Lookup::Ended(id.0))],
            ResourceRef::Session(text) => match text.parse::<SessionId>() {
                Ok(id) => [Some(Lookup::Kernel(id.0)), Some(Lookup::Ended(id.0))],
                Err(_) => [
                    Some(Lookup::Name {
                        owner,
                        name: text.clone(),
                    }),
                    None,
                ],
            },
            ResourceRef::Run(name) => {
                let (of_ended, name) = (owner.clone(), name.clone());
                let ended = Lookup::EndedName {
                    owner: of_ended,
                    name: name.clone(),
                };
                [Some(Lookup::Name { owner, name }), Some(ended)]
            }
            ResourceRef::JupyterSession(id) => [Some(Lookup::JupyterSession(id.0)), None],
            ResourceRef::JupyterPath(path) => [
                Some(Lookup::JupyterPath {
                    owner,
                    path: path.clone(),
                }),
                None,
            ],
        };
        let store = self.inner.store();
        for lookup in wanted.into_iter().flatten() {
            let found = store.locate(lookup).await;
            let found = found.map_err(|error| no_answer("who has a session", &error))?;
            if let Some(location) = found.filter(|location| principal.sees(&location.owner)) {
                return Ok(Some(self.owner_of(location)));
            }
        }
        Ok(None)
    }

    pub(crate) async fn other_replicas(
        &self,
        principal: &Principal,
    ) -> Result<Vec<(String, String)>, EngineError> {
        self.allow(principal, Action::Read, Object::Gateway)?;
        let store = self.inner.store();
        let all = store.replicas().await;
        let all = all.map_err(|error| no_answer("which replicas there are", &error))?;
        let others = all.into_iter().filter(|replica| replica.name != store.replica());
        Ok(others
            .filter_map(|replica| Some((replica.name, replica.address?)))
            .collect())
    }

    fn owner_of(&self, location: Location) -> SessionOwner {
        let replica = location.replica;
        let here = replica.name == self.inner.store().replica();
        if here && self.inner.is_taking(KernelId(location.id)) {
            // It will be in a moment.
            SessionOwner::Gone { name: replica.name }
        } else if here {
            SessionOwner::Here
        } else if replica.live {
            SessionOwner::Replica {
                name: replica.name,
                address: replica.address,
            }
        } else {
            SessionOwner::Gone { name: replica.name }
        }
    }
}

/// 503: nothing was done, and the database of a replica comes back, or its lease ends.
fn no_answer(what: &str, error: &StoreError) -> EngineError {
    tracing::warn!(%error, "cannot find out {what}");
    EngineError::unavailable("the database does not answer")
}
