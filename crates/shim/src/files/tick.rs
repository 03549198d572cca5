//! The clock that files are stamped with, which a timer sets every few milliseconds.
//!
//! A kernel knows the files that an execution wrote by their stamps (`himalia_kernel/files.py`). What was sent to the session
//! before must be older than the execution: its sender hears of it when the clock has advanced.

use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Ticks take 10 ms at most. More is waited only while the machine stands still, or when its clock was set back.
const WAIT_MAX: Duration = Duration::from_secs(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// The clock as it was set last. No file that is written from now on has an older stamp.
pub(super) fn now() -> Timespec {
    clock_gettime(ClockId::RealtimeCoarse)
}

/// Waits until the clock is ahead of all that was written. Blocks.
///
/// It must pass the exact time, as newer systems (Linux 6.13) have stamps between two ticks.
pub(super) fn pass() {
    let (written, begun) = (clock_gettime(ClockId::Realtime), Instant::now());
    while now() <= written && begun.elapsed() < WAIT_MAX {
        sleep(BETWEEN_LOOKS);
    }
}
