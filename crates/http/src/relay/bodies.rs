//! Objects that the body of a request names.

use axum::body::Body;
use axum::extract::Request;
use himalia_engine::ResourceRef;

use super::start_body::Start;
use crate::app::App;
use crate::auth::may_be_rebound;
use crate::body;
use crate::error::ApiError;

/// Finds the objects that a body names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyReader {
    /// Requests of pages at names that any owner of a domain can give to this machine are not read: the handler refuses them.
    pub(crate) refuses_rebound: bool,
    /// Returns nothing for an invalid body: the handler returns the error.
    pub(crate) read: fn(&[u8]) -> BodyObjects,
}

/// The objects that a body is about.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct BodyObjects {
    /// The objects that the body names; the first that exists is used.
    pub(crate) sought: Vec<ResourceRef>,
    /// The session that is started if none of the objects exists.
    pub(crate) start: Option<Start>,
    /// It lists the sessions of all replicas.
    pub(crate) lists: bool,
    /// The idempotency key of what it starts, if that has no name.
    pub(crate) key: Option<String>,
}

/// Reads the objects that the body of a request is about. Returns the request unchanged.
pub(super) async fn read(
    app: &App,
    reader: BodyReader,
    request: Request,
) -> Result<(BodyObjects, Request), ApiError> {
    if reader.refuses_rebound && may_be_rebound(request.headers(), &app.config().allow_origin) {
        return Ok((BodyObjects::default(), request));
    }
    let (parts, body) = request.into_parts();
    let bytes = body::whole(app, &parts.headers, body).await?;
    let objects = (reader.read)(&bytes);
    Ok((objects, Request::from_parts(parts, Body::from(bytes))))
}
