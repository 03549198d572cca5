//! Starts a session, or one more kernel of it. Every start takes the same steps, in this order:
//!
//! | step | what happens | file |
//! |---|---|---|
//! | permit | a kernel within the limits, a turn to start, an id | `kernel_limit`, `turn` |
//! | plan | template and request become the session, its provisioner and its command line | `plan`, `crate::templates` |
//! | place | a new sandbox, or a part of one that runs | `sandbox` |
//! | link | a socket on which its shim calls | `sandbox` |
//! | log | the row in the store, the log, the actor | `actor` |
//! | process | the shim starts the kernel's process | `process` |
//!
//! A failed step leaves nothing of the steps before. From the place on, the steps are in a task of their own (`detached`), so that a
//! caller that goes away does not stop a start half-way.
//!
//! A start has one of these sources, each in a file of its own, which says what is different about it:
//!
//! | source | what it skips or adds | file |
//! |---|---|---|
//! | cold, zygote | nothing: the provisioner decides whether it forks a zygote | `new_session`, `named` for a session with a name, `keyed` for one with an idempotency key |
//! | pool | all steps were taken in advance; the kernel gets its owner, its variables and its row | `pool` |
//! | fork | the place is the parent's sandbox; the process is a copy of the parent's | `fork` |
//! | additional | the place is the session's sandbox | `additional` |
//! | resume | a new sandbox for a session whose sandbox has ended; log and actor are there | `resume` |
//! | adopt | everything runs; log and link are opened again after a restart of the gateway | `adopt` |
//! | take-over | the same for what a replica had whose lease has ended | `take_over` |

mod actor;
mod additional;
mod adopt;
mod control;
mod counted;
mod detached;
mod fork;
mod kernel_limit;
mod keyed;
mod named;
mod new_session;
mod plan;
mod pool;
mod process;
mod resume;
mod sandbox;
mod take_over;
mod take_overs;
mod turn;

pub use additional::MAX_SESSION_KERNELS;
pub(crate) use control::StartControl;
pub(crate) use kernel_limit::{KernelLimits, KernelPermit};
pub use keyed::{MAX_START_KEY_BYTES, name_of_key, name_of_run};
pub use named::{MAX_NAME_CHARS, NAME_PATTERN};
pub use pool::Pool;
pub(crate) use pool::late_binding;
pub(crate) use take_over::TakingOver;
pub(crate) use take_overs::TakeOvers;
