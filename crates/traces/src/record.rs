//! A span that has ended.

use std::borrow::Cow;

use himalia_model::TraceContext;

/// On which side of a call a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Work of the gateway itself.
    Internal,
    /// It handles a call from another process.
    Server,
    /// It calls another process.
    Client,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Text(Cow<'static, str>),
    Number(i64),
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

/// A span that has ended. Times are microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanRecord {
    /// A name of few kinds: no ids.
    pub name: Cow<'static, str>,
    /// On which side of a call it is.
    pub kind: SpanKind,
    /// Ids of the span and its trace.
    pub context: TraceContext,
    /// The id of the span that it is below.
    pub parent: Option<[u8; 8]>,
    /// When it began.
    pub begun: u64,
    /// When it ended.
    pub ended: u64,
    pub attributes: Vec<(&'static str, Value)>,
    /// Moments in it: name and time.
    pub events: Vec<(&'static str, u64)>,
    /// Error code, or a short text of the gateway's own.
    pub error: Option<Cow<'static, str>>,
}
