//! The person who signed in.

use serde_json::{Map, Value};

/// Values of one claim that are looked at.
const MOST: usize = 1000;

/// The person who signed in, from the provider's claims.
#[derive(Clone, Debug, PartialEq)]
pub struct Person {
    subject: String,
    claims: Map<String, Value>,
}

impl Person {
    /// `subject` is that of the claims, which were checked.
    pub fn new(subject: String, claims: Map<String, Value>) -> Self {
        Self { subject, claims }
    }

    /// Subject of the person at the provider, which never gives it to another person.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The texts of a claim: one, those of a list, or none. A claim within another one is named with dots (`realm_access.roles`), unless
    /// there is one with this very name. Of a provider that does not vouch for an email address (`email_verified`), none is taken.
    pub fn texts(&self, claim: &str) -> Vec<&str> {
        if claim == "email" && self.claims.get("email_verified") != Some(&Value::Bool(true)) {
            return Vec::new();
        }
        match self.find(claim) {
            Some(Value::String(text)) => vec![text],
            Some(Value::Array(all)) => all.iter().take(MOST).filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }

    fn find(&self, claim: &str) -> Option<&Value> {
        self.claims.get(claim).or_else(|| {
            let mut names = claim.split('.');
            let first = self.claims.get(names.next()?)?;
            names.try_fold(first, |value, name| value.get(name))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_are_found_by_name_and_by_path() {
        let claims = json!({
            "sub": "s", "one": "a", "many": ["a", 1, "b"], "number": 1,
            "https://x.example/groups": ["c"], "realm_access": {"roles": ["d"]},
            "email": "ada@x.example"
        });
        let mut person = Person::new("s".into(), claims.as_object().unwrap().clone());
        for (claim, texts) in [
            ("one", &["a"][..]),
            ("many", &["a", "b"]),
            ("number", &[]),
            ("absent", &[]),
            ("https://x.example/groups", &["c"]),
            ("realm_access.roles", &["d"]),
            ("realm_access", &[]),
            ("email", &[]),
        ] {
            assert_eq!(person.texts(claim), texts, "{claim}");
        }
        person.claims.insert("email_verified".into(), json!(true));
        assert_eq!(person.texts("email"), ["ada@x.example"]);
    }
}
