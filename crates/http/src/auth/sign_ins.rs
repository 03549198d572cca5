//! Browsers that signed in: a cookie each, whose value is kept here as a hash, and the code of the link that `serve`
//! prints.
//!
//! Sign-ins are in memory and in a file, so that they outlive the gateway's process: a line each, the hash, the time of
//! the last use, and the mark of the token that it is a sign-in of. The file is written at every change, and for uses
//! once an hour.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use super::token::Token;

/// Lifetime of a sign-in after its last use.
pub(crate) const LIFETIME: Duration = Duration::from_hours(24);
/// Lifetime of the code of the link.
pub(crate) const CODE_LIFETIME: Duration = Duration::from_mins(15);
/// Sign-ins with one token at once; beyond it the one that was used least lately is forgotten.
const MAX: usize = 256;
/// Lines of the file that are read.
const MAX_LINES: usize = 64 << 10;
/// Random bytes of a cookie, written as twice as many hexadecimal digits.
const RANDOM_BYTES: usize = 32;
/// Largest age of a use in the file.
const SAVED_EVERY: Duration = Duration::from_hours(1);

/// The browsers that are signed in, in bounded memory.
#[derive(Debug)]
pub(crate) struct SignIns {
    /// Until it is used.
    code: Mutex<Option<Token>>,
    since: SystemTime,
    file: Option<PathBuf>,
    used: Mutex<HashMap<Hash, Use>>,
}

/// The hash of a cookie's value, in hexadecimal digits. Values are looked up by it, so that no comparison reveals a part of a right value.
type Hash = String;

#[derive(Clone, Debug)]
struct Use {
    /// The mark of its token, from [`Tokens::mark`](super::Tokens::mark).
    mark: String,
    last: SystemTime,
    /// The last one that is in the file.
    saved: SystemTime,
}

impl SignIns {
    /// The sign-ins of the file, if there is one. `code` is valid once, from `now` on.
    pub(crate) fn new(code: Option<Token>, file: Option<PathBuf>, now: SystemTime) -> Self {
        let text = file.as_ref().and_then(|path| fs::read_to_string(path).ok());
        Self {
            code: Mutex::new(code),
            since: now,
            file,
            used: Mutex::new(
                text.iter()
                    .flat_map(|text| text.lines())
                    .filter_map(read)
                    .take(MAX_LINES)
                    .collect(),
            ),
        }
    }

    /// Checks whether this is the code, which is invalid afterwards.
    pub(crate) fn take_code(&self, presented: &[u8], now: SystemTime) -> bool {
        if age(self.since, now) >= CODE_LIFETIME {
            return false;
        }
        self.code.lock().take_if(|code| code.matches(presented)).is_some()
    }

    /// A new sign-in with the token of this mark: the value of its cookie. Fails when the system has no randomness.
    pub(crate) fn sign_in(&self, mark: &str, now: SystemTime) -> Result<String, getrandom::Error> {
        let mut random = [0_u8; RANDOM_BYTES];
        getrandom::fill(&mut random)?;
        let secret = hex::encode(random);
        let mut used = self.used.lock();
        used.retain(|_, one| age(one.last, now) < LIFETIME);
        let with_it = |one: &Use| one.mark == mark;
        if used.values().filter(|one| with_it(one)).count() >= MAX {
            let oldest = used
                .iter()
                .filter(|(_, one)| with_it(one))
                .min_by_key(|(_, one)| one.last)
                .map(|(hash, _)| hash.clone());
            if let Some(hash) = oldest {
                used.remove(&hash);
            }
        }
        used.insert(
            hash(&secret),
            Use {
                mark: mark.to_owned(),
                last: now,
                saved: now,
            },
        );
        self.save(&mut used);
        Ok(secret)
    }

    /// The mark of the token of the sign-in that a cookie's value is of, which counts as a use of it.
    pub(crate) fn knows(&self, secret: &str, now: SystemTime) -> Option<String> {
        let mut used = self.used.lock();
        let one = used.get_mut(&hash(secret))?;
        if age(one.last, now) >= LIFETIME {
            return None;
        }
        one.last = now;
        let mark = one.mark.clone();
        if age(one.saved, now) >= SAVED_EVERY {
            self.save(&mut used);
        }
        Some(mark)
    }

    /// Ends a sign-in, if there is one.
    pub(crate) fn sign_out(&self, secret: &str) {
        let mut used = self.used.lock();
        if used.remove(&hash(secret)).is_some() {
            self.save(&mut used);
        }
    }

