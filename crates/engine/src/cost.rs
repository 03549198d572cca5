//! The cost of each command: the shares of its owner that one call takes. No command works for a caller without one.
//!
//! The list of commands ([`COMMANDS`](crate::COMMANDS)) does not compile without it. `crates/runs/tests/suite/costs.rs` calls the commands with
//! [`Cost::Turn`] and [`Cost::Disk`] and checks that they take them, and lists the commands that take neither a turn, disk, a stream, a start
//! nor the queue of a kernel, with the reasons. The skill of `publish_skill` is read and checked before the command, in another turn
//! ([`Engine::answer_in_turn`](crate::Engine::answer_in_turn)).

use crate::audit::Effect;

/// One row of the list of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandRow {
    /// The name of the method of [`Engine`](crate::Engine).
    pub name: &'static str,
    /// Its effect, which decides whether the audit log has its calls.
    pub effect: Effect,
    /// The shares that one call takes.
    pub costs: &'static [Cost],
}

/// A share of the owner that one call of a command takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// A turn of the owner while the gateway computes on text that a caller or a server chose (schemas, definitions, arguments), or writes
    /// such content to the database.
    Turn,
    /// Room in the owner's disk share, and free space of the gateway, before it stores bytes of the caller or starts a log.
    Disk,
    /// A turn of the owner for each part of a session log above 4 MiB, and memory of the owner for the answer.
    Log,
    /// A place among the owner's clients of events, and turns for the parts that it reads.
    Stream,
    /// The owner's rate of starts, its kernels, and the limits of its sandbox.
    Start,
    /// A place in the queue of one kernel, which is its owner's; the process of the kernel works within the limits of the sandbox.
    Kernel,
    /// A connection to the sandbox, which works within its limits. The number of connections and their bytes are bounded for each sandbox.
    Sandbox,
    /// Rows of the database: at most a page, or as many as an owner may have.
    Rows,
    /// State in memory, whose size is bounded by the configuration and by the number of kernels.
    Memory,
}

impl Cost {
    /// Its spelling in the documentation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Disk => "disk",
            Self::Log => "log",
            Self::Stream => "stream",
            Self::Start => "start",
            Self::Kernel => "kernel",
            Self::Sandbox => "sandbox",
            Self::Rows => "rows",
            Self::Memory => "memory",
        }
    }
}
