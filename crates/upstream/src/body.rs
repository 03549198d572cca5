//! The body of a response: counted, without secrets, never longer in memory than its bound.

use std::fmt;

use bytes::{Bytes, BytesMut};
use himalia_credentials::{LiveMask, MaskStream};

/// A body that is read piece by piece. When it is dropped before its end, its connection is closed.
pub struct Body {
    response: reqwest::Response,
    mask: Option<LiveMask>,
    held: MaskStream,
    most: usize,
    read: usize,
    ended: bool,
}

/// Reasons why a body ends early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// It is longer than this.
    TooLong(usize),
    /// The connection ended.
    Lost,
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes read)", self.read)
    }
}

impl Body {
    pub(crate) fn new(response: reqwest::Response, mask: Option<LiveMask>, most: usize) -> Self {
        Self {
            response,
            mask,
            held: MaskStream::default(),
            most,
            read: 0,
            ended: false,
        }
    }

    /// Bytes that were read.
    pub fn read(&self) -> usize {
        self.read
    }

    /// The next piece, or `None` at the end.
    ///
    /// # Errors
    /// It is too long, or the connection has ended.
    pub async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        while !self.ended {
            let length = self.response.content_length();
            if length.is_some_and(|length| length > self.most as u64) {
                return Err(BodyError::TooLong(self.most));
            }
            let Some(piece) = self.response.chunk().await.map_err(|_| BodyError::Lost)? else {
                self.ended = true;
                let rest = self.held.finish();
                return Ok((!rest.is_empty()).then_some(rest));
            };
            self.read = self.read.saturating_add(piece.len());
            if self.read > self.most {
                return Err(BodyError::TooLong(self.most));
            }
            let passed = match &mut self.mask {
                Some(mask) => self.held.next(mask.current(), piece),
                None => piece,
            };
            if !passed.is_empty() {
                return Ok(Some(passed));
            }
        }
        Ok(None)
    }

    /// All of it.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub async fn all(&mut self) -> Result<Bytes, BodyError> {
        let mut all = BytesMut::new();
        while let Some(piece) = self.next().await? {
            all.extend_from_slice(&piece);
        }
        Ok(all.freeze())
    }

    /// Returns its first bytes, as far as they come.
    pub async fn start(mut self, most: usize) -> Bytes {
        let mut start = BytesMut::new();
        // Of an endless one too.
        self.most = usize::MAX;
        while start.len() < most {
            let Ok(Some(piece)) = self.next().await else { break };
            start.extend_from_slice(&piece);
        }
        start.truncate(most);
        start.freeze()
    }
}
