//! Protocol between the gateway and the binary `himalia-jail`, and the list of system calls that a sandbox may make.
//!
//! The gateway writes a plan to the standard input of `himalia-jail`:
//!
//! - `exec` takes an [`ExecPlan`], makes the sandbox, starts its first process in it and answers [`ExecReply`];
//! - `prepare` takes a [`Plan`], makes the sandbox without a process and answers [`PrepareReply`] with the descriptors of
//!   its namespaces, for a zygote whose child enters them;
//! - `resize` takes a [`Resize`] and a descriptor of a process (`pidfd_open(2)`), gives file systems in the sandbox of that
//!   process other sizes, and answers [`ResizeReply`];
//! - `probe` takes nothing, tries all of it in a process that it discards, and prints a [`ProbeReport`].
//!
//! Each answer is one line of JSON. A refusal is a [`Failure`] in its place, and exit status 1.
//!
//! Every sandbox has its own user, mount, network, IPC, UTS and PID namespace. The network has a loopback device and
//! nothing else. Its processes are [`SANDBOX_ID`], have no capability and can get none, and live under [`seccomp`].

pub mod plan;
pub mod report;
pub mod seccomp;

pub use plan::{
    Device, ExecPlan, HostIds, Mount, Plan, Program, Resize, Resource, Rlimit, SANDBOX_ID, TmpfsSize,
};
pub use report::{
    ExecReply, Failure, NamespaceKind, PrepareReply, ProbeReport, ProcRules, ResizeReply, Step,
};
