//! The checks of an id token's claims (`OpenID` Connect Core 3.1.3.7).

use serde_json::{Map, Value};
use subtle::ConstantTimeEq as _;

use crate::SignInError;

/// Tolerated difference between the clocks of provider and gateway, in seconds.
const LEEWAY: f64 = 60.0;
/// Characters of a subject.
const SUBJECT_CHARS: usize = 255;

/// Expected values of the claims.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpectedClaims<'a> {
    pub(crate) issuer: &'a str,
    pub(crate) client_id: &'a str,
    pub(crate) nonce: &'a str,
    /// Seconds since 1970.
    pub(crate) now: u64,
}

/// Checks the claims of a token whose signature was verified; gives its subject.
pub(crate) fn check(
    claims: &Map<String, Value>,
    expected: ExpectedClaims<'_>,
) -> Result<String, SignInError> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let fail = |check, reason: String| Err(SignInError::token(check, reason));
    if text("iss") != Some(expected.issuer) {
        return fail("issuer", format!("is not {:?}", expected.issuer));
    }
    audience(claims, expected.client_id)?;
    times(claims, expected.now)?;
    let nonce = text("nonce").unwrap_or_default();
    let same: bool = nonce.as_bytes().ct_eq(expected.nonce.as_bytes()).into();
    if !same {
        return fail("nonce", "is not that of this sign-in".to_owned());
    }
    match text("sub") {
        Some(subject) if !subject.is_empty() && subject.chars().count() <= SUBJECT_CHARS => {
            Ok(subject.to_owned())
        }
        _ => fail("subject", format!("has not 1 to {SUBJECT_CHARS} characters")),
    }
}

/// This client is the one, or one of several and the authorized one.
fn audience(claims: &Map<String, Value>, client_id: &str) -> Result<(), SignInError> {
    let fail = |reason: &str| Err(SignInError::token("audience", reason));
    let is_ours = |value: &Value| value.as_str() == Some(client_id);
    let several = match claims.get("aud") {
        Some(one @ Value::String(_)) if is_ours(one) => false,
        Some(Value::Array(all)) if all.iter().any(is_ours) => all.len() > 1,
        _ => return fail("does not name this gateway's client_id"),
    };
    match claims.get("azp") {
        None if several => fail("names several clients, and no authorized one (azp)"),
        Some(party) if !is_ours(party) => fail("another client is the authorized one (azp)"),
        _ => Ok(()),
    }
}

fn times(claims: &Map<String, Value>, now: u64) -> Result<(), SignInError> {
    let fail = |reason: &str| Err(SignInError::token("expiry", reason));
    #[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are exact for long")]
    let now = now as f64;
    let time = |name: &str| claims.get(name).map(|value| value.as_f64().unwrap_or(f64::NAN));
    // Comparisons with what is no number are false.
    match (time("exp"), time("iat")) {
        (Some(expiry), _) if expiry.is_finite() && expiry + LEEWAY <= now => fail("has expired (exp)"),
        (Some(expiry), Some(issued)) if expiry.is_finite() && issued <= now + LEEWAY => match time("nbf") {
            None => Ok(()),
            Some(from) if from <= now + LEEWAY => Ok(()),
            Some(_) => fail("is not valid yet (nbf)"),
        },
        (Some(_), Some(issued)) if issued > now + LEEWAY => {
            fail("was issued in the future (iat): compare the clocks")
        }
        _ => fail("has no times (exp, iat)"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn failed(change: &Value) -> &'static str {
        let mut claims = json!({
            "iss": "https://id.example", "sub": "s-1", "aud": "himalia", "nonce": "n",
            "exp": NOW + 300, "iat": NOW,
        });
        for (name, value) in change.as_object().unwrap() {
            if value.is_null() {
                claims.as_object_mut().unwrap().remove(name);
            } else {
                claims[name] = value.clone();
            }
        }
        let expected = ExpectedClaims {
            issuer: "https://id.example",
            client_id: "himalia",
            nonce: "n",
            now: NOW,
        };
        check(claims.as_object().unwrap(), expected).map_or_else(|error| error.check(), |_| "none")
    }

    #[test]
    fn each_claim_is_checked() {
        for (change, check) in [
            (json!({}), "none"),
            (json!({"iss": "https://id.example/"}), "issuer"),
            (json!({"iss": null}), "issuer"),
            (json!({"aud": "other"}), "audience"),
            (json!({"aud": null}), "audience"),
            (json!({"aud": []}), "audience"),
            (json!({"aud": ["himalia"]}), "none"),
            (json!({"aud": ["himalia", "other"]}), "audience"),
            (json!({"aud": ["himalia", "other"], "azp": "himalia"}), "none"),
            (json!({"azp": "other"}), "audience"),
            (json!({"azp": 1}), "audience"),
            (json!({"exp": NOW - 61}), "expiry"),
            (json!({"exp": NOW - 30}), "none"),
            (json!({"exp": null}), "expiry"),
            (json!({"exp": (NOW + 300).to_string()}), "expiry"),
            (json!({"iat": NOW + 61}), "expiry"),
            (json!({"iat": null}), "expiry"),
            (json!({"iat": "x"}), "expiry"),
            (json!({"nbf": NOW + 61}), "expiry"),
            (json!({"nbf": "x"}), "expiry"),
            (json!({"nbf": NOW}), "none"),
            (json!({"nonce": "m"}), "nonce"),
            (json!({"nonce": null}), "nonce"),
            (json!({"nonce": ""}), "nonce"),
            (json!({"sub": ""}), "subject"),
            (json!({"sub": null}), "subject"),
            (json!({"sub": "x".repeat(256)}), "subject"),
        ] {
            assert_eq!(failed(&change), check, "{change}");
        }
    }
}
