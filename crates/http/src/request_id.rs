//! The outermost layer: an id for each request, the span of its log lines, and the count of its response.

use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use tracing::Instrument;
use uuid::Uuid;

use crate::app::App;
use crate::{routes, traced};

pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-request-id");
/// Characters of an id that a client gives.
const MAX_CHARS: usize = 64;

/// The id of a request: in its extensions, in the header of its response, in its log lines, and in the bodies of errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestId(String);

impl RequestId {
    /// The client's, if it is 1 to 64 letters, digits, `.`, `_` and `-`; else a new one.
    pub(crate) fn of(request: &Request) -> Self {
        let mut given = request.headers().get_all(HEADER).iter();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let sane = |text: &&str| (1..=MAX_CHARS).contains(&text.len()) && text.bytes().all(plain);
        let (first, more) = (given.next(), given.next());
        let sane = first
            .filter(|_| more.is_none())
            .and_then(|text| text.to_str().ok())
            .filter(sane);
        Self(sane.map_or_else(|| Uuid::new_v4().simple().to_string(), str::to_owned))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The span of its log lines. Of every level, so that each line that is written has it.
    pub(crate) fn span(&self) -> tracing::Span {
        tracing::error_span!("request", id = self.as_str())
    }
}

/// The route that a request matched, as the response tells the outer layers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route(&'static str);

impl Route {
    /// That of the table.
    pub(crate) fn matched(matched: Option<&MatchedPath>) -> Option<Self> {
        let path = matched?.as_str();
        let known = routes::ROUTES.iter().find(|route| route.path == path);
        known.map(|route| Self(route.path))
    }

    /// Its path, with the names of its parameters.
    pub(crate) fn path(self) -> &'static str {
        self.0
    }
}

/// Gives a request its id, and counts what becomes of it.
pub(crate) async fn identify(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let id = RequestId::of(&request);
    let method = method(request.method());
    request.extensions_mut().insert(id.clone());
    let mut traced = if is_probe(&app, &request) {
        None
    } else {
        let parent = traced::named(request.headers());
        traced::begin(app.engine().traces(), &mut request, method, parent)
    };
    if let Some(traced) = &mut traced {
        traced.set("himalia.request.id", id.as_str().to_owned());
    }
    let mut response = next.run(request).instrument(id.span()).await;
    let route = response.extensions_mut().remove::<Route>().map(Route::path);
    if let Some(traced) = &mut traced {
        traced::answered(traced, method, route, response.status().as_u16());
        traced::name(response.headers_mut(), traced.context());
    }
    let route = route.unwrap_or("other");
    let status = status(response.status().as_u16());
    app.engine()
        .clients()
        .answered(method, route, status, begun.elapsed());
    if let Ok(value) = HeaderValue::from_str(id.as_str()) {
        response.headers_mut().insert(HEADER, value);
    }
    response
}

/// Probes come every few seconds and say nothing of what clients do: they are not traced.
fn is_probe(app: &App, request: &Request) -> bool {
    let path = request.uri().path();
    let inside = path.strip_prefix(app.config().base_url.as_str());
    inside.is_some_and(|path| ["/healthz", "/readyz", "/metrics"].contains(&path))
}

/// The values of the label are those of the table.
pub(crate) fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// The statuses that the gateway sends.
const STATUSES: [(u16, &str); 30] = [
    (101, "101"),
    (200, "200"),
    (201, "201"),
    (202, "202"),
    (204, "204"),
    (206, "206"),
    (207, "207"),
    (302, "302"),
    (303, "303"),
    (304, "304"),
    (307, "307"),
    (308, "308"),
    (400, "400"),
    (401, "401"),
    (403, "403"),
    (404, "404"),
    (405, "405"),
    (406, "406"),
    (408, "408"),
    (409, "409"),
    (410, "410"),
    (412, "412"),
    (413, "413"),
    (415, "415"),
    (416, "416"),
    (422, "422"),
    (426, "426"),
    (429, "429"),
    (500, "500"),
    (503, "503"),
];

fn status(code: u16) -> &'static str {
    let known = STATUSES.iter().find(|(known, _)| *known == code);
    let class = match code / 100 {
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        5 => "5xx",
        _ => "1xx",
    };
    known.map_or(class, |(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    fn id(values: &[&str]) -> String {
        let mut request = Request::builder();
        for value in values {
            request = request.header(HEADER, *value);
        }
        RequestId::of(&request.body(Body::empty()).unwrap()).0
    }

    #[test]
    fn a_sane_id_is_kept_and_another_one_is_replaced() {
        assert_eq!(id(&["a.B_9-"]), "a.B_9-");
        assert_eq!(id(&[&"x".repeat(64)]), "x".repeat(64));
        for bad in [
            &["a b"][..],
            &[""],
            &["a", "a"],
            &["\u{e4}"],
            &["a\"b"],
            &[],
            &["a/b"],
        ] {
            let made = id(bad);
            assert_eq!(made.len(), 32, "{bad:?} {made}");
        }
        assert_eq!(id(&[&"x".repeat(65)]).len(), 32);
        assert_ne!(id(&[]), id(&[]));
    }

    #[test]
    fn a_status_is_a_label_of_a_short_list() {
        assert_eq!((status(404), status(507), status(299)), ("404", "5xx", "2xx"));
    }
}
