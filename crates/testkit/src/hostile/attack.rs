//! The attacks by name.

/// The attacks, for `--help` and for people who write tests.
pub const HELP: &str = "\
Code of an execute_request, one attack per request; N and BYTES have defaults:
  attack long-frame [shell]      a frame header that announces 2^50 bytes, on iopub or shell
  attack long-command [shell]    the same as a command
  attack endless-multipart [N]   N empty frames of one message that never ends
  attack garbage [BYTES]         bytes that are no ZMTP
  attack cut                     half of a message, then the connection is closed
  attack ping-storm [N]          ZMTP PING commands
  attack unknown-command         a ZMTP command that does not exist
  attack wrong-hmac [N]          messages with wrong, short, long and absent signatures
  attack forged-replies [N]      replies and output for requests of others, seen and guessed
  attack stray-replies [N]       N replies to no request, and one of another type, on the way of the request's own
  attack replay-reply [N]        the request's reply, N times, before the reply itself
  attack forged-status           `dead` and `restarting`, as if the server had said so
  attack replay [N]              one properly signed message, N times
  attack big-header [BYTES]      1 MB of header
  attack big-reply [BYTES]       100 MB of banner in an unsolicited kernel_info_reply
  attack many-parts [N]          100,000 buffers
  attack few-parts               messages that end early, or hold no delimiter, or nothing at all
  attack invalid-utf8            in header and content
  attack not-json                in each of the four parts
  attack depth-bomb [N]          N brackets, in header and in content
  attack wrong-channel           replies on iopub, output on shell
  attack input-storm [N]         input_requests that were not allowed
  attack flood [N] [BYTES]       stream messages as fast as they go
Every other code is printed back. After an attack that leaves the stream whole the request is answered.
";

/// Which socket an attack on the stream goes to.
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum Target {
    /// The publisher.
    Iopub,
    /// The connection that the request came from.
    Shell,
}

/// One attack, see [`HELP`].
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
#[allow(missing_docs)]
pub enum Attack {
    LongFrame(Target),
    LongCommand(Target),
    EndlessMultipart(usize),
    Garbage(usize),
    Cut,
    PingStorm(usize),
    UnknownCommand,
    WrongHmac(usize),
    ForgedReplies(usize),
    StrayReplies(usize),
    ReplayReply(usize),
    ForgedStatus,
    Replay(usize),
    BigHeader(usize),
    BigReply(usize),
    ManyParts(usize),
    FewParts,
    InvalidUtf8,
    NotJson,
    DepthBomb(usize),
    WrongChannel,
    InputStorm(usize),
    Flood { messages: usize, bytes: usize },
}

impl Attack {
    /// Reads `attack NAME …`; `None` for anything else.
    pub fn parse(code: &str) -> Option<Self> {
        let mut words = code.split_whitespace();
        if words.next() != Some("attack") {
            return None;
        }
        let name = words.next()?;
        let first = words.next();
        let second = words.next();
        let target = || match first {
            Some("shell") => Some(Target::Shell),
            None | Some("iopub") => Some(Target::Iopub),
            Some(_) => None,
        };
        let number = |word: Option<&str>, default| word.map_or(Some(default), |word| word.parse().ok());
        let count = |default| number(first, default);
        Some(match name {
            "long-frame" => Self::LongFrame(target()?),
            "long-command" => Self::LongCommand(target()?),
            "endless-multipart" => Self::EndlessMultipart(count(20_000_000)?),
            "garbage" => Self::Garbage(count(1 << 20)?),
            "cut" => Self::Cut,
            "ping-storm" => Self::PingStorm(count(1_000_000)?),
            "unknown-command" => Self::UnknownCommand,
            "wrong-hmac" => Self::WrongHmac(count(1000)?),
            "forged-replies" => Self::ForgedReplies(count(16)?),
            "stray-replies" => Self::StrayReplies(count(16)?),
            "replay-reply" => Self::ReplayReply(count(100)?),
            "forged-status" => Self::ForgedStatus,
            "replay" => Self::Replay(count(100)?),
            "big-header" => Self::BigHeader(count(1_000_000)?),
            "big-reply" => Self::BigReply(count(100_000_000)?),
            "many-parts" => Self::ManyParts(count(100_000)?),
            "few-parts" => Self::FewParts,
            "invalid-utf8" => Self::InvalidUtf8,
            "not-json" => Self::NotJson,
            "depth-bomb" => Self::DepthBomb(count(1_000_000)?),
            "wrong-channel" => Self::WrongChannel,
            "input-storm" => Self::InputStorm(count(10_000)?),
            "flood" => Self::Flood {
                messages: count(200_000)?,
                bytes: number(second, 100)?,
            },
            _ => return None,
        })
    }

    /// Whether the stream that it was played on can still carry messages afterwards.
    pub fn leaves_the_stream_whole(self) -> bool {
        !matches!(
            self,
            Self::LongFrame(_)
                | Self::LongCommand(_)
                | Self::EndlessMultipart(_)
                | Self::Garbage(_)
                | Self::Cut
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_attack() {
        let names = HELP.lines().filter(|line| line.starts_with("  attack "));
        assert_eq!(names.clone().count(), 23);
        for line in names {
            let line = line.trim().split("  ").next().unwrap();
            let plain = line.split(" [").next().unwrap();
            assert!(Attack::parse(plain).is_some(), "{plain}");
        }
    }

    #[test]
    fn arguments() {
        assert_eq!(
            Attack::parse("attack long-frame shell"),
            Some(Attack::LongFrame(Target::Shell))
        );
        assert_eq!(
            Attack::parse("attack flood 5 6"),
            Some(Attack::Flood {
                messages: 5,
                bytes: 6
            })
        );
        for other in [
            "print attack",
            "attack",
            "attack nothing",
            "attack replay often",
            "attack cut-off",
        ] {
            assert_eq!(Attack::parse(other), None, "{other}");
        }
    }
}
