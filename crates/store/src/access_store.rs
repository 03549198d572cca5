//! The part of [`Store`](crate::Store) for access and use.

use std::fmt::Debug;

use uuid::Uuid;

use crate::{
    CredentialRecord, PutCredential, StoreFuture, TokenRecord, ToolApprovalAdded, ToolApprovalRecord,
    UsageRecord,
};

/// Access tokens, credentials, approvals of tools, and what callers have used.
pub trait AccessStore: Debug + Send + Sync + 'static {
    /// Adds an access token. [`StoreError::Conflict`](crate::StoreError::Conflict) when its id or its hash is taken.
    fn insert_token(&self, token: TokenRecord) -> StoreFuture<'_, ()>;

    /// Forgets an access token; `false` when there was none.
    fn delete_token(&self, id: Uuid) -> StoreFuture<'_, bool>;

    /// Forgets the access tokens that expired at `micros` or before; gives back how many.
    fn delete_expired_tokens(&self, micros: i64) -> StoreFuture<'_, usize>;

    /// Every access token, oldest first.
    fn tokens(&self) -> StoreFuture<'_, Vec<TokenRecord>>;

    /// Writes a credential in the place of the one of its owner and name, if there is one; `false` when it was not written.
    fn put_credential(&self, record: CredentialRecord, when: PutCredential) -> StoreFuture<'_, bool>;

    /// Forgets a credential; `false` when there was none.
    fn delete_credential(&self, owner: String, name: String) -> StoreFuture<'_, bool>;

    /// The credentials of these names that these owners have, in any order.
    fn find_credentials(
        &self,
        owners: Vec<String>,
        names: Vec<String>,
    ) -> StoreFuture<'_, Vec<CredentialRecord>>;

    /// Every credential, by owner and name.
    fn credentials(&self) -> StoreFuture<'_, Vec<CredentialRecord>>;

    /// Adds an approval of a tool, if its owner has fewer than `most`. One that is there for these sessions stays as it is.
    fn add_tool_approval(&self, record: ToolApprovalRecord, most: i64) -> StoreFuture<'_, ToolApprovalAdded>;

    /// Whether a tool is approved for the sessions of a template that a caller of an owner starts.
    fn has_tool_approval(
        &self,
        owner: String,
        caller: String,
        template: String,
        tool: String,
        definition: String,
    ) -> StoreFuture<'_, bool>;

    /// The approvals of tools of an owner, or of all, by owner, caller, template and tool.
    fn tool_approvals(&self, owner: Option<String>) -> StoreFuture<'_, Vec<ToolApprovalRecord>>;

    /// Forgets one of an owner, or of any; `false` when there is none.
    fn delete_tool_approval(&self, owner: Option<String>, id: Uuid) -> StoreFuture<'_, bool>;

    /// Adds to what was used on a day (days since 1970, UTC), all or nothing.
    fn add_usage(&self, day: i64, used: Vec<UsageRecord>) -> StoreFuture<'_, ()>;

    /// What was used on a day, over all replicas, by owner and caller.
    fn usage(&self, day: i64) -> StoreFuture<'_, Vec<UsageRecord>>;

    /// Forgets what was used before a day; gives back how many rows that were.
    fn forget_usage(&self, day: i64) -> StoreFuture<'_, usize>;
}
