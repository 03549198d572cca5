//! Checks the bytes of a ZMQ client against limits, frame by frame. Only the READY command is kept.
//!
//! ```text
//! greeting (64 bytes) · READY command · messages, with a command here and there
//! frame: u8 flags (1 more follows, 2 long, 4 command) · u8 length, or u64 big endian when long · body
//! ```

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

const GREETING_BYTES: u64 = 64;
const COMMAND_BYTES: u64 = 4096;

/// Bounds for the messages of one client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of a message, all of its frames together.
    pub(crate) message_bytes: u64,
    pub(crate) frames: u32,
    /// Messages of a connection; `None` for any number.
    pub(crate) messages: Option<u32>,
}

/// Reasons why a client is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("a message is longer than {0} bytes")]
    Message(u64),
    #[error("a message has more than {0} frames")]
    Frames(u32),
    #[error("there were more than {0} messages")]
    Messages(u32),
    #[error("a command is longer than {COMMAND_BYTES} bytes")]
    Command,
    #[error("its READY command cannot be read")]
    Ready,
}

#[derive(Debug)]
enum State {
    Greeting { left: u64 },
    Flags,
    Length { flags: u8, left: u8, length: u64 },
    Body { flags: u8, left: u64 },
}

/// Reads along.
#[derive(Debug)]
pub(crate) struct Scanner {
    limits: Limits,
    state: State,
    /// Bytes of the unfinished message.
    bytes: u64,
    frames: u32,
    messages: u32,
    /// The READY command as far as it came; `None` when it was read.
    ready: Option<Vec<u8>>,
}

impl Scanner {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            state: State::Greeting { left: GREETING_BYTES },
            bytes: 0,
            frames: 0,
            messages: 0,
            ready: Some(Vec::new()),
        }
    }

    /// Looks at the next bytes of the client. Gives its identity when READY has come, which may be empty. What follows an error must
    /// not be passed on, nor what it came with.
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) -> Result<Option<Vec<u8>>, Refusal> {
        let mut identity = None;
        loop {
            match &mut self.state {
                State::Greeting { left } => {
                    skip(left, &mut bytes);
                    if *left > 0 {
                        return Ok(identity);
                    }
                    self.state = State::Flags;
                }
                State::Flags => {
                    let Some((flags, rest)) = bytes.split_first() else {
                        return Ok(identity);
                    };
                    bytes = rest;
                    self.state = State::Length {
                        flags: *flags,
                        left: if flags & LONG == 0 { 1 } else { 8 },
                        length: 0,
                    };
                }
                State::Length { flags, left, length } => {
                    let Some((byte, rest)) = bytes.split_first() else {
                        return Ok(identity);
                    };
                    bytes = rest;
                    *length = (*length << 8) | u64::from(*byte);
                    *left -= 1;
                    if *left == 0 {
                        let (flags, length) = (*flags, *length);
                        self.begin(flags, length)?;
                        self.state = State::Body { flags, left: length };
                    }
                }
                State::Body { flags, left } => {
                    let before = bytes;
                    skip(left, &mut bytes);
                    let taken = &before[..before.len() - bytes.len()];
                    let (flags, left) = (*flags, *left);
                    if flags & COMMAND != 0
                        && let Some(ready) = &mut self.ready
                    {
                        ready.extend_from_slice(taken);
                    }
                    if left > 0 {
                        return Ok(identity);
                    }
                    self.state = State::Flags;
                    if flags & COMMAND == 0 {
                        self.end(flags);
                    } else if let Some(ready) = self.ready.take() {
                        identity = Some(identity_of(&ready).ok_or(Refusal::Ready)?);
                    }
                }
            }
        }
    }

    fn begin(&mut self, flags: u8, length: u64) -> Result<(), Refusal> {
        if flags & COMMAND != 0 {
            return if length > COMMAND_BYTES {
                Err(Refusal::Command)
            } else {
                Ok(())
            };
        }
        if self.ready.is_some() {
            return Err(Refusal::Ready);
        }
        let limits = &self.limits;
        self.bytes = self.bytes.saturating_add(length);
        self.frames += 1;
        if self.bytes > limits.message_bytes {
            return Err(Refusal::Message(limits.message_bytes));
        }
        if self.frames > limits.frames {
            return Err(Refusal::Frames(limits.frames));
        }
        match limits.messages {
            Some(most) if self.messages >= most => Err(Refusal::Messages(most)),
            _ => Ok(()),
        }
    }

    fn end(&mut self, flags: u8) {
        if flags & MORE == 0 {
            (self.bytes, self.frames) = (0, 0);
            self.messages = self.messages.saturating_add(1);
        }
    }
}

