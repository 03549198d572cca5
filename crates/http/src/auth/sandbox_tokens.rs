//! Tokens that are good for one sandbox, which E2B's clients show to the sandbox instead of the API key.
//!
//! ```text
//! <mark of the API key>.<HMAC-SHA256 of mark and sandbox, hexadecimal>
//! ```
//! Nothing is stored: the same key and sandbox have the same token, at every start and at every replica that has the secret. The
//! mark says nothing of the key. A token stops with the key that it was issued to.

use std::fmt;

use himalia_engine::Principal;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// Issues the tokens of sandboxes, and checks them.
#[derive(Clone)]
pub struct SandboxTokens {
    secret: [u8; 32],
}

impl fmt::Debug for SandboxTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SandboxTokens(…)")
    }
}

impl SandboxTokens {
    /// With a secret of any length, which the replicas of one cluster share.
    pub fn new(secret: &[u8]) -> Self {
        let mut mac = keyed(secret);
        mac.update(b"himalia tokens of sandboxes");
        Self {
            secret: mac.finalize().into_bytes().into(),
        }
    }

    /// The token with which the credential of this call reaches a sandbox. `None` where the call has no credential.
    pub fn issue(&self, principal: &Principal, sandbox: &str) -> Option<String> {
        let mark = principal.via()?.mark.as_deref()?;
        Some(self.with_mark(mark, sandbox))
    }

    /// The token of a credential with this mark.
    pub(crate) fn with_mark(&self, mark: &str, sandbox: &str) -> String {
        format!(
            "{mark}.{}",
            hex::encode(self.mac(mark, sandbox).finalize().into_bytes())
        )
    }

    /// The mark of the credential to which this token of this sandbox was issued, if it was. Compares in constant time.
    pub(crate) fn verify<'a>(&self, token: &'a str, sandbox: &str) -> Option<&'a str> {
        let (mark, mac) = token.rsplit_once('.')?;
        let mac = hex::decode(mac).ok()?;
        self.mac(mark, sandbox).verify_slice(&mac).ok()?;
        Some(mark)
    }

    fn mac(&self, mark: &str, sandbox: &str) -> Hmac<Sha256> {
        let mut mac = keyed(&self.secret);
        mac.update(&(mark.len() as u64).to_le_bytes());
        mac.update(mark.as_bytes());
        mac.update(sandbox.as_bytes());
        mac
    }
}

#[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::<Sha256>::new_from_slice(key).expect("a key of any length")
}

#[cfg(test)]
mod tests {
    use super::*;
    use himalia_engine::CallOrigin;

    #[test]
    fn a_token_is_good_for_its_sandbox_alone() {
        let tokens = SandboxTokens::new(b"secret");
        let token = tokens.with_mark("issued-1", "a");
        assert_eq!(tokens.verify(&token, "a"), Some("issued-1"));
        assert_eq!(tokens.verify(&token, "b"), None);
        assert_eq!(SandboxTokens::new(b"other").verify(&token, "a"), None);
        let foreign = token.replace("issued-1", "issued-2");
        for wrong in [foreign.as_str(), "", ".", "issued-1.", "issued-1.00", &token[1..]] {
            assert_eq!(tokens.verify(wrong, "a"), None, "{wrong}");
        }
        // The border between mark and sandbox is part of what is signed.
        assert_ne!(tokens.with_mark("x", "yz")[2..], tokens.with_mark("xy", "z")[3..]);
    }

    #[test]
    fn a_token_belongs_to_the_credential_of_the_call() {
        let tokens = SandboxTokens::new(b"secret");
        let via = CallOrigin {
            mark: Some("m".into()),
            ..CallOrigin::default()
        };
        let principal = Principal::operator();
        assert_eq!(tokens.issue(&principal, "a"), None);
        let token = tokens.issue(&principal.came(via), "a").unwrap();
        assert_eq!(tokens.verify(&token, "a"), Some("m"));
        assert!(!format!("{tokens:?}").contains("secret"));
    }
}
