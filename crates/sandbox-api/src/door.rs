//! The service of one session.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use himalia_egress::{Body, Denial, InternalService, NetworkAccess};
use himalia_model::panic_text;
use http::{Method, Request, Response};
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::answer::{Problem, problem};
use crate::{NAME, SessionApi, llm, routes};

/// Requests of one session that are answered at once. The next ones wait.
pub const MAX_REQUESTS: usize = 64;
/// Bytes of the body of a request.
pub const MAX_BODY_BYTES: usize = 4 << 20;

/// Service at [`NAME`] for one session.
pub struct Door {
    api: Arc<dyn SessionApi>,
    turns: Arc<Semaphore>,
}

impl Door {
    /// For the session that this is of.
    pub fn new(api: Arc<dyn SessionApi>) -> Self {
        Self {
            api,
            turns: Arc::new(Semaphore::new(MAX_REQUESTS)),
        }
    }
}

impl InternalService for Door {
    fn is_at(&self, name: &str) -> bool {
        name == NAME
    }

    fn own_bound(&self) -> Option<Arc<Semaphore>> {
        Some(Arc::clone(&self.turns))
    }

    fn respond(
        self: Arc<Self>,
        request: Request<Body>,
        _: Arc<NetworkAccess>,
    ) -> BoxFuture<'static, Result<Response<Body>, Denial>> {
        Box::pin(async move { Ok(answered(&*self.api, request).await) })
    }
}

/// Answers a request, also one whose handler panics: code would take a closed connection for a gateway that is away, and ask again and again.
pub(crate) async fn answered(api: &dyn SessionApi, request: Request<Body>) -> Response<Body> {
    let may_have_done = request.method() == Method::POST;
    let is_llm = routes::is_llm(request.uri().path());
    let responded = AssertUnwindSafe(routes::respond(api, request)).catch_unwind();
    responded.await.unwrap_or_else(|panic| {
        let id = Uuid::new_v4().simple().to_string();
        let panic = panic_text(&*panic);
        tracing::error!(id, panic, "a request handler of the sandbox API panicked");
        let panicked = Problem::panicked(&id, may_have_done);
        if is_llm {
            return llm::panicked(&panicked);
        }
        problem(&panicked)
    })
}

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Door")
    }
}
