//! Decides which idle kernels end, with `jupyter_server`'s meaning (`cull_kernel_if_idle`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use himalia_kernel::Command;
use himalia_model::{CullConfig, ExecutionState, Looks, Role, SessionId};
use tokio::task::JoinSet;

use crate::periodic::{PeriodicTask, Wake};
use crate::session_kernel::CullFacts;
use crate::{SessionKernel, SessionManager};

/// `cull_interval` when it is not set, as in `jupyter_server`.
const CULL_INTERVAL: Duration = Duration::from_mins(5);

/// True if the kernel is to be ended now. Only asked while the culler runs (`CullConfig::idle_timeout` > 0).
pub(crate) fn due(facts: &CullFacts, config: &CullConfig, now_micros: u64) -> bool {
    if facts.state == ExecutionState::Dead && !facts.revives {
        return true;
    }
    let timeout = match facts.spec_timeout {
        Some(seconds) => Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO),
        None => config.idle_timeout,
    };
    if timeout.is_zero() {
        return false;
    }
    let idle = Duration::from_micros(now_micros.saturating_sub(facts.last_micros));
    idle > timeout
        && (config.busy || facts.state != ExecutionState::Busy)
        && (config.connected || facts.connections == 0)
}

/// All kernels by the sessions that they belong to.
pub(crate) struct Sessions<'a> {
    additional: HashMap<SessionId, Vec<&'a Arc<SessionKernel>>>,
}

impl<'a> Sessions<'a> {
    pub(crate) fn of(all: &'a [Arc<SessionKernel>]) -> Self {
        let mut additional: HashMap<SessionId, Vec<&Arc<SessionKernel>>> = HashMap::new();
        for handle in all {
            if handle.session().role == Role::Additional {
                additional.entry(handle.session_id()).or_default().push(handle);
            }
        }
        Self { additional }
    }

    /// Facts that decide if a session has been idle for too long, from all of its kernels. `None` for an additional kernel, which does not end for
    /// that, and for the program of a server of tools, which is used by others.
    pub(crate) fn cull_facts(&self, handle: &SessionKernel) -> Option<CullFacts> {
        let session = handle.session();
        if session.role == Role::Additional || session.tool_server.is_some() {
            return None;
        }
        let additional = self.additional.get(&handle.session_id()).into_iter().flatten();
        Some(additional.fold(handle.cull_facts(), |session, kernel| {
            session.with(&kernel.cull_facts())
        }))
    }
}

/// Ends idle kernels.
pub(crate) struct IdleCuller {
    looks: Looks,
}

impl IdleCuller {
    /// Starts the task, unless culling is off.
    pub(crate) fn start(manager: &Arc<SessionManager>) {
        let cull = manager.config.cull;
        if cull.idle_timeout.is_zero() {
            return;
        }
        let every = if cull.interval.is_zero() {
            CULL_INTERVAL
        } else {
            cull.interval
        };
        let looks = manager.time().looks();
        manager.spawn_periodic(every, Self { looks });
    }
}

impl PeriodicTask for IdleCuller {
    const NAME: &'static str = "cull";

    async fn run(&mut self, manager: &Arc<SessionManager>, _: Wake) -> Result<(), String> {
        let Some(now) = self.looks.look() else {
            return Ok(());
        };
        let mut ends = JoinSet::new();
        let all = manager.registry.all();
        let sessions = Sessions::of(&all);
        for handle in &all {
            let facts = sessions.cull_facts(handle);
            if facts.is_some_and(|facts| due(&facts, &manager.config.cull, now)) {
                let handle = Arc::clone(handle);
                tracing::info!(kernel = %handle.id(), "culling an idle kernel");
                ends.spawn(async move {
                    handle.order(Command::Stop("idle_culled")).await;
                    handle.gone().await;
                });
            }
        }
        ends.join_all().await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000_000;

    fn facts() -> CullFacts {
        CullFacts {
            state: ExecutionState::Idle,
            revives: false,
            connections: 0,
            last_micros: 0,
            spec_timeout: None,
        }
    }

    fn config() -> CullConfig {
        CullConfig {
            idle_timeout: Duration::from_mins(1),
            ..CullConfig::default()
        }
    }

    #[test]
    fn a_session_is_used_when_one_of_its_kernels_is() {
        let used = CullFacts {
            state: ExecutionState::Busy,
            connections: 2,
            last_micros: 7,
            ..facts()
        };
        for (one, other) in [(facts(), used), (used, facts())] {
            let both = one.with(&other);
            assert_eq!(
                (both.state, both.connections, both.last_micros),
                (ExecutionState::Busy, 2, 7)
            );
        }
        let dead = CullFacts {
            state: ExecutionState::Dead,
            ..facts()
        };
        assert_eq!(facts().with(&dead).state, ExecutionState::Idle);
    }

    #[test]
    fn idle_unwatched_kernels_end() {
        assert!(due(&facts(), &config(), HOUR));
        assert!(!due(&facts(), &config(), 1_000_000));
    }

    #[test]
    fn watched_and_busy_ones_only_when_configured() {
        let watched = CullFacts {
            connections: 1,
            ..facts()
        };
        let busy = CullFacts {
            state: ExecutionState::Busy,
            ..facts()
        };
        assert!(!due(&watched, &config(), HOUR));
        assert!(!due(&busy, &config(), HOUR));
        assert!(due(
            &watched,
            &CullConfig {
                connected: true,
                ..config()
            },
            HOUR
        ));
        assert!(due(
            &busy,
            &CullConfig {
                busy: true,
                ..config()
            },
            HOUR
        ));
    }

    #[test]
    fn the_kernelspec_decides_and_zero_is_never() {
        assert!(!due(
            &CullFacts {
                spec_timeout: Some(0.0),
                ..facts()
            },
            &config(),
            HOUR
        ));
        assert!(!due(
            &CullFacts {
                spec_timeout: Some(7200.0),
                ..facts()
            },
            &config(),
            HOUR
        ));
        assert!(due(
            &CullFacts {
                spec_timeout: Some(1.5),
                ..facts()
            },
            &config(),
            HOUR
        ));
    }

    #[test]
    fn dead_kernels_end_also_while_clients_watch() {
        let dead = CullFacts {
            state: ExecutionState::Dead,
            connections: 3,
            ..facts()
        };
        assert!(due(&dead, &config(), 0));
        let revives = CullFacts {
            revives: true,
            ..dead
        };
        assert!(!due(&revives, &config(), 0));
    }
}
