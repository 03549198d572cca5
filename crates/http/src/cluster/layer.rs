//! The one place where it is decided which replica serves a request.

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use himalia_engine::{Principal, name_of_key, name_of_run};

use super::forward::{Served, Trip, forward};
use super::served_at::{Named, ServedAt, served_at};
use super::starts::{self, Hold, StartBody};
use super::{
    Cluster, Location, Relayed, Repeatable, ResourceRef, attach, bodies, events, lists, peers, repeatable,
};
use crate::app::App;
use crate::auth::Caller;
use crate::e2b::e2b_sandbox_of_key;
use crate::error::ApiError;
use crate::ws::Handshake;

/// Serves a request here, or relays it to the replica that has what it is about. A request that was relayed is served
/// here or refused.
pub(crate) async fn relay(State(app): State<App>, request: Request, next: Next) -> Response {
    let Some(cluster) = app.cluster().cloned() else {
        return next.run(request).await;
    };
    let relayed = request.extensions().get::<Relayed>().is_some();
    let caller = request.extensions().get::<Caller>().cloned();
    let pattern = request.extensions().get::<MatchedPath>().cloned();
    let (Some(Caller(principal)), Some(pattern)) = (caller, pattern) else {
        return next.run(request).await;
    };
    let request = match repeatable::mark(&app, pattern.as_str(), request).await {
        Ok(request) => request,
        Err(error) => return error.into_response(),
    };
    let repeatable = request.extensions().get::<Repeatable>().copied();
    let held = principal.held().filter(|_| relayed);
    let hold = held.map(|held| Hold::new(app.engine(), held.clone()));
    let served = match served_at(
        request.method(),
        pattern.as_str(),
        request.uri(),
        request.headers(),
    ) {
        ServedAt::Owner(sought) if relayed => judge(&cluster, &principal, &sought, request, next).await,
        // The peer has decided.
        _ if relayed => Ok(next.run(request).await),
        ServedAt::Here => Ok(next.run(request).await),
        ServedAt::Keyed(key) => {
            let sought = ResourceRef::Kernel(e2b_sandbox_of_key(&principal, &key));
            at_name(&app, &cluster, &principal, sought, None, request, next).await
        }
        ServedAt::Run(key) => {
            let sought = ResourceRef::Run(name_of_run(&principal, &key));
            at_name(&app, &cluster, &principal, sought, None, request, next).await
        }
        ServedAt::Start(StartBody::Session) => at_key(&app, &cluster, &principal, request, next).await,
        ServedAt::Start(body) => starts::begin(&app, &cluster, &principal, body, request, next).await,
        ServedAt::Owner(sought) => {
            at_owner(
                &app,
                &cluster,
                &principal,
                pattern.as_str(),
                sought,
                request,
                next,
            )
            .await
        }
        ServedAt::Body(named) => at_named(&app, &cluster, &principal, named, request, next).await,
        ServedAt::All(list) => lists::unite(&app, &cluster, &principal, list, request, next).await,
        ServedAt::First => lists::first(&app, &cluster, &principal, request, next).await,
    };
    let mut response = served.unwrap_or_else(IntoResponse::into_response);
    if let Some(repeatable) = repeatable {
        response.extensions_mut().insert(repeatable);
    }
    match hold {
        Some(hold) => hold.until_answered(response),
        None => response,
    }
}

/// A relayed request: what another replica has is not relayed again.
async fn judge(
    cluster: &Cluster,
    principal: &Principal,
    sought: &ResourceRef,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    if !cluster.directory.has(principal, sought)
        && let Some(Location::At(_) | Location::Lost { .. }) =
            cluster.directory.find(principal, sought).await?
    {
        return Ok(peers::not_here());
    }
    Ok(next.run(request).await)
}

/// Where the first is that the body names; where it can be started, if there is none.
async fn at_named(
    app: &App,
    cluster: &Cluster,
    principal: &Principal,
    named: Named,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let (about, request) = bodies::read(app, named, request).await?;
    if about.lists {
        return lists::with_peers(app, cluster, principal, request, next).await;
    }
    let mut start = about.start;
    let keyed = about
        .key
        .map(|key| ResourceRef::Session(name_of_key(principal, &key)));
    for sought in about.sought.into_iter().chain(keyed) {
        match cluster.locate(principal, &sought, false).await? {
            None => {}
            Some(Location::Here) => {
                start = None;
                break;
            }
            Some(_) => return send(app, cluster, principal, "", sought, request, next).await,
        }
    }
    if start.is_none() {
        return Ok(next.run(request).await);
    }
    let trip = Trip::new(app, request).await?;
    starts::anywhere(app, cluster, principal, start, &trip, next).await
}

