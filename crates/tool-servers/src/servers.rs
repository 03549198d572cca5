//! All of the configured servers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use himalia_credentials::CredentialSource;
use himalia_model::{Clock, OPERATOR, ToolServerConfig, TraceContext};
use himalia_upstream::Http;
use serde_json::{Map, Value};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use crate::call::{CallError, Limits, Reply};
use crate::person::Person;
use crate::programs::Programs;
use crate::state::{OwnedTools, ServerState, ServerStatus, View};
use crate::task::{Task, Timing};
use crate::turns::{TurnLimits, Turns};
use crate::upstream::{Reach, described, uses_tls};

/// Calls of one server at once. The next ones wait within their time.
pub const MAX_CALLS: usize = 64;
/// Calls of one tenant at the same time, at a server of all tenants.
pub const MAX_CALLS_OF_TENANT: usize = 48;
/// Calls of one session at the same time.
pub const MAX_CALLS_OF_SESSION: usize = 32;
/// Calls of one server that wait. More are refused.
pub const MAX_WAITING: usize = 1024;
/// Waiting calls of one owner of sessions, and of one session.
const MAX_WAITING_OF_OWNER: usize = 768;
const MAX_WAITING_OF_SESSION: usize = 512;
/// Lists of servers that are read at a time: the schemas of one take a processor for a while.
const MAX_LISTS: usize = 1;

/// Owner and session of a call. Turns at a server are shared by owners, and by the sessions of each.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// A tenant, or `operator`.
    pub owner: &'a str,
    pub session: &'a str,
    /// The span of the call, where it is traced. An MCP server gets it with the call.
    pub trace: Option<TraceContext>,
    /// The person who answers questions of the server. Without one they are declined.
    pub person: Option<&'a dyn Person>,
}

/// The configured servers of tools. Connections end when this is dropped.
pub struct ToolServers {
    by_name: BTreeMap<String, Server>,
}

struct Server {
    config: Arc<ToolServerConfig>,
    view: watch::Receiver<View>,
    turns: Arc<Turns>,
    _task: AbortOnDropHandle<()>,
}

impl ToolServers {
    /// Begins to connect to each of these, whose names differ. Does not wait for them. Needs a runtime; blocks on the disk, for the
    /// certificates of this machine. Servers that are programs are started by `programs`.
    ///
    /// # Errors
    /// Two have one name, or TLS cannot be set up. Begins with the name of the server.
    pub fn start(
        configs: impl IntoIterator<Item = ToolServerConfig>,
        credentials: &Arc<dyn CredentialSource>,
        programs: &Arc<dyn Programs>,
        clock: &Clock,
    ) -> Result<Self, String> {
        Self::start_with(configs, credentials, programs, clock, Timing::default())
    }

    pub(crate) fn start_with(
        configs: impl IntoIterator<Item = ToolServerConfig>,
        credentials: &Arc<dyn CredentialSource>,
        programs: &Arc<dyn Programs>,
        clock: &Clock,
        timing: Timing,
    ) -> Result<Self, String> {
        let mut by_name = BTreeMap::new();
        let lists = Arc::new(Semaphore::new(MAX_LISTS));
        for config in configs {
            let name = config.name.clone();
            if by_name.contains_key(&name) {
                return Err(format!("{name}: there are two servers of this name"));
            }
            let http = Http::new(
                &config.owner,
                config.credential.as_deref(),
                credentials,
                uses_tls(&config),
            );
            let http = http.map_err(|reason| format!("{name}: {reason}"))?;
            let config = Arc::new(config);
            let calls_of_owner = if config.owner == OPERATOR {
                MAX_CALLS_OF_TENANT
            } else {
                MAX_CALLS
            };
            let (sender, view) = watch::channel(View {
                state: ServerState::Connecting,
                tools: None,
                upstream: None,
            });
            let task = Task {
                reach: Reach {
                    config: Arc::clone(&config),
                    http: Arc::new(http),
                    programs: Arc::clone(programs),
                },
                clock: clock.clone(),
                timing,
                lists: Arc::clone(&lists),
                view: sender,
            };
            let server = Server {
                config,
                view,
                turns: Turns::new(TurnLimits {
                    calls: MAX_CALLS,
                    calls_of_owner,
                    calls_of_session: MAX_CALLS_OF_SESSION,
                    waiting: MAX_WAITING,
                    waiting_of_owner: MAX_WAITING_OF_OWNER,
                    waiting_of_session: MAX_WAITING_OF_SESSION,
                }),
                _task: AbortOnDropHandle::new(tokio::spawn(task.run())),
            };
            by_name.insert(name, server);
        }
        Ok(Self { by_name })
    }

    /// The tools of the servers that have listed some, by name. Those of a server that has failed since are as it listed them last.
    pub fn snapshot(&self) -> Vec<OwnedTools> {
        let servers = self.by_name.values().filter_map(|server| {
            let tools = server.view.borrow().tools.clone()?;
            Some(OwnedTools {
                owner: server.config.owner.clone(),
                tools,
            })
        });
        servers.collect()
    }

    /// The servers, by name, and whether they can be called.
    pub fn states(&self) -> Vec<ServerStatus> {
        let status = |server: &Server| {
            let (kind, location) = described(&server.config.kind);
            ServerStatus {
                name: server.config.name.clone(),
                owner: server.config.owner.clone(),
                kind,
                location,
                state: server.view.borrow().state.clone(),
                calls: server.turns.count(),
            }
        };
        self.by_name.values().map(status).collect()
    }

    /// The bounds of calls of a server, as they are configured.
    pub fn limits(&self, server: &str) -> Option<Limits> {
        self.by_name.get(server).map(Server::limits)
    }

    /// Calls a tool, once, within these limits and those of its server. Arguments are an object; whether they fit the schema is checked
    /// before ([`himalia_tools::Tool::check`]). When this is dropped, the connection of the call is closed.
    ///
    /// # Errors
    /// [`CallError`] says whether it was done.
    pub async fn call(
        &self,
        caller: Caller<'_>,
        server: &str,
        tool: &str,
        arguments: Map<String, Value>,
        limits: Limits,
    ) -> Result<Reply, CallError> {
        let found = self.by_name.get(server);
        let found =
            found.ok_or_else(|| CallError::unavailable(format_args!("there is no server {server:.64}")))?;
        let limits = limits.min(found.limits());
        let deadline = Instant::now() + limits.time;
        let turn = timeout_at(deadline, found.turns.next(caller.owner, caller.session)).await;
        let turn = turn.map_err(|_| {
            CallError::unavailable(format_args!(
                "{server} has as many calls in progress as it may, {MAX_CALLS} in all, {MAX_CALLS_OF_TENANT} of a tenant and {MAX_CALLS_OF_SESSION} of a session, and \
                 there was no turn in time"
            ))
        })?;
        let _turn = turn.map_err(|whose| {
            CallError::unavailable(format_args!("{server} has too many calls of {whose} that wait"))
        })?;
        let (upstream, state) = {
            let view = found.view.borrow();
            (view.upstream.clone(), view.state.clone())
        };
        let Some(upstream) = upstream else {
            return Err(CallError::unavailable(match state {
                ServerState::Failed { reason, .. } => format!("{server} cannot be called now: {reason}"),
                _ => format!("{server} cannot be called now: it is being connected"),
            }));
        };
        upstream.call(tool, arguments, limits, deadline, caller).await
    }
}

impl Server {
    fn limits(&self) -> Limits {
        Limits {
            time: self.config.call_time,
            reply_bytes: self.config.reply_bytes,
        }
    }
}

impl fmt::Debug for ToolServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}
