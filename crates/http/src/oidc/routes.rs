//! `GET /viewer/sign-in`, `/viewer/oidc` and `/viewer/oidc/callback`.

use std::time::SystemTime;

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use himalia_engine::Principal;
use himalia_oidc::{Callback, STATE_LIFETIME, SignInError};
use serde_json::{Value, json};

use super::answer::Failure;
use super::{Oidc, grants};
use crate::app::App;
use crate::auth::{SignedIn, cookie};
use crate::error::ApiError;
use crate::listen::Peer;
use crate::query;
use crate::request_id::RequestId;
use crate::viewer;

/// `GET /viewer/sign-in`: which ways there are to sign in beside a token. `oidc` is `null`, or has the `name` of the identity provider.
pub(crate) async fn ways(State(app): State<App>) -> Json<Value> {
    let oidc = app
        .config()
        .oidc
        .as_ref()
        .map(|oidc| json!({ "name": oidc.name }));
    Json(json!({ "oidc": oidc }))
}

/// `GET /viewer/oidc`: to the page of the identity provider, 303.
pub(crate) async fn start(
    State(app): State<App>,
    id: Option<Extension<RequestId>>,
    request: HeaderMap,
) -> Response {
    let root = viewer::base_of(&request, &app.url("")).into_owned();
    let id = id.as_ref().map(|Extension(id)| id);
    let Some(oidc) = &app.config().oidc else {
        return absent().answer(&request, &root, id);
    };
    match oidc.provider.begin(SystemTime::now()).await {
        Ok(started) => {
            let cookie = cookie::Cookie::of_flow(&root, is_secure(oidc), STATE_LIFETIME);
            redirect(&started.url, [cookie.set(&request, &started.cookie)])
        }
        Err(error) => {
            log(&error);
            Failure::from(&error).answer(&request, &root, id)
        }
    }
}

/// `GET /viewer/oidc/callback`: where the identity provider sends a browser back to. 303 to the viewer with the cookie of the sign-in.
pub(crate) async fn callback(
    State(app): State<App>,
    peer: Option<Extension<Peer>>,
    id: Option<Extension<RequestId>>,
    uri: Uri,
    request: HeaderMap,
) -> Response {
    let root = viewer::base_of(&request, &app.url("")).into_owned();
    let Some(oidc) = &app.config().oidc else {
        return absent().answer(&request, &root, id.as_ref().map(|Extension(id)| id));
    };
    // Whatever the outcome is, this sign-in cannot be finished again.
    let flow = cookie::Cookie::of_flow(&root, is_secure(oidc), STATE_LIFETIME);
    let used = flow.set(&request, "");
    let peer = peer.as_ref().map(|Extension(peer)| peer);
    match finish(&app, oidc, peer, &uri, &request).await {
        Ok((secret, note)) => {
            let cookie = cookie::Cookie::of_sign_in(&root, is_secure(oidc));
            let mut response = redirect(&format!("{root}/"), [used, cookie.set(&request, &secret)]);
            response.extensions_mut().insert(note);
            response
        }
        Err(failure) => {
            let mut response = failure.answer(&request, &root, id.as_ref().map(|Extension(id)| id));
            if let Some(used) = used {
                response.headers_mut().append(header::SET_COOKIE, used);
            }
            response
        }
    }
}

/// The secret of the new sign-in, and who it is.
async fn finish(
    app: &App,
    oidc: &Oidc,
    peer: Option<&Peer>,
    uri: &Uri,
    request: &HeaderMap,
) -> Result<(String, SignedIn), Failure> {
    let one = |name: &str| {
        let mut all = query::all(uri, name).into_iter();
        let first = all.next();
        first.filter(|_| all.next().is_none())
    };
    let sent = Callback {
        code: one("code"),
        state: one("state"),
        error: one("error"),
        error_description: one("error_description"),
        issuer: one("iss"),
    };
    let cookies = cookie::flows(request);
    let finished = oidc.provider.finish(&cookies, sent, SystemTime::now()).await;
    let person = match finished {
        Ok(person) => person,
        Err(error) => {
            log(&error);
            return Err(Failure::from(&error));
        }
    };
    let Some(new) = grants::sign_in(oidc, &person) else {
        tracing::warn!(
            subject = person.subject(),
            claim = oidc.grants_claim,
            values = person.texts(&oidc.grants_claim).len(),
            "a sign-in was refused: none of [[oidc.grants]] fits a value of this claim"
        );
        return Err(Failure::new(
            StatusCode::FORBIDDEN,
            "sign_in_not_granted",
            "The identity provider knows you, but no group of yours may use this gateway. Ask the operator of this gateway for access.",
        ));
    };
    let owner = new
        .tenant
        .clone()
        .unwrap_or_else(|| Principal::operator().owner().to_owned());
    let principal = Principal::of_owner(&owner, &new.caller).map_err(ApiError::from)?;
    let principal = principal.with_scope(new.scope);
    if let Some(peer) = peer {
        peer.admit(app.engine(), &principal).map_err(ApiError::from)?;
    }
    let (made, secret) = app.engine().sign_in(new).await.map_err(|error| {
        tracing::error!(subject = person.subject(), %error, "a sign-in cannot be kept");
        ApiError::from(error)
    })?;
    let note = SignedIn {
        principal: Some(principal),
        subject: Some(person.subject().to_owned()),
        credential: Some(format!("token:{}", made.id)),
        code: None,
    };
    Ok((secret, note))
}

fn log(error: &SignInError) {
    tracing::warn!(check = error.check(), "a sign-in failed: {error}");
}

fn absent() -> Failure {
    Failure::new(
        StatusCode::NOT_FOUND,
        "not_found",
        "This gateway has no identity provider. Sign in with a token.",
    )
}

/// Checks whether browsers reach the gateway by TLS, by its settings.
fn is_secure(oidc: &Oidc) -> bool {
    oidc.provider.redirect_url().starts_with("https://")
}

fn redirect(to: &str, cookies: impl IntoIterator<Item = Option<HeaderValue>>) -> Response {
    let Ok(to) = HeaderValue::from_str(to) else {
        return ApiError::internal("an address that cannot stand in a header").into_response();
    };
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    headers.insert(header::LOCATION, to);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    for mut cookie in cookies.into_iter().flatten() {
        cookie.set_sensitive(true);
        headers.append(header::SET_COOKIE, cookie);
    }
    response
}
