//! Who has what, as the engine and its store know it.

use futures_util::future::BoxFuture;
use himalia_engine::{Engine, EngineError, Principal, ResourceRef, SessionOwner};
use himalia_relay::Peer;

use super::{Directory, Location};

impl Directory for Engine {
    fn has(&self, principal: &Principal, sought: &ResourceRef) -> bool {
        Engine::has(self, principal, sought)
    }

    fn find<'a>(
        &'a self,
        principal: &'a Principal,
        sought: &'a ResourceRef,
    ) -> BoxFuture<'a, Result<Option<Location>, EngineError>> {
        Box::pin(async move {
            let owner = self.session_owner(principal, sought).await?;
            Ok(owner.map(|owner| match owner {
                SessionOwner::Here => Location::Here,
                SessionOwner::Replica {
                    name: replica,
                    address: Some(address),
                } => Location::At(Peer { replica, address }),
                SessionOwner::Replica { name: replica, .. } | SessionOwner::Gone { name: replica } => {
                    Location::Lost { replica }
                }
            }))
        })
    }

    fn ready<'a>(&'a self, template: &'a str, most: u32) -> BoxFuture<'a, Result<Vec<Peer>, EngineError>> {
        Box::pin(async move {
            let found = self.ready_elsewhere(template, most).await?;
            let peer = |(replica, address)| Peer { replica, address };
            Ok(found.into_iter().map(peer).collect())
        })
    }

    fn peers(&self) -> BoxFuture<'_, Result<Vec<Peer>, EngineError>> {
        Box::pin(async {
            let others = self.other_replicas(&Principal::operator()).await?;
            let peer = |(replica, address)| Peer { replica, address };
            Ok(others.into_iter().map(peer).collect())
        })
    }
}
