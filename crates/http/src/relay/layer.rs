//! The one place where it is decided which replica serves a request.

use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use himalia_cluster::{Cluster, Location, RelayedPrincipal, Repeatable};
use himalia_engine::{Principal, ResourceRef, name_of_key};

use super::bodies::BodyReader;
use super::merged_list::MergedList;
use super::replay::{Relay, forward, replayable};
use super::served_at::{PathParameter, RequestHead, ServedAt, Target};
use super::start_body::StartBody;
use super::starts::{self, Hold};
use super::{bodies, channels, events, lists, peers, repeatable};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::route::Route;
use crate::ws::Handshake;

/// The replica that serves one request.
enum Decision {
    Here,
    Owner(OwnedObject),
    Body(BodyReader),
    Start(StartBody),
    All(MergedList),
    First,
}

/// The object of a request that its owner serves.
struct OwnedObject {
    sought: ResourceRef,
    absent: Absent,
    /// The response is a stream of events, which continues at the next owner.
    follows: bool,
    /// A WebSocket is that of a kernel's channels. On other routes it carries the stream of events.
    channels: bool,
}

/// The handling of a request for an object that no replica has.
#[derive(Clone, Copy)]
enum Absent {
    /// The handler of this replica reports it.
    Serve,
    /// The handler creates the object, unless another replica does so at the same time.
    Create,
    /// The request starts a session, at the replica whose pool has a kernel ready.
    Start(StartBody),
}

impl Decision {
    fn new(route: &Route, head: &RequestHead<'_>) -> Self {
        let owned = |sought, absent| OwnedObject {
            sought,
            absent,
            follows: matches!(route.served_at, ServedAt::Events(_)),
            channels: route.websocket,
        };
        let named = |parameter: PathParameter, absent| {
            let sought = parameter.read(route.path, head.uri.path());
            sought.map_or(Self::Here, |sought| Self::Owner(owned(sought, absent)))
        };
        match route.served_at {
            ServedAt::Here => Self::Here,
            ServedAt::Owner(parameter) | ServedAt::Events(parameter) => named(parameter, Absent::Serve),
            ServedAt::OwnerOrStart(parameter) => named(parameter, Absent::Start(StartBody::Session)),
            ServedAt::Head(target) => match target(head) {
                Target::Here => Self::Here,
                Target::Owner(sought) => Self::Owner(owned(sought, Absent::Serve)),
                Target::OwnerOrNew(sought) => Self::Owner(owned(sought, Absent::Create)),
                Target::All(list) => Self::All(list),
            },
            ServedAt::Body(reader) => Self::Body(reader),
            ServedAt::Start(body) => Self::Start(body),
            ServedAt::All(list) => Self::All(list),
            ServedAt::First => Self::First,
        }
    }
}

/// Serves a request here, or relays it to the replica that has its object. A request that was relayed is served here or refused.
pub(crate) async fn relay(State(app): State<App>, request: Request, next: Next) -> Response {
    let Some(cluster) = app.cluster().cloned() else {
        return next.run(request).await;
    };
    let relayed = request.extensions().get::<RelayedPrincipal>().is_some();
    let caller = request.extensions().get::<Caller>().cloned();
    let route = request.extensions().get::<&'static Route>().copied();
    let (Some(Caller(principal)), Some(route)) = (caller, route) else {
        return next.run(request).await;
    };
    let request = match repeatable::mark(&app, route.repeatable, request).await {
        Ok(request) => request,
        Err(error) => return error.into_response(),
    };
    let repeatable = request.extensions().get::<Repeatable>().copied();
    let held = principal.held().filter(|_| relayed);
    let hold = held.map(|held| Hold::new(app.engine(), held.clone()));
    let head = RequestHead {
        principal: &principal,
        method: request.method(),
        uri: request.uri(),
        headers: request.headers(),
    };
    let served = match Decision::new(route, &head) {
        Decision::Owner(OwnedObject { sought, .. }) if relayed => {
            check_owner(&cluster, &principal, &sought, request, next).await
        }
        // The peer has decided.
        _ if relayed => Ok(next.run(request).await),
        Decision::Here => Ok(next.run(request).await),
        Decision::Owner(owned) => at_owner(&app, &cluster, &principal, owned, request, next).await,
        Decision::Start(StartBody::Session) => at_key(&app, &cluster, &principal, request, next).await,
        Decision::Start(body) => starts::begin(&app, &cluster, &principal, body, request, next).await,
        Decision::Body(reader) => at_body(&app, &cluster, &principal, reader, request, next).await,
        Decision::All(list) => lists::merged(&app, &cluster, &principal, list, request, next).await,
        Decision::First => lists::first(&app, &cluster, &principal, request, next).await,
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

/// Serves a relayed request, unless another replica has its object: a request is never relayed twice.
async fn check_owner(
    cluster: &Cluster,
    principal: &Principal,
    sought: &ResourceRef,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    if cluster.is_elsewhere(principal, sought).await? {
        return Ok(peers::not_here());
    }
    Ok(next.run(request).await)
}

/// At the owner of the first object that the body names; where a session can be started, if there is none.
async fn at_body(
    app: &App,
    cluster: &Cluster,
    principal: &Principal,
    reader: BodyReader,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let (about, request) = bodies::read(app, reader, request).await?;
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
            Some(_) => return send(app, cluster, principal, sought, false, request, next).await,
        }
    }
    if start.is_none() {
        return Ok(next.run(request).await);
    }
    let request = replayable(app, request).await?;
    starts::anywhere(app, cluster, principal, start, &request, next).await
}

