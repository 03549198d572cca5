//! The task that owns one zygote: starts it, sends it requests, reads its replies, and restarts it after its death.

use std::collections::HashMap;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use himalia_backoff::Backoff;
use rustix::process::Signal;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout};

use super::birth::ForkedProcess;
use super::process::{Surroundings, ZygoteProcess};
use super::protocol::{Hello, Reply, Spawn};
use super::{Request, State};
use crate::host::blocking;
use crate::host::proc::Process;
use crate::{SandboxError, ZygoteSpec};

/// Upper bound of the time that a zygote needs to import modules.
const READY_PATIENCE: Duration = Duration::from_mins(3);
/// Upper bound of the duration of a fork and the creation of its sandbox, usually milliseconds. Longer than the zygote's own limit.
const SPAWN_PATIENCE: Duration = Duration::from_secs(15);
/// Forks under way at once. Fewer than a socket holds, so that asking never waits while the zygote answers.
const MAX_PENDING: usize = 4;
/// Pause before a zygote that died is started again; doubled each time, up to the second.
const BACK_OFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));
/// A zygote that lived so long died of something new.
const HEALTHY: Duration = Duration::from_mins(1);

/// A fork that was asked for.
struct PendingFork {
    answer: oneshot::Sender<Result<ForkedProcess, SandboxError>>,
    deadline: Instant,
}

/// Runs until all senders of `requests` are dropped.
pub(super) async fn run(
    spec: ZygoteSpec,
    surroundings: Surroundings,
    mut requests: mpsc::Receiver<Request>,
    state: watch::Sender<State>,
) {
    let spec = Arc::new(spec);
    let mut backoff = Backoff::new(BACK_OFF.0, BACK_OFF.1);
    loop {
        state.send_replace(State::Starting);
        let reason = match start(&spec, surroundings.clone(), &mut requests).await {
            Ok(None) => return,
            Ok(Some(process)) => {
                state.send_replace(State::Ready);
                let since = Instant::now();
                let mut serving = RunningZygote {
                    process,
                    pending: HashMap::new(),
                    children: HashMap::new(),
                    count: 0,
                };
                let Some(reason) = serving.serve(&mut requests).await else {
                    return;
                };
                if since.elapsed() >= HEALTHY {
                    backoff.reset();
                }
                reason
            }
            Err(error) => error.to_string(),
        };
        let pause = backoff.pause();
        tracing::warn!(python = %spec.python.display(), reason, ?pause, "a zygote is gone; sandboxes start cold meanwhile");
        state.send_replace(State::Down(reason));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = refuse(&mut requests, "it has died and is started again later") => return,
        }
    }
}

/// Starts a process and waits until it is ready. `None` when all senders of `requests` are dropped: its process and its
/// home directory are gone then.
async fn start(
    spec: &Arc<ZygoteSpec>,
    surroundings: Surroundings,
    requests: &mut mpsc::Receiver<Request>,
) -> Result<Option<ZygoteProcess>, SandboxError> {
    let asked = Instant::now();
    let starting = Arc::clone(spec);
    // Only the wait for a message is given up early. A start that is given up would leave its process and its directory
    // to a thread for which the end of the gateway does not wait.
    let mut process = blocking(move || ZygoteProcess::start(&starting, &surroundings)).await??;
    let failed = |source: std::io::Error| SandboxError::Spawn {
        program: spec.python.clone(),
        source,
    };
    let said = tokio::select! {
        said = timeout(READY_PATIENCE, process.receive()) => said,
        () = refuse(requests, "it is starting") => {
            blocking(move || drop(process)).await?;
            return Ok(None);
        }
    };
    let text = said
        .map_err(|_| failed(std::io::ErrorKind::TimedOut.into()))?
        .map_err(failed)?;
    let hello: Hello = serde_json::from_slice(&text).map_err(|error| failed(error.into()))?;
    if !hello.ready {
        return Err(failed(std::io::Error::other(format!(
            "it refuses: {}",
            hello.reason
        ))));
    }
    // A gateway that is killed leaves none behind.
    let process = blocking(move || {
        process.leave_home();
        process
    })
    .await?;
    for (module, error) in &hello.failed {
        tracing::warn!(module, error, "a zygote could not import a module");
    }
    tracing::info!(
        python = hello.python,
        pid = process.pid(),
        ms = u64::try_from(asked.elapsed().as_millis()).unwrap_or(u64::MAX),
        "a zygote is ready"
    );
    Ok(Some(process))
}

