//! `GET /viewer/grant`: where an authorization server sends a browser back.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use super::base_of;
use crate::app::App;

/// Most bytes of an answer.
const MOST_BYTES: usize = 8 * 1024;

/// To the viewer, 303, with the answer behind a `#`: the page finishes the grant in the name of who has signed in there. The cookie of the
/// sign-in does not come with a request from another site, and what is behind a `#` goes to no server.
pub(crate) async fn grant(State(app): State<App>, uri: Uri, request: HeaderMap) -> Response {
    let root = base_of(&request, &app.url("")).into_owned();
    // A query has no character that a header or a fragment cannot have.
    let query = uri.query().unwrap_or_default();
    let query = if query.len() > MOST_BYTES { "" } else { query };
    let location = HeaderValue::try_from(format!("{root}/#/grant?{query}"));
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    if let Ok(location) = location {
        headers.insert(header::LOCATION, location);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    response
}
