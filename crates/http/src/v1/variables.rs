//! `/v1/sessions/{id}/variables`: what a kernel's variables are, also while it runs code.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::Response;
use himalia_engine::{VariableFilter, VariableInfo, VariablePage, VariableQuery, VariableSort};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::answers::{Arrow, EitherResponse, KernelMade, NoStoreJson};
use super::content_headers;
use super::input::{Cursor, Limit, PAGE_MOST, Parameters, Whole};
use super::kernels::kernel_id;
use super::sessions::of_session;
use super::variable_json::VariableReply;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// The media type of Arrow IPC streams, as IANA has it.
const ARROW: &str = "application/vnd.apache.arrow.stream";
/// Headers of an Arrow reply: counts and the kernel process, which a stream has no place for.
const INCARNATION: HeaderName = HeaderName::from_static("x-himalia-incarnation");
const TOTAL: HeaderName = HeaderName::from_static("x-himalia-total");
const MATCHED: HeaderName = HeaderName::from_static("x-himalia-matched");
const INDEX_COLUMNS: HeaderName = HeaderName::from_static("x-himalia-index-columns");

/// A page of the list.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "VariablePage")]
pub(crate) struct ListedVariables {
    /// In the order of their definition.
    variables: Vec<VariableInfo>,
    /// The cursor of the next page; null at the end.
    next: Option<String>,
    /// All variables that there are.
    total: u64,
    /// There are more than on this page, or some are listed by their types alone.
    truncated: bool,
    /// The kernel process that they are in.
    incarnation: u32,
}

/// A query for variables.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListVariablesQuery {
    /// A kernel of the session; default: the first one.
    kernel: Option<String>,
    /// The `next` of the page before.
    cursor: Option<Cursor<LIST>>,
    /// Variables of a page; default 1,000.
    limit: Option<Limit>,
}

/// The cursors of the list.
const LIST: char = 'v';

/// A part of a variable, in the kernel's words ([`VariableReply`] describes it), and the process that sent it.
#[derive(Debug, Serialize)]
pub(crate) struct OneVariable {
    #[serde(flatten)]
    content: Map<String, Value>,
    incarnation: u32,
}

impl JsonSchema for OneVariable {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        VariableReply::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        VariableReply::json_schema(generator)
    }
}

/// The part of a variable, and its form.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetVariableQuery {
    /// A kernel of the session; default: the first one.
    kernel: Option<String>,
    /// Rows before the page; default 0.
    offset: Option<u64>,
    /// Rows of the page, at most. Without it, the kernel decides, and the answer has its `limit`.
    limit: Option<u64>,
    /// The label of a column.
    sort: Option<String>,
    /// Only with `sort`.
    #[serde(default)]
    descending: bool,
    /// A JSON object `{column, op, value}`; may be repeated for several conditions.
    #[serde(default)]
    filter: Vec<String>,
    /// Without one `Accept` decides.
    format: Option<Format>,
}

/// The format of a variable's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Format {
    Json,
    /// An Arrow IPC stream.
    Arrow,
}

/// `GET /v1/sessions/{id}/variables`: `{variables, next, total, truncated, incarnation}`.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Parameters(wanted): Parameters<ListVariablesQuery>,
) -> Result<KernelMade<NoStoreJson<ListedVariables>>, ApiError> {
    let offset = match wanted.cursor {
        None => 0,
        Some(Cursor(text)) => text
            .parse()
            .map_err(|_| ApiError::bad_field("cursor", "is not one of this list"))?,
    };
    let limit = wanted.limit.map_or(PAGE_MOST, |Whole(limit)| limit);
    let kernel = kernel_id(&app, &principal, &id, wanted.kernel.as_deref())?;
    let reply = app.engine().variables(&principal, kernel, offset, limit).await;
    let reply = reply.map_err(|error| of_session(error, &id))?;
    Ok(KernelMade(NoStoreJson(ListedVariables {
        variables: reply.variables,
        next: reply.next.map(|next| Cursor::<LIST>::write(&next.to_string())),
        total: reply.total,
        truncated: reply.truncated,
        incarnation: reply.incarnation,
    })))
}

/// `GET /v1/sessions/{id}/variables/{name}?offset=&limit=&sort=&descending=&filter=&format=`: a part of one variable.
///
/// With `format=arrow`, or its media type first in `Accept`, the body is an Arrow IPC stream and the counts are
/// headers.
pub(crate) async fn show(
    State(app): State<App>,
    Caller(principal): Caller,
    Path((id, name)): Path<(String, String)>,
    Parameters(mut part): Parameters<GetVariableQuery>,
    headers: HeaderMap,
) -> Result<KernelMade<EitherResponse<NoStoreJson<OneVariable>, Arrow>>, ApiError> {
    let kernel = part.kernel.take();
    let wanted = read(part, &headers)?;
    let kernel = kernel_id(&app, &principal, &id, kernel.as_deref())?;
    let page = app.engine().variable(&principal, kernel, &name, &wanted).await;
    let page = page.map_err(|error| of_session(error, &id))?;
    Ok(KernelMade(match page.arrow.clone() {
        None => EitherResponse::One(with_incarnation(page.content, page.incarnation)),
        Some(stream) => EitherResponse::Other(Arrow(arrow(&page, stream))),
    }))
}

/// The gateway's incarnation replaces one from the kernel.
fn with_incarnation(mut content: Map<String, Value>, incarnation: u32) -> NoStoreJson<OneVariable> {
    content.remove("incarnation");
    NoStoreJson(OneVariable { content, incarnation })
}

fn arrow(page: &VariablePage, stream: bytes::Bytes) -> Response {
    let mut response = Response::new(Body::from(stream));
    let headers = response.headers_mut();
    content_headers::no_store(headers);
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

fn read(part: GetVariableQuery, headers: &HeaderMap) -> Result<VariableQuery, ApiError> {
    let descending = part.descending;
    let sort = part.sort.map(|by| VariableSort { by, descending });
    if descending && sort.is_none() {
        return Err(ApiError::bad_field("descending", "needs sort"));
    }
    Ok(VariableQuery {
        offset: part.offset,
        limit: part.limit,
        sort,
        filters: part
            .filter
            .iter()
            .map(|text| condition(text))
            .collect::<Result<_, _>>()?,
        arrow: part
            .format
            .map_or_else(|| accepts_arrow(headers), |format| format == Format::Arrow),
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

/// Checks whether Arrow is the first known type in `Accept`.
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
    use crate::v1::input::parameters;
    use axum::http::Uri;
    use serde_json::json;

    fn parsed(query: &str, accept: Option<&'static str>) -> Result<VariableQuery, ApiError> {
        let uri: Uri = format!("/v1/sessions/s/variables/df?{query}").parse().unwrap();
        let headers = accept.map(|accept| (header::ACCEPT, HeaderValue::from_static(accept)));
        read(parameters(&uri)?, &headers.into_iter().collect())
    }

    #[test]
    fn parameters_are_read() {
        let one = parsed(
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
            parsed("", Some("application/vnd.apache.arrow.stream, */*"))
                .unwrap()
                .arrow
        );
        assert!(
            !parsed("", Some("application/json, application/vnd.apache.arrow.stream"))
                .unwrap()
                .arrow
        );
        assert!(!parsed("format=json", Some(ARROW)).unwrap().arrow);
        assert!(parsed("format=arrow", None).unwrap().arrow);
        assert!(!parsed("", Some("*/*")).unwrap().arrow);
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
            assert_eq!(parsed(query, None).unwrap_err().message, wanted, "{query}");
        }
    }
}
