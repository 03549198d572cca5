//! Attacks below the level of messages.

use std::io;

use super::attack::{Attack, Target};
use super::kernel::Asked;
use super::message_attacks;
use super::zmtp::{self, COMMAND, LONG, MORE};

/// Bytes of one write in an attack that repeats itself.
const CHUNK: usize = 1 << 16;

impl Attack {
    /// Plays the attack.
    pub(super) fn play(self, asked: &mut Asked<'_>) -> io::Result<()> {
        match self {
            Self::LongFrame(target) => send(asked, target, &announce(0)),
            Self::LongCommand(target) => send(asked, target, &announce(COMMAND)),
            Self::EndlessMultipart(frames) => {
                repeat(asked, &[MORE, 0], frames);
                Ok(())
            }
            Self::Garbage(bytes) => {
                // A plain generator: the same bytes each time.
                let mut state = 0x9e37_79b9_u32;
                let noise = (0..bytes).map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    state.to_be_bytes()[0]
                });
                send(asked, Target::Iopub, &noise.collect::<Vec<u8>>())
            }
            Self::Cut => {
                send(asked, Target::Iopub, &[MORE, 200, 1, 2, 3])?;
                // The kernel ends: there is no other way to close a connection within a message.
                std::process::exit(3);
            }
            Self::PingStorm(pings) => {
                repeat(asked, &zmtp::frame(COMMAND, b"\x04PING\x00\x00"), pings);
                Ok(())
            }
            Self::UnknownCommand => send(
                asked,
                Target::Iopub,
                &zmtp::frame(COMMAND, b"\x07HIMALIA\x00\x01\x02"),
            ),
            other => message_attacks::play(other, asked),
        }
    }
}

/// A frame header that promises 2^50 bytes, and a few of them.
fn announce(flags: u8) -> Vec<u8> {
    let mut header = vec![flags | LONG];
    header.extend_from_slice(&(1_u64 << 50).to_be_bytes());
    header.extend_from_slice(b"few");
    header
}

fn send(asked: &mut Asked<'_>, target: Target, bytes: &[u8]) -> io::Result<()> {
    match target {
        Target::Iopub => {
            asked.state.publish_raw(bytes);
            Ok(())
        }
        Target::Shell => asked.peer.write_all(bytes),
    }
}

/// The same bytes many times to the subscribers, until they go away.
fn repeat(asked: &Asked<'_>, bytes: &[u8], times: usize) {
    let per_chunk = (CHUNK / bytes.len()).max(1);
    let chunk = bytes.repeat(per_chunk);
    for _ in 0..times / per_chunk {
        if !asked.state.publish_raw(&chunk) {
            return;
        }
    }
    asked.state.publish_raw(&bytes.repeat(times % per_chunk));
}
