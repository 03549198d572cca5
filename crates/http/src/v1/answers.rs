//! Responses of operations, as types that describe themselves.

use std::marker::PhantomData;

use axum::Json;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use himalia_engine::HeldShare;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::{artifacts, file_bodies};
use crate::app::App;
use crate::error::ApiError;
use crate::etag;
use crate::openapi::{Answer, Operation};

/// 201 with `Location`.
#[derive(Debug)]
pub(crate) struct Created<T> {
    location: String,
    made: T,
}

impl<T> Created<T> {
    /// At this path below the base URL.
    pub(crate) fn at(app: &App, path: &str, made: T) -> Self {
        Self {
            location: app.url(path),
            made,
        }
    }
}

impl<T: Serialize> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        let mut response = (StatusCode::CREATED, Json(self.made)).into_response();
        if let Ok(location) = HeaderValue::from_str(&self.location) {
            response.headers_mut().insert(header::LOCATION, location);
        }
        response
    }
}

impl<T: JsonSchema> Answer for Created<T> {
    fn describe(operation: &mut Operation<'_>) {
        let schema = operation.schemas.written::<T>();
        operation.answer(201, "Created", "application/json", &schema);
        operation.header(201, "Location", "Its address.");
    }
}

/// An answer that no cache keeps: it has a secret that is shown once.
#[derive(Debug)]
pub(crate) struct ShownOnce<R>(pub(crate) R);

impl<R: IntoResponse> IntoResponse for ShownOnce<R> {
    fn into_response(self) -> Response {
        let mut response = self.0.into_response();
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

impl<R: Answer> Answer for ShownOnce<R> {
    fn describe(operation: &mut Operation<'_>) {
        R::describe(operation);
    }
}

/// What an earlier request with the same idempotency key made.
#[derive(Debug)]
pub(crate) struct Replayed<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Replayed<T> {
    fn into_response(self) -> Response {
        let mut response = Json(self.0).into_response();
        let yes = HeaderValue::from_static("true");
        response.headers_mut().insert("idempotency-replayed", yes);
        response
    }
}

impl<T: JsonSchema> Answer for Replayed<T> {
    fn describe(operation: &mut Operation<'_>) {
        Json::<T>::describe(operation);
        let text = "`true`: an earlier request with the same key has started it.";
        operation.header(200, "Idempotency-Replayed", text);
    }
}

/// A JSON answer with another status than 200.
#[derive(Debug)]
pub(crate) struct With<const STATUS: u16, T>(pub(crate) T);

impl<const STATUS: u16, T: Serialize> IntoResponse for With<STATUS, T> {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(STATUS).unwrap_or(StatusCode::OK);
        (status, Json(self.0)).into_response()
    }
}

impl<const STATUS: u16, T: JsonSchema> Answer for With<STATUS, T> {
    fn describe(operation: &mut Operation<'_>) {
        let schema = operation.schemas.written::<T>();
        let text = match STATUS {
            201 => "Created",
            202 => "Accepted; still running",
            207 => "Partly done",
            _ => "Done",
        };
        operation.answer(STATUS, text, "application/json", &schema);
    }
}

/// An answer that is a status alone.
#[derive(Debug)]
pub(crate) struct Empty<const STATUS: u16>;

impl<const STATUS: u16> IntoResponse for Empty<STATUS> {
    fn into_response(self) -> Response {
        StatusCode::from_u16(STATUS)
            .unwrap_or(StatusCode::NO_CONTENT)
            .into_response()
    }
}

impl<const STATUS: u16> Answer for Empty<STATUS> {
    fn describe(operation: &mut Operation<'_>) {
        operation.empty(STATUS, "Done");
    }
}

/// JSON that is already serialised, so that a turn for this work ends before the response is sent.
#[derive(Debug)]
pub(crate) struct Made<T>(Response, PhantomData<fn() -> T>);

impl<T: Serialize> Made<T> {
    pub(crate) fn json(value: &T) -> Result<Self, ApiError> {
        Ok(Self::of(etag::body(value)?.into()))
    }

    /// Counts as memory of a principal until it is sent.
    pub(crate) fn held(value: &T, held: HeldShare) -> Result<Self, ApiError> {
        Ok(Self::of(held.keep(etag::body(value)?)))
    }

