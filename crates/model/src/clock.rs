//! The time by which sessions end, and by which what is kept of them goes.
//!
//! The wall clock may jump: when a machine is resumed, when its time is set. Within a process time passes as the boot-time clock
//! says, which counts suspension and cannot be set; the wall clock is read once, for times that the store has from before.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rustix::time::{ClockId, clock_gettime};

use crate::wall_micros;

/// A change of the wall clock against the boot-time clock, from one look to the next, that counts as a jump: 5 minutes, in
/// microseconds. Smaller ones are followed.
const JUMP: u64 = 300_000_000;

/// Source of the two times of a [`Clock`].
pub trait TimeSource: Debug + Send + Sync {
    /// Microseconds since 1970.
    fn wall_micros(&self) -> u64;
    /// Microseconds since the machine was booted, suspended or not.
    fn boot_micros(&self) -> u64;
}

#[derive(Debug)]
struct Machine;

impl TimeSource for Machine {
    fn wall_micros(&self) -> u64 {
        wall_micros()
    }

    fn boot_micros(&self) -> u64 {
        let since = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(since.tv_sec).unwrap_or(0);
        let micros = u64::try_from(since.tv_nsec / 1000).unwrap_or(0);
        seconds.saturating_mul(1_000_000).saturating_add(micros)
    }
}

/// Microseconds since 1970 that pass evenly. Clones are the same clock.
#[derive(Clone, Debug)]
pub struct Clock {
    source: Arc<dyn TimeSource>,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    /// Wall clock minus boot-time clock in microseconds, without later jumps of the wall clock.
    ahead: AtomicI64,
    /// The difference that the log last spoke of.
    said: AtomicI64,
}

impl Default for Clock {
    fn default() -> Self {
        Self::of(Arc::new(Machine))
    }
}

impl Clock {
    /// A clock that shows the wall clock's time now, and continues as the source's boot-time clock does.
    pub fn of(source: Arc<dyn TimeSource>) -> Self {
        let ahead = difference(source.as_ref());
        let state = State {
            ahead: AtomicI64::new(ahead),
            said: AtomicI64::new(ahead),
        };
        Self {
            source,
            state: Arc::new(state),
        }
    }

    /// The time, microseconds since 1970.
    pub fn micros(&self) -> u64 {
        let ahead = self.state.ahead.load(Ordering::Relaxed);
        self.source.boot_micros().saturating_add_signed(ahead)
    }

    /// The same, as the store has it.
    pub fn stored_micros(&self) -> i64 {
        i64::try_from(self.micros()).unwrap_or(i64::MAX)
    }

    /// For a task that looks at intervals what is due.
    pub fn looks(&self) -> Looks {
        Looks {
            clock: self.clone(),
            last: difference(self.source.as_ref()),
        }
    }
}

/// The looks of one background task.
#[derive(Debug)]
pub struct Looks {
    clock: Clock,
    /// The difference of the clocks at the last look.
    last: i64,
}

impl Looks {
    /// The time, unless the wall clock has jumped since the last look: nothing is decided by age then.
    pub fn look(&mut self) -> Option<u64> {
        let Clock { source, state } = &self.clock;
        let now = difference(source.as_ref());
        let before = std::mem::replace(&mut self.last, now);
        if now.abs_diff(before) > JUMP {
            let said = state.said.swap(now, Ordering::Relaxed);
            if said.abs_diff(now) > JUMP {
                let seconds = now.saturating_sub(before) / 1_000_000;
                tracing::warn!(
                    seconds,
                    "the wall clock has jumped; ages are counted as if it had not, until the gateway is started again"
                );
            }
            return None;
        }
        if now.abs_diff(state.ahead.load(Ordering::Relaxed)) <= JUMP {
            state.ahead.store(now, Ordering::Relaxed);
        }
        Some(self.clock.micros())
    }
}

/// Wall clock minus boot-time clock, in microseconds.
fn difference(source: &dyn TimeSource) -> i64 {
    let signed = |micros| i64::try_from(micros).unwrap_or(i64::MAX);
    signed(source.wall_micros()).saturating_sub(signed(source.boot_micros()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    const START: u64 = 1_700_000_000_000_000;
    const SECOND: u64 = 1_000_000;
    const DAY: u64 = 86_400 * SECOND;

    #[derive(Debug)]
    struct Hands {
        wall: AtomicU64,
        boot: AtomicU64,
    }

    impl Hands {
        fn pass(&self, micros: u64) {
            self.wall.fetch_add(micros, Ordering::Relaxed);
            self.boot.fetch_add(micros, Ordering::Relaxed);
        }

        fn set_wall(&self, wall: u64) {
            self.wall.store(wall, Ordering::Relaxed);
        }
    }

    impl TimeSource for Hands {
        fn wall_micros(&self) -> u64 {
            self.wall.load(Ordering::Relaxed)
        }

        fn boot_micros(&self) -> u64 {
            self.boot.load(Ordering::Relaxed)
        }
    }

    fn clock() -> (Arc<Hands>, Clock) {
        let hands = Arc::new(Hands {
            wall: AtomicU64::new(START),
            boot: AtomicU64::new(77),
        });
        (Arc::clone(&hands), Clock::of(hands))
    }

    #[test]
    fn it_begins_at_the_wall_clock_and_continues_with_the_other() {
        let (hands, clock) = clock();
        assert_eq!(clock.micros(), START);
        hands.pass(DAY);
        assert_eq!(clock.looks().look(), Some(START + DAY));
    }

    #[test]
    fn a_jump_skips_one_look_and_changes_no_age() {
        for jumped in [START + DAY, START - DAY] {
            let (hands, clock) = clock();
            let (mut one, mut other) = (clock.looks(), clock.looks());
            hands.set_wall(jumped);
            hands.pass(SECOND);
            assert_eq!((one.look(), other.look()), (None, None));
            hands.pass(SECOND);
            assert_eq!(one.look(), Some(START + 2 * SECOND));
            assert_eq!(other.look(), Some(START + 2 * SECOND));
            // It was wrong, and is set right.
            hands.set_wall(START + 2 * SECOND);
            assert_eq!(one.look(), None);
            assert_eq!(one.look(), Some(START + 2 * SECOND));
        }
    }

    #[test]
    fn a_small_step_is_followed() {
        let (hands, clock) = clock();
        let mut looks = clock.looks();
        hands.set_wall(START + 60 * SECOND);
        assert_eq!(clock.micros(), START);
        assert_eq!(looks.look(), Some(START + 60 * SECOND));
    }

    #[test]
    fn the_clocks_of_the_machine_are_read() {
        let clock = Clock::default();
        assert!(wall_micros().abs_diff(clock.micros()) < JUMP);
        assert!(clock.looks().look().is_some());
    }
}
