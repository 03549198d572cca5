//! The history of a session: as a list, a notebook, a script.

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use himalia_engine::{History, HistoryPosition, MAX_HISTORY_PAGE};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::answers::{Notebook, Script, SerializedJson};
use super::content_headers::set_kernel_made;
use super::executions::Order;
use super::input::{Cursor, Parameters, Whole};
use super::kernels::{KernelQuery, kernel_id};
use super::sessions::of_session;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// Entries of a page when the caller does not say.
const PAGE: u64 = 100;

/// A part of the history.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListHistoryQuery {
    /// A kernel of the session; default: the first one.
    kernel: Option<String>,
    /// The oldest or the newest first. Default: that of the cursor; without one, the latest entries as one page, the oldest first, and
    /// `next` leads to those before, the newest first.
    order: Option<Order>,
    /// The `next` of the page before.
    cursor: Option<Cursor<LIST>>,
    /// Number of entries; default 100.
    limit: Option<Whole<1, { MAX_HISTORY_PAGE as u64 }>>,
}

/// The cursors of the list.
const LIST: char = 'h';

/// A page of the history, in the order of the kernel or backwards.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HistoryPage {
    #[serde(flatten)]
    page: History,
    /// The cursor of the next page; null at the end.
    next: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct PagePosition {
    position: Option<HistoryPosition>,
    order: Option<Order>,
}

impl PagePosition {
    fn of(order: Option<Order>, cursor: Option<Cursor<LIST>>) -> Result<Self, ApiError> {
        let Some(Cursor(text)) = cursor else {
            let position = (order == Some(Order::Asc)).then_some(HistoryPosition::From(0));
            return Ok(Self { position, order });
        };
        let number = |text: &str| text.parse::<u64>().ok();
        let (named, position) = match text.split_at_checked(1) {
            Some(("+", text)) => (Order::Asc, number(text).map(HistoryPosition::From)),
            Some(("-", text)) => (Order::Desc, number(text).map(HistoryPosition::Before)),
            _ => (Order::Asc, None),
        };
        let position = position.ok_or_else(|| ApiError::bad_field("cursor", "is not one of this list"))?;
        if order.is_some_and(|order| order != named) {
            return Err(ApiError::bad_field("order", "is not that of the cursor"));
        }
        Ok(Self {
            position: Some(position),
            order: Some(named),
        })
    }

    /// The page in its order.
    fn shown(self, mut page: History) -> HistoryPage {
        let first = page.omitted + page.offset;
        let end = first + page.history.len() as u64;
        // Without an order, the latest ones have older ones only.
        let next = if self.order == Some(Order::Asc) {
            (end < page.omitted + page.total).then(|| format!("+{end}"))
        } else {
            (page.offset > 0).then(|| format!("-{first}"))
        };
        if self.order == Some(Order::Desc) {
            page.history.reverse();
        }
        HistoryPage {
            page,
            next: next.map(|key| Cursor::<LIST>::write(&key)),
        }
    }
}

/// `GET /v1/sessions/{id}/history?order=&cursor=&limit=`; without an order and a cursor the latest ones.
pub(crate) async fn list(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Parameters(ListHistoryQuery {
        kernel,
        order,
        cursor,
        limit,
    }): Parameters<ListHistoryQuery>,
) -> Result<SerializedJson<HistoryPage>, ApiError> {
    let place = PagePosition::of(order, cursor)?;
    let kernel = kernel_id(&app, &principal, &id, kernel.as_deref())?;
    let found = app
        .engine()
        .history(
            &principal,
            kernel,
            place.position,
            limit.map_or(PAGE, |Whole(limit)| limit),
        )
        .await;
    let found = found.map_err(|error| of_session(error, &id))?;
    let bytes = found.about_bytes();
    let held = app.engine().hold_memory(&principal, bytes as u64)?;
    let made = || SerializedJson::held(&place.shown(found), held);
    app.engine().answer_in_turn(&principal, bytes, made).await?
}

/// `GET /v1/sessions/{id}/notebook.ipynb`: all cells with their outputs, nbformat 4.5.
pub(crate) async fn notebook(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Parameters(KernelQuery { kernel }): Parameters<KernelQuery>,
) -> Result<Notebook, ApiError> {
    let kernel = kernel_id(&app, &principal, &id, kernel.as_deref())?;
    let found = app.engine().notebook(&principal, kernel).await;
    let found = found.map_err(|error| of_session(error, &id))?;
    Ok(Notebook(download(
        found,
        "application/x-ipynb+json",
        "attachment; filename=\"notebook.ipynb\"",
    )))
}

/// `GET /v1/sessions/{id}/script.py`: all code; what did not run to its end is there as comments.
pub(crate) async fn script(
    State(app): State<App>,
    Caller(principal): Caller,
    Path(id): Path<String>,
    Parameters(KernelQuery { kernel }): Parameters<KernelQuery>,
) -> Result<Script, ApiError> {
    let kernel = kernel_id(&app, &principal, &id, kernel.as_deref())?;
    let found = app.engine().script(&principal, kernel).await;
    let found = found.map_err(|error| of_session(error, &id))?;
    Ok(Script(download(
        found,
        "text/x-python; charset=utf-8",
        "attachment; filename=\"script.py\"",
    )))
}

/// A file: what kernels made must not run as a part of the gateway's own pages.
fn download(text: Bytes, kind: &'static str, disposition: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static(disposition));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    set_kernel_made(headers);
    response
}
