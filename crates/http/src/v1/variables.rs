//! `/v1/sessions/{id}/variables`: what a kernel's variables are, also while it runs code.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use himalia_engine::{VariableFilter, VariablePage, VariableQuery, VariableSort};
use serde_json::{Map, Value};

use super::artifacts::set_kernel_made;
use super::sessions::{of_session, session_id};
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;
use crate::query;

/// The media type of Arrow IPC streams, as IANA has it.
const ARROW: &str = "application/vnd.apache.arrow.stream";
/// Of an Arrow reply: counts and the kernel process, which a stream has no place for.
const INCARNATION: HeaderName = HeaderName::from_static("x-himalia-incarnation");
const TOTAL: HeaderName = HeaderName::from_static("x-himalia-total");
const MATCHED: HeaderName = HeaderName::from_static("x-himalia-matched");
const INDEX_COLUMNS: HeaderName = HeaderName::from_static("x-himalia-index-columns");
/// The parameters of one variable.
const PARAMETERS: [&str; 6] = ["offset", "limit", "sort", "descending", "filter", "format"];

/// `GET /v1/sessions/{id}/variables`: `{variables, total, truncated, incarnation}`.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    uri: Uri,
) -> Result<Response, ApiError> {
    query::only(&uri, &[])?;
    let kernel = session_id(&app, &principal, &id)?;
    let reply = app.engine().variables(&principal, kernel).await;
    let reply = reply.map_err(|error| of_session(error, &id))?;
    Ok(json(reply.content, reply.incarnation))
}

/// `GET /v1/sessions/{id}/variables/{name}?offset=&limit=&sort=&descending=&filter=&format=`: a part of one variable.
///
/// `sort` is a column, `filter` a JSON object `{column, op, value}`, as often as there are conditions. With `format=arrow`, or
/// its media type first in `Accept`, the body is an Arrow IPC stream and the counts are headers.
pub(crate) async fn show(
    State(app): State<App>,
    Caller(principal): Caller,
    Path((id, name)): Path<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let wanted = read(&uri, &headers)?;
    let kernel = session_id(&app, &principal, &id)?;
    let page = app.engine().variable(&principal, kernel, &name, &wanted).await;
    let page = page.map_err(|error| of_session(error, &id))?;
    Ok(match page.arrow.clone() {
        None => json(page.content, page.incarnation),
        Some(stream) => arrow(&page, stream),
    })
}

fn json(mut content: Map<String, Value>, incarnation: u32) -> Response {
    content.insert("incarnation".into(), incarnation.into());
    let mut response = Json(Value::Object(content)).into_response();
    no_store(&mut response);
    response
}

fn arrow(page: &VariablePage, stream: bytes::Bytes) -> Response {
    let mut response = Response::new(Body::from(stream));
    no_store(&mut response);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(ARROW));
    headers.insert(INCARNATION, HeaderValue::from(page.incarnation));
    let counts = page.content.get("page");
    for (name, member) in [
        (TOTAL, "total"),
        (MATCHED, "matched"),
        (INDEX_COLUMNS, "index_columns"),
    ] {
        if let Some(count) = counts.and_then(|page| page.get(member)).and_then(Value::as_u64) {
            headers.insert(name, HeaderValue::from(count));
        }
    }
    response
}

/// A variable is another one the moment after.
fn no_store(response: &mut Response) {
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    set_kernel_made(headers);
}

fn read(uri: &Uri, headers: &HeaderMap) -> Result<VariableQuery, ApiError> {
    query::only(uri, &PARAMETERS)?;
    let descending = match query::last(uri, "descending").as_deref() {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(ApiError::bad_field("descending", "expected true or false")),
    };
    let sort = query::last(uri, "sort").map(|by| VariableSort { by, descending });
    if descending && sort.is_none() {
        return Err(ApiError::bad_field("descending", "needs sort"));
    }
    let filters = query::all(uri, "filter");
    Ok(VariableQuery {
        offset: query::number(uri, "offset")?,
        limit: query::number(uri, "limit")?,
        sort,
        filters: filters
            .iter()
            .map(|text| condition(text))
            .collect::<Result<_, _>>()?,
        arrow: match query::last(uri, "format").as_deref() {
            None => accepts_arrow(headers),
            Some("json") => false,
            Some("arrow") => true,
            Some(_) => return Err(ApiError::bad_field("format", "expected json or arrow")),
        },
    })
}

