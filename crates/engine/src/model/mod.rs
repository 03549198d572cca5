//! What commands take and return. Plain data; serialisation to a dialect is the facade's.

mod kernel;
mod kernelspec;
mod session;

pub use kernel::{ExecutionState, GatewayStatus, KernelModel, StartKernel};
pub use kernelspec::{InterruptMode, KernelJson, KernelSpec, KernelSpecs, SpecFile};
pub use session::{KernelRef, NewSession, SessionModel, SessionPatch};
