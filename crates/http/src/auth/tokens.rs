//! The tokens of all principals.

use himalia_engine::Principal;
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use super::token::{Token, hash};

/// Bytes of a mark, written as twice as many hexadecimal digits.
const MARK_BYTES: usize = 16;

/// By what the latest request of a connection was known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShownCredential {
    /// `token`, `browser` (a cookie), `sandbox` (the token of one): the word of the audit log.
    pub(crate) kind: &'static str,
    /// SHA-256 of the token or of the cookie's secret.
    pub(crate) hash: [u8; 32],
    /// The mark of the token that a cookie signed in with, or that a sandbox's token was issued to.
    pub(crate) mark: Option<String>,
}

/// Bytes of a credential's name in the audit log.
const NAME_BYTES: usize = 6;

impl ShownCredential {
    pub(super) fn token(presented: &[u8]) -> Self {
        Self {
            kind: "token",
            hash: hash(presented),
            mark: None,
        }
    }

    /// The credential for the audit log. It identifies the token or sign-in, and is of no use to a reader.
    pub(crate) fn credential(&self) -> String {
        let digest = Sha256::new()
            .chain_update(b"himalia audit\0")
            .chain_update(self.hash)
            .finalize();
        format!("{}:{}", self.kind, hex::encode(&digest[..NAME_BYTES]))
    }
}

/// The principal of each token: the operator's first, then those of tenants' callers.
#[derive(Clone, Debug)]
pub struct Tokens {
    all: Vec<(Token, Principal)>,
}

impl Tokens {
    /// The operator's alone.
    pub fn new(operator: Token) -> Self {
        Self {
            all: vec![(operator, Principal::operator())],
        }
    }

    /// One more. A principal may have several, but a token stands for one: gives the principal that it stands for
    /// already.
    pub fn add(&mut self, token: Token, principal: Principal) -> Result<(), Principal> {
        if let Some((_, known)) = self.all.iter().find(|(known, _)| *known == token) {
            return Err(known.clone());
        }
        self.all.push((token, principal));
        Ok(())
    }

    /// Checks whether one of the tokens is empty.
    pub(crate) fn has_empty(&self) -> bool {
        self.all.iter().any(|(token, _)| token.is_empty())
    }

    /// The principal of a presented text. The text is compared with every token, so that the time does not reveal which one is right.
    #[cfg(test)]
    fn principal(&self, presented: &[u8]) -> Option<&Principal> {
        self.hashed(&hash(presented))
    }

    /// The same by the SHA-256 of the text.
    pub(super) fn hashed(&self, presented: &[u8; 32]) -> Option<&Principal> {
        self.find(presented, |known, presented| known.ct_eq(presented))
    }

    /// `equal` says it in constant time. It is asked about every token, and what it says is never branched on: the
    /// types see to that.
    fn find(
        &self,
        presented: &[u8; 32],
        mut equal: impl FnMut(&[u8; 32], &[u8; 32]) -> Choice,
    ) -> Option<&Principal> {
        // One past the end: no principal.
        let mut found = self.all.len() as u64;
        for (at, (token, _)) in (0_u64..).zip(&self.all) {
            let right = equal(token.hash(), presented) & Choice::from(u8::from(!token.is_empty()));
            found.conditional_assign(&at, right);
        }
        let (_, principal) = self.all.get(usize::try_from(found).ok()?)?;
        Some(principal)
    }

    /// Callers by name whose tokens are here and not there, one for each.
    pub fn without<'a>(&'a self, other: &Self) -> Vec<&'a str> {
        let is_there = |one: &(Token, Principal)| other.all.contains(one);
        let all = self.all.iter().filter(|one| !is_there(one));
        all.map(|(_, principal)| principal.name()).collect()
    }

    /// The mark of a token by the SHA-256 of its text. It reveals nothing of the token.
    pub(super) fn mark_hashed(&self, presented: &[u8; 32]) -> Option<String> {
        self.hashed(presented)?;
        Some(mark(presented))
    }

    /// The marks of all tokens whose holders see the objects of this owner.
    pub(super) fn marks(&self, owner: &str) -> Vec<String> {
        let all = self.all.iter().filter(|(_, principal)| principal.sees(owner));
        all.map(|(token, _)| mark(token.hash())).collect()
    }

    pub(crate) fn operators_mark(&self) -> String {
        self.all
            .first()
            .map(|(token, _)| mark(token.hash()))
            .unwrap_or_default()
    }

    /// The principal of the token with this mark.
    pub(crate) fn marked(&self, text: &str) -> Option<&Principal> {
        let found = self.all.iter().find(|(token, _)| mark(token.hash()) == text);
        found.map(|(_, principal)| principal)
    }
}

