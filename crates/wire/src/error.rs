//! One error type for the crate.

/// Shorthand for this crate's results.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reasons why a message, header or connection file was refused. The text names the field and never quotes its value.
#[derive(Debug, thiserror::Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// No frame of a ZMQ message equals `<IDS|MSG>`.
    #[error("no <IDS|MSG> delimiter among the first {looked_at} frames")]
    NoDelimiter {
        /// Number of frames that were examined.
        looked_at: usize,
    },
    /// Fewer frames or offsets than every message has.
    #[error("{what}: {got} parts, at least {need} are needed")]
    TooFew {
        /// The framing.
        what: &'static str,
        /// Number of parts.
        got: u64,
        /// Number of parts that are needed.
        need: u64,
    },
    /// A length or count is over its limit.
    #[error("{field}: {got} is over the limit of {limit}")]
    TooLarge {
        /// Name of the measured field.
        field: &'static str,
        /// Size in bytes or number of entries, as the field says.
        got: u64,
        /// The limit.
        limit: u64,
    },
    /// A frame ends before what it announces.
    #[error("{what}: the frame is too short")]
    Truncated {
        /// The framing.
        what: &'static str,
    },
    /// An offset table is not dense, not ascending or does not end at the frame's end.
    #[error("{what}: offset {index} is out of order or outside the frame")]
    BadOffset {
        /// The framing.
        what: &'static str,
        /// Position of the offset, from 0.
        index: usize,
    },
    /// A channel name that is not shell, control, stdin or iopub.
    #[error("channel: unknown name")]
    UnknownChannel,
    /// A part is not the JSON that it should be.
    #[error("{field}: {reason}")]
    Json {
        /// The part or field.
        field: &'static str,
        /// Error text, with line and column where known.
        reason: String,
    },
    /// The signature does not match the message.
    #[error("signature: does not match")]
    BadSignature,
    /// A signature scheme that is not `hmac-` and a supported digest.
    #[error("signature_scheme: {0:?} is not supported (hmac-md5, -sha1, -sha224, -sha256, -sha384, -sha512)")]
    UnknownScheme(String),
    /// The peer of a ZMQ socket breaks its protocol.
    #[error("ZMTP: {reason}")]
    Zmtp {
        /// Error text.
        reason: &'static str,
    },
    /// A socket path that the operating system would refuse.
    #[error("{field}: {reason}")]
    BadPath {
        /// The field of the connection file.
        field: &'static str,
        /// Error text.
        reason: &'static str,
    },
}

impl Error {
    pub(crate) fn json(field: &'static str, error: &serde_json::Error) -> Self {
        Self::Json {
            field,
            reason: error.to_string(),
        }
    }

    pub(crate) fn not_an_object(field: &'static str) -> Self {
        Self::Json {
            field,
            reason: "not a JSON object".to_owned(),
        }
    }

    /// True if the message was refused for its size only (a WebSocket answers that with close code 1009).
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::TooLarge { .. })
    }
}
