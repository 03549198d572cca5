//! Programs that are servers of tools: each is a command in a session that the gateway starts for it.
//!
//! The session belongs to the owner of the server, and to this process of the gateway: it ends with that. What an earlier process, or
//! another replica that is gone, has left is ended by [`crate::end::Lifetimes`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt as _};
use himalia_kernel::Command;
use himalia_model::{
    EngineError, FileError, Origin, Principal, ProgramConfig, Role, Session, StartSession, ToolServerConfig,
    ToolServerKind, ToolServerSession,
};
use himalia_shim_protocol::{ProcessExit, ProcessOrder, ProcessSource, RunProcess};
use himalia_tool_servers::{Program, ProgramEvent, ProgramInput, Programs};
use tokio::sync::watch;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::{Process, ProcessEvent, ProcessEvents, ProcessWriter, SessionKernel, SessionManager};

/// The caller by whom such sessions are started.
const CALLER: &str = "tool-servers";
/// The label of such a session: the name of its server.
const LABEL: &str = "himalia.tool_server";

/// Starts programs in sessions.
pub(crate) struct SessionPrograms {
    /// Names this process of the gateway.
    gateway: Uuid,
    /// Empty until the gateway is open.
    manager: watch::Sender<Weak<SessionManager>>,
}

impl Default for SessionPrograms {
    fn default() -> Self {
        Self {
            gateway: Uuid::new_v4(),
            manager: watch::Sender::new(Weak::new()),
        }
    }
}

impl fmt::Debug for SessionPrograms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionPrograms")
    }
}

impl SessionPrograms {
    /// Sessions can be started from now on.
    pub(crate) fn open(&self, manager: &Arc<SessionManager>) {
        self.manager.send_replace(Arc::downgrade(manager));
    }

    /// True if a session was started for a program by a gateway process that is gone.
    pub(crate) fn is_left(&self, session: &Session) -> bool {
        let place = session.tool_server.as_ref();
        place.is_some_and(|place| place.gateway != self.gateway)
    }

    async fn run(&self, server: &ToolServerConfig, settings: &ProgramConfig) -> Result<Program, String> {
        let mut opened = self.manager.subscribe();
        let manager = opened.wait_for(|manager| manager.strong_count() > 0).await;
        let manager = manager.ok().and_then(|manager| manager.upgrade());
        let manager = manager.ok_or_else(|| "the gateway stops".to_owned())?;
        let place = ToolServerSession {
            server: server.name.clone(),
            gateway: self.gateway,
        };
        let handle = Box::pin(manager.session_of(server, settings, place)).await;
        let handle = handle.map_err(|error| format!("its session cannot be started: {error}"))?;
        let wanted = RunProcess {
            argv: settings.command.clone(),
            env: settings.env.clone(),
            cwd: None,
            stdin: true,
            terminal: None,
        };
        match manager.start_process(&handle, wanted).await {
            Ok(process) => Ok(program(process)),
            Err(error) => {
                let is_missing = matches!(
                    &error,
                    EngineError::Files {
                        code: FileError::NotFound,
                        ..
                    }
                );
                if !is_missing {
                    // The next attempt has another sandbox.
                    handle.order(Command::Stop("sandbox_lost")).await;
                }
                Err(format!("its program cannot be started: {error}"))
            }
        }
    }
}

impl Programs for SessionPrograms {
    fn start<'a>(&'a self, server: &'a ToolServerConfig) -> BoxFuture<'a, Result<Program, String>> {
        Box::pin(async move {
            match &server.kind {
                ToolServerKind::Program(settings) => self.run(server, settings).await,
                ToolServerKind::Mcp { .. } | ToolServerKind::OpenApi { .. } => {
                    Err("the server is not a program".to_owned())
                }
            }
        })
    }
}

impl SessionManager {
    /// The session of a server: the one that lives, or a new one.
    async fn session_of(
        self: &Arc<Self>,
        server: &ToolServerConfig,
        settings: &ProgramConfig,
        place: ToolServerSession,
    ) -> Result<Arc<SessionKernel>, EngineError> {
        for handle in self.registry.all_unordered() {
            let session = handle.session();
            let is_its = session.role == Role::Session && session.tool_server.as_ref() == Some(&place);
            if !is_its || handle.ends() {
                continue;
            }
            if !handle.is_lost() {
                return Ok(handle);
            }
            handle.order(Command::Stop("sandbox_lost")).await;
        }
        let principal = Principal::of_owner(&server.owner, CALLER)?;
        let start = StartSession {
            name: settings.template.clone(),
            origin: Origin::V1,
            labels: BTreeMap::from([(LABEL.to_owned(), server.name.clone())]),
            ..StartSession::default()
        };
        self.start_for(&principal, start, Some(place)).await
    }

    /// Ends the sessions of programs: the next gateway starts its own.
    pub(crate) async fn end_programs(&self) {
        let mut ends = JoinSet::new();
        for handle in self.registry.all_unordered() {
            if handle.session().tool_server.is_some() {
                ends.spawn(async move {
                    handle.order(Command::Stop("gateway_stopped")).await;
                    handle.gone().await;
                });
            }
        }
        ends.join_all().await;
    }
}

/// A command as a program that is a server.
fn program(process: Process) -> Program {
    let Process { events, writer, .. } = process;
    let events = stream::unfold(Some(events), |events| async move {
        let mut events: ProcessEvents = events?;
        let event = match events.next().await {
            Ok(ProcessEvent::Output(ProcessSource::Stderr, bytes)) => ProgramEvent::Errors(bytes),
            Ok(ProcessEvent::Output(_, bytes)) => ProgramEvent::Output(bytes),
            Ok(ProcessEvent::Exited(exit)) => return Some((ProgramEvent::Ended(ended(exit)), None)),
            Err(error) => return Some((ProgramEvent::Ended(error.to_string()), None)),
        };
        Some((event, Some(events)))
    });
    Program {
        events: events.boxed(),
        input: Box::new(Input(writer)),
    }
}

fn ended(exit: ProcessExit) -> String {
    match exit {
        ProcessExit { code: Some(code), .. } => format!("its program has ended with code {code}"),
        ProcessExit {
            signal: Some(signal), ..
        } => format!("its program was ended by signal {signal}"),
        ProcessExit { .. } => "its program has ended".to_owned(),
    }
}

struct Input(ProcessWriter);

impl ProgramInput for Input {
    fn write(&mut self, bytes: Bytes) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            let written = self.0.order(ProcessOrder::Input(bytes)).await;
            written.map_err(|error| error.to_string())
        })
    }
}