    /// Writes the file anew. Without it sign-ins end with the process.
    fn save(&self, used: &mut HashMap<Hash, Use>) {
        let Some(path) = &self.file else { return };
        let mut text = String::new();
        for (hash, one) in used.iter_mut() {
            one.saved = one.last;
            let seconds = age(SystemTime::UNIX_EPOCH, one.last).as_secs();
            let _ = writeln!(text, "{hash} {seconds} {}", one.mark);
        }
        let new = path.with_extension("new");
        let write = || -> io::Result<()> {
            let mut options = fs::OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            options.open(&new)?.write_all(text.as_bytes())?;
            fs::rename(&new, path)
        };
        if let Err(error) = write() {
            tracing::warn!(path = %path.display(), %error, "sign-ins are not kept for the next start");
        }
    }
}

/// A line of the file.
fn read(line: &str) -> Option<(Hash, Use)> {
    let mut parts = line.split(' ');
    let (hash, seconds, mark) = (parts.next()?, parts.next()?, parts.next()?);
    let last = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds.parse().ok()?))?;
    let one = Use {
        mark: mark.to_owned(),
        last,
        saved: last,
    };
    Some((hash.to_owned(), one))
}

/// The time since; none if the clock was set back.
fn age(since: SystemTime, now: SystemTime) -> Duration {
    now.duration_since(since).unwrap_or_default()
}

fn hash(secret: &str) -> Hash {
    hex::encode(Sha256::digest(secret.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_good_once_and_not_for_long() {
        let start = SystemTime::now();
        let signs = SignIns::new(Some(Token::new("c0de")), None, start);
        assert!(!signs.take_code(b"wrong", start));
        assert!(signs.take_code(b"c0de", start + Duration::from_mins(14)));
        assert!(!signs.take_code(b"c0de", start));
        let late = SignIns::new(Some(Token::new("c0de")), None, start);
        assert!(!late.take_code(b"c0de", start + CODE_LIFETIME));
        assert!(!SignIns::new(None, None, start).take_code(b"", start));
    }

    #[test]
    fn a_sign_in_lasts_while_it_is_used() {
        let start = SystemTime::now();
        let signs = SignIns::new(None, None, start);
        let secret = signs.sign_in("m", start).unwrap();
        assert_eq!(secret.len(), 2 * RANDOM_BYTES);
        assert!(signs.knows("", start).is_none() && signs.knows(&secret[1..], start).is_none());
        let later = start + LIFETIME.saturating_sub(Duration::from_secs(1));
        assert!(signs.knows(&secret, later).is_some());
        assert!(signs.knows(&secret, later + LIFETIME / 2).is_some());
        assert!(signs.knows(&secret, later + 2 * LIFETIME).is_none());
        let second = signs.sign_in("m", later).unwrap();
        signs.sign_out(&second);
        assert!(signs.knows(&second, later).is_none());
    }

    #[test]
    fn memory_is_bounded_and_the_least_used_goes() {
        let start = SystemTime::now();
        let signs = SignIns::new(None, None, start);
        let at = |i: usize| start + Duration::from_secs(i as u64);
        let another = signs.sign_in("n", start).unwrap();
        let secrets: Vec<String> = (0..=MAX).map(|i| signs.sign_in("m", at(i)).unwrap()).collect();
        assert_eq!(signs.used.lock().len(), MAX + 1);
        assert_eq!(
            signs.knows(&another, at(MAX)).unwrap(),
            "n",
            "no principal signs others out"
        );
        assert!(signs.knows(&secrets[0], at(MAX)).is_none());
        assert!(signs.knows(&secrets[1], at(MAX)).is_some());
    }

    #[test]
    fn sign_ins_outlive_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sign-ins");
        let start = SystemTime::now();
        let open = || SignIns::new(None, Some(path.clone()), start);
        let signs = open();
        let (first, second) = (
            signs.sign_in("m", start).unwrap(),
            signs.sign_in("m", start).unwrap(),
        );
        let later = start + LIFETIME / 2;
        assert!(signs.knows(&first, later).is_some());
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&first) && !text.contains(&second));
        signs.sign_out(&second);
        let next = open();
        assert!(
            next.knows(&first, start + LIFETIME).is_some(),
            "its last use was written"
        );
        assert!(next.knows(&second, start).is_none());
        fs::write(&path, "no line\n\n").unwrap();
        assert!(open().knows(&first, start).is_none());
    }
}
