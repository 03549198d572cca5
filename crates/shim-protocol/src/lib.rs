//! The link between the gateway and a shim: frames, bodies and the two state machines. Sans-IO.
//!
//! # Connections
//!
//! The gateway listens on a unix stream socket; the shim dials two connections (*lanes*) to it and redials for ever:
//!
//! - `now`: commands, lifecycle events, acknowledgements, messages of the control channel;
//! - `data`: messages of shell, stdin and iopub.
//!
//! The first frame of a connection is a [`Hello`] from the shim; the gateway answers with a [`Welcome`], or with
//! [`HelloDenied`] and a close. A newer connection of a lane replaces the older one. The shim refuses (closes) a welcome
//! whose epoch is lower than one that it has seen.
//!
//! # Frame
//!
//! All integers are little endian.
//!
//! ```text
//! u32 length of what follows · u8 kind · u16 kernel · u64 number · body
//! ```
//!
//! The length is checked against the limit of its kind ([`Kind::limit`]) as soon as the 15 bytes of the head are
//! there, before anything is allocated for the body. Frames of an unknown kind are skipped without being stored.
//! Until the key is proven the gateway takes a `hello` of at most [`HELLO_BYTES`] and nothing else ([`Decoder::unproven`]).
//!
//! | kind | sent by | lane | number | body |
//! |---|---|---|---|---|
//! | `hello` | shim | both | 0 | JSON [`Hello`] |
//! | `welcome` | gateway | both | 0 | JSON [`Welcome`] |
//! | `denied` | gateway | both | 0 | JSON [`HelloDenied`] |
//! | `start`, `stop`, `restart`, `interrupt`, `shutdown` | gateway | now | request | JSON, see [`Command`] |
//! | `bind`, `fork`, `close` | gateway | now | request | JSON [`Bind`], [`Fork`], [`Stop`] |
//! | `msg` | gateway | now (control), data (shell, stdin) | request | v1 frame |
//! | `msg` | shim | now (control), data (shell, stdin, iopub) | link | [`Origin`], then v1 frame |
//! | `started`, `start_failed`, `exited`, `stopped`, `refused` | shim | now | link | JSON, see [`Event`] |
//! | `bound`, `forked`, `fork_failed` | shim | now | link | JSON [`Bound`], [`KernelForked`], [`ForkFailed`] |
//! | `gap` | shim | both | last link of the gap | JSON [`Gap`] |
//! | `ack` | gateway | now | link, all up to it | u8 lane |
//! | `accepted` | shim | both, for its own lane | request, all up to it | empty |
//! | `open` | gateway | now | request | JSON [`Open`] |
//! | `add_link` | gateway | now | request | JSON [`AddLink`] |
//! | `link_added` | shim | now | link | JSON [`LinkAdded`] |
//! | `chunk` | both | a stream | 0; of a command's output its source | bytes |
//! | `head`, `done`, `failed` | shim | a stream | 0 | JSON [`FileHead`], [`StreamDone`], [`StreamFailed`] |
//! | `stats`, `heartbeat` | shim | now | 0 | JSON [`Stats`], [`Heartbeat`] |
//!
//! A *v1 frame* is one message in the `v1.kernel.websocket.jupyter.org` framing: the shim encodes it once, the gateway
//! journals and forwards these bytes. The signing key never crosses the link.
//!
//! # Numbers
//!
//! - *link*: given by the shim, dense from 1 per kernel **and lane** for as long as the shim lives (a restart of the
//!   kernel does not reset it; every message names its incarnation instead). Reliable: kept until acknowledged, sent
//!   again after a reconnect. Lifecycle events on `now` have link numbers too, so none is lost while no gateway is
//!   there. There is no order between the lanes: `exited` carries the last data link of its incarnation.
//! - *request*: given by the gateway per kernel, one numbering for commands and messages over both lanes, from 1 per
//!   epoch, growing within each lane (not dense in a lane). The shim accepts a number at most once: only if it is
//!   above the highest that it accepted in this lane and epoch. What the gateway has not seen `accepted` it sends
//!   again after a reconnect, in the same epoch and under the same number.
//! - *epoch*: counts gateways. *incarnation*: counts processes of one kernel, from 1. Kernel 0 is the shim itself.
//!
//! A kernel exists from its `start` on: a message for it on the data lane that overtakes the `start` is not accepted
//! (the lanes have no order), so a gateway sends messages after `started`. While a kernel starts, up to 256 messages
//! of 64 MiB wait for its sockets.
//!
//! # Versions
//!
//! Hello carries the shim's range, welcome the version chosen by the gateway: the highest that both speak
//! ([`VersionRange::negotiate`]). A sender never sends a kind above the chosen version ([`Kind::since`]): a gateway that tries gets
//! [`PendingFull::Version`], and an event that a shim still holds is replaced by a gap. Frames of unknown kinds and unknown members of
//! bodies are skipped.
//!
//! A shim of a development build, from before version 0.1.0, is refused ([`ProtocolError::Development`]).
//!
//! # Streams
//!
//! A transfer of files has a connection of its own, so that neither lane waits for it: `open` names it, the shim dials
//! the socket of the link once more and says hello with that name, and then the two send [`StreamFrame`]s. Chunks have
//! at most 256 KiB; nothing but the socket's buffer is ahead of its reader. `done` or `failed` ends a stream; a
//! connection that closes without either has failed. Nothing of a stream is resent or kept. A command has a stream of the same kind,
//! on which both send [`ProcessFrame`]s and [`ProcessOrder`]s for as long as it runs.
//!
//! The network of a sandbox is carried by streams too, which the shim opens by itself if its sandbox has that: it keeps a few
//! that wait, each on its own connection to the link with the name [`NETWORK_STREAM`] in its hello, and gives one to each connection
//! that it accepts. From then on both sides send plain bytes. A gateway that does not expect one closes it.
//!
//! # Branches
//!
//! A shim has one link per branch beside its first one. Each is as described above, with lanes, numbers and marks of
//! its own: a branch dials the socket that the `fork` named, in the directory of `gw.sock`, says hello with the same
//! key, and is kernel 1 there. `close` gives one link up, `shutdown` on any link ends the whole shim.
//!
//! `add_link` opens a link as a branch's without a kernel: like on the first link, the gateway starts kernel 1 on it.

