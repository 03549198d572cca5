//! Times of a running gateway.

use std::sync::atomic::{AtomicU64, Ordering};

use himalia_kernel::Timestamp;
use himalia_model::Clock;
use time::OffsetDateTime;
use tokio::time::Instant;

/// Zero of the monotonic clock, the time of the start, and the time of the latest command.
pub(crate) struct Times {
    clock: Clock,
    /// Zero of the monotonic clock.
    pub(crate) zero: Instant,
    /// Time at which the data directory was opened.
    pub(crate) started: OffsetDateTime,
    /// Microseconds since 1970.
    last_command: AtomicU64,
}

impl Times {
    /// Begins now.
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            zero: Instant::now(),
            started: OffsetDateTime::now_utc(),
            last_command: AtomicU64::new(clock.micros()),
            clock,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        let mono = Instant::now().saturating_duration_since(self.zero);
        Timestamp {
            mono: u64::try_from(mono.as_micros()).unwrap_or(u64::MAX),
            wall: self.clock.micros(),
        }
    }

    /// Time of the start in microseconds since 1970.
    pub(crate) fn started_micros(&self) -> u64 {
        u64::try_from(self.started.unix_timestamp_nanos() / 1000).unwrap_or(0)
    }

    /// Records a command at the present time.
    pub(crate) fn note_command(&self) {
        self.last_command.store(self.clock.micros(), Ordering::Relaxed);
    }

    /// Time of the latest command, in microseconds since 1970.
    pub(crate) fn last_command(&self) -> u64 {
        self.last_command.load(Ordering::Relaxed)
    }
}
