//! A server of either kind, once it was reached.

use std::sync::Arc;

use himalia_model::{DescriptionSource, ToolServerConfig, ToolServerKind};
use himalia_upstream::{Http, needs_tls};
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::call::{CallError, Limits, Reply};
use crate::listing::Listing;
use crate::mcp::{Mcp, Signals};
use crate::openapi::OpenApi;
use crate::programs::Programs;
use crate::servers::Caller;

/// A server that was reached. A connection to it ends when this is dropped.
#[derive(Debug)]
pub(crate) enum Upstream {
    Mcp(Mcp),
    OpenApi(OpenApi),
}

/// Knowledge of a server before an attempt to reach it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attempt {
    /// Attempts before that failed, one after the other.
    pub(crate) failed: usize,
    /// True if it has spoken a version of the protocol without `initialize`.
    pub(crate) is_sessionless: bool,
}

/// Clients and settings that reach a server.
pub(crate) struct Reach {
    pub(crate) config: Arc<ToolServerConfig>,
    pub(crate) http: Arc<Http>,
    pub(crate) programs: Arc<dyn Programs>,
}

impl Upstream {
    /// Reaches a server, and lists its tools.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(crate) async fn open(
        reach: &Reach,
        signals: &Arc<Signals>,
        attempt: Attempt,
    ) -> Result<(Self, Listing), String> {
        let Reach {
            config,
            http,
            programs,
        } = reach;
        match &config.kind {
            ToolServerKind::Mcp { url } => {
                // Some servers fail at a question of a later version than their own.
                let only_initialize = attempt.failed % 2 == 1 && !attempt.is_sessionless;
                let connected = Mcp::connect(
                    Arc::clone(http),
                    url.clone(),
                    Arc::clone(signals),
                    only_initialize,
                );
                let connected = connected.await?;
                let listing = connected.list().await?;
                Ok((Self::Mcp(connected), listing))
            }
            ToolServerKind::Program(settings) => {
                let program = programs.start(config).await?;
                // Most programs know no other way, and some do not answer what they do not know.
                let only_initialize = attempt.failed % 3 != 2 && !attempt.is_sessionless;
                let connected =
                    Mcp::of_program(program, config, settings, Arc::clone(signals), only_initialize);
                let connected = connected.await?;
                let listing = connected.list().await?;
                Ok((Self::Mcp(connected), listing))
            }
            ToolServerKind::OpenApi {
                description,
                base_url,
            } => {
                let (made, listing) = OpenApi::read(Arc::clone(http), description, base_url.as_ref()).await?;
                Ok((Self::OpenApi(made), listing))
            }
        }
    }

    /// True if it speaks MCP without `initialize`.
    pub(crate) fn is_sessionless(&self) -> bool {
        matches!(self, Self::Mcp(mcp) if mcp.is_sessionless())
    }

    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        limits: Limits,
        deadline: Instant,
        caller: Caller<'_>,
    ) -> Result<Reply, CallError> {
        match self {
            Self::Mcp(mcp) => mcp.call(tool, arguments, limits, deadline, caller).await,
            Self::OpenApi(openapi) => {
                openapi
                    .call(tool, &arguments, limits, deadline, caller.trace)
                    .await
            }
        }
    }
}

/// True if a server, or its description, is reached over TLS. The URLs that a description names may be.
pub(crate) fn uses_tls(config: &ToolServerConfig) -> bool {
    match &config.kind {
        ToolServerKind::Mcp { url } => needs_tls([url]),
        ToolServerKind::Program(_) => false,
        ToolServerKind::OpenApi {
            description,
            base_url,
        } => {
            let of_description = match description {
                DescriptionSource::Url(url) => Some(url),
                DescriptionSource::File(_) => None,
            };
            match (of_description, base_url) {
                (None, None) => true,
                (description, base) => needs_tls(description.into_iter().chain(base)),
            }
        }
    }
}

/// The kind of a server, and where it is.
pub(crate) fn described(kind: &ToolServerKind) -> (&'static str, String) {
    match kind {
        ToolServerKind::Mcp { url } => ("mcp", url.to_string()),
        // Without its arguments, which may be secret.
        ToolServerKind::Program(program) => ("program", program.program().to_owned()),
        ToolServerKind::OpenApi { description, .. } => (
            "openapi",
            match description {
                DescriptionSource::Url(url) => url.to_string(),
                DescriptionSource::File(path) => path.display().to_string(),
            },
        ),
    }
}