fn mark(hash: &[u8; 32]) -> String {
    let digest = Sha256::new()
        .chain_update(b"himalia sign-in\0")
        .chain_update(hash);
    hex::encode(&digest.finalize()[..MARK_BYTES])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ada() -> Principal {
        Principal::of_tenant("acme", "ada").unwrap()
    }

    fn tokens() -> Tokens {
        let mut tokens = Tokens::new(Token::new("the operator's"));
        tokens.add(Token::new("ada's"), ada()).unwrap();
        tokens
            .add(Token::new("bob's"), Principal::of_tenant("acme", "bob").unwrap())
            .unwrap();
        tokens
    }

    #[test]
    fn each_stands_for_one() {
        let tokens = tokens();
        let name = |text: &str| tokens.principal(text.as_bytes()).map(Principal::name);
        assert_eq!(name("the operator's"), Some("operator"));
        assert_eq!(name("ada's"), Some("acme/ada"));
        assert_eq!(name("bob's"), Some("acme/bob"));
        for wrong in ["", "ada'", "ada's ", "acme/ada"] {
            assert_eq!(name(wrong), None, "{wrong:?}");
        }
        assert!(Tokens::new(Token::new("")).principal(b"").is_none());
    }

    /// Case A2: what is compared is of one length, and all of it is compared, whatever is presented. How long that
    /// takes is no test: a loaded machine would have the say.
    #[test]
    fn every_token_is_compared_whichever_is_right() {
        let tokens = tokens();
        let known: Vec<[u8; 32]> = tokens.all.iter().map(|(token, _)| *token.hash()).collect();
        let long = "x".repeat(1 << 20);
        for presented in ["the operator's", "ada's", "bob's", "ada'", "", &long] {
            let mut compared = Vec::new();
            let presented_hash = hash(presented.as_bytes());
            let found = tokens.find(&presented_hash, |token, shown| {
                assert_eq!(*shown, presented_hash);
                compared.push(*token);
                token.ct_eq(shown)
            });
            assert_eq!(compared, known, "{presented:.20}");
            assert_eq!(found, tokens.principal(presented.as_bytes()));
        }
    }

    #[test]
    fn a_token_is_not_given_twice() {
        let mut tokens = tokens();
        let eve = Principal::of_tenant("evil", "eve").unwrap();
        for taken in ["the operator's", "ada's"] {
            assert!(tokens.add(Token::new(taken), eve.clone()).is_err(), "{taken}");
        }
        assert_eq!(tokens.add(Token::new("ada's"), eve).unwrap_err(), ada());
        tokens.add(Token::new("ada's second"), ada()).unwrap();
    }

    #[test]
    fn a_digest_is_as_good_as_its_token() {
        let mut tokens = tokens();
        let eve = Principal::of_tenant("evil", "eve").unwrap();
        tokens
            .add(Token::of_digest(Sha256::digest(b"eve's").into()), eve.clone())
            .unwrap();
        assert_eq!(tokens.principal(b"eve's"), Some(&eve));
        assert!(tokens.add(Token::new("eve's"), ada()).is_err());
    }

    #[test]
    fn a_mark_goes_with_its_token() {
        let tokens = tokens();
        let mark = tokens.mark_hashed(&hash(b"ada's")).unwrap();
        assert_eq!(tokens.marked(&mark), Some(&ada()));
        assert_eq!(tokens.mark_hashed(&hash(b"unknown")), None);
        assert_eq!(
            tokens.marked(&tokens.operators_mark()),
            Some(&Principal::operator())
        );
        let mut next = Tokens::new(Token::new("the operator's"));
        next.add(Token::new("ada's next"), ada()).unwrap();
        assert_eq!(next.marked(&mark), None);
        assert_eq!(next.marked(""), None);
    }
}
