//! Zygotes of the host: processes with Python and its modules loaded, whose children become the first processes of
//! sandboxes. They stand outside every sandbox, run no foreign code and hold no secret.

mod birth;
mod home;
mod process;
mod protocol;
mod task;
mod trust;

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};

use crate::{SandboxError, ZygoteSpec};

pub(super) use birth::{Birth, Order};
pub(super) use home::remove_all as remove_homes;
pub(super) use process::Surroundings;

use birth::ForkedProcess;

/// Zygotes at once. One more makes room by ending the one that was used last the longest time ago.
const MAX_ZYGOTES: usize = 16;
/// Longest time for the end of all zygotes.
const CLOSING: Duration = Duration::from_secs(5);
/// Requests that wait for one zygote; more are refused.
const MAX_WAITING: usize = 64;

#[derive(Debug)]
struct Request {
    /// The new process' end of the socket from which it hears all else.
    order: OwnedFd,
    answer: oneshot::Sender<Result<ForkedProcess, SandboxError>>,
}

/// State of a zygote.
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

    /// Asks for a first process, which joins these groups at once: files `cgroup.procs`, open for writing.
    pub(super) fn begin(&self, cgroups: &[File]) -> Result<Birth, SandboxError> {
        let (answer, born) = oneshot::channel();
        let (birth, order) = Birth::new(cgroups, born)?;
        self.requests
            .try_send(Request { order, answer })
            .map_err(|_| SandboxError::Zygote("too many sandboxes wait for it".to_owned()))?;
        Ok(birth)
    }
}

/// All zygotes, by what they are started as.
#[derive(Debug)]
pub(super) struct Zygotes {
    surroundings: Surroundings,
    /// None when they are closed: none is started any more.
    all: Mutex<Option<HashMap<ZygoteSpec, (Zygote, Instant)>>>,
}

impl Zygotes {
    pub(super) fn new(surroundings: Surroundings) -> Self {
        Self {
            surroundings,
            all: Mutex::new(Some(HashMap::new())),
        }
    }

    /// The zygote for this spec if it is ready; one that does not exist is started. Needs the runtime.
    pub(super) fn ready(&self, spec: &ZygoteSpec) -> Option<Zygote> {
        self.get(spec).filter(Zygote::is_ready)
    }

    /// Starts the zygote for this spec if it does not exist, and waits until it is ready.
    pub(super) async fn warm(&self, spec: &ZygoteSpec) -> Result<(), SandboxError> {
        let mut state = self.get(spec).ok_or(SandboxError::Closed)?.state;
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

    fn get(&self, spec: &ZygoteSpec) -> Option<Zygote> {
        let mut all = self.all.lock();
        let all = all.as_mut()?;
        if let Some((zygote, used)) = all.get_mut(spec) {
            *used = Instant::now();
            return Some(zygote.clone());
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
        Some(zygote)
    }

    /// Number of zygotes, with those that start or are down.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.all.lock().as_ref().map_or(0, HashMap::len)
    }

    /// Ends all zygotes; sandboxes live on.
    pub(super) fn clear(&self) {
        if let Some(all) = self.all.lock().as_mut() {
            all.clear();
        }
    }

    /// Ends all zygotes and waits, for a bounded time, until those that still load have left nothing behind. None is
    /// started after that.
    pub(super) async fn close(&self) {
        let ended: Vec<_> = self
            .all
            .lock()
            .take()
            .into_iter()
            .flatten()
            .map(|(_, (zygote, _))| zygote.state)
            .collect();
        let all = async {
            for mut state in ended {
                // Its task has ended when the sender of its state is dropped.
                while state.changed().await.is_ok() {}
            }
        };
        if tokio::time::timeout(CLOSING, all).await.is_err() {
            tracing::warn!("zygotes that do not end are left to themselves");
        }
    }
}
