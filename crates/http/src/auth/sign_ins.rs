//! Browsers that signed in: a cookie each, whose value is kept here as a hash, and the code of the link that `serve` prints.
//!
//! All of it is in memory: with the gateway every sign-in ends.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::token::Token;

/// How long a sign-in lasts after its last use.
pub(crate) const LIFETIME: Duration = Duration::from_hours(24);
/// How long the code of the link is good.
pub(crate) const CODE_LIFETIME: Duration = Duration::from_mins(15);
/// Sign-ins at once; beyond it the one that was used least lately is forgotten.
const MAX: usize = 256;
/// Random bytes of a cookie, written as twice as many hexadecimal digits.
const RANDOM_BYTES: usize = 32;

/// Who is signed in, in bounded memory.
#[derive(Debug)]
pub(crate) struct SignIns {
    /// Until it is used.
    code: Mutex<Option<Token>>,
    since: Instant,
    /// Hash of a cookie's value, and when it was last used.
    used: Mutex<HashMap<[u8; 32], Instant>>,
}

impl SignIns {
    /// Nobody yet. `code` is good once, from `now` on.
    pub(crate) fn new(code: Option<Token>, now: Instant) -> Self {
        Self {
            code: Mutex::new(code),
            since: now,
            used: Mutex::default(),
        }
    }

    /// Whether this is the code. It is none any more then.
    pub(crate) fn take_code(&self, presented: &[u8], now: Instant) -> bool {
        if now.duration_since(self.since) >= CODE_LIFETIME {
            return false;
        }
        self.code.lock().take_if(|code| code.matches(presented)).is_some()
    }

    /// A new sign-in: the value of its cookie. Fails when the system has no randomness.
    pub(crate) fn sign_in(&self, now: Instant) -> Result<String, getrandom::Error> {
        let mut random = [0_u8; RANDOM_BYTES];
        getrandom::fill(&mut random)?;
        let secret = random.iter().fold(String::new(), |mut text, byte| {
            use std::fmt::Write as _;
            let _ = write!(text, "{byte:02x}");
            text
        });
        let mut used = self.used.lock();
        used.retain(|_, at| now.duration_since(*at) < LIFETIME);
        if used.len() >= MAX {
            let oldest = used.iter().min_by_key(|(_, at)| **at).map(|(hash, _)| *hash);
            if let Some(hash) = oldest {
                used.remove(&hash);
            }
        }
        used.insert(hash(&secret), now);
        Ok(secret)
    }

    /// Whether a cookie's value is that of a sign-in, which counts as a use of it.
    pub(crate) fn knows(&self, secret: &str, now: Instant) -> bool {
        let mut used = self.used.lock();
        match used.get_mut(&hash(secret)) {
            Some(at) if now.duration_since(*at) < LIFETIME => {
                *at = now;
                true
            }
            _ => false,
        }
    }

    /// Ends a sign-in, if there is one.
    pub(crate) fn sign_out(&self, secret: &str) {
        self.used.lock().remove(&hash(secret));
    }
}

/// Values are looked up by their hash, so that no comparison tells how much of one was right.
fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_good_once_and_not_for_long() {
        let start = Instant::now();
        let signs = SignIns::new(Some(Token::new("c0de")), start);
        assert!(!signs.take_code(b"wrong", start));
        assert!(signs.take_code(b"c0de", start + Duration::from_mins(14)));
        assert!(!signs.take_code(b"c0de", start));
        let late = SignIns::new(Some(Token::new("c0de")), start);
        assert!(!late.take_code(b"c0de", start + CODE_LIFETIME));
        assert!(!SignIns::new(None, start).take_code(b"", start));
    }

    #[test]
    fn a_sign_in_lasts_while_it_is_used() {
        let start = Instant::now();
        let signs = SignIns::new(None, start);
        let secret = signs.sign_in(start).unwrap();
        assert_eq!(secret.len(), 2 * RANDOM_BYTES);
        assert!(!signs.knows("", start) && !signs.knows(&secret[1..], start));
        let later = start + LIFETIME.saturating_sub(Duration::from_secs(1));
        assert!(signs.knows(&secret, later));
        assert!(signs.knows(&secret, later + LIFETIME / 2));
        assert!(!signs.knows(&secret, later + 2 * LIFETIME));
        let second = signs.sign_in(later).unwrap();
        signs.sign_out(&second);
        assert!(!signs.knows(&second, later));
    }

    #[test]
    fn memory_is_bounded_and_the_least_used_goes() {
        let start = Instant::now();
        let signs = SignIns::new(None, start);
        let at = |i: usize| start + Duration::from_secs(i as u64);
        let secrets: Vec<String> = (0..=MAX).map(|i| signs.sign_in(at(i)).unwrap()).collect();
        assert_eq!(signs.used.lock().len(), MAX);
        assert!(!signs.knows(&secrets[0], at(MAX)));
        assert!(signs.knows(&secrets[1], at(MAX)));
    }
}