/// Answers requests that cannot be served; returns when there will be no more.
async fn refuse(requests: &mut mpsc::Receiver<Request>, reason: &str) {
    while let Some(request) = requests.recv().await {
        let _ = request.answer.send(Err(SandboxError::Zygote(reason.to_owned())));
    }
}

/// One life of a zygote.
struct RunningZygote {
    process: ZygoteProcess,
    pending: HashMap<String, PendingFork>,
    /// Receivers of the exit status of each process.
    children: HashMap<i32, oneshot::Sender<i32>>,
    count: u64,
}

impl RunningZygote {
    /// Serves until the zygote dies, and returns why. `None` when all senders of `requests` are dropped.
    async fn serve(&mut self, requests: &mut mpsc::Receiver<Request>) -> Option<String> {
        loop {
            let next = self.pending.values().map(|pending| pending.deadline).min();
            let wait = async {
                match next {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                request = requests.recv(), if self.pending.len() < MAX_PENDING => {
                    let request = request?;
                    if let Err(error) = self.ask(request).await {
                        return Some(format!("it takes no requests: {error}"));
                    }
                }
                message = self.process.receive() => match message {
                    Ok(text) => self.hear(&text),
                    Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                        return Some("it has ended".to_owned());
                    }
                    Err(error) => return Some(error.to_string()),
                },
                // Dropped, it is killed; what was asked for is answered by the drop of its channel.
                () = wait => return Some("it does not answer".to_owned()),
            }
        }
    }

    async fn ask(&mut self, request: Request) -> std::io::Result<()> {
        self.count += 1;
        let id = self.count.to_string();
        let Request { order, answer } = request;
        let text = serde_json::to_vec(&Spawn { id: &id })?;
        let fds = [order.as_fd()];
        match timeout(SPAWN_PATIENCE, self.process.send(&text, &fds)).await {
            Ok(sent) => sent?,
            Err(_) => return Err(std::io::ErrorKind::TimedOut.into()),
        }
        let deadline = Instant::now() + SPAWN_PATIENCE;
        self.pending.insert(id, PendingFork { answer, deadline });
        Ok(())
    }

    fn hear(&mut self, text: &[u8]) {
        match serde_json::from_slice(text) {
            Ok(Reply::Spawned { id, pid }) => {
                let (ended, status) = oneshot::channel();
                let process = Process::read(pid).map(|process| process.id);
                self.children.insert(pid, ended);
                let Some(pending) = self.pending.remove(&id) else {
                    return kill(process);
                };
                // The zygote reaps it only after it has told of its end, so it can be read.
                let born = process.map(|process| ForkedProcess { process, status });
                let born =
                    born.ok_or_else(|| SandboxError::Zygote("the new process is not there".to_owned()));
                if pending.answer.send(born).is_err() {
                    kill(process);
                }
            }
            Ok(Reply::Failed { id, step, error }) => {
                // Which request was not understood is not known: none of the few waits in vain.
                let ids = id.map_or_else(|| self.pending.keys().cloned().collect(), |id| vec![id]);
                for pending in ids.iter().filter_map(|id| self.pending.remove(id)) {
                    let error = SandboxError::Zygote(format!("{step}: {error}"));
                    let _ = pending.answer.send(Err(error));
                }
            }
            Ok(Reply::Exited { pid, status }) => {
                if let Some(ended) = self.children.remove(&pid) {
                    let _ = ended.send(status);
                }
            }
            Err(error) => tracing::warn!(%error, "a zygote sent an unknown message"),
        }
    }
}

/// Ends a sandbox whose caller is gone.
fn kill(process: Option<crate::host::proc::ProcessId>) {
    if let Some(process) = process {
        let _ = process.signal(Signal::KILL);
    }
}
