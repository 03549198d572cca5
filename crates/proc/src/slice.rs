//! The time slice of a thread that computes for long.
//!
//! From Linux 6.12 on, the scheduler lets a thread that wakes run before one with a longer slice (`sched_attr.sched_runtime`,
//! `sched_setattr(2)`). Work in a turn takes a processor for many milliseconds, and messages of kernels need one for some microseconds:
//! with a long slice the work lets them pass at once, and has the same share of the processor. Older kernels ignore the slice.
#![allow(unsafe_code)] // sched_setattr and getpriority, for which rustix has no function

use std::mem::size_of;

/// The longest slice that the scheduler takes: 100 ms.
const LONG_NANOS: u64 = 100_000_000;
/// The slice of a thread that has none of its own.
const DEFAULT: u64 = 0;

/// `struct sched_attr` of `sched_setattr(2)`.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
    util_min: u32,
    util_max: u32,
}

/// Runs `work` with a long slice. The slice is the default again afterwards, also after a panic.
pub fn with_long_slice<T>(work: impl FnOnce() -> T) -> T {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            set(DEFAULT);
        }
    }
    set(LONG_NANOS);
    let _reset = Reset;
    work()
}

/// Sets the slice of this thread, if the system permits it. Policy and nice value stay.
fn set(runtime: u64) {
    // SAFETY: both calls take numbers and return one.
    let (policy, nice) = unsafe {
        (
            libc::sched_getscheduler(0),
            libc::getpriority(libc::PRIO_PROCESS, 0),
        )
    };
    // Another policy is the operator's choice, and its slice has another meaning.
    if policy != libc::SCHED_OTHER {
        return;
    }
    let attr = SchedAttr {
        size: u32::try_from(size_of::<SchedAttr>()).unwrap_or(0),
        nice,
        runtime,
        ..SchedAttr::default()
    };
    // SAFETY: the kernel reads `size` bytes of the structure, which lives until the call returns, and nothing refers to it afterwards.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slice of this thread in nanoseconds, and its nice value.
    fn read() -> (u64, i32) {
        let mut attr = SchedAttr::default();
        let size = u32::try_from(size_of::<SchedAttr>()).unwrap();
        // SAFETY: the kernel writes at most `size` bytes into the structure.
        let done = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
        (attr.runtime, attr.nice)
    }

    #[test]
    fn the_slice_is_long_for_the_work_alone() {
        // Another thread: the test runner's keeps what it has.
        let thread = std::thread::spawn(|| {
            let before = read();
            let inside = with_long_slice(read);
            let panicked = std::panic::catch_unwind(|| with_long_slice(|| panic!("the work")));
            (before, inside, panicked.is_err(), read())
        });
        let (before, inside, panicked, after) = thread.join().unwrap();
        assert_eq!((before, panicked), (after, true));
        assert_eq!(before.1, inside.1, "the nice value stays");
        // 0 or the old value: a kernel without slices of threads.
        assert!([0, before.0, LONG_NANOS].contains(&inside.0), "{inside:?}");
    }
}
