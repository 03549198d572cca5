use crate::PROTOCOL_MIN;

/// Most bytes of the body of a hello, which is all that is taken from a caller that has not shown the key.
///
/// A hello has an entry for the shim and one for the link's kernel, with up to 1,024 unfinished requests of at most 50 bytes each.
pub const HELLO_BYTES: usize = 64 * 1024;

/// Most bytes of a chunk.
pub const CHUNK_BYTES: usize = 256 * 1024;

/// Kind of a frame; the discriminant is the byte on the wire. Bytes are never reused.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
#[repr(u8)]
#[allow(
    missing_docs,
    reason = "the names are those of the table in the crate's documentation"
)]
pub enum Kind {
    Hello = 1,
    Welcome = 2,
    Denied = 3,
    Message = 4,
    Ack = 5,
    Accepted = 6,
    Gap = 7,
    Start = 8,
    Stop = 9,
    Restart = 10,
    Interrupt = 11,
    Shutdown = 12,
    Started = 13,
    StartFailed = 14,
    Exited = 15,
    Stopped = 16,
    Refused = 17,
    Stats = 18,
    Heartbeat = 19,
    Bind = 20,
    Fork = 21,
    Forked = 22,
    Open = 23,
    Close = 25,
    Bound = 26,
    ForkFailed = 27,
    Chunk = 28,
    Head = 29,
    Done = 30,
    Failed = 31,
    AddLink = 32,
    LinkAdded = 33,
}

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 32] = [
        Self::Hello,
        Self::Welcome,
        Self::Denied,
        Self::Message,
        Self::Ack,
        Self::Accepted,
        Self::Gap,
        Self::Start,
        Self::Stop,
        Self::Restart,
        Self::Interrupt,
        Self::Shutdown,
        Self::Started,
        Self::StartFailed,
        Self::Exited,
        Self::Stopped,
        Self::Refused,
        Self::Stats,
        Self::Heartbeat,
        Self::Bind,
        Self::Fork,
        Self::Forked,
        Self::Close,
        Self::Bound,
        Self::ForkFailed,
        Self::Open,
        Self::Chunk,
        Self::Head,
        Self::Done,
        Self::Failed,
        Self::AddLink,
        Self::LinkAdded,
    ];

    /// The kind of a byte; `None` for kinds of a later version.
    pub fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == byte)
    }

    /// The name in the table of the crate's documentation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hello => "hello",
            Self::Welcome => "welcome",
            Self::Denied => "denied",
            Self::Message => "msg",
            Self::Ack => "ack",
            Self::Accepted => "accepted",
            Self::Gap => "gap",
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Restart => "restart",
            Self::Interrupt => "interrupt",
            Self::Shutdown => "shutdown",
            Self::Started => "started",
            Self::StartFailed => "start_failed",
            Self::Exited => "exited",
            Self::Stopped => "stopped",
            Self::Refused => "refused",
            Self::Stats => "stats",
            Self::Heartbeat => "heartbeat",
            Self::Bind => "bind",
            Self::Fork => "fork",
            Self::Forked => "forked",
            Self::Close => "close",
            Self::Bound => "bound",
            Self::ForkFailed => "fork_failed",
            Self::Open => "open",
            Self::Chunk => "chunk",
            Self::Head => "head",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::AddLink => "add_link",
            Self::LinkAdded => "link_added",
        }
    }

    /// The first protocol version that has it. A sender never sends a kind above the version of the connection.
    #[allow(clippy::unused_self, reason = "kinds that version 2 adds are named here")]
    pub fn since(self) -> u16 {
        PROTOCOL_MIN
    }

    /// Most bytes of a body of this kind.
    ///
    /// A message may have 256 MiB (the limit for messages of a kernel) and 64 KiB for its framing; a start, a bind,
    /// a fork and an open may carry a whole environment; a hello the tables of its kernels ([`HELLO_BYTES`]); events up to 16 KiB of stderr, escaped,
    /// or 32 hazards.
    pub fn limit(self) -> usize {
        match self {
            Self::Message => 256 * MIB + 64 * KIB,
            Self::Hello => HELLO_BYTES,
            Self::Start | Self::Bind | Self::Fork | Self::Open => 4 * MIB,
            Self::Chunk => CHUNK_BYTES,
            Self::Welcome | Self::Exited | Self::StartFailed | Self::Forked | Self::ForkFailed => 256 * KIB,
            _ => 4 * KIB,
        }
    }

    /// Most bytes of a frame of a kind that this build does not know. It is skipped, never stored.
    pub const UNKNOWN_LIMIT: usize = 4 * MIB;
}
