//! Bodies that are taken in piece by piece.

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use serde_json::json;

use crate::app::App;
use crate::error::ApiError;
use crate::openapi::{Operation, Part, codes};
use crate::v1::file_bodies;

/// Reads the type, describes its media type.
macro_rules! raw {
    ($name:ident, $media:literal, $required:literal, $what:literal) => {
        #[doc = $what]
        #[derive(Debug)]
        pub(crate) struct $name(pub(in crate::v1) Body);

        impl FromRequest<App> for $name {
            type Rejection = ApiError;

            async fn from_request(request: Request, _: &App) -> Result<Self, ApiError> {
                file_bodies::check(request.headers())?;
                Ok(Self(request.into_body()))
            }
        }

        impl Part for $name {
            fn describe(operation: &mut Operation<'_>) {
                let schema = json!({ "description": $what });
                operation.body($media, $required, &schema);
                operation.errors(codes::BODY);
            }
        }
    };
}

raw!(
    File,
    "application/octet-stream",
    false,
    "The content of a file; a missing body creates an empty file."
);
raw!(Archive, "application/x-tar", true, "An uncompressed tar archive.");
