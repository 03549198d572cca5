//! A response that comes in parts.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::{Mask, overwrite};

/// Masks a stream that comes in parts. It holds back what may be the beginning of a secret, and nothing else.
#[derive(Debug)]
pub struct MaskStream {
    /// Not passed on yet.
    held: BytesMut,
    /// Parts of `held` that are secret.
    found: Vec<Range<usize>>,
}

impl Default for MaskStream {
    fn default() -> Self {
        Self {
            held: BytesMut::new(),
            found: Vec::new(),
        }
    }
}

impl MaskStream {
    /// Takes the next part, and gives what can be passed on, which may be nothing.
    pub fn next(&mut self, mask: &Mask, part: Bytes) -> Bytes {
        // Most parts have no secret and are not copied.
        if self.held.is_empty() {
            let mut found = Vec::new();
            let open = mask.find(&part, &mut found);
            if found.is_empty() && open == 0 {
                return part;
            }
        }
        self.held.extend_from_slice(&part);
        let keep = mask.find(&self.held, &mut self.found);
        let pass = self.held.len().saturating_sub(keep);
        let mut passed = self.held.split_to(pass);
        overwrite(&mut passed, &self.found);
        self.found.retain_mut(|range| {
            *range = range.start.saturating_sub(pass)..range.end.saturating_sub(pass);
            range.start < range.end
        });
        passed.freeze()
    }

    /// Number of bytes that are held back.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Returns the bytes that were held back, at the end of the stream.
    pub fn finish(&mut self) -> Bytes {
        let mut rest = self.held.split();
        overwrite(&mut rest, &self.found);
        self.found.clear();
        rest.freeze()
    }
}
