//! The layer that every request passes before any handler: origin, then token or cookie.

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use himalia_cluster::RelayedPrincipal;
use himalia_engine::{CallOrigin, Principal};

use super::audit::AuditedRequest;
use super::authenticator::{Authenticator, Identity, UnknownCaller};
use super::bearer::BearerTokens;
use super::browser::BrowserSignIns;
use super::caller::Caller;
use super::challenge::Challenge;
use super::origin::{Origin, judge};
use super::sandbox::SandboxCredentials;
use super::tokens::ShownCredential;
use crate::app::App;
use crate::error::ApiError;
use crate::labels::RouteLabel;
use crate::listen::Peer;
use crate::request_id::RequestId;
use crate::route::{Access, Route};
use crate::routes;
use crate::traced::InSpan;
use crate::ws::Handshake;

/// The sources of identity, in the order in which they are asked. The principal of a relayed request is none of them: the replica of the
/// client has asked them.
const AUTHENTICATORS: [&dyn Authenticator; 3] = [&SandboxCredentials, &BearerTokens, &BrowserSignIns];

/// The error of the source whose credential is wrong.
struct Refusal {
    error: ApiError,
    /// True if another replica may have issued the credential a moment ago.
    may_be_new: bool,
}

/// Refuses pages of foreign origins (404 as `jupyter_server` does, 403 for a WebSocket, and for MCP, which demands it)
/// and requests without the token (401), unless the route is public. Unknown paths need the token as well.
pub(crate) async fn authenticate(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>().cloned();
    let route = path
        .as_ref()
        .and_then(|path| routes::matched(request.method(), path));
    let label = match route {
        Some(route) => Some(RouteLabel(route.path)),
        None => path.as_ref().and_then(routes::label),
    };
    if let Some(route) = route {
        request.extensions_mut().insert(route);
    }
    let challenge = path
        .as_ref()
        .is_some_and(|path| path.as_str() == "/mcp")
        .then(|| Challenge::of(&app, request.headers()));
    let mut response = judged(app, route, request, next).await;
    if let Some(challenge) = challenge {
        challenge.add(&mut response);
    }
    if let Some(label) = label {
        response.extensions_mut().insert(label);
    }
    response
}

async fn judged(app: App, route: Option<&'static Route>, mut request: Request, next: Next) -> Response {
    if let Some(RelayedPrincipal(principal)) = request.extensions().get::<RelayedPrincipal>().cloned() {
        return relayed(&app, principal, route, request, next).await;
    }
    let path = request.extensions().get::<MatchedPath>().cloned();
    let pattern = path.as_ref().map(MatchedPath::as_str);
    let access = route.map(|route| route.access);
    if request.headers().get_all(header::HOST).iter().nth(1).is_some() {
        return ApiError::bad_request("Host: is given more than once").into_response();
    }
    let origin = judge(request.headers(), &app.config().allow_origin);
    if origin == Origin::Refused && access != Some(Access::Anywhere) {
        let is_websocket = request.headers().contains_key(header::SEC_WEBSOCKET_KEY);
        let error = if is_websocket || pattern == Some("/mcp") {
            ApiError::forbidden("this origin is not allowed")
        } else {
            ApiError::not_found("Not Found")
        };
        return error.into_response();
    }
    let method = request.method().clone();
    let is_websocket = Handshake::is_asked(request.headers());
    let peer = request.extensions().get::<Peer>();
    let via = CallOrigin {
        peer: peer.map(Peer::address),
        credential: None,
        mark: None,
        request: request
            .extensions()
            .get::<RequestId>()
            .map(|id| id.as_str().to_owned()),
        trace: request.extensions().get::<InSpan>().map(|span| span.0),
        held: None,
    };
    let needs_token = access.is_none_or(|access| access == Access::Token);
    let response = if needs_token {
        let identified = identify(&app, &mut request, pattern, &origin).await;
        let peer = request.extensions().get::<Peer>();
        let (principal, shown) = match identified {
            Ok(known) => known,
            Err(error) => {
                let asked = AuditedRequest::new(&method, pattern, via);
                asked.refused(app.engine(), None, error.status);
                if error.status == StatusCode::TOO_MANY_REQUESTS {
                    app.backoff().hold_back().await;
                }
                return error.into_response();
            }
        };
        let via = CallOrigin {
            credential: Some(app.tokens().credential(&shown)),
            mark: app.tokens().mark_of(&shown),
            ..via
        };
        let principal = principal.came(via.clone());
        let let_in = admitted(&app, &principal, &shown, peer)
            .and_then(|()| Ok(app.engine().count_request(&principal)?))
            .and_then(|()| in_scope(&principal, &method, route, is_websocket));
        let response = match let_in {
            Ok(()) => {
                request.extensions_mut().insert(Caller(principal.clone()));
                next.run(request).await
            }
            Err(error) => {
                let asked = AuditedRequest::new(&method, pattern, via);
                asked.refused(app.engine(), Some(&principal), error.status);
                error.into_response()
            }
        };
        held_back(&app, &principal, response).await
    } else {
        let asked = AuditedRequest::new(&method, pattern, via);
        let mut response = next.run(request).await;
        asked.answered(app.engine(), &mut response);
        response
    };
    // The route's pattern: neither ids nor a query with a token.
    tracing::debug!(%method, route = pattern, status = response.status().as_u16());
    response
}