    fn of(body: Bytes) -> Self {
        let mut response = Response::new(Body::from(body));
        let kind = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        Self(response, PhantomData)
    }
}

impl<T> IntoResponse for Made<T> {
    fn into_response(self) -> Response {
        self.0
    }
}

impl<T: JsonSchema> Answer for Made<T> {
    fn describe(operation: &mut Operation<'_>) {
        Json::<T>::describe(operation);
    }
}

/// JSON that can be revalidated: 200, or 304 for a caller that has it.
#[derive(Debug)]
pub(crate) struct Tagged<T>(Response, PhantomData<fn() -> T>);

impl<T: Serialize> Tagged<T> {
    /// For a request with these headers.
    pub(crate) fn json(request: &HeaderMap, value: &T) -> Result<Self, ApiError> {
        Ok(Self(etag::json(request, value)?, PhantomData))
    }
}

impl<T> IntoResponse for Tagged<T> {
    fn into_response(self) -> Response {
        self.0
    }
}

impl<T: JsonSchema> Answer for Tagged<T> {
    fn describe(operation: &mut Operation<'_>) {
        let schema = operation.schemas.written::<T>();
        let what = operation.schemas.what::<T>();
        operation.answer(200, &what, "application/json", &schema);
        revalidated(operation, 200);
    }
}

/// The headers of what can be revalidated.
pub(crate) fn revalidated(operation: &mut Operation<'_>, status: u16) {
    let schema = json!({ "type": "string", "description": "The `ETag` of the caller's copy." });
    operation.parameter("header", "If-None-Match", false, schema);
    operation.header(status, "ETag", "Identifies this state.");
    operation.empty(304, "Not modified");
}

/// JSON of what is another one the moment after: never stored.
#[derive(Debug)]
pub(crate) struct Fresh<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Fresh<T> {
    fn into_response(self) -> Response {
        let mut response = Json(self.0).into_response();
        file_bodies::no_store(response.headers_mut());
        response
    }
}

impl<T: JsonSchema> Answer for Fresh<T> {
    fn describe(operation: &mut Operation<'_>) {
        Json::<T>::describe(operation);
    }
}

/// An answer that a kernel had its part in.
#[derive(Debug)]
pub(crate) struct KernelMade<A>(pub(crate) A);

impl<A: IntoResponse> IntoResponse for KernelMade<A> {
    fn into_response(self) -> Response {
        let mut response = self.0.into_response();
        artifacts::set_kernel_made(response.headers_mut());
        response
    }
}

impl<A: Answer> Answer for KernelMade<A> {
    fn describe(operation: &mut Operation<'_>) {
        A::describe(operation);
        kernel_made(operation);
    }
}

/// The headers of what a kernel made.
fn kernel_made(operation: &mut Operation<'_>) {
    operation.header(
        200,
        "Content-Security-Policy",
        "A browser that shows the content runs no script from it.",
    );
}

/// What a kernel made that is given in parts, too.
fn in_parts(operation: &mut Operation<'_>) {
    operation.answer(206, "The requested `Range`.", "*/*", &json!({}));
    let schema = json!({ "type": "string", "description": "One part of the file, `bytes=0-99`." });
    operation.parameter("header", "Range", false, schema);
    kernel_made(operation);
    revalidated(operation, 200);
}

/// One of two answers.
#[derive(Debug)]
pub(crate) enum Either<A, B> {
    One(A),
    Other(B),
}

impl<A: IntoResponse, B: IntoResponse> IntoResponse for Either<A, B> {
    fn into_response(self) -> Response {
        match self {
            Self::One(one) => one.into_response(),
            Self::Other(other) => other.into_response(),
        }
    }
}

impl<A: Answer, B: Answer> Answer for Either<A, B> {
    fn describe(operation: &mut Operation<'_>) {
        A::describe(operation);
        B::describe(operation);
    }
}

/// Bodies that are no JSON, by the name of what they are.
macro_rules! streams {
    ($($name:ident $what:literal [$($media:literal)*] $more:expr;)*) => { $(
        #[doc = $what]
        #[derive(Debug)]
        pub(crate) struct $name(pub(crate) Response);

        impl IntoResponse for $name {
            fn into_response(self) -> Response {
                self.0
            }
        }

        impl Answer for $name {
            fn describe(operation: &mut Operation<'_>) {
                $(operation.answer(200, $what, $media, &json!({}));)*
                let more: fn(&mut Operation<'_>) = $more;
                more(operation);
            }
        }
    )* };
}

streams! {
    Events "A stream of server-sent events; the schema is that of the `data` of one." ["text/event-stream"] |_| {};
    Lines "The same events, one JSON object per line; the schema is that of one." ["application/x-ndjson"] |_| {};
    Notebook "A notebook, nbformat 4.5." ["application/x-ipynb+json"] kernel_made;
    PlainText "The complete text, in UTF-8." ["text/plain"] kernel_made;
    Script "A Python file." ["text/x-python"] kernel_made;
    Tar "A tar archive." ["application/x-tar"] kernel_made;
    Arrow "An Arrow IPC stream." ["application/vnd.apache.arrow.stream"] |_| {};
    Content "Content from the kernel, with its type." ["*/*"] in_parts;
    FileContent "The file, with the media type of its name." ["*/*"] in_parts;
}
