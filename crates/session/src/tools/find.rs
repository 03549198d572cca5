//! Tools of a session.

use std::fmt::Write as _;
use std::sync::Arc;

use himalia_model::{
    ApiServer, ApiServers, EngineError, FoundTool, FoundTools, ServerToolsPage, Session, ToolCaller,
    ToolError, ToolErrorCode, ToolInfo, ToolSchema,
};
use himalia_tool_servers::ServerState;
use himalia_tools::{Catalog, CatalogMatch, Tool, UnknownName, describe, list_found, list_servers};

use super::policy::{Decision, decide};
use super::{Tools, sees};

/// Characters of the text about servers, about what was found, and about one tool.
const SERVERS_CHARS: usize = 1500;
const FOUND_CHARS: usize = 1500;
const INFO_CHARS: usize = 4000;
/// Bytes of the schemas of a page, after which no tool is added to it.
const PAGE_BYTES: usize = 512 * 1024;
/// Tools of an answer.
pub(super) const MAX_FOUND: usize = 100;

impl Tools {
    /// The tools that a session may use, as their servers listed them last.
    pub(super) fn catalog(&self, session: &Arc<Session>) -> Catalog {
        let policy = &session.sandbox.tools;
        let servers = self.servers.snapshot().into_iter();
        let servers = servers.filter(|server| {
            let name = server.tools.name();
            sees(session, &server.owner) && policy.tools.iter().any(|one| one.is_of(name))
        });
        let session = Arc::clone(session);
        Catalog::new(servers.map(|server| server.tools).collect(), move |id| {
            session.sandbox.tools.permits(id.server, id.tool)
        })
    }

    pub fn list(&self, session: &Arc<Session>) -> ApiServers {
        let catalog = self.catalog(session);
        let policy = &session.sandbox.tools;
        let mut text = list_servers(&catalog, SERVERS_CHARS);
        let mut servers = Vec::new();
        for status in self.servers.states() {
            let name = status.name;
            if !sees(session, &status.owner) || !policy.tools.iter().any(|one| one.is_of(&name)) {
                continue;
            }
            let known = catalog.server(&name).ok();
            let tools = known.map_or(0, |server| catalog.tools(server).count());
            let reason = match status.state {
                ServerState::Ready { .. } => None,
                ServerState::Connecting => Some("it is being connected".to_owned()),
                // What it says of the gateway's network is not for sessions.
                ServerState::Failed { missing_grant, .. } => {
                    Some(missing_grant.unwrap_or_else(|| "the gateway cannot reach it now".to_owned()))
                }
            };
            if let (None, Some(reason)) = (known, &reason) {
                if !text.is_empty() {
                    text.push('\n');
                }
                let _ = write!(text, "{name}: {reason}");
            }
            let description = self.configs.get(&name).map(|config| config.description.clone());
            servers.push(ApiServer {
                name,
                description: description.unwrap_or_default(),
                tools,
                ready: reason.is_none(),
                reason,
            });
        }
        if servers.is_empty() {
            text.push_str("this session has no tools");
        }
        ApiServers { servers, text }
    }

    /// Tools that fit some words.
    pub fn search(
        &self,
        session: &Arc<Session>,
        server: Option<&str>,
        query: &str,
        limit: usize,
    ) -> Result<FoundTools, EngineError> {
        let catalog = self.catalog(session);
        let found = catalog.search(server, query, limit.min(MAX_FOUND));
        let found = found.map_err(|unknown| self.unknown(session, &unknown))?;
        let text = if found.is_empty() {
            "no tool fits; try other words, or none for the first ones".to_owned()
        } else {
            list_found(&found, FOUND_CHARS)
        };
        let tools = found.iter().map(|one| {
            let definition = one.tool.definition();
            FoundTool {
                id: one.id().to_string(),
                description: definition.description.clone(),
                read_only: definition.effect.read_only,
            }
        });
        Ok(FoundTools {
            tools: tools.collect(),
            text,
        })
    }