/// A request whose principal another replica knows: origin and token were checked there.
async fn relayed(
    app: &App,
    principal: Principal,
    route: Option<&'static Route>,
    mut request: Request,
    next: Next,
) -> Response {
    let path = request.extensions().get::<MatchedPath>().cloned();
    let pattern = path.as_ref().map(MatchedPath::as_str);
    let method = request.method().clone();
    let let_in = app.engine().count_request(&principal).map_err(ApiError::from);
    let let_in = let_in.and_then(|()| in_scope(&principal, &method, route, false));
    let response = match let_in {
        Ok(()) => {
            request.extensions_mut().insert(Caller(principal.clone()));
            next.run(request).await
        }
        Err(error) => {
            let via = principal.via().cloned().unwrap_or_default();
            AuditedRequest::new(&method, pattern, via).refused(app.engine(), Some(&principal), error.status);
            error.into_response()
        }
    };
    held_back(app, &principal, response).await
}

/// The one place where a principal's answers pass: one that a limit refuses waits.
async fn held_back(app: &App, principal: &Principal, response: Response) -> Response {
    let error = response.extensions().get::<Box<ApiError>>();
    if error.is_some_and(|error| error.is_limit) {
        app.engine().hold_back(principal).await;
    }
    response
}

/// Finds the principal of a request, and the proof of it.
async fn identify(
    app: &App,
    request: &mut Request,
    pattern: Option<&str>,
    origin: &Origin,
) -> Result<Identity, ApiError> {
    if let Some(pattern) = pattern {
        for source in AUTHENTICATORS {
            if let Some(prepared) = source.prepare(app, request, pattern) {
                prepared.await?;
            }
        }
    }
    let ask = |request: &Request| {
        let caller = UnknownCaller {
            app,
            request,
            pattern,
            origin,
        };
        first(&AUTHENTICATORS, caller)
    };
    match ask(request) {
        Err(Refusal { may_be_new: true, .. }) if app.engine().read_tokens_again().await.is_ok() => {
            ask(request).map_err(|refusal| refusal.error)
        }
        identified => identified.map_err(|refusal| refusal.error),
    }
}

/// The identity by the first source whose credential the request has.
fn first(sources: &[&dyn Authenticator], caller: UnknownCaller<'_>) -> Result<Identity, Refusal> {
    for source in sources {
        if let Some(identified) = source.identify(caller) {
            return identified.map_err(|error| Refusal {
                error,
                may_be_new: source.may_be_new(caller.request),
            });
        }
    }
    Err(Refusal {
        error: ApiError::unauthenticated(),
        may_be_new: false,
    })
}

/// A caller that is known: its connection counts. One that has too many loses this one.
fn admitted(
    app: &App,
    principal: &Principal,
    shown: &ShownCredential,
    peer: Option<&Peer>,
) -> Result<(), ApiError> {
    if let Some(peer) = peer {
        let admitted = peer.admit(app.engine(), principal);
        admitted.map_err(|error| ApiError {
            close: true,
            ..ApiError::from(error)
        })?;
        peer.showed(principal, shown.clone());
    }
    // What was revoked meanwhile ends the connections that showed it, and this one had not yet.
    if !app.tokens().still(shown, principal) {
        return Err(ApiError::unauthenticated());
    }
    Ok(())
}

/// A token whose scope is `read` is for `GET`, `HEAD` and streams of events. The engine refuses all else to it, too;
/// here it is refused whatever the request says.
fn in_scope(
    principal: &Principal,
    method: &Method,
    route: Option<&'static Route>,
    is_websocket: bool,
) -> Result<(), ApiError> {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let writes = is_websocket && route.is_some_and(|route| route.websocket);
    if !principal.is_read_only() || (reads && !writes) {
        return Ok(());
    }
    Err(ApiError {
        needs_scope: true,
        ..ApiError::forbidden("the scope of this token is read: GET, HEAD and streams of events")
    })
}
