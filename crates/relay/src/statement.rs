//! Signed statement of a replica about a request that it relays.
//!
//! `himalia-relay: <JSON in base64url>.<HMAC-SHA256 in base64url>`. The signature covers the method and the target of the
//! request too, so that a statement counts for one request. The body is protected by TLS.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use http::{HeaderMap, HeaderValue, Method, Uri};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use thiserror::Error;

use crate::replays::Replays;

/// The header of a relayed request. A gateway takes it from peers alone.
pub const HEADER: &str = "himalia-relay";
/// Largest difference between the clocks of two replicas, including the time of the request on its way.
pub const STALE: Duration = Duration::from_mins(1);
/// Longest header, bytes.
const HEADER_BYTES: usize = 4096;

/// A statement of a replica about a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// The replica that has the client.
    pub from: String,
    /// The replica that is asked.
    pub to: String,
    /// On whose behalf, in the words of the gateway.
    pub caller: String,
    /// When, milliseconds since 1970 UTC.
    at: u64,
    /// The run of the replica that made it, 32 hexadecimal digits, and the number of the statement in this run.
    run: String,
    number: u64,
}

/// Reasons why a statement is invalid. They are not sent to the peer.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum StatementError {
    /// There is none, or more than one.
    #[error("no statement")]
    Missing,
    /// It cannot be read.
    #[error("a statement that cannot be read")]
    Malformed,
    /// Another key, or another request.
    #[error("the signature of a statement is wrong")]
    Signature,
    /// It is for another replica.
    #[error("a statement for another replica")]
    Addressee,
    /// Too old, or from the future.
    #[error("a stale statement; do the clocks of the replicas differ?")]
    Stale,
    /// It was used before.
    #[error("a statement that was used before")]
    Replayed,
}

/// Signs the statements of a replica, and verifies those of its peers.
#[derive(Debug)]
pub struct Signer {
    key: Key,
    replica: String,
    run: String,
    next: AtomicU64,
    replays: Mutex<Replays>,
}