#![warn(missing_docs)]

mod branch;
mod codec;
mod command;
mod error;
mod event;
mod gateway_link;
mod handshake;
mod kind;
mod lane;
mod origin;
mod packet;
mod process;
pub mod shim_link;
mod stream;
mod version;

pub use branch::{
    BRANCHES, Bind, Bound, BranchFiles, Fork, ForkFailed, ForkFailure, ForkPolicy, ForkTimes, HAZARDS_MAX,
    Hazard, KernelForked, Severity,
};
pub use codec::{Decoder, Frame, HEAD_BYTES, encode_frame, encode_head};
pub use command::{AddLink, Command, KernelSpec, ResourceLimits, Start, Stop};
pub use error::ProtocolError;
pub use event::{
    Cause, Event, Gap, GapReason, Heartbeat, KernelExited, KernelStarted, KernelStopped, LinkAdded,
    RefusalKind, RequestRefused, STDERR_TAIL_BYTES, StartFailed, StartPath, Stats, Usage,
};
pub use gateway_link::{GatewayLink, LaneResume, LinkCheck, PendingFull, PendingRequest};
pub use handshake::{
    Hello, HelloDenied, InterruptMode, KernelEntry, KernelState, LinkRange, NETWORK_STREAM, RequestMarks,
    Resume, Welcome,
};
pub use kind::{CHUNK_BYTES, HELLO_BYTES, Kind};
pub use lane::{Lane, PerLane};
pub use origin::{ORIGIN_BYTES, Origin, RequestId};
pub use packet::{ToGateway, ToShim};
pub use process::{
    ProcessExit, ProcessFrame, ProcessOrder, ProcessSource, ProcessStarted, RunProcess, TerminalSize,
};
pub use shim_link::ShimLink;
pub use stream::{
    ByteRange, FileEntry, FileHead, FileKind, FileTask, LIST_MAX, Open, PATH_BYTES, StreamDone, StreamFailed,
    StreamFailure, StreamFrame, StreamTask, WALK_MAX,
};
pub use version::{PROTOCOL_MAX, PROTOCOL_MIN, VersionRange};
