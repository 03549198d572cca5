//! Connections by owner, so that idle ones of the owner with the most can be evicted.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::peer::{Inner, Peer};
use crate::auth::ValidTokens;

/// All connections that showed a right token, by owner and in the order in which they did.
#[derive(Debug, Default)]
pub(crate) struct Holders(Mutex<BTreeMap<String, BTreeMap<u64, Weak<Inner>>>>);

impl Holders {
    pub(super) fn enter(&self, owner: &str, place: u64, peer: Weak<Inner>) {
        let mut owners = self.0.lock();
        owners.entry(owner.to_owned()).or_default().insert(place, peer);
    }

    pub(super) fn leave(&self, owner: &str, place: u64) {
        let mut owners = self.0.lock();
        let Some(peers) = owners.get_mut(owner) else {
            return;
        };
        peers.remove(&place);
        if peers.is_empty() {
            owners.remove(owner);
        }
    }

    /// Ends an idle connection: of this owner, or else of the tenant that has the most. `false` if there is none.
    pub(super) fn evict(&self, owner: Option<&str>, operator: &str) -> bool {
        let peers: Vec<Weak<Inner>> = {
            let owners = self.0.lock();
            let peers = if let Some(owner) = owner {
                owners.get(owner)
            } else {
                let tenants = owners.iter().filter(|(name, _)| *name != operator);
                tenants.map(|(_, peers)| peers).max_by_key(|peers| peers.len())
            };
            peers.into_iter().flat_map(BTreeMap::values).cloned().collect()
        };
        // Without the lock: dropping the last clone of a peer takes the lock.
        let mut living = peers.iter().filter_map(Weak::upgrade);
        living.any(|peer| Inner::is_idle(&peer) && peer.evict())
    }

    /// Ends the connections whose latest request showed this sign-in, streams and sockets among them, but not `own`.
    pub(crate) fn end_signed(&self, sign_in: &[u8; 32], own: Option<&Peer>) {
        self.end(|peer| peer.is_signed(sign_in) && !own.is_some_and(|own| own.is(peer)));
    }

    /// Ends the connections whose latest request showed what does not count any more, streams and sockets among them.
    /// How many.
    pub(crate) fn end_revoked(&self, tokens: &ValidTokens) -> usize {
        self.end(|peer| peer.is_revoked(tokens))
    }

    fn end(&self, which: impl Fn(&Arc<Inner>) -> bool) -> usize {
        let peers: Vec<Weak<Inner>> = {
            let owners = self.0.lock();
            owners.values().flat_map(BTreeMap::values).cloned().collect()
        };
        // Without the lock: dropping the last clone of a peer takes the lock.
        let living = peers.iter().filter_map(Weak::upgrade);
        living.filter(|peer| which(peer) && peer.evict()).count()
    }
}
