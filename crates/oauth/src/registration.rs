//! Registration of the gateway as a client (RFC 7591).

use bytes::Bytes;
use himalia_credentials::SecretText;
use serde::Deserialize;
use serde_json::json;

use crate::OAuthError;
use crate::call::{Transport, json as read, post};
use crate::discovery::{Server, confidential};
use crate::token::Client;

const WHAT: &str = "registration";
/// Client name on the consent page.
const NAME: &str = "Himalia";
/// Most bytes of an id that a server gives.
const ID_BYTES: usize = 1024;

#[derive(Deserialize)]
struct RegistrationResponse {
    client_id: Option<String>,
    client_secret: Option<SecretText>,
    token_endpoint_auth_method: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
}

/// Registers the gateway with this address for browsers that come back.
///
/// # Errors
/// The server registers no clients, or not this one.
pub async fn register(
    transport: &dyn Transport,
    server: &Server,
    redirect_uri: &str,
    scope: Option<&str>,
) -> Result<Client, OAuthError> {
    let Some(url) = &server.registration else {
        return Err(OAuthError::answer(
            WHAT,
            "the authorization server registers no clients by itself: register the gateway there, and set client_id",
        ));
    };
    let url = confidential(WHAT, "its address", url)?;
    let method = match server {
        _ if server.takes_public_clients => "none",
        _ if server.secret_in_body => "client_secret_post",
        _ => "client_secret_basic",
    };
    let is_web = redirect_uri.starts_with("https://");
    let mut wanted = json!({
        "client_name": NAME,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "application_type": if is_web { "web" } else { "native" },
        "token_endpoint_auth_method": method,
    });
    if let Some(scope) = scope {
        wanted["scope"] = scope.into();
    }
    let body = Bytes::from(wanted.to_string());
    let response = post(transport, WHAT, &url, ("application/json", body), None).await?;
    let registered: RegistrationResponse = read(WHAT, &response)?;
    if let Some(error) = registered.error {
        return Err(OAuthError::refused(
            &error,
            registered.error_description.as_deref(),
        ));
    }
    let id = registered.client_id.filter(|id| {
        (1..=ID_BYTES).contains(&id.len()) && id.bytes().all(|byte| (b' '..=b'~').contains(&byte))
    });
    let id = id.ok_or_else(|| {
        OAuthError::answer(
            WHAT,
            format!("status {}, without a client_id", response.status().as_u16()),
        )
    })?;
    let method = registered.token_endpoint_auth_method;
    Ok(Client {
        id,
        secret: registered
            .client_secret
            .filter(|_| method.as_deref() != Some("none")),
        secret_in_body: match method.as_deref() {
            Some("client_secret_post") => true,
            Some("client_secret_basic") => false,
            _ => server.secret_in_body,
        },
    })
}