/// Passes over at most `left` bytes.
fn skip(left: &mut u64, bytes: &mut &[u8]) {
    let taken = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
    *left -= taken as u64;
    *bytes = &bytes[taken..];
}

/// The property `Identity` of a READY command; empty without one, `None` if this is no READY.
fn identity_of(command: &[u8]) -> Option<Vec<u8>> {
    let mut rest = command.strip_prefix(b"\x05READY")?;
    let mut identity = Vec::new();
    while let Some((length, after)) = rest.split_first() {
        let (name, after) = after.split_at_checked(usize::from(*length))?;
        let (length, after) = after.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let (value, after) = after.split_at_checked(length)?;
        if name.eq_ignore_ascii_case(b"identity") {
            value.clone_into(&mut identity);
        }
        rest = after;
    }
    (identity.len() <= 255).then_some(identity)
}

#[cfg(test)]
mod tests {
    use himalia_wire::zmtp::{self, SocketType};

    use super::*;

    const LIMITS: Limits = Limits {
        message_bytes: 1000,
        frames: 3,
        messages: None,
    };

    fn frame(more: bool, length: usize) -> Vec<u8> {
        let (head, used) = zmtp::frame_head(more, length);
        let mut frame = head[..used].to_vec();
        frame.resize(used + length, 7);
        frame
    }

    /// Feeds pieces of this size.
    fn feed(scanner: &mut Scanner, bytes: &[u8], size: usize) -> Result<Option<Vec<u8>>, Refusal> {
        let mut identity = None;
        for piece in bytes.chunks(size) {
            identity = scanner.feed(piece)?.or(identity);
        }
        Ok(identity)
    }

    #[test]
    fn messages_within_the_limits_pass_however_they_are_cut() {
        let mut bytes = zmtp::opening(SocketType::Dealer, b"me").to_vec();
        for _ in 0..50 {
            bytes.extend(frame(true, 500));
            bytes.extend(frame(true, 0));
            bytes.extend(frame(false, 500));
            bytes.extend(zmtp::pong(b"x"));
        }
        for size in [1, 2, 7, 64, 1000, bytes.len()] {
            let mut scanner = Scanner::new(LIMITS);
            assert_eq!(
                feed(&mut scanner, &bytes, size),
                Ok(Some(b"me".to_vec())),
                "{size}"
            );
            assert_eq!(scanner.messages, 50);
        }
        let anonymous = zmtp::opening(SocketType::Req, b"");
        assert_eq!(Scanner::new(LIMITS).feed(&anonymous), Ok(Some(Vec::new())));
    }

    #[test]
    fn what_is_over_a_limit_is_refused_by_its_head() {
        let refused = |after: &[u8]| {
            let mut scanner = Scanner::new(Limits {
                messages: Some(2),
                ..LIMITS
            });
            scanner.feed(&zmtp::opening(SocketType::Sub, b"")).unwrap();
            feed(&mut scanner, after, 5).unwrap_err()
        };
        let claim = [LONG, 0, 4, 0, 0, 0, 0, 0, 0];
        assert_eq!(refused(&claim), Refusal::Message(1000));
        assert_eq!(
            refused(&[LONG, 255, 255, 255, 255, 255, 255, 255, 255]),
            Refusal::Message(1000)
        );
        assert_eq!(
            refused(&[frame(true, 600), vec![LONG, 0, 0, 0, 0, 0, 0, 2, 0]].concat()),
            Refusal::Message(1000)
        );
        assert_eq!(refused(&frame(true, 1).repeat(4)), Refusal::Frames(3));
        assert_eq!(refused(&frame(false, 1).repeat(3)), Refusal::Messages(2));
        assert_eq!(
            refused(&[LONG | COMMAND, 0, 0, 0, 0, 0, 0, 16, 1]),
            Refusal::Command
        );
    }

    #[test]
    fn ready_comes_first_and_is_read_strictly() {
        let greeting = [0; 64];
        let with = |after: &[u8]| Scanner::new(LIMITS).feed(&[&greeting[..], after].concat());
        assert_eq!(with(&frame(false, 1)), Err(Refusal::Ready));
        for bad in [
            &b"\x04\x02\x05R"[..],
            b"\x04\x07\x05READY\x08",
            b"\x04\x0f\x05READY\x08Identity",
            b"\x04\x13\x05READY\x08Identity\0\0\0\x05",
        ] {
            assert_eq!(with(bad), Err(Refusal::Ready), "{bad:?}");
        }
    }
}