    /// The tools of a server with their schemas: those after a name, as many as a page has.
    pub fn schemas(
        &self,
        session: &Arc<Session>,
        server: &str,
        after: &str,
    ) -> Result<ServerToolsPage, EngineError> {
        let catalog = self.catalog(session);
        let found = catalog.server(server);
        let found = found.map_err(|unknown| self.unknown(session, &unknown))?;
        let mut rest: Vec<_> = catalog.tools(found).map(Tool::definition).collect();
        rest.retain(|tool| tool.name.as_str() > after);
        rest.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let mut bytes = 0;
        let page = rest.iter().take_while(|tool| {
            let fits = bytes < PAGE_BYTES;
            bytes += tool.description.len() + tool.input_schema.to_string().len();
            bytes += tool
                .output_schema
                .as_ref()
                .map_or(0, |schema| schema.to_string().len());
            fits
        });
        let tools: Vec<_> = page
            .map(|tool| ToolSchema {
                name: tool.name.clone(),
                description: tool.description.clone(),
                input_schema: tool.input_schema.clone(),
                output_schema: tool.output_schema.clone(),
                read_only: tool.effect.read_only,
            })
            .collect();
        let last = tools.last().filter(|_| tools.len() < rest.len());
        let next = last.map(|tool| tool.name.clone());
        Ok(ServerToolsPage { tools, next })
    }

    /// Details of a tool.
    pub fn info(&self, session: &Arc<Session>, id: &str) -> Result<ToolInfo, EngineError> {
        let catalog = self.catalog(session);
        let found = catalog
            .get(id)
            .map_err(|unknown| self.unknown(session, &unknown))?;
        let definition = found.tool.definition();
        let callers = self.callers(&found).to_vec();
        let caller = callers.first().copied().unwrap_or(ToolCaller::Code);
        let decision = decide(&session.sandbox.tools, &found, &callers, caller);
        let mut text = describe(&found, INFO_CHARS);
        if let [only] = callers[..] {
            let who = match only {
                ToolCaller::Code => "code in the session (himalia.call)",
                ToolCaller::Model => "a client of the gateway, not code",
            };
            let _ = write!(text, "\nCalled by: {who}");
        }
        match &decision {
            Decision::Allow => {}
            Decision::Ask => text.push_str("\nEach call waits for a person to approve it"),
            Decision::Deny { reason, .. } => {
                let _ = write!(text, "\nNot permitted: {reason}");
            }
        }
        Ok(ToolInfo {
            id: found.id().to_string(),
            description: definition.description.clone(),
            input_schema: definition.input_schema.clone(),
            output_schema: definition.output_schema.clone(),
            example: found.tool.example(),
            read_only: definition.effect.read_only,
            destructive: definition.effect.destructive,
            idempotent: definition.effect.idempotent,
            callers,
            permitted: !matches!(decision, Decision::Deny { .. }),
            approval: decision == Decision::Ask,
            text,
        })
    }

    /// Callers that may call a tool.
    pub(super) fn callers(&self, found: &CatalogMatch<'_>) -> &[ToolCaller] {
        let id = found.id();
        let config = self.configs.get(id.server);
        config.map_or(&[], |config| config.callers.of(id.tool))
    }

    /// A name that means nothing to a session; the error names what is like it.
    pub(super) fn unknown(&self, session: &Arc<Session>, unknown: &UnknownName) -> EngineError {
        EngineError::tool(self.unknown_tool(session, unknown))
    }

    pub(super) fn unknown_tool(&self, session: &Arc<Session>, unknown: &UnknownName) -> ToolError {
        let (code, name) = match unknown {
            UnknownName::Server { name, .. } => (ToolErrorCode::UnknownServer, Some(name)),
            UnknownName::Tool { .. } | UnknownName::Form { .. } => (ToolErrorCode::UnknownTool, None),
        };
        // One that has listed nothing yet.
        if let Some(name) = name
            && let Some(server) = self
                .list(session)
                .servers
                .into_iter()
                .find(|one| one.name == *name)
        {
            let reason = server
                .reason
                .unwrap_or_else(|| "it cannot be reached now".to_owned());
            let message = format!("{name} has not listed its tools yet: {reason}");
            return ToolError::new(ToolErrorCode::Unavailable, message).with_hint("Try again later.");
        }
        let hint = match unknown {
            UnknownName::Server { .. } => "list_api_servers() lists the servers of this session.",
            _ => "tools_search(\"words\") finds tools.",
        };
        ToolError::new(code, unknown.to_string()).with_hint(hint)
    }
}
