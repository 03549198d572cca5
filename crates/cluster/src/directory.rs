//! The owners of objects, and the replicas of a cluster.

use std::fmt::Debug;

use futures_util::future::BoxFuture;
use himalia_engine::{EngineError, Principal, ResourceRef};
use himalia_relay::Peer;

/// The owner of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    Here,
    At(Peer),
    /// A replica that has ended, or that no other replica can reach.
    Lost {
        replica: String,
    },
}

/// Finds owners and replicas.
pub trait Directory: Debug + Send + Sync + 'static {
    /// Returns whether this replica owns the object, as far as that is known without a wait.
    fn has(&self, principal: &Principal, sought: &ResourceRef) -> bool;

    /// Finds the owner of an object. `None` if the principal sees no such object.
    fn find<'a>(
        &'a self,
        principal: &'a Principal,
        sought: &'a ResourceRef,
    ) -> BoxFuture<'a, Result<Option<Location>, EngineError>>;

    /// Lists other replicas that have started kernels of a template's pool, as far as is known: at most `most`, those with the most
    /// kernels first.
    fn ready<'a>(&'a self, template: &'a str, most: u32) -> BoxFuture<'a, Result<Vec<Peer>, EngineError>>;

    /// Lists the other replicas that have a lease.
    fn peers(&self) -> BoxFuture<'_, Result<Vec<Peer>, EngineError>>;
}