/// Where the session is that the path names.
async fn at_owner(
    app: &App,
    cluster: &Cluster,
    principal: &Principal,
    pattern: &str,
    sought: ResourceRef,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    match cluster.locate(principal, &sought, false).await? {
        Some(Location::At(_) | Location::Lost { .. }) => {}
        // Unknown, or ended: any replica may have its log.
        None if request.method() == Method::GET && !Handshake::is_asked(request.headers()) => {
            return lists::first(app, cluster, principal, request, next).await;
        }
        None if request.method() == Method::PUT => {
            let start = Some(StartBody::Session);
            return start_or_find(app, cluster, principal, sought, start, request, next).await;
        }
        None if pattern.starts_with("/azure/") => {
            return start_or_find(app, cluster, principal, sought, None, request, next).await;
        }
        None | Some(Location::Here) => return Ok(next.run(request).await),
    }
    if Handshake::is_asked(request.headers()) {
        return match sought {
            ResourceRef::Kernel(kernel) if pattern.ends_with("/channels") => {
                attach::open(app, cluster, principal, kernel, request).await
            }
            sought => events::open_socket(app, cluster, principal, sought, request).await,
        };
    }
    send(app, cluster, principal, pattern, sought, request, next).await
}

/// A start, where the session is that an earlier start with the same key has made.
async fn at_key(
    app: &App,
    cluster: &Cluster,
    principal: &Principal,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let (sought, request) = starts::keyed(app, principal, request).await?;
    let Some(sought) = sought else {
        return starts::begin(app, cluster, principal, StartBody::Session, request, next).await;
    };
    let start = Some(StartBody::Session);
    at_name(app, cluster, principal, sought, start, request, next).await
}

/// Where what a request starts was started before; here, if it was not.
async fn at_name(
    app: &App,
    cluster: &Cluster,
    principal: &Principal,
    sought: ResourceRef,
    start: Option<StartBody>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    match cluster.locate(principal, &sought, false).await? {
        Some(Location::Here) => Ok(next.run(request).await),
        Some(_) => send(app, cluster, principal, "", sought, request, next).await,
        None => start_or_find(app, cluster, principal, sought, start, request, next).await,
    }
}

/// A request for a name that no session had: another replica may start it at the same time, and has it then. Without `start`
/// the handler starts the session by itself.
async fn start_or_find(
    app: &App,
    cluster: &Cluster,
    principal: &Principal,
    sought: ResourceRef,
    start: Option<StartBody>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let mut trip = Trip::new(app, request).await?;
    let response = match start {
        Some(body) => starts::serve(app, cluster, principal, body, &trip, next.clone()).await,
        None => Ok(next.clone().run(trip.local()).await),
    };
    match response {
        Ok(response) if response.status() == StatusCode::CONFLICT && trip.is_complete() => {
            let found = cluster.locate(principal, &sought, true).await?;
            if !matches!(found, Some(Location::At(_) | Location::Lost { .. })) {
                return Ok(response);
            }
        }
        // It was relayed to a replica that was lost with it, which may have started the session.
        Err(error) if error.retryable && trip.is_repeatable() => {}
        response => return response,
    }
    match forward(cluster, principal, &sought, &mut trip).await? {
        Served::Response(found) => Ok(found),
        Served::Here(request) => Ok(next.run(request).await),
    }
}

/// To another replica; here, if that has changed meanwhile.
async fn send(
    app: &App,
    cluster: &Cluster,
    principal: &Principal,
    pattern: &str,
    sought: ResourceRef,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let follows = request.method() == Method::GET && pattern.ends_with("/events");
    let mut trip = Trip::new(app, request).await?;
    match forward(cluster, principal, &sought, &mut trip).await? {
        Served::Here(request) => Ok(next.run(request).await),
        Served::Response(response) if follows && response.status() == StatusCode::OK => {
            Ok(events::continued(cluster, principal, sought, trip, response))
        }
        Served::Response(response) => Ok(response),
    }
}
