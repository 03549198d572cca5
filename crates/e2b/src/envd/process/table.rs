//! The commands that run, and the task that owns each of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use himalia_engine::{Process, ProcessEvent, ProcessOrder, ProcessWriter, SessionId};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::messages::{Config, Event, Selector};
use crate::connect::{Code, RpcFailure};

/// Orders that wait for a command.
const ORDERS: usize = 16;
/// Events that wait for a client; above it the command waits.
const EVENTS: usize = 16;
/// Clients of one command.
const CLIENTS: usize = 16;
/// The signal at the end of its time.
const KILL: i32 = 9;

#[derive(Debug)]
pub(super) struct RunningCommand {
    pub(super) pid: u32,
    pub(super) config: Config,
    pub(super) tag: Option<String>,
    pub(super) has_terminal: bool,
    orders: mpsc::Sender<ProcessOrder>,
    clients: mpsc::Sender<mpsc::Sender<Event>>,
}

impl RunningCommand {
    /// Gives it an order. Waits while it does not take its input.
    pub(super) async fn order(&self, order: ProcessOrder) -> Result<(), RpcFailure> {
        self.orders.send(order).await.map_err(|_| ended(self.pid))
    }

    /// Events of the command from now on, after its start.
    pub(super) async fn connect(&self) -> Result<mpsc::Receiver<Event>, RpcFailure> {
        let (client, events) = mpsc::channel(EVENTS);
        let _ = client.try_send(Event::Started(self.pid));
        self.clients.send(client).await.map_err(|_| ended(self.pid))?;
        Ok(events)
    }
}

fn ended(pid: u32) -> RpcFailure {
    RpcFailure::new(Code::NotFound, format!("process with pid {pid} not found"))
}

type Table = HashMap<SessionId, HashMap<u32, Arc<RunningCommand>>>;

/// All that run, by their sandboxes. Clones are cheap and name the same table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Processes(Arc<Mutex<Table>>);

impl Processes {
    /// Commands of a sandbox, by number.
    pub(super) fn list(&self, session: SessionId) -> Vec<Arc<RunningCommand>> {
        let mut all: Vec<_> = self.with(|table| {
            table
                .get(&session)
                .map(|all| all.values().cloned().collect())
                .unwrap_or_default()
        });
        all.sort_by_key(|one: &Arc<RunningCommand>| one.pid);
        all
    }

    pub(super) fn find(
        &self,
        session: SessionId,
        selector: Option<&Selector>,
    ) -> Result<Arc<RunningCommand>, RpcFailure> {
        let all = self.list(session);
        match selector {
            None => Err(RpcFailure::new(Code::InvalidArgument, "process: is missing")),
            Some(Selector::Pid(pid)) => {
                let found = all.into_iter().find(|one| one.pid == *pid);
                found.ok_or_else(|| ended(*pid))
            }
            Some(Selector::Tag(tag)) => {
                let found = all.into_iter().find(|one| one.tag.as_ref() == Some(tag));
                found.ok_or_else(|| {
                    let tag: String = tag.chars().take(64).flat_map(char::escape_debug).collect();
                    RpcFailure::new(Code::NotFound, format!("process with tag {tag} not found"))
                })
            }
        }
    }

    /// Takes over a command, for at most `limit`. Gives what it does to its first client.
    pub(super) fn run(
        &self,
        session: SessionId,
        process: Process,
        config: Config,
        tag: Option<String>,
        limit: Option<Duration>,
    ) -> mpsc::Receiver<Event> {
        let (orders, orders_in) = mpsc::channel(ORDERS);
        let (clients, clients_in) = mpsc::channel(CLIENTS);
        let (first, events) = mpsc::channel(EVENTS);
        let _ = first.try_send(Event::Started(process.pid));
        let running = Arc::new(RunningCommand {
            pid: process.pid,
            has_terminal: process.has_terminal,
            config,
            tag,
            orders,
            clients,
        });
        let pid = running.pid;
        self.with(|table| {
            table
                .entry(session)
                .or_default()
                .insert(pid, Arc::clone(&running))
        });
        let (table, deadline) = (self.clone(), limit.map(|limit| Instant::now() + limit));
        tokio::spawn(async move {
            let own = own(process, orders_in, clients_in, first, deadline);
            own.await;
            table.with(|table| {
                let Some(all) = table.get_mut(&session) else {
                    return;
                };
                // A later one may have the same number.
                if all.get(&pid).is_some_and(|one| Arc::ptr_eq(one, &running)) {
                    all.remove(&pid);
                }
                if all.is_empty() {
                    table.remove(&session);
                }
            });
        });
        events
    }

    fn with<T>(&self, work: impl FnOnce(&mut Table) -> T) -> T {
        work(&mut self.0.lock())
    }
}

/// Runs until the command has ended. The stream is cut then, which ends the command if it runs.
async fn own(
    process: Process,
    mut orders: mpsc::Receiver<ProcessOrder>,
    mut new_clients: mpsc::Receiver<mpsc::Sender<Event>>,
    first: mpsc::Sender<Event>,
    deadline: Option<Instant>,
) {
    let Process {
        mut events, writer, ..
    } = process;
    let (to_writer, input) = mpsc::channel(1);
    let writing = tokio::spawn(write(writer, input));
    let mut clients = vec![first];
    // An event on its way, and how many clients have it.
    let mut outgoing: Option<(Event, usize)> = None;
    let mut waiting: Option<ProcessOrder> = None;
    let mut is_late = false;
    loop {
        if let Some((event, sent)) = &outgoing
            && *sent >= clients.len()
        {
            if matches!(event, Event::Ended(_)) {
                break;
            }
            outgoing = None;
        }
        let next_client = outgoing
            .as_ref()
            .and_then(|(_, sent)| clients.get(*sent).cloned());
        tokio::select! {
            event = events.next(), if outgoing.is_none() => match event {
                Ok(ProcessEvent::Output(source, bytes)) => outgoing = Some((Event::Output(source, bytes), 0)),
                Ok(ProcessEvent::Exited(exit)) => outgoing = Some((Event::Ended(exit), 0)),
                // Its sandbox has gone: its clients see a stream that ends without an end.
                Err(error) => {
                    tracing::info!(%error, "the stream of a command broke off");
                    break;
                }
            },
            permit = reserve(next_client), if outgoing.is_some() => {
                if let Some((event, sent)) = &mut outgoing {
                    if let Some(permit) = permit {
                        permit.send(event.clone());
                        *sent += 1;
                    } else {
                        clients.remove(*sent);
                    }
                }
            }
            Some(client) = new_clients.recv() => {
                if clients.len() < CLIENTS {
                    clients.push(client);
                }
            }
            order = orders.recv(), if waiting.is_none() => waiting = order,
            permit = to_writer.reserve(), if waiting.is_some() => {
                let (Ok(permit), Some(order)) = (permit, waiting.take()) else { break };
                permit.send(order);
            }
            () = until(deadline), if !is_late => {
                is_late = true;
                let _ = to_writer.try_send(ProcessOrder::Signal { signal: KILL });
            }
        }
    }
    writing.abort();
}

/// Room at a client; `None` if it has left.
async fn reserve(client: Option<mpsc::Sender<Event>>) -> Option<mpsc::OwnedPermit<Event>> {
    client?.reserve_owned().await.ok()
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Writes orders one after another, so that output is read meanwhile.
async fn write(mut writer: ProcessWriter, mut orders: mpsc::Receiver<ProcessOrder>) {
    while let Some(order) = orders.recv().await {
        if writer.order(order).await.is_err() {
            return;
        }
    }
}
