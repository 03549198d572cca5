//! Huge pages for what a large frame is read into.
#![allow(unsafe_code)] // rustix has no safe function for madvise

use std::mem::MaybeUninit;

use rustix::mm::{Advice, madvise};

/// Room from this size on is worth a system call.
const LEAST_BYTES: usize = 2 * PAGE_BYTES;
/// The usual size. Where another one is in use, the system rounds as it needs.
const PAGE_BYTES: usize = 2 << 20;

/// Asks for huge pages, once for each large room. New memory is given page by page, at each page's first use, which costs more
/// than copying a frame into it; a huge page is given at once.
#[derive(Debug, Default)]
pub(crate) struct HugePages {
    /// Where the room ends that was asked for last; 0 when there is none.
    asked: usize,
}

impl HugePages {
    /// Asks for `room`, unless it is small or the rest of one that was asked for. True when it asked.
    pub(crate) fn ask_for(&mut self, room: &mut [MaybeUninit<u8>]) -> bool {
        if room.len() < LEAST_BYTES {
            self.asked = 0;
            return false;
        }
        let end = room.as_ptr_range().end.addr();
        if std::mem::replace(&mut self.asked, end) == end {
            return false;
        }
        let start = room.as_ptr().align_offset(PAGE_BYTES);
        if let Some(whole) = room.get_mut(start..) {
            let bytes = whole.len() / PAGE_BYTES * PAGE_BYTES;
            // SAFETY: this advice changes no content, and the pages are within `room`, which is ours. Refused, they are small.
            let _ = unsafe { madvise(whole.as_mut_ptr().cast(), bytes, Advice::LinuxHugepage) };
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use bytes::{BufMut, BytesMut};

    use super::*;

    #[test]
    fn a_large_room_is_asked_for_once_and_keeps_what_is_in_it() {
        let mut pages = HugePages::default();
        let (mut small, mut large) = (
            BytesMut::with_capacity(1 << 20),
            BytesMut::with_capacity(20 << 20),
        );
        large.put_bytes(1, 100_000);
        assert!(!pages.ask_for(small.spare_capacity_mut()));
        assert!(pages.ask_for(large.spare_capacity_mut()));
        large.put_bytes(2, 9 << 20);
        assert!(!pages.ask_for(large.spare_capacity_mut()));
        assert!(!pages.ask_for(small.spare_capacity_mut()));
        // What was there is gone, and another one may begin where it did.
        assert!(pages.ask_for(large.spare_capacity_mut()));
        assert!(
            large[..100_000].iter().all(|byte| *byte == 1) && large[100_000..].iter().all(|byte| *byte == 2)
        );
    }
}
