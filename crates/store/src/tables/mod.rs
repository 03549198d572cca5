//! The tables that both databases have in the same way: records, statements and the part of [`Store`](crate::Store), one file for each
//! kind of thing.

pub(crate) mod callbacks;
pub(crate) mod credentials;
pub(crate) mod deliveries;
pub(crate) mod ended_sessions;
pub(crate) mod jupyter_sessions;
pub(crate) mod kernels;
pub(crate) mod migrations;
pub(crate) mod owner_bytes;
pub(crate) mod prompt_answers;

pub(crate) mod skills;
pub(crate) mod step_prompts;
pub(crate) mod tokens;
pub(crate) mod tool_approvals;
pub(crate) mod trigger_runs;
pub(crate) mod triggers;
pub(crate) mod usage;
pub(crate) mod versions;
pub(crate) mod workflow_runs;
pub(crate) mod workflow_steps;
pub(crate) mod workflows;

pub use callbacks::{CallbackAdded, CallbackQuota, CallbackStore, NewCallback};
pub use credentials::{CredentialRecord, CredentialStore, PutCredential};
pub use deliveries::{DeliveryRecord, DeliveryStore, DueDelivery, FairBatch};
pub use jupyter_sessions::{JupyterSessionRecord, JupyterSessionStore};
pub use owner_bytes::OwnerBytesStore;
pub use prompt_answers::PromptAnswerStore;
pub use skills::{SkillBrief, SkillRecord, SkillStore};
pub use step_prompts::{StepPromptFilter, StepPromptPlace, StepPromptRecord, StepPromptStore};
pub use tokens::{TokenRecord, TokenStore};
pub use tool_approvals::{ToolApprovalAdded, ToolApprovalRecord, ToolApprovalStore};
pub use trigger_runs::{
    OpenRun, TriggerRun, TriggerRunFilter, TriggerRunState, TriggerRunStore, TriggerRunsOf,
};
pub use triggers::{TriggerAdded, TriggerRecord, TriggerStore};
pub use usage::{UsageRecord, UsageStore};
pub use versions::{VersionAdded, VersionQuota};
pub use workflow_runs::{
    RUNNING, WorkflowRunAdded, WorkflowRunBrief, WorkflowRunEnd, WorkflowRunFilter, WorkflowRunQuota,
    WorkflowRunRecord, WorkflowRunStore,
};
pub use workflow_steps::{
    ANSWERED, StepAnswer, StepsWritten, WAITING, WorkflowStepRecord, WorkflowStepStore,
};
pub use workflows::{WorkflowBrief, WorkflowRecord, WorkflowStore};

macro_rules! tables {
    ($($part:ident)*) => {
        /// The parts of [`Store`](crate::Store) that the tables make.
        pub trait Tables: $($part +)* {}

        impl<T: ?Sized $(+ $part)*> Tables for T {}
    };
}

tables! {
    JupyterSessionStore
    TokenStore
    CredentialStore
    ToolApprovalStore
    UsageStore
    SkillStore
    WorkflowStore
    WorkflowRunStore
    WorkflowStepStore
    StepPromptStore
    TriggerStore
    TriggerRunStore
    CallbackStore
    DeliveryStore
    PromptAnswerStore
    OwnerBytesStore
}
