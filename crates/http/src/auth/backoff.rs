//! Back-off for wrong tokens.
//!
//! Each peer (IPv4 address, or IPv6 /64) may present [`TRIES`] wrong tokens per [`WINDOW`]. The next wrong tokens
//! receive 429 after a pause, and their connection is closed. A right token is always accepted, so that a client that shares an
//! address with a guesser (a proxy, this machine) is not locked out. The length of the token makes guessing hopeless;
//! the back-off limits what guessers cost.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Wrong tokens per peer and window.
pub(crate) const TRIES: u32 = 10;
pub(crate) const WINDOW: Duration = Duration::from_mins(1);
/// Time that a refusal of a peer which has to stay away is held back, and the number of refusals that are held back at once: others are
/// answered immediately.
const PAUSE: Duration = Duration::from_millis(200);
const PAUSED: usize = 256;
/// Peers remembered at once; beyond it the oldest is forgotten.
const PEERS: usize = 4096;

/// Counts wrong tokens by peer, in bounded memory.
#[derive(Debug)]
pub(crate) struct Backoff {
    peers: Mutex<HashMap<IpAddr, Counter>>,
    /// For checks of signatures that peers ask for which have to stay away: one at a time for all of them.
    checks: Semaphore,
    pauses: Semaphore,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            peers: Mutex::default(),
            checks: Semaphore::new(1),
            pauses: Semaphore::new(PAUSED),
        }
    }
}

#[derive(Debug)]
struct Counter {
    since: Instant,
    wrong: u32,
}

impl Backoff {
    /// Notes a wrong token. Returns how long to stay away if that was one too many.
    pub(crate) fn wrong(&self, peer: IpAddr, now: Instant) -> Option<Duration> {
        let mut peers = self.peers.lock();
        let key = key(peer);
        if peers.len() >= PEERS && !peers.contains_key(&key) {
            make_room(&mut peers, now);
        }
        let counter = peers.entry(key).or_insert(Counter { since: now, wrong: 0 });
        if now.duration_since(counter.since) >= WINDOW {
            *counter = Counter { since: now, wrong: 0 };
        }
        counter.wrong = counter.wrong.saturating_add(1);
        (counter.wrong > TRIES).then(|| WINDOW.saturating_sub(now.duration_since(counter.since)))
    }

    /// Waits with a refusal of a peer that has to stay away, so that it cannot ask often.
    pub(crate) async fn hold_back(&self) {
        if let Ok(_permit) = self.pauses.try_acquire() {
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The time for which this peer has to stay away: the next wrong token is one too many.
    pub(crate) fn waits(&self, peer: IpAddr, now: Instant) -> Option<Duration> {
        let peers = self.peers.lock();
        let counter = peers.get(&key(peer))?;
        let left = WINDOW.checked_sub(now.duration_since(counter.since))?;
        (counter.wrong >= TRIES && !left.is_zero()).then_some(left)
    }
}

/// A check that a peer may have made.
#[derive(Debug)]
pub(crate) struct Check<'a>(
    #[allow(dead_code, reason = "held until it is dropped")] Option<SemaphorePermit<'a>>,
);

impl Backoff {
    /// Before a signature is checked, which reads the store: how long to stay away, if the peer has shown too much that was wrong and
    /// another such check is in progress.
    pub(crate) fn check(&self, peer: IpAddr, now: Instant) -> Result<Check<'_>, Duration> {
        let since = {
            let peers = self.peers.lock();
            let counter = peers.get(&key(peer)).filter(|counter| counter.wrong >= TRIES);
            counter.map(|counter| now.duration_since(counter.since))
        };
        match since.filter(|since| *since < WINDOW) {
            None => Ok(Check(None)),
            Some(since) => match self.checks.try_acquire() {
                Ok(permit) => Ok(Check(Some(permit))),
                Err(_) => Err(WINDOW.saturating_sub(since)),
            },
        }
    }
}

fn make_room(peers: &mut HashMap<IpAddr, Counter>, now: Instant) {
    peers.retain(|_, counter| now.duration_since(counter.since) < WINDOW);
    if peers.len() >= PEERS {
        let oldest = peers.iter().min_by_key(|(_, c)| c.since).map(|(ip, _)| *ip);
        if let Some(ip) = oldest {
            peers.remove(&ip);
        }
    }
}

/// One customer of a provider has a whole /64, so that is what is counted.
fn key(peer: IpAddr) -> IpAddr {
    match peer {
        IpAddr::V4(ip) => IpAddr::V4(ip),
        IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
            Some(ip) => IpAddr::V4(ip),
            None => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX))),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eleventh_waits_for_the_window() {
        let (backoff, peer, start) = (Backoff::default(), "10.0.0.1".parse().unwrap(), Instant::now());
        for _ in 0..TRIES {
            assert_eq!(backoff.waits(peer, start), None);
            assert_eq!(backoff.wrong(peer, start), None);
        }
        assert_eq!(backoff.waits(peer, start + WINDOW / 2), Some(WINDOW / 2));
        assert_eq!(backoff.waits(peer, start + WINDOW), None);
        assert_eq!(backoff.wrong(peer, start + WINDOW / 2), Some(WINDOW / 2));
        assert_eq!(backoff.wrong("10.0.0.2".parse().unwrap(), start), None);
        assert_eq!(backoff.wrong(peer, start + WINDOW), None);
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_are_held_back_but_only_so_many_at_a_time() {
        let backoff = Backoff::default();
        let begun = tokio::time::Instant::now();
        let held = futures_util::future::join_all((0..PAUSED).map(|_| backoff.hold_back()));
        tokio::select! {
            biased;
            _ = held => panic!("held back for no time"),
            () = backoff.hold_back() => {}
        }
        assert_eq!(begun.elapsed(), Duration::ZERO, "one more is answered at once");
        backoff.hold_back().await;
        assert_eq!(begun.elapsed(), PAUSE);
    }

    #[test]
    fn peers_that_have_to_stay_away_have_one_check_at_a_time() {
        let (backoff, now) = (Backoff::default(), Instant::now());
        let [bad, good] = ["10.0.0.1", "10.0.0.2"].map(|peer| peer.parse().unwrap());
        for _ in 0..TRIES {
            let _first = backoff.check(bad, now).unwrap();
            let _second = backoff.check(bad, now).unwrap();
            backoff.wrong(bad, now);
        }
        let first = backoff.check(bad, now).unwrap();
        assert_eq!(backoff.check(bad, now + WINDOW / 2).unwrap_err(), WINDOW / 2);
        assert!(backoff.check(good, now).is_ok(), "it has shown nothing wrong");
        assert!(backoff.check(bad, now + WINDOW).is_ok());
        drop(first);
        assert!(backoff.check(bad, now).is_ok());
    }

    #[test]
    fn a_v6_network_is_one_peer() {
        let (backoff, now) = (Backoff::default(), Instant::now());
        for i in 0..TRIES {
            assert_eq!(
                backoff.wrong(format!("2001:db8::{i}").parse().unwrap(), now),
                None
            );
        }
        assert!(backoff.wrong("2001:db8::ffff".parse().unwrap(), now).is_some());
        assert!(backoff.wrong("2001:db8:0:1::1".parse().unwrap(), now).is_none());
    }

    #[test]
    fn memory_is_bounded() {
        let (backoff, start) = (Backoff::default(), Instant::now());
        for i in 0..2 * u32::try_from(PEERS).unwrap() {
            backoff.wrong(IpAddr::V4(i.into()), start + Duration::from_micros(i.into()));
        }
        assert_eq!(backoff.peers.lock().len(), PEERS);
    }
}
