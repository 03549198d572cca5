//! A cache of owners.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use himalia_engine::{Principal, ResourceRef};
use himalia_relay::Peer;
use parking_lot::Mutex;

/// Time that a location is used. A replica that is not the owner any more refuses requests.
const BELIEVED: Duration = Duration::from_secs(10);
/// Most locations. If there are more, all are forgotten.
const MOST: usize = 20_000;

/// Locations by tenant and object, so that no tenant learns from the requests of another one.
#[derive(Debug, Default)]
pub(crate) struct Locations(Mutex<HashMap<(String, ResourceRef), (Instant, Peer)>>);

impl Locations {
    pub(crate) fn get(&self, principal: &Principal, sought: &ResourceRef) -> Option<Peer> {
        let locations = self.0.lock();
        let (at, peer) = locations.get(&key(principal, sought))?;
        (at.elapsed() < BELIEVED).then(|| peer.clone())
    }

    pub(crate) fn set(&self, principal: &Principal, sought: &ResourceRef, peer: Peer) {
        let mut locations = self.0.lock();
        if locations.len() >= MOST {
            locations.clear();
        }
        locations.insert(key(principal, sought), (Instant::now(), peer));
    }

    pub(crate) fn remove(&self, principal: &Principal, sought: &ResourceRef) {
        self.0.lock().remove(&key(principal, sought));
    }

    pub(crate) fn forget(&self, address: &str) {
        self.0.lock().retain(|_, (_, peer)| peer.address != address);
    }
}

fn key(principal: &Principal, sought: &ResourceRef) -> (String, ResourceRef) {
    (principal.owner().to_owned(), sought.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_of_one_tenant_and_forgotten_with_its_replica() {
        let ada = Principal::of_tenant("acme", "ada").unwrap();
        let bob = Principal::of_tenant("acme", "bob").unwrap();
        let eve = Principal::of_tenant("evil", "eve").unwrap();
        let sought = ResourceRef::Session("eda".into());
        let peer = Peer {
            replica: "r1".into(),
            address: "10.0.0.1:1".into(),
        };
        let locations = Locations::default();
        locations.set(&ada, &sought, peer.clone());
        assert_eq!(locations.get(&bob, &sought), Some(peer.clone()));
        assert_eq!(locations.get(&eve, &sought), None);
        locations.forget(&peer.address);
        assert_eq!(locations.get(&ada, &sought), None);
        locations.set(&ada, &sought, peer);
        locations.remove(&bob, &sought);
        assert_eq!(locations.get(&ada, &sought), None);
    }
}
