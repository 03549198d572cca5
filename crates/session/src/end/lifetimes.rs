//! Sessions that end by themselves: those idle for too long, those too old. The times are in their rows, so that a
//! deadline that passed while there was no gateway is met by the next one. And those for programs of a gateway that is gone.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use himalia_kernel::{Command, Phase};
use himalia_model::{ExecutionState, KernelId, Looks, Session};

use crate::end::Sessions;
use crate::periodic::{PeriodicTask, Wake};
use crate::{SessionKernel, SessionManager};

/// Interval of checks.
const EVERY: Duration = Duration::from_secs(1);
/// Looks from one at the count of memory kills to the next: a kill is put down to a death within 5 to 10 s.
const MEMORY_EVERY: u32 = 5;

/// Reason to end a session now, if there is one. A client that is attached, and code that runs, keep it from being idle; a lifetime is kept whatever
/// happens.
fn due(
    session: &Session,
    state: ExecutionState,
    connections: u32,
    last_micros: u64,
    now_micros: u64,
) -> Option<&'static str> {
    if session.expires_micros.is_some_and(|at| at <= now_micros) {
        return Some("ttl");
    }
    let idle = Duration::from_micros(now_micros.saturating_sub(last_micros));
    let is_idle = connections == 0 && state != ExecutionState::Busy;
    (is_idle && session.idle_timeout.is_some_and(|timeout| idle > timeout)).then_some("idle_culled")
}

fn ends(handle: &SessionKernel, sessions: &Sessions<'_>, now_micros: u64) -> Option<&'static str> {
    let phase = handle.snapshot.borrow().phase;
    if matches!(phase, Phase::Stopping | Phase::Ended) {
        return None;
    }
    let cull = sessions.cull_facts(handle)?;
    due(
        &handle.session(),
        cull.state,
        cull.connections,
        cull.last_micros,
        now_micros,
    )
}

/// Ends sessions whose time has come.
pub(crate) struct Lifetimes {
    looks: Looks,
    /// Sessions whose end was requested.
    under_way: HashSet<KernelId>,
    count: u32,
}

impl Lifetimes {
    /// Starts the task.
    pub(crate) fn start(manager: &Arc<SessionManager>) {
        let task = Self {
            looks: manager.time().looks(),
            under_way: HashSet::new(),
            count: 0,
        };
        manager.spawn_periodic(EVERY, task);
    }
}

impl PeriodicTask for Lifetimes {
    const NAME: &'static str = "lifetimes";

    async fn run(&mut self, manager: &Arc<SessionManager>, _: Wake) -> Result<(), String> {
        let Some(now) = self.looks.look() else {
            return Ok(());
        };
        let all = manager.registry.all_unordered();
        self.under_way
            .retain(|id| all.iter().any(|handle| handle.id() == *id));
        let sessions = Sessions::of(&all);
        for handle in &all {
            let is_left = manager.services.programs.is_left(&handle.session()) && !handle.ends();
            let left = is_left.then_some("gateway_stopped");
            if let Some(cause) = left.or_else(|| ends(handle, &sessions, now))
                && self.under_way.insert(handle.id())
            {
                let handle = Arc::clone(handle);
                tracing::info!(kernel = %handle.id(), cause, "the time of a session has come");
                manager.background.spawn(async move {
                    handle.order(Command::Stop(cause)).await;
                });
            }
        }
        self.count = self.count.wrapping_add(1);
        if self.count.is_multiple_of(MEMORY_EVERY) {
            manager.look_at_memory().await;
        }
        Ok(())
    }
}

impl SessionManager {
    async fn look_at_memory(&self) {
        for lease in self.registry.sandboxes() {
            lease.look_at_memory().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(idle: Option<u64>, expires: Option<u64>) -> Session {
        Session {
            idle_timeout: idle.map(Duration::from_micros),
            expires_micros: expires,
            ..Session::default()
        }
    }

    #[test]
    fn idle_is_without_clients_and_without_running_code() {
        let timed = session(Some(10), None);
        assert_eq!(due(&timed, ExecutionState::Idle, 0, 5, 15), None);
        assert_eq!(due(&timed, ExecutionState::Idle, 0, 5, 16), Some("idle_culled"));
        assert_eq!(due(&timed, ExecutionState::Idle, 1, 5, 16), None);
        assert_eq!(due(&timed, ExecutionState::Busy, 0, 5, 16), None);
        assert_eq!(due(&timed, ExecutionState::Dead, 0, 5, 16), Some("idle_culled"));
        assert_eq!(
            due(&session(None, None), ExecutionState::Idle, 0, 0, u64::MAX),
            None
        );
    }

    #[test]
    fn a_lifetime_ends_whatever_happens() {
        let old = session(None, Some(10));
        assert_eq!(due(&old, ExecutionState::Busy, 3, 9, 9), None);
        assert_eq!(due(&old, ExecutionState::Busy, 3, 9, 10), Some("ttl"));
    }
}
