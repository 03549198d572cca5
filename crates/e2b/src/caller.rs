//! Caller, sandbox and credentials of a request.

use axum::body::Body;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use himalia_engine::{Engine, Principal, SessionId, SessionInfo};
pub(crate) use himalia_facade::Caller;
use himalia_facade::whole;
use serde::de::DeserializeOwned;
use time::OffsetDateTime;

use crate::failure::Failure;
use crate::limits::MESSAGE_BYTES;

/// The header that names the sandbox.
const SANDBOX_ID: &str = "e2b-sandbox-id";

/// True for a sandbox that has ended, and for one whose time has come: it ends up to a few seconds later.
pub(crate) fn is_over(info: &SessionInfo) -> bool {
    let expired = info
        .session
        .expires()
        .is_some_and(|end| end <= OffsetDateTime::now_utc());
    info.end.is_some() || expired
}

/// The name of a sandbox as the client has it, in the path or in the header.
#[derive(Clone, Debug)]
pub(crate) struct SandboxName(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for SandboxName {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, StatusCode> {
        let path = Path::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        let in_path = path.ok().and_then(|Path(all)| {
            let mut named = all.into_iter().filter(|(name, _)| name == "sandbox");
            named.next().map(|(_, value)| value)
        });
        let header = parts
            .headers
            .get(SANDBOX_ID)
            .and_then(|value| value.to_str().ok());
        let name = in_path.or_else(|| header.map(str::to_owned));
        Ok(Self(name.unwrap_or_default()))
    }
}

impl SandboxName {
    /// The session, as the control plane finds it.
    pub(crate) fn session(&self, engine: &Engine, principal: &Principal) -> Result<SessionId, Failure> {
        let found = engine.find_session(principal, &self.0);
        found.map_err(|error| Failure::of_sandbox(error, &self.0))
    }

    /// The session of a sandbox that must run: its first kernel is known to live.
    pub(crate) fn running(&self, engine: &Engine, principal: &Principal) -> Result<SessionId, Failure> {
        if self.0.is_empty() {
            return Err(Failure::field(SANDBOX_ID, "the header names no sandbox"));
        }
        let at_sandbox = |error| Failure::at_sandbox(error, &self.0);
        let session = engine.find_session(principal, &self.0).map_err(at_sandbox)?;
        engine
            .kernel(principal, session.first_kernel())
            .map_err(at_sandbox)?;
        let info = engine.session_info(principal, session.first_kernel());
        if is_over(&info.map_err(at_sandbox)?) {
            return Err(Failure::not_running(&self.0));
        }
        Ok(session)
    }
}

/// The domain that answers name: the host at which the client reached the gateway, with its port.
#[derive(Clone, Debug)]
pub(crate) struct Domain(pub(crate) String);

/// In place of a host that no client can have used. Nothing has a name below it.
const NO_DOMAIN: &str = "himalia.invalid";

impl<S: Send + Sync> FromRequestParts<S> for Domain {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let header = parts
            .headers
            .get(header::HOST)
            .and_then(|host| host.to_str().ok());
        // HTTP/2 has it in the address.
        let host = header.or_else(|| parts.uri.authority().map(axum::http::uri::Authority::as_str));
        let host = host.filter(|host| !host.is_empty() && !host.contains('@'));
        Ok(Self(host.unwrap_or(NO_DOMAIN).to_owned()))
    }
}

/// Reads a message: an empty body is one without members.
pub(crate) async fn message<T: DeserializeOwned>(body: Body) -> Result<T, Failure> {
    let bytes = whole(body, MESSAGE_BYTES).await?;
    let bytes: &[u8] = if bytes.trim_ascii().is_empty() {
        b"{}"
    } else {
        &bytes
    };
    serde_json::from_slice(bytes).map_err(|error| {
        Failure::new(
            StatusCode::BAD_REQUEST,
            format!("the body cannot be read: {error}"),
        )
    })
}
