//! Where things were found lately.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use himalia_engine::Principal;
use himalia_relay::Peer;
use parking_lot::Mutex;

use super::ResourceRef;

/// How long a location is believed. An owner that has it no longer says so.
const BELIEVED: Duration = Duration::from_secs(10);
/// Locations at once. Beyond that all are forgotten.
const MOST: usize = 20_000;

/// Locations by what is looked for, and for which owner, so that no answer depends on what another tenant looked for.
#[derive(Debug, Default)]
pub(super) struct Locations(Mutex<HashMap<(String, ResourceRef), (Instant, Peer)>>);

impl Locations {
    pub(super) fn get(&self, principal: &Principal, sought: &ResourceRef) -> Option<Peer> {
        let locations = self.0.lock();
        let (at, peer) = locations.get(&key(principal, sought))?;
        (at.elapsed() < BELIEVED).then(|| peer.clone())
    }

    pub(super) fn set(&self, principal: &Principal, sought: &ResourceRef, peer: Peer) {
        let mut locations = self.0.lock();
        if locations.len() >= MOST {
            locations.clear();
        }
        locations.insert(key(principal, sought), (Instant::now(), peer));
    }

    pub(super) fn remove(&self, principal: &Principal, sought: &ResourceRef) {
        self.0.lock().remove(&key(principal, sought));
    }

    /// Forgets what was found at a replica.
    pub(super) fn forget(&self, address: &str) {
        self.0.lock().retain(|_, (_, peer)| peer.address != address);
    }
}

fn key(principal: &Principal, sought: &ResourceRef) -> (String, ResourceRef) {
    (principal.owner().to_owned(), sought.clone())
}
