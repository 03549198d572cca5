use bytes::Bytes;

/// The body of a frame: pieces that are sent one behind the other, so that a large message need not be copied to be one.
#[derive(Clone, Debug, Default)]
pub struct Body {
    first: Bytes,
    rest: Vec<Bytes>,
}

impl Body {
    /// Parts of the body in their order.
    pub fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    /// Bytes of all pieces.
    pub fn len(&self) -> usize {
        self.pieces().map(Bytes::len).sum()
    }

    /// Has it no bytes?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Bytes> for Body {
    fn from(first: Bytes) -> Self {
        Self {
            first,
            rest: Vec::new(),
        }
    }
}

impl From<Vec<Bytes>> for Body {
    fn from(pieces: Vec<Bytes>) -> Self {
        let mut pieces = pieces.into_iter();
        Self {
            first: pieces.next().unwrap_or_default(),
            rest: pieces.collect(),
        }
    }
}
