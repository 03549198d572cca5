//! Zygotes of the host: processes with Python and its modules loaded, whose children become the first processes of
//! sandboxes. They stand outside every sandbox, run no foreign code and hold no secret.

mod process;
mod protocol;
mod task;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::Instant;

use himalia_jail::Rlimit;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};

use super::jail::Place;
use crate::host::proc::ProcessId;
use crate::{SandboxError, ZygoteSpec};

pub(super) use process::Surroundings;

/// Zygotes at once. One more makes room by ending the one that was used last the longest time ago.
const MAX_ZYGOTES: usize = 16;
/// Requests that wait for one zygote; more are refused.
const MAX_WAITING: usize = 64;

/// A first process that is wanted.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) place: Place,
    /// Gives the sandbox's key and ends.
    pub(super) key: OwnedFd,
    /// Its standard output and error.
    pub(super) log: File,
    /// Files `cgroup.procs`, open for writing.
    pub(super) cgroups: Vec<File>,
    pub(super) rlimits: Vec<Rlimit>,
    pub(super) argv: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
}

/// A first process.
#[derive(Debug)]
pub(super) struct Born {
    pub(super) process: ProcessId,
    /// How it ended, as `waitpid(2)` has it. Closed without an answer when the zygote has died before.
    pub(super) status: oneshot::Receiver<i32>,
}

#[derive(Debug)]
struct Request {
    order: Order,
    answer: oneshot::Sender<Result<Born, SandboxError>>,
}

/// What a zygote is doing.
#[derive(Clone, Debug)]
enum State {
    Starting,
    Ready,
    /// It died or refused, for this reason; it is started again after a pause.
    Down(String),
}

/// A way to one zygote; when the last one is dropped, it ends.
#[derive(Clone, Debug)]
pub(super) struct Zygote {
    requests: mpsc::Sender<Request>,
    state: watch::Receiver<State>,
}

impl Zygote {
    fn is_ready(&self) -> bool {
        matches!(*self.state.borrow(), State::Ready)
    }

    /// Has a first process made. Blocks; the answer comes within seconds in any case.
    pub(super) fn spawn(&self, order: Order) -> Result<Born, SandboxError> {
        let (answer, born) = oneshot::channel();
        self.requests
            .try_send(Request { order, answer })
            .map_err(|_| SandboxError::Zygote("too many sandboxes wait for it".to_owned()))?;
        born.blocking_recv()
            .map_err(|_| SandboxError::Zygote("it died at work".to_owned()))?
    }
}

/// All zygotes, by what they are started as.
#[derive(Debug)]
pub(super) struct Zygotes {
    surroundings: Surroundings,
    all: Mutex<HashMap<ZygoteSpec, (Zygote, Instant)>>,
}

impl Zygotes {
    pub(super) fn new(surroundings: Surroundings) -> Self {
        Self {
            surroundings,
            all: Mutex::default(),
        }
    }

    /// The zygote for this spec if it is ready; one that does not exist is started. Needs the runtime.
    pub(super) fn ready(&self, spec: &ZygoteSpec) -> Option<Zygote> {
        Some(self.get(spec)).filter(Zygote::is_ready)
    }

    /// Starts the zygote for this spec if it does not exist, and waits until it is ready.
    pub(super) async fn warm(&self, spec: &ZygoteSpec) -> Result<(), SandboxError> {
        let mut state = self.get(spec).state;
        let state = state
            .wait_for(|state| !matches!(state, State::Starting))
            .await
            .map_err(|_| SandboxError::Closed)?
            .clone();
        match state {
            State::Down(reason) => Err(SandboxError::Zygote(reason)),
            State::Starting | State::Ready => Ok(()),
        }
    }

    fn get(&self, spec: &ZygoteSpec) -> Zygote {
        let mut all = self.all.lock();
        if let Some((zygote, used)) = all.get_mut(spec) {
            *used = Instant::now();
            return zygote.clone();
        }
        if all.len() >= MAX_ZYGOTES {
            let oldest = all.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(oldest) = oldest.map(|(spec, _)| spec.clone()) {
                all.remove(&oldest);
            }
        }
        let (requests, waiting) = mpsc::channel(MAX_WAITING);
        let (says, state) = watch::channel(State::Starting);
        let task = task::run(spec.clone(), self.surroundings.clone(), waiting, says);
        tokio::spawn(task);
        let zygote = Zygote { requests, state };
        all.insert(spec.clone(), (zygote.clone(), Instant::now()));
        zygote
    }

    /// Ends all zygotes; sandboxes live on.
    pub(super) fn clear(&self) {
        self.all.lock().clear();
    }
}