struct Key([u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

impl Signer {
    pub(crate) fn new(key: [u8; 32], replica: &str) -> Self {
        let mut run = [0; 16];
        // Without randomness two runs would have one name, and the statements of the later one would be refused.
        if getrandom::fill(&mut run).is_err() {
            run = now_millis(SystemTime::now())
                .to_be_bytes()
                .repeat(2)
                .try_into()
                .unwrap_or_default();
        }
        Self {
            key: Key(key),
            replica: replica.to_owned(),
            run: format!("{:032x}", u128::from_be_bytes(run)),
            next: AtomicU64::new(1),
            replays: Mutex::default(),
        }
    }

    /// The replica whose statements these are.
    pub fn replica(&self) -> &str {
        &self.replica
    }

    /// The header for a request to a peer. `None` for a caller whose text does not fit.
    pub fn sign(&self, to: &str, caller: &str, method: &Method, target: &Uri) -> Option<HeaderValue> {
        self.sign_at(to, caller, method, target, SystemTime::now())
    }

    fn sign_at(
        &self,
        to: &str,
        caller: &str,
        method: &Method,
        target: &Uri,
        now: SystemTime,
    ) -> Option<HeaderValue> {
        let statement = Statement {
            from: self.replica.clone(),
            to: to.to_owned(),
            caller: caller.to_owned(),
            at: now_millis(now),
            run: self.run.clone(),
            number: self.next.fetch_add(1, Ordering::Relaxed),
        };
        let text = BASE64.encode(serde_json::to_vec(&statement).ok()?);
        let mac = BASE64.encode(self.mac(method, target, &text).finalize().into_bytes());
        let header = format!("{text}.{mac}");
        if header.len() > HEADER_BYTES {
            return None;
        }
        let mut value = HeaderValue::try_from(header).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Verifies the statement of a request that a peer sent. A statement counts once.
    pub fn verify(
        &self,
        method: &Method,
        target: &Uri,
        headers: &HeaderMap,
    ) -> Result<Statement, StatementError> {
        self.verify_at(method, target, headers, SystemTime::now())
    }

    fn verify_at(
        &self,
        method: &Method,
        target: &Uri,
        headers: &HeaderMap,
        now: SystemTime,
    ) -> Result<Statement, StatementError> {
        let mut values = headers.get_all(HEADER).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return Err(StatementError::Missing);
        };
        if value.len() > HEADER_BYTES {
            return Err(StatementError::Malformed);
        }
        let text = value.to_str().map_err(|_| StatementError::Malformed)?;
        let (text, mac) = text.split_once('.').ok_or(StatementError::Malformed)?;
        let mac = BASE64.decode(mac).map_err(|_| StatementError::Malformed)?;
        // In constant time, and before anything of the text is looked at.
        self.mac(method, target, text)
            .verify_slice(&mac)
            .map_err(|_| StatementError::Signature)?;
        let bytes = BASE64.decode(text).map_err(|_| StatementError::Malformed)?;
        let statement: Statement = serde_json::from_slice(&bytes).map_err(|_| StatementError::Malformed)?;
        let run = u128::from_str_radix(&statement.run, 16).map_err(|_| StatementError::Malformed)?;
        if statement.to != self.replica {
            return Err(StatementError::Addressee);
        }
        let stale = u64::try_from(STALE.as_millis()).unwrap_or(u64::MAX);
        let now = now_millis(now);
        if now.abs_diff(statement.at) > stale {
            return Err(StatementError::Stale);
        }
        if !self.replays.lock().is_new(run, statement.number, now) {
            return Err(StatementError::Replayed);
        }
        Ok(statement)
    }

    fn mac(&self, method: &Method, target: &Uri, text: &str) -> Hmac<Sha256> {
        #[expect(clippy::expect_used, reason = "HMAC takes a key of any length")]
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key.0).expect("a key of any length");
        let target = target.path_and_query().map_or("/", |target| target.as_str());
        // None of these has a line break.
        for part in [method.as_str(), target, text] {
            mac.update(part.as_bytes());
            mac.update(b"\n");
        }
        mac
    }
}

fn now_millis(now: SystemTime) -> u64 {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TARGET: &str = "/v1/sessions/eda?x=1";

    fn signers() -> (Signer, Signer) {
        (Signer::new([7; 32], "a"), Signer::new([7; 32], "b"))
    }

    fn headers(value: HeaderValue) -> HeaderMap {
        HeaderMap::from_iter([(HEADER.parse().unwrap(), value)])
    }

    fn signed(signer: &Signer, to: &str) -> HeaderMap {
        let uri = TARGET.parse().unwrap();
        headers(
            signer
                .sign(to, "{\"owner\":\"acme\"}", &Method::GET, &uri)
                .unwrap(),
        )
    }

    fn verify(
        signer: &Signer,
        method: &Method,
        target: &str,
        headers: &HeaderMap,
    ) -> Result<Statement, StatementError> {
        signer.verify(method, &target.parse().unwrap(), headers)
    }

    #[test]
    fn a_statement_counts_once() {
        let (a, b) = signers();
        let headers = signed(&a, "b");
        let statement = verify(&b, &Method::GET, TARGET, &headers).unwrap();
        assert_eq!(
            (statement.from.as_str(), statement.caller.as_str()),
            ("a", "{\"owner\":\"acme\"}")
        );
        assert_eq!(
            verify(&b, &Method::GET, TARGET, &headers),
            Err(StatementError::Replayed)
        );
    }

    #[test]
    fn a_statement_counts_for_its_request_alone() {
        let (a, b) = signers();
        let headers = signed(&a, "b");
        for (method, target) in [
            (Method::POST, TARGET),
            (Method::GET, "/v1/sessions/eda?x=2"),
            (Method::GET, "/v1/sessions/eda"),
        ] {
            assert_eq!(
                verify(&b, &method, target, &headers),
                Err(StatementError::Signature)
            );
        }
        let c = Signer::new([7; 32], "c");
        assert_eq!(
            verify(&c, &Method::GET, TARGET, &headers),
            Err(StatementError::Addressee)
        );
        let foreign = Signer::new([8; 32], "b");
        assert_eq!(
            verify(&foreign, &Method::GET, TARGET, &headers),
            Err(StatementError::Signature)
        );
        assert_eq!(
            verify(&b, &Method::GET, TARGET, &HeaderMap::new()),
            Err(StatementError::Missing)
        );
        let mut two = headers.clone();
        two.append(HEADER, headers.get(HEADER).unwrap().clone());
        assert_eq!(
            verify(&b, &Method::GET, TARGET, &two),
            Err(StatementError::Missing)
        );
    }

    #[test]
    fn old_and_future_statements_are_stale() {
        let (a, b) = signers();
        let (now, uri) = (SystemTime::now(), TARGET.parse().unwrap());
        let verify = |at| {
            let headers = headers(a.sign_at("b", "x", &Method::GET, &uri, now).unwrap());
            b.verify_at(&Method::GET, &uri, &headers, at)
        };
        let second = Duration::from_secs(1);
        assert_eq!(verify(now + STALE + second), Err(StatementError::Stale));
        assert_eq!(verify(now - STALE - second), Err(StatementError::Stale));
        assert!(verify(now + STALE - second).is_ok());
    }

    #[test]
    fn a_caller_that_does_not_fit_is_not_signed() {
        let (a, _) = signers();
        let uri = TARGET.parse().unwrap();
        assert!(
            a.sign("b", &"x".repeat(HEADER_BYTES), &Method::GET, &uri)
                .is_none()
        );
    }

    proptest! {
        #[test]
        fn hostile_headers_are_refused(value in "[ -~]{0,300}", cut in 0usize..400) {
            let (a, b) = signers();
            let mut good = signed(&a, "b").get(HEADER).unwrap().to_str().unwrap().to_owned();
            prop_assert!(verify(&b, &Method::GET, TARGET, &headers(value.parse().unwrap())).is_err());
            let at = cut % good.len();
            let other = if good.as_bytes()[at] == b'A' { "B" } else { "A" };
            good.replace_range(at..=at, other);
            prop_assert!(verify(&b, &Method::GET, TARGET, &headers(good.parse().unwrap())).is_err());
        }
    }
}
