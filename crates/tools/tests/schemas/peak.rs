//! The most memory that a thread has at the same time.
#![allow(unsafe_code)] // an allocator has no safe trait

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static NOW: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn add(bytes: usize) {
    let now = NOW.get().saturating_add_unsigned(bytes);
    NOW.set(now);
    MOST.set(MOST.get().max(now));
}

fn take(bytes: usize) {
    NOW.set(NOW.get().saturating_sub_unsigned(bytes));
}

// SAFETY: the system's allocator does all that is asked for; its numbers are only noted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        take(layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(place, layout) }
    }
}

/// Bytes that a function takes in addition to those that are there before, at the time when it takes most.
pub(crate) fn of<T>(function: impl FnOnce() -> T) -> usize {
    let before = NOW.get();
    MOST.set(before);
    let made = function();
    let most = MOST.get();
    drop(made);
    most.saturating_sub(before).try_into().unwrap_or(0)
}
