//! Work on the disk inside an asynchronous runtime.

/// Runs `work`, which waits for the disk, so that the runtime expects it to block, if it can: other tasks of this thread continue
/// elsewhere. Outside of a runtime with several threads it is just run.
pub fn may_block<T>(work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    let threads =
        Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
    if threads {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}
