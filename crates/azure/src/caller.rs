//! Caller and session of a request.

use axum::extract::{FromRequestParts, Path, Query, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use himalia_engine::{EngineError, KernelId, Origin, Principal, StartSession};
use himalia_facade::Caller;
use serde::Deserialize;

use crate::facade::Facade;
use crate::failure::Failure;
use crate::limits::IDENTIFIER_CHARS;

/// The label of a session that has the identifier of its client.
const LABEL: &str = "azure-identifier";

/// Caller and session of a request. A mount that forgets to authenticate fails closed.
#[derive(Clone, Debug)]
pub(crate) struct SessionCaller {
    pub(crate) principal: Principal,
    pool: String,
    identifier: String,
    /// The version of the API that the client speaks.
    pub(crate) version: String,
}

#[derive(Debug, Deserialize)]
struct CallerQuery {
    identifier: Option<String>,
    #[serde(rename = "api-version", default)]
    version: String,
}

impl<S: Send + Sync> FromRequestParts<S> for SessionCaller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let unknown = |status| Failure::new(status, "internal", "the request has no principal");
        let Caller(principal) = Caller::from_request_parts(parts, state).await.map_err(unknown)?;
        let path = Path::<Vec<(String, String)>>::from_request_parts(parts, state).await;
        let Path(path) = path.map_err(|error| Failure::field("path", error.body_text()))?;
        let pool = path.into_iter().find(|(name, _)| name == "pool");
        let Query(asked) = Query::<CallerQuery>::try_from_uri(&parts.uri)
            .map_err(|error| Failure::field("query", error.body_text()))?;
        let identifier = asked.identifier.unwrap_or_default();
        if identifier.is_empty() || identifier.chars().count() > IDENTIFIER_CHARS {
            let reason = format!("must have 1 to {IDENTIFIER_CHARS} characters");
            return Err(Failure::field("identifier", reason));
        }
        Ok(Self {
            principal,
            pool: pool.map(|(_, pool)| pool).unwrap_or_default(),
            identifier,
            version: asked.version,
        })
    }
}

impl SessionCaller {
    /// Session of the request, started now if there is none.
    pub(crate) async fn session(&self, facade: &Facade) -> Result<KernelId, Failure> {
        let start = StartSession {
            name: Some(self.pool.clone()),
            session_name: Some((facade.name_of)(&self.pool, &self.identifier)),
            origin: Origin::V1,
            labels: [(LABEL.to_owned(), self.identifier.clone())].into(),
            ..StartSession::default()
        };
        let (info, _) = facade.engine.put_session(&self.principal, start).await?;
        Ok(info.kernel.id)
    }
}

/// `DELETE session`: it ends, and the next request with its identifier starts another one.
pub(crate) async fn end(State(facade): State<Facade>, named: SessionCaller) -> Result<StatusCode, Failure> {
    let name = (facade.name_of)(&named.pool, &named.identifier);
    let engine = &facade.engine;
    match engine.find_session(&named.principal, &name) {
        Ok(session) => {
            let ended = engine
                .shutdown_kernel(&named.principal, session.first_kernel())
                .await;
            ended.or_else(|error| if error.is_absent() { Ok(()) } else { Err(error) })?;
            Ok(StatusCode::OK)
        }
        Err(EngineError::NameEnded { .. }) => Ok(StatusCode::NO_CONTENT),
        Err(error) if error.is_absent() => Ok(StatusCode::NO_CONTENT),
        Err(error) => Err(error.into()),
    }
}
