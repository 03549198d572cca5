//! Refuses a message that was already seen.

use std::collections::{HashSet, VecDeque};

/// Remembers the signatures of the messages that came over one socket, so that a signed message counts once.
///
/// Call [`DuplicateGuard::check`] only with a signature that has been verified: an unverified one could
/// otherwise push a genuine one out, or mark it as seen before it comes.
///
/// Holds 65,536 signatures, about 3 MB when full and next to nothing before; when full the oldest tenth is
/// forgotten. Use one guard per socket: a kernel may send the same message on two.
#[derive(Debug)]
pub struct DuplicateGuard {
    seen: HashSet<u128>,
    order: VecDeque<u128>,
    capacity: usize,
}

impl DuplicateGuard {
    /// Number of signatures that a guard holds, as `digest_history_size` of the reference.
    pub const CAPACITY: usize = 65_536;

    /// An empty guard.
    pub fn new() -> Self {
        Self::with_capacity(Self::CAPACITY)
    }

    /// An empty guard for `capacity` signatures (at least 1).
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            seen: HashSet::new(),
            order: VecDeque::new(),
            capacity: capacity.max(1),
        }
    }

    /// `true` when this verified signature is new, `false` when it was seen. An empty signature (kernels
    /// without a key) is always new.
    pub fn check(&mut self, signature: &[u8]) -> bool {
        if signature.is_empty() {
            return true;
        }
        let digest = leading_bits(signature);
        if self.seen.contains(&digest) {
            return false;
        }
        if self.order.len() >= self.capacity {
            let tenth = (self.capacity / 10).max(1);
            for old in self.order.drain(..tenth.min(self.order.len())) {
                self.seen.remove(&old);
            }
        }
        self.seen.insert(digest);
        self.order.push_back(digest);
        true
    }
}

impl Default for DuplicateGuard {
    fn default() -> Self {
        Self::new()
    }
}

/// The first 128 bits of a hexadecimal digest; all of an MD5, enough of the others.
fn leading_bits(signature: &[u8]) -> u128 {
    signature.iter().take(32).fold(0, |bits, byte| {
        let value = char::from(*byte).to_digit(16).unwrap_or_default();
        (bits << 4) | u128::from(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(n: usize) -> Vec<u8> {
        format!("{n:064x}").into_bytes().into_iter().rev().collect()
    }

    #[test]
    fn the_second_time_is_refused() {
        let mut guard = DuplicateGuard::new();
        assert!(guard.check(&signature(1)));
        assert!(guard.check(&signature(2)));
        assert!(!guard.check(&signature(1)));
        assert!(guard.check(b""));
        assert!(guard.check(b""));
    }

    #[test]
    fn full_forgets_the_oldest_tenth() {
        let mut guard = DuplicateGuard::with_capacity(100);
        for n in 0..100 {
            assert!(guard.check(&signature(n)));
        }
        assert!(!guard.check(&signature(0)), "at the limit nothing is forgotten");
        assert!(guard.check(&signature(100)));
        assert_eq!(guard.order.len(), 91);
        assert_eq!(guard.seen.len(), 91);
        assert!(!guard.check(&signature(10)));
        assert!(guard.check(&signature(9)));
    }

    #[test]
    fn never_grows_over_its_capacity() {
        let mut guard = DuplicateGuard::with_capacity(7);
        for n in 0..1000 {
            assert!(guard.check(&signature(n)));
            assert!(guard.seen.len() <= 7 && guard.order.len() <= 7);
        }
    }
}
