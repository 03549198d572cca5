//! One sandbox in the list of this gateway process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::names::Labels;
use crate::{SandboxExit, SandboxId};

#[derive(Debug)]
pub(super) struct Member {
    pub(super) id: SandboxId,
    /// Name of the container in the engine.
    pub(super) container: String,
    pub(super) exit: watch::Sender<Option<SandboxExit>>,
    /// True after a requested end.
    pub(super) stopping: AtomicBool,
    /// The engine may have something of it.
    pub(super) in_engine: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    life: Life,
    /// Known once it lives.
    details: Option<Arc<Details>>,
    /// The exit code from the engine's event.
    code: Option<i64>,
    kills: Kills,
}

/// Details that handles return.
#[derive(Debug)]
pub(super) struct Details {
    pub(super) labels: Labels,
    /// Variables of its kernels.
    pub(super) env: BTreeMap<String, String>,
    /// The digest of its image, as far as the engine tells it.
    pub(super) image: Option<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Life {
    /// The container is being created.
    Starting,
    /// It ended while the call that started it was under way.
    StillBorn,
    Live,
    /// It is being removed.
    Ending,
}

/// Out-of-memory kills.
#[derive(Clone, Copy, Debug, Default)]
struct Kills {
    count: u64,
    /// When the last one was, in nanoseconds of the engine's clock.
    last: i64,
    /// Earlier kills are not counted here.
    from: i64,
    /// There were some before this gateway process.
    earlier: bool,
}

impl Member {
    pub(super) fn starting(id: SandboxId, container: String) -> Arc<Self> {
        Self::new(id, container, Life::Starting, 0, false)
    }

    /// One of an earlier gateway process; events report kills after `from` (engine's clock, nanoseconds).
    pub(super) fn adopted(container: String, details: Details, from: i64) -> Arc<Self> {
        let member = Self::new(details.labels.id, container, Life::Live, from, true);
        member.state.lock().details = Some(Arc::new(details));
        member
    }

    fn new(id: SandboxId, container: String, life: Life, from: i64, in_engine: bool) -> Arc<Self> {
        Arc::new(Self {
            id,
            container,
            exit: watch::Sender::new(None),
            stopping: AtomicBool::new(false),
            in_engine: AtomicBool::new(in_engine),
            state: Mutex::new(State {
                life,
                details: None,
                code: None,
                kills: Kills {
                    from,
                    ..Kills::default()
                },
            }),
        })
    }

    /// The call that started it has come back; `true` when it has ended meanwhile, so that the caller must see to its
    /// end.
    pub(super) fn go_live(&self, details: Details) -> bool {
        let mut state = self.state.lock();
        state.details = Some(Arc::new(details));
        let ended = state.life == Life::StillBorn;
        state.life = if ended { Life::Ending } else { Life::Live };
        ended
    }

    /// `None` until it lives.
    pub(super) fn details(&self) -> Option<Arc<Details>> {
        self.state.lock().details.clone()
    }

    /// Records the end of the container; returns true if the caller has to clean up.
    pub(super) fn died(&self, code: Option<i64>) -> bool {
        let mut state = self.state.lock();
        state.code = state.code.or(code);
        match state.life {
            Life::Starting => state.life = Life::StillBorn,
            Life::Live => {
                state.life = Life::Ending;
                return true;
            }
            Life::StillBorn | Life::Ending => {}
        }
        false
    }

    /// It was found alive after all.
    pub(super) fn lives(&self) {
        self.state.lock().life = Life::Live;
    }

    /// Marks a failed start: only the starting task removes the container.
    pub(super) fn give_up(&self) {
        self.state.lock().life = Life::Ending;
    }

    pub(super) fn is_live(&self) -> bool {
        self.state.lock().life == Life::Live
    }

    pub(super) fn reported_code(&self) -> Option<i64> {
        self.state.lock().code
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// The engine told of a kill at this time (its clock, nanoseconds).
    pub(super) fn note_kill(&self, at: i64) {
        let kills = &mut self.state.lock().kills;
        if at > kills.from {
            kills.count += 1;
            kills.last = kills.last.max(at);
        }
    }

    /// Kills before this gateway process.
    pub(super) fn add_earlier_kills(&self, count: u64) {
        let kills = &mut self.state.lock().kills;
        kills.count += count;
        kills.earlier |= count > 0;
    }

    pub(super) fn had_earlier_kills(&self) -> bool {
        self.state.lock().kills.earlier
    }

    pub(super) fn kills(&self) -> u64 {
        self.state.lock().kills.count
    }

    /// When the last kill was.
    pub(super) fn last_kill(&self) -> Option<i64> {
        let kills = self.state.lock().kills;
        (kills.last > 0).then_some(kills.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Isolation, LimitReport};

    fn details(id: SandboxId) -> Details {
        Details {
            labels: Labels {
                id,
                isolation: Isolation::Container,
                limits: LimitReport::default(),
                caller: BTreeMap::new(),
            },
            env: BTreeMap::new(),
            image: None,
        }
    }

    #[test]
    fn exactly_one_sees_to_an_end() {
        let id = SandboxId::generate().unwrap();
        let member = Member::starting(id, "c".to_owned());
        assert!(!member.died(Some(3)), "its start is under way");
        assert!(member.go_live(details(id)), "it is for the start to end it");
        assert!(!member.died(None));
        assert_eq!(member.reported_code(), Some(3));

        let member = Member::starting(id, "c".to_owned());
        assert!(!member.go_live(details(id)));
        assert!(member.died(None));
        assert!(!member.died(None));

        let member = Member::starting(id, "c".to_owned());
        member.give_up();
        assert!(!member.died(None));
    }

    #[test]
    fn kills_are_counted_once() {
        let id = SandboxId::generate().unwrap();
        let member = Member::adopted("c".to_owned(), details(id), 100);
        member.note_kill(100);
        member.add_earlier_kills(0);
        assert_eq!((member.kills(), member.last_kill()), (0, None));
        assert!(!member.had_earlier_kills());
        member.note_kill(101);
        member.add_earlier_kills(2);
        assert_eq!((member.kills(), member.last_kill()), (3, Some(101)));
        assert!(member.had_earlier_kills());
    }
}
