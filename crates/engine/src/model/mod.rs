//! What commands take and return. Plain data; serialisation to a dialect is the facade's.

mod collect;
mod fork;
mod kernel;
mod kernelspec;
mod sandbox;
mod session;
mod template;

pub use collect::{Collected, CollectedSession, Orphan, OrphanKind, Overdue, Retention};
pub use fork::{Branch, ForkFiles, ForkKernel, ForkPolicy, Hazard, MAX_BRANCHES};
pub use kernel::{
    ExecutionState, GatewayStatus, KernelModel, NewKernel, Secrets, StartKernel, Unanswered, Unresponsive,
};
pub use kernelspec::{InterruptMode, KernelJson, KernelSpec, KernelSpecs, SpecFile};
pub use sandbox::{
    Origin, PoolStatus, ProvisionerInfo, SessionChange, SessionEnd, SessionInfo, StartPath, TimeChange,
};
pub use session::{KernelRef, NewSession, SessionModel, SessionPatch};
pub use template::{
    FilesMode, PoolConfig, ProvisionerChoice, SessionLimits, Template, TemplateInfo, UsualSizes,
};
