//! The four message channels of a kernel.

use std::fmt;

/// A channel that carries messages. The heartbeat carries bare bytes and is no channel.
#[derive(Copy, Clone, Eq, PartialEq, Debug, Hash, PartialOrd, Ord)]
pub enum Channel {
    /// Requests that queue behind running code, and their replies.
    Shell,
    /// Requests that overtake running code: interrupt, shutdown, debug.
    Control,
    /// The kernel asks, the client answers: `input_request`, `input_reply`.
    Stdin,
    /// Output and status, which the kernel publishes to all clients.
    Iopub,
}

impl Channel {
    /// All channels, in the order of the enum.
    pub const ALL: [Self; 4] = [Self::Shell, Self::Control, Self::Stdin, Self::Iopub];

    /// The name in both WebSocket framings.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Control => "control",
            Self::Stdin => "stdin",
            Self::Iopub => "iopub",
        }
    }

    /// Reads a channel name, exactly as [`Channel::as_str`] writes it.
    pub fn parse(name: impl AsRef<[u8]>) -> Option<Self> {
        match name.as_ref() {
            b"shell" => Some(Self::Shell),
            b"control" => Some(Self::Control),
            b"stdin" => Some(Self::Stdin),
            b"iopub" => Some(Self::Iopub),
            _ => None,
        }
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for channel in Channel::ALL {
            assert_eq!(Channel::parse(channel.as_str()), Some(channel));
        }
        assert_eq!(Channel::parse("Shell"), None);
        assert_eq!(Channel::parse(b"".as_slice()), None);
    }
}
