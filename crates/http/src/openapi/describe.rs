//! An operation from the signature of its handler: what it takes and what it answers are types that describe themselves.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use schemars::JsonSchema;

use super::Operation;
use crate::app::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// Something that a handler takes.
pub(crate) trait Part {
    /// Adds what it reads of a request.
    fn describe(operation: &mut Operation<'_>);
}

/// Something that a handler answers with.
pub(crate) trait Answer {
    /// Adds its statuses and bodies.
    fn describe(operation: &mut Operation<'_>);
}

/// A handler whose parts and answers describe themselves; `Parts` are its arguments.
pub(crate) trait DescribedHandler<Parts> {
    fn describe(operation: &mut Operation<'_>);
}

/// Adds what a handler takes and answers with.
pub(crate) fn describe<Parts, H: DescribedHandler<Parts>>(_: &H, operation: &mut Operation<'_>) {
    H::describe(operation);
}

macro_rules! described {
    ($($part:ident)*) => {
        impl<H, F, A, $($part),*> DescribedHandler<($($part,)*)> for H
        where
            H: Fn($($part),*) -> F,
            F: Future<Output = Result<A, ApiError>>,
            A: Answer,
            $($part: Part,)*
        {
            fn describe(operation: &mut Operation<'_>) {
                $($part::describe(operation);)*
                A::describe(operation);
            }
        }
    };
}

described!(P1 P2);
described!(P1 P2 P3);
described!(P1 P2 P3 P4);
described!(P1 P2 P3 P4 P5);
described!(P1 P2 P3 P4 P5 P6);
described!(P1 P2 P3 P4 P5 P6 P7);

/// Parts that say nothing beside what the path says, or whose reader says it ([`Answer`]s that look at headers).
macro_rules! silent {
    ($($part:ty),*) => { $(impl Part for $part { fn describe(_: &mut Operation<'_>) {} })* };
}

silent!(
    State<App>,
    Caller,
    HeaderMap,
    Path<String>,
    Path<(String, String)>
);

impl<T: JsonSchema> Answer for Json<T> {
    fn describe(operation: &mut Operation<'_>) {
        let schema = operation.schemas.written::<T>();
        let what = operation.schemas.what::<T>();
        operation.answer(StatusCode::OK.as_u16(), &what, "application/json", &schema);
    }
}
