//! Interface to the owner of a kernel, as its actor needs it.

use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

use himalia_model::DiskUse;
use himalia_shim_protocol::{StartPath, Stats};
use tokio::sync::mpsc;

/// Future of a [`KernelHost`]'s work.
pub type HostFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// The sandbox that a kernel is in, what is noted of it elsewhere, and the other kernels of its session. An actor has one for each
/// sandbox that its kernel is in.
///
/// What is asked does not wait for the actor, and the actor does not wait for it, unless it gives a future.
pub trait KernelHost: Debug + Send + Sync {
    /// True if this gateway may act on the kernel. If not, another gateway may have the kernel, and the actor stops.
    fn may_act(&self) -> bool;

    /// A process runs: it is noted where a later gateway looks, and for what has to kill it.
    fn process_started(&self, pid: i32, incarnation: u32, path: StartPath);

    /// A native execution of this caller has ended, which ran so long.
    fn execution_ended(&self, caller: &str, took: Duration);

    /// The shim has measured what the kernel and all processes below it use.
    fn measured(&self, stats: Stats);

    /// Finds out whether a process died because it ran out of memory, and answers once.
    fn check_memory(&self, answer: mpsc::Sender<bool>);

    /// Measures the space that the files take, and answers once; `None` where that is not known.
    fn measure_disk(&self, answer: mpsc::Sender<Option<DiskUse>>);

    /// From now on the kernel is in this sandbox, and not in the one before.
    fn moved_in(&self);

    /// Ends the additional kernels of a session that has ended; nothing of them is left when this is done.
    fn end_additional(&self) -> HostFuture<'_>;

    /// The kernel leaves its sandbox. `true` if it was the last one in it.
    fn leave(&mut self) -> bool;

    /// The kernel has left: ends the sandbox if it was the last one in it, and removes what is left. With `forget` the kernel itself
    /// goes too, otherwise it stays listed as dead.
    fn clean_up(&mut self, forget: bool) -> HostFuture<'_>;
}