/// At the owner of an object. If no replica has it, `absent` decides.
async fn at_owner(
    app: &App,
    cluster: &Cluster,
    principal: &Principal,
    owned: OwnedObject,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let OwnedObject {
        sought,
        absent,
        follows,
        channels: has_channels,
    } = owned;
    let is_websocket = Handshake::is_asked(request.headers());
    match cluster.locate(principal, &sought, false).await? {
        Some(Location::Here) => return Ok(next.run(request).await),
        Some(Location::At(_) | Location::Lost { .. }) => {}
        // Unknown, or ended: any replica may have its log.
        None if matches!(*request.method(), Method::GET | Method::HEAD) && !is_websocket => {
            return lists::first(app, cluster, principal, request, next).await;
        }
        None => {
            let start = match absent {
                Absent::Serve => return Ok(next.run(request).await),
                Absent::Create => None,
                Absent::Start(body) => Some(body),
            };
            return start_or_find(app, cluster, principal, sought, start, request, next).await;
        }
    }
    if !is_websocket {
        return send(app, cluster, principal, sought, follows, request, next).await;
    }
    match sought {
        ResourceRef::Kernel(kernel) if has_channels => {
            channels::open(app, cluster, principal, kernel, request).await
        }
        sought => events::open_socket(app, cluster, principal, sought, request).await,
    }
}

/// A start with an idempotency key is served at the owner of the session that an earlier start with the key has made.
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
    let owned = OwnedObject {
        sought,
        absent: Absent::Start(StartBody::Session),
        follows: false,
        channels: false,
    };
    at_owner(app, cluster, principal, owned, request, next).await
}

/// Serves a request for an object that no replica had. Another replica may create it at the same time; the request is then relayed to
/// it. Without `start` the handler creates the object.
async fn start_or_find(
    app: &App,
    cluster: &Cluster,
    principal: &Principal,
    sought: ResourceRef,
    start: Option<StartBody>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let request = replayable(app, request).await?;
    let response = match start {
        Some(body) => starts::serve(app, cluster, principal, body, &request, next.clone()).await,
        None => Ok(next.clone().run(request.for_handler()).await),
    };
    match response {
        Ok(response) if response.status() == StatusCode::CONFLICT && request.is_complete() => {
            let found = cluster.locate(principal, &sought, true).await?;
            if !matches!(found, Some(Location::At(_) | Location::Lost { .. })) {
                return Ok(response);
            }
        }
        // It was relayed to a replica that was lost with it, which may have started the session.
        Err(error) if error.retryable && request.is_repeatable() => {}
        response => return response,
    }
    match forward(cluster, principal, &sought, &request).await? {
        Relay::Response(found) => Ok(found),
        Relay::Here(request) => Ok(next.run(request).await),
    }
}

/// Relays a request to the owner. It is served here if this replica has become the owner.
async fn send(
    app: &App,
    cluster: &Cluster,
    principal: &Principal,
    sought: ResourceRef,
    follows: bool,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let follows = follows && request.method() == Method::GET;
    let request = replayable(app, request).await?;
    match forward(cluster, principal, &sought, &request).await? {
        Relay::Here(request) => Ok(next.run(request).await),
        Relay::Response(response) if follows && response.status() == StatusCode::OK => {
            Ok(events::continued(cluster, principal, sought, request, response))
        }
        Relay::Response(response) => Ok(response),
    }
}