fn condition(text: &str) -> Result<VariableFilter, ApiError> {
    let bad = |reason: &str| ApiError::bad_field("filter", reason);
    let Ok(Value::Object(mut members)) = serde_json::from_str(text) else {
        return Err(bad("expected a JSON object {column, op, value}"));
    };
    let column = members.remove("column").unwrap_or_default();
    if !(column.is_string() || column.is_u64()) {
        return Err(bad("column: expected a label or a number"));
    }
    let Some(Value::String(op)) = members.remove("op") else {
        return Err(bad("op: expected a string"));
    };
    let value = members.remove("value").unwrap_or_default();
    match members.keys().next() {
        None => Ok(VariableFilter { column, op, value }),
        Some(name) => {
            let name: String = name.chars().take(100).flat_map(char::escape_debug).collect();
            Err(bad(&format!("{name}: unknown field")))
        }
    }
}

/// Whether Arrow is the first known type in `Accept`.
fn accepts_arrow(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter();
    let mut types = accepted
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','))
        .map(|kind| kind.split(';').next().unwrap_or_default().trim());
    types.find(|kind| [ARROW, "application/json"].contains(kind)) == Some(ARROW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wish(query: &str, accept: Option<&'static str>) -> Result<VariableQuery, ApiError> {
        let uri: Uri = format!("/v1/sessions/s/variables/df?{query}").parse().unwrap();
        let headers = accept.map(|accept| (header::ACCEPT, HeaderValue::from_static(accept)));
        read(&uri, &headers.into_iter().collect())
    }

    #[test]
    fn parameters_are_read() {
        let one = wish(
            "offset=5&limit=7&sort=price&descending=true&filter=%7B%22column%22:%22a%22,%22op%22:%22%3E%22,%22value%22:3%7D\
             &filter=%7B%22column%22:0,%22op%22:%22is_null%22%7D",
            None,
        )
        .unwrap();
        assert_eq!((one.offset, one.limit, one.arrow), (Some(5), Some(7), false));
        assert_eq!(
            one.sort,
            Some(VariableSort {
                by: "price".into(),
                descending: true
            })
        );
        assert_eq!(
            (one.filters[0].op.as_str(), &one.filters[0].value),
            (">", &json!(3))
        );
        assert_eq!(
            (&one.filters[1].column, &one.filters[1].value),
            (&json!(0), &Value::Null)
        );
    }

    #[test]
    fn the_format_is_the_querys_or_that_of_accept() {
        assert!(
            wish("", Some("application/vnd.apache.arrow.stream, */*"))
                .unwrap()
                .arrow
        );
        assert!(
            !wish("", Some("application/json, application/vnd.apache.arrow.stream"))
                .unwrap()
                .arrow
        );
        assert!(!wish("format=json", Some(ARROW)).unwrap().arrow);
        assert!(wish("format=arrow", None).unwrap().arrow);
        assert!(!wish("", Some("*/*")).unwrap().arrow);
    }

    #[test]
    fn what_cannot_be_is_named() {
        for (query, wanted) in [
            ("limt=3", "limt: unknown parameter"),
            ("limit=x", "limit: expected a whole number"),
            ("descending=true", "descending: needs sort"),
            ("sort=a&descending=1", "descending: expected true or false"),
            ("format=csv", "format: expected json or arrow"),
            ("filter=a", "filter: expected a JSON object {column, op, value}"),
            ("filter=%7B%7D", "filter: column: expected a label or a number"),
            ("filter=%7B%22column%22:1%7D", "filter: op: expected a string"),
            (
                "filter=%7B%22column%22:1,%22op%22:%22x%22,%22val%22:1%7D",
                "filter: val: unknown field",
            ),
        ] {
            assert_eq!(wish(query, None).unwrap_err().message, wanted, "{query}");
        }
    }
}
