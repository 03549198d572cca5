//! `POST /viewer/sign-in` and `/viewer/sign-out`: a browser's way to be known without keeping the token.

use std::time::SystemTime;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::base;
use crate::app::App;
use crate::auth::cookie::{self, Cookie};
use crate::auth::{hash, wrong_token};
use crate::body;
use crate::error::ApiError;
use crate::listen::Peer;

/// Bytes of a request's body.
const BODY_BYTES: usize = 4096;

/// `POST /viewer/sign-in` `{"token"}` or `{"code"}`: 204 with the cookie, or 401. The browser gets the principal of the
/// token. The code of the link that `serve` prints is valid once, for the operator. A wrong code counts as a wrong
/// token.
pub(crate) async fn sign_in(
    State(app): State<App>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let mut fields = body::fields_within(&app, &headers, body, BODY_BYTES)
        .await?
        .unwrap_or_default();
    let (token, code) = (fields.string("token")?, fields.string("code")?);
    fields.finish()?;
    let now = SystemTime::now();
    let tokens = app.tokens();
    let mark = match (token, code) {
        (Some(token), None) => tokens.mark(token.trim().as_bytes()),
        (None, Some(code)) => {
            let taken = app.sign_ins().take_code(code.as_bytes(), now);
            taken.then(|| tokens.operators_mark())
        }
        _ => return Err(ApiError::bad_request("expected token or code")),
    };
    let peer = peer.as_ref().map(|Extension(peer)| peer);
    let Some(mark) = mark else {
        return Err(wrong_token(&app, peer));
    };
    if let (Some(peer), Some(principal)) = (peer, tokens.marked(&mark)) {
        peer.admit(app.engine(), principal)?;
    }
    let secret = app.sign_ins().sign_in(&mark, now).map_err(|error| {
        tracing::error!(%error, "the random number generator failed");
        ApiError::internal("making a sign-in")
    })?;
    Ok(done(&app, &headers, &secret))
}

/// `POST /viewer/sign-out`: 204; the sign-in of the request's cookie has ended, if it had one, and with it the streams
/// and sockets that it had opened.
pub(crate) async fn sign_out(
    State(app): State<App>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
) -> Response {
    let peer = peer.as_ref().map(|Extension(peer)| peer);
    for secret in cookie::presented(&headers) {
        let hash = hash(secret.as_bytes());
        app.sign_ins().sign_out(secret);
        app.holders().end_signed(&hash, peer);
        // The answer still goes to this connection.
        if let Some(peer) = peer {
            peer.forget();
        }
        if let Err(error) = app.engine().sign_out(&hash).await {
            tracing::error!(%error, "a sign-in cannot be ended");
            return ApiError::from(error).into_response();
        }
    }
    done(&app, &headers, "")
}

fn done(app: &App, request: &HeaderMap, secret: &str) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let cookie = Cookie::of_sign_in(&base::of(request, &app.url("")), false);
    if let Some(mut set) = cookie.set(request, secret) {
        set.set_sensitive(true);
        headers.insert(header::SET_COOKIE, set);
    }
    response
}
