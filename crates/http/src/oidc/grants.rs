//! From a person to a principal.

use himalia_engine::{NewToken, Principal, Scope};
use himalia_oidc::Person;
use sha2::{Digest as _, Sha256};

use super::Oidc;

/// The value that fits every person.
const ANY: &str = "*";
/// Characters of a caller's name that a claim gives, where the rest tells names apart.
const PART_CHARS: usize = 40;
/// Bytes of a hash that tell names apart.
const HASH_BYTES: usize = 8;
/// Characters of the subject and of the issuer in the description of a sign-in.
const SHOWN_CHARS: usize = 120;

/// The rights of people with this value of the claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The value, such as the name of a group; `*` fits every person whom the provider lets sign in.
    pub value: String,
    /// The tenant that they are callers of; `None`: the operator.
    pub tenant: Option<String>,
    /// The scope of their rights.
    pub scope: Scope,
}

/// The sign-in of a person; `None` if no grant fits.
pub(super) fn sign_in(oidc: &Oidc, person: &Person) -> Option<NewToken> {
    let values = person.texts(&oidc.grants_claim);
    let fits = |grant: &&Grant| grant.value == ANY || values.contains(&grant.value.as_str());
    let grant = oidc.grants.iter().find(fits)?;
    let name = person.texts(&oidc.caller_claim).into_iter().next();
    let shown = |text: &str| {
        let text = text.chars().filter(char::is_ascii_graphic);
        text.take(SHOWN_CHARS).collect::<String>()
    };
    Some(NewToken {
        tenant: grant.tenant.clone(),
        caller: caller(name.unwrap_or_else(|| person.subject())),
        scope: grant.scope,
        description: format!("sign-in of {} at {}", shown(person.subject()), shown(&oidc.name)),
        lifetime: Some(oidc.lifetime),
    })
}

/// A name of a caller. What can be one stays as it is; else other characters become `_`, and a part of a hash of the whole tells names
/// apart.
fn caller(text: &str) -> String {
    if Principal::of_tenant("x", text).is_ok() {
        return text.to_owned();
    }
    let plain = |c: char| {
        let is_plain = c.is_ascii_alphanumeric() || "._-".contains(c);
        if is_plain { c } else { '_' }
    };
    let part: String = text.chars().take(PART_CHARS).map(plain).collect();
    let digest = Sha256::digest(text.as_bytes());
    let hash = hex::encode(digest.get(..HASH_BYTES).unwrap_or_default());
    format!("{part}-{hash}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use himalia_oidc::{Algorithm, CookieKey, Provider, ProviderSettings};
    use serde_json::{Value, json};

    use super::*;

    fn oidc() -> Oidc {
        let settings = ProviderSettings {
            issuer: "http://127.0.0.1:1".into(),
            client_id: "himalia".into(),
            client_secret: None,
            redirect_url: "http://127.0.0.1:2/viewer/oidc/callback".into(),
            scopes: Vec::new(),
            algorithms: vec![Algorithm::Es256],
            ca: None,
            cookie_key: CookieKey::new(&[0; 32]).unwrap(),
        };
        let grant = |value: &str, tenant: Option<&str>, scope| Grant {
            value: value.into(),
            tenant: tenant.map(str::to_owned),
            scope,
        };
        Oidc {
            provider: Provider::new(settings).unwrap(),
            name: "Example".into(),
            caller_claim: "preferred_username".into(),
            grants_claim: "groups".into(),
            grants: vec![
                grant("operators", None, Scope::Admin),
                grant("analysts", Some("acme"), Scope::Execute),
                grant("*", Some("guests"), Scope::Read),
            ],
            lifetime: Duration::from_hours(1),
        }
    }

    fn person(claims: &Value) -> Person {
        Person::new("subject-1".into(), claims.as_object().unwrap().clone())
    }

    #[test]
    fn the_first_grant_that_fits_counts() {
        let mut oidc = oidc();
        for (groups, tenant, scope) in [
            (json!(["analysts", "operators"]), None, Scope::Admin),
            (json!(["x", "analysts"]), Some("acme"), Scope::Execute),
            (json!("analysts"), Some("acme"), Scope::Execute),
            (json!(["Analysts", "analysts "]), Some("guests"), Scope::Read),
            (Value::Null, Some("guests"), Scope::Read),
        ] {
            let made = sign_in(
                &oidc,
                &person(&json!({"groups": groups, "preferred_username": "ada"})),
            )
            .unwrap();
            assert_eq!((made.tenant.as_deref(), made.scope), (tenant, scope));
            assert_eq!(made.caller, "ada");
            assert_eq!(made.description, "sign-in of subject-1 at Example");
        }
        oidc.grants.pop();
        assert!(sign_in(&oidc, &person(&json!({"groups": ["x", "*"]}))).is_none());
        assert_eq!(
            sign_in(&oidc, &person(&json!({"groups": "operators"})))
                .unwrap()
                .caller,
            "subject-1",
            "without the claim, the subject is the name"
        );
    }

    #[test]
    fn names_that_differ_stay_different() {
        assert_eq!(caller("ada.l-1_x"), "ada.l-1_x");
        let long = "x".repeat(300);
        let names = [
            "ada@x.example",
            "ada_x.example",
            "auth0|5",
            "operator",
            "",
            "\u{e4}",
            &long,
        ];
        let mut made: Vec<_> = names.iter().map(|name| caller(name)).collect();
        for (name, caller) in names.iter().zip(&made) {
            assert!(Principal::of_tenant("t", caller).is_ok(), "{name} {caller}");
        }
        assert!(made[0].starts_with("ada_x.example-"), "{}", made[0]);
        made.sort();
        made.dedup();
        assert_eq!(made.len(), names.len());
    }
}
