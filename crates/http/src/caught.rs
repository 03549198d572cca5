//! A handler that panics: its client gets 500, and the log the reason. The connection and its next requests continue.

use std::panic::AssertUnwindSafe;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt as _;
use himalia_engine::panic_text;

use crate::error::ApiError;

/// Answers a request whose handler panics.
pub(crate) async fn panics(request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(panic) => {
            tracing::error!(%method, path, panic = panic_text(&*panic), "a request handler panicked");
            ApiError::internal("the gateway's log has the reason, under the id of this request")
                .into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::http::StatusCode;
    use axum::{Router, middleware, routing};
    use serde_json::Value;
    use tower::ServiceExt as _;

    use super::*;
    use crate::render;

    #[tokio::test]
    async fn a_handler_that_panics_is_answered() {
        let cut = || async {
            let empty = std::hint::black_box(Vec::<u8>::new());
            String::from_utf8_lossy(&empty[2..]).into_owned()
        };
        let router: Router = Router::new()
            .route("/v1/panics", routing::get(cut))
            .layer(middleware::from_fn(panics))
            .layer(middleware::from_fn(render::errors));
        for path in ["/v1/panics", "/v1/panics"] {
            let request = Request::get(path).body(Body::empty()).unwrap();
            let response = router.clone().oneshot(request).await.unwrap();
            assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
            let body = to_bytes(response.into_body(), 10_000).await.unwrap();
            let problem: Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(
                (&problem["code"], &problem["status"]),
                (&"internal".into(), &500.into())
            );
        }
    }
}
