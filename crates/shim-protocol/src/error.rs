use crate::{Lane, PROTOCOL_MAX, PROTOCOL_MIN};

/// Reason why a frame or a connection was refused. Each ends the connection.
#[derive(Debug, thiserror::Error)]
pub enum ProtocolError {
    /// The announced length is below the head's, or above the limit of its kind.
    #[error("frame of kind {kind} announces {bytes} bytes, allowed are {limit}")]
    Length {
        /// The kind byte.
        kind: u8,
        /// Announced bytes of the body (0 when even the head does not fit).
        bytes: usize,
        /// The limit of the kind.
        limit: usize,
    },
    /// The body of a known kind is not what the kind says.
    #[error("body of {kind}: {reason}")]
    Body {
        /// Name of the kind.
        kind: &'static str,
        /// Problem of the body.
        reason: String,
    },
    /// The kind is known, but this side never receives it.
    #[error("{kind} came from the wrong side")]
    Direction {
        /// Name of the kind.
        kind: &'static str,
    },
    /// The peer speaks no version that we speak.
    #[error(
        "protocol {theirs_min}..={theirs_max} and ours {ours_min}..={ours_max} have no version in common"
    )]
    Version {
        /// The peer's lowest.
        theirs_min: u16,
        /// The peer's highest.
        theirs_max: u16,
        /// Our lowest.
        ours_min: u16,
        /// Our highest.
        ours_max: u16,
    },
    /// The peer is a shim of a development build. Its versions are another numbering, and none of them is ours.
    #[error(
        "this shim is of a development build (protocol {min}..={max}), and this gateway speaks protocol \
         {PROTOCOL_MIN}..={PROTOCOL_MAX} of version 0.1.0: end the sandbox, and use the himalia-shim of this gateway"
    )]
    Development {
        /// Lowest version of the peer.
        min: u16,
        /// Highest version of the peer.
        max: u16,
    },
    /// The gateway is older than one that was already here.
    #[error("epoch {offered} is older than {seen}")]
    Epoch {
        /// Epoch of the welcome.
        offered: u64,
        /// Highest epoch seen.
        seen: u64,
    },
    /// The welcome names a position that was never sent.
    #[error("kernel {kernel}: resume of lane {lane} after {after}, but the last link is {last}")]
    Resume {
        /// Kernel number.
        kernel: u16,
        /// Lane of the connection.
        lane: Lane,
        /// The position asked for.
        after: u64,
        /// The last link that exists.
        last: u64,
    },
    /// A frame that makes no sense in this state, for example an acknowledgement of something never sent.
    #[error("{0}")]
    State(String),
}
