//! All tokens that count at one moment: those of the configuration, and those that were made since.

use std::sync::Arc;

use himalia_engine::{IssuedTokens, Principal, issued_mark, issued_of_mark};

use super::token::hash;
use super::tokens::{ShownCredential, Tokens};

/// The principals of all tokens, at one moment.
#[derive(Clone, Debug)]
pub(crate) struct ValidTokens {
    configured: Arc<Tokens>,
    issued: Arc<IssuedTokens>,
    /// Microseconds since 1970.
    now: i64,
}

impl ValidTokens {
    pub(crate) fn new(configured: Arc<Tokens>, issued: Arc<IssuedTokens>, now: i64) -> Self {
        Self {
            configured,
            issued,
            now,
        }
    }

    pub(crate) fn principal(&self, presented: &[u8]) -> Option<&Principal> {
        self.hashed(&hash(presented))
    }

    fn hashed(&self, hash: &[u8; 32]) -> Option<&Principal> {
        let configured = self.configured.hashed(hash);
        configured.or_else(|| Some(self.issued.find(hash, self.now)?.1))
    }

    /// The token or sign-in of a request, for the audit log. It reveals nothing of the secret. A token that was made at run time has its
    /// id.
    pub(crate) fn credential(&self, shown: &ShownCredential) -> String {
        let issued = self.issued.find(&shown.hash, self.now);
        issued.map_or_else(|| shown.credential(), |(id, _)| format!("token:{id}"))
    }

    /// Checks whether a connection that showed this for this principal may continue.
    pub(crate) fn still(&self, shown: &ShownCredential, principal: &Principal) -> bool {
        let now = match &shown.mark {
            Some(mark) => self.marked(mark),
            None => self.hashed(&shown.hash),
        };
        now == Some(principal)
    }

    /// The mark under which a sign-in with a token is stored. It reveals nothing of the token. If another token takes its place, the
    /// sign-in is void.
    pub(crate) fn mark(&self, presented: &[u8]) -> Option<String> {
        self.mark_hashed(&hash(presented))
    }

    /// The same, if it is a token that was made at run time.
    pub(crate) fn issued_mark(&self, presented: &[u8]) -> Option<String> {
        self.issued_mark_hashed(&hash(presented))
    }

    fn issued_mark_hashed(&self, hash: &[u8; 32]) -> Option<String> {
        Some(issued_mark(self.issued.find(hash, self.now)?.0))
    }

    fn mark_hashed(&self, hash: &[u8; 32]) -> Option<String> {
        let configured = self.configured.mark_hashed(hash);
        configured.or_else(|| self.issued_mark_hashed(hash))
    }

    /// The mark of what was shown.
    pub(crate) fn mark_of(&self, shown: &ShownCredential) -> Option<String> {
        shown.mark.clone().or_else(|| self.mark_hashed(&shown.hash))
    }

    /// The marks of all tokens whose holders see the objects of this owner.
    pub(crate) fn marks(&self, owner: &str) -> Vec<String> {
        let issued = self.issued.ids_of(self.now, |holder| holder.sees(owner));
        let mut marks = self.configured.marks(owner);
        marks.extend(issued.into_iter().map(issued_mark));
        marks
    }

    pub(crate) fn operators_mark(&self) -> String {
        self.configured.operators_mark()
    }

    /// The principal of the token with this mark.
    pub(crate) fn marked(&self, mark: &str) -> Option<&Principal> {
        match issued_of_mark(mark) {
            Some(id) => self.issued.holder(id, self.now),
            None => self.configured.marked(mark),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Token;

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
    fn what_was_shown_counts_as_long_as_it_stands_for_the_same() {
        let (before, mut now) = (tokens(), Tokens::new(Token::new("the operator's next")));
        let shown = |text: &str| {
            let mark = before.mark_hashed(&hash(text.as_bytes())).unwrap();
            let signed_in = ShownCredential {
                kind: "browser",
                hash: [0; 32],
                mark: Some(mark),
            };
            [ShownCredential::token(text.as_bytes()), signed_in]
        };
        now.add(Token::new("ada's"), ada()).unwrap();
        now.add(Token::new("bob's"), ada().read_only()).unwrap();
        let known = |tokens: &Tokens| ValidTokens::new(Arc::new(tokens.clone()), Arc::default(), 0);
        let bob = Principal::of_tenant("acme", "bob").unwrap();
        let operator = Principal::operator();
        for (text, who, still) in [
            ("ada's", &ada(), true),
            ("bob's", &bob, false),
            ("the operator's", &operator, false),
        ] {
            for shown in shown(text) {
                assert!(known(&before).still(&shown, who), "{text}");
                assert_eq!(known(&now).still(&shown, who), still, "{text}");
            }
        }
        assert_eq!(before.without(&now), ["operator", "acme/bob"]);
        assert_eq!(now.without(&before), ["operator", "acme/ada"]);
    }
}
