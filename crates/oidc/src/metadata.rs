//! Metadata of the provider (`OpenID` Connect Discovery).

use himalia_oauth::is_safe;
use reqwest::{Client, Url};
use serde::Deserialize;

use crate::SignInError;
use crate::fetch;

const WHAT: &str = "discovery";

/// The part of the metadata that is used.
#[derive(Clone, Debug)]
pub(crate) struct Metadata {
    pub(crate) authorization: Url,
    pub(crate) token: Url,
    pub(crate) keys: Url,
    /// True if the client's secret goes into the body, since the provider takes no `Authorization` header.
    pub(crate) secret_in_body: bool,
    /// True if the provider's redirect names its issuer (RFC 9207).
    pub(crate) names_issuer: bool,
}

#[derive(Debug, Deserialize)]
struct PublishedMetadata {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

impl Metadata {
    pub(crate) async fn fetch(http: &Client, issuer: &str) -> Result<Self, SignInError> {
        let address = format!(
            "{}/.well-known/openid-configuration",
            issuer.trim_end_matches('/')
        );
        let (status, published) = fetch::json::<serde_json::Value>(WHAT, http.get(&address)).await?;
        if !status.is_success() {
            return Err(bad(format!("{address} has status {}", status.as_u16())));
        }
        let published = serde_json::from_value(published).map_err(|error| bad(error.to_string()))?;
        Self::check(published, issuer)
    }

    fn check(published: PublishedMetadata, issuer: &str) -> Result<Self, SignInError> {
        if published.issuer != issuer {
            return Err(bad(format!(
                "the issuer is {:?}, and {issuer:?} in the settings of this gateway",
                published.issuer
            )));
        }
        let pkce = published.code_challenge_methods_supported;
        if pkce.is_some_and(|methods| !methods.iter().any(|method| method == "S256")) {
            return Err(bad("the provider does not support PKCE with S256"));
        }
        let url = |name: &str, text: &str| match Url::parse(text) {
            Ok(url) if is_safe(&url) => Ok(url),
            _ => Err(bad(format!("{name} must be an https:// address"))),
        };
        let methods = published.token_endpoint_auth_methods_supported;
        let takes = |name: &str| {
            methods
                .as_ref()
                .is_none_or(|methods| methods.iter().any(|method| method == name))
        };
        Ok(Self {
            authorization: url("authorization_endpoint", &published.authorization_endpoint)?,
            token: url("token_endpoint", &published.token_endpoint)?,
            keys: url("jwks_uri", &published.jwks_uri)?,
            secret_in_body: !takes("client_secret_basic") && takes("client_secret_post"),
            names_issuer: published.authorization_response_iss_parameter_supported,
        })
    }
}

fn bad(reason: impl Into<String>) -> SignInError {
    SignInError::Answer {
        what: WHAT,
        reason: reason.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn checked(change: &Value) -> Result<Metadata, String> {
        let mut all = json!({
            "issuer": "https://id.example",
            "authorization_endpoint": "https://id.example/a",
            "token_endpoint": "https://id.example/t",
            "jwks_uri": "https://id.example/k",
        });
        for (name, value) in change.as_object().unwrap() {
            all[name] = value.clone();
        }
        Metadata::check(serde_json::from_value(all).unwrap(), "https://id.example")
            .map_err(|error| error.to_string())
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        assert!(checked(&json!({})).is_ok());
        for (change, word) in [
            (json!({"issuer": "https://id.example/"}), "issuer"),
            (json!({"token_endpoint": "http://id.example/t"}), "token_endpoint"),
            (json!({"jwks_uri": "file:///k"}), "jwks_uri"),
            (json!({"code_challenge_methods_supported": ["plain"]}), "PKCE"),
        ] {
            let said = checked(&change).unwrap_err();
            assert!(said.contains(word), "{said}");
        }
    }

    #[test]
    fn the_secret_goes_where_the_provider_takes_it() {
        let in_body = |methods: Value| {
            checked(&json!({"token_endpoint_auth_methods_supported": methods}))
                .unwrap()
                .secret_in_body
        };
        assert!(!in_body(Value::Null) && !in_body(json!(["client_secret_post", "client_secret_basic"])));
        assert!(in_body(json!(["client_secret_post"])));
    }
}
