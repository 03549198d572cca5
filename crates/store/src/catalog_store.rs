//! The part of [`Store`](crate::Store) for published skills and workflows.

use std::fmt::Debug;

use crate::{
    SkillBrief, SkillRecord, StoreFuture, VersionAdded, VersionQuota, WorkflowBrief, WorkflowRecord,
};

/// Published skills and workflows.
pub trait CatalogStore: Debug + Send + Sync + 'static {
    /// Adds a version of a skill, if its owner has less than the quota. A version that is there stays as it is.
    fn add_skill(&self, record: SkillRecord, quota: VersionQuota) -> StoreFuture<'_, VersionAdded>;

    /// One version of a skill.
    fn skill(&self, owner: String, name: String, version: String) -> StoreFuture<'_, Option<SkillRecord>>;

    /// All versions of an owner's skills, or of that of one name, by name.
    fn skills(&self, owner: String, name: Option<String>) -> StoreFuture<'_, Vec<SkillBrief>>;

    /// Forgets one version of a skill, or all; gives back how many.
    fn delete_skill(&self, owner: String, name: String, version: Option<String>) -> StoreFuture<'_, usize>;

    /// Adds a version of a workflow, if its owner has less than the quota. A version that is there stays as it is.
    fn add_workflow(&self, record: WorkflowRecord, quota: VersionQuota) -> StoreFuture<'_, VersionAdded>;

    /// One version of a workflow.
    fn workflow(
        &self,
        owner: String,
        name: String,
        version: String,
    ) -> StoreFuture<'_, Option<WorkflowRecord>>;

    /// All versions of an owner's workflows, or of that of one name, by name.
    fn workflows(&self, owner: String, name: Option<String>) -> StoreFuture<'_, Vec<WorkflowBrief>>;

    /// Forgets one version of a workflow, or all; gives back how many.
    fn delete_workflow(&self, owner: String, name: String, version: Option<String>)
    -> StoreFuture<'_, usize>;

    /// A definition by its address, as long as a workflow or a run of its owner has it.
    fn workflow_definition(&self, owner: String, digest: String) -> StoreFuture<'_, Option<String>>;

    /// Bytes of an owner's rows: of skills, workflows, triggers, their runs and deliveries, credentials and access tokens.
    fn owner_bytes(&self, owner: String) -> StoreFuture<'_, i64>;
}
