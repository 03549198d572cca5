//! The part of [`Store`](crate::Store) for triggers.

use std::fmt::Debug;

use uuid::Uuid;

use crate::{
    CallbackAdded, CallbackQuota, DeliveryRecord, DueDelivery, FairBatch, NewCallback, OpenRun, StoreFuture,
    TriggerAdded, TriggerRecord, TriggerRun, TriggerRunFilter,
};

/// Schedules, webhooks and callbacks, their runs, and the deliveries of results.
pub trait TriggerStore: Debug + Send + Sync + 'static {
    /// Adds a trigger, if its owner has fewer than `most` of its kind.
    fn insert_trigger(&self, record: TriggerRecord, most: i64) -> StoreFuture<'_, TriggerAdded>;

    /// One trigger.
    fn trigger(&self, id: Uuid) -> StoreFuture<'_, Option<TriggerRecord>>;

    /// The triggers of a kind, of an owner or of all, by owner and name.
    fn triggers(&self, owner: Option<String>, kind: String) -> StoreFuture<'_, Vec<TriggerRecord>>;

    /// The triggers that are due at `micros`: owners take turns, each with its earliest first.
    fn due_triggers(&self, micros: i64, most: i64) -> StoreFuture<'_, Vec<TriggerRecord>>;

    /// Replaces a trigger, if it has still the version that `record` names, which grows by one, and adds a run of it: both or neither.
    fn change_trigger(&self, record: TriggerRecord, run: Option<TriggerRun>) -> StoreFuture<'_, bool>;

    /// Forgets a trigger, its runs and their deliveries; `false` when there was none.
    fn delete_trigger(&self, id: Uuid) -> StoreFuture<'_, bool>;

    /// Adds a run, if there is none with its key, which is given back else.
    fn add_trigger_run(&self, run: TriggerRun) -> StoreFuture<'_, Option<TriggerRun>>;

    /// One run.
    fn trigger_run(&self, id: Uuid) -> StoreFuture<'_, Option<TriggerRun>>;

    /// The run of a trigger with this key.
    fn trigger_run_of(&self, trigger: Uuid, key: String) -> StoreFuture<'_, Option<TriggerRun>>;

    /// Returns true if a message has answered a prompt of a webhook before.
    fn has_prompt_answer(&self, hook: Uuid, message: String) -> StoreFuture<'_, bool>;

    /// Notes that a message has answered a prompt of a webhook. Deleted with its webhook, or by [`Store::forget_trigger_runs`].
    fn note_prompt_answer(&self, hook: Uuid, message: String, micros: i64) -> StoreFuture<'_, ()>;

    /// A page of runs of triggers, the latest first.
    fn trigger_runs(&self, filter: TriggerRunFilter) -> StoreFuture<'_, Vec<TriggerRun>>;

    /// The runs of schedules and webhooks among `ids`.
    fn trigger_runs_among(&self, ids: Vec<Uuid>) -> StoreFuture<'_, Vec<Uuid>>;

    /// The latest run of each trigger of a kind, of an owner or of all.
    fn last_trigger_runs(&self, owner: Option<String>, kind: String) -> StoreFuture<'_, Vec<TriggerRun>>;

    /// Runs that have not ended, are to be tried at `micros`, and that no living process has claimed: owners take turns.
    fn open_trigger_runs(&self, micros: i64, most: FairBatch) -> StoreFuture<'_, Vec<OpenRun>>;

    /// Runs of a trigger that have not ended.
    fn count_open_trigger_runs(&self, trigger: Uuid) -> StoreFuture<'_, i64>;

    /// Claims a run for this process, if its claim is still `held`.
    fn claim_trigger_run(&self, id: Uuid, held: String) -> StoreFuture<'_, bool>;

    /// Writes a run that this process has claimed and that has not ended; the claim ends unless it `keeps` it. Adds a delivery with it:
    /// both or neither.
    fn change_trigger_run(
        &self,
        run: TriggerRun,
        keeps: bool,
        delivery: Option<DeliveryRecord>,
    ) -> StoreFuture<'_, bool>;

    /// Forgets runs that have ended, were due before `before`, and are not among the latest `keep` of their trigger; gives back how many.
    fn forget_trigger_runs(&self, keep: i64, before: i64) -> StoreFuture<'_, usize>;

    /// Adds a callback and its run, if the run has none and the owner has fewer than the quota: both or neither.
    fn add_callback(&self, new: NewCallback) -> StoreFuture<'_, CallbackAdded>;

    /// Whether an owner has fewer callbacks of a kind than the quota.
    fn has_callback_room(&self, owner: String, kind: String, quota: CallbackQuota) -> StoreFuture<'_, bool>;

    /// Forgets callbacks of a kind that were added before `before`, whose run has ended and is not kept any more (a run of a workflow, or the
    /// log of a session), and whose delivery has ended; gives back how many.
    fn forget_callbacks(&self, kind: String, before: i64) -> StoreFuture<'_, usize>;

    /// One delivery.
    fn delivery(&self, id: Uuid) -> StoreFuture<'_, Option<DeliveryRecord>>;

    /// The latest deliveries of a trigger, the latest first.
    fn deliveries(&self, trigger: Uuid, most: i64) -> StoreFuture<'_, Vec<DeliveryRecord>>;

    /// Deliveries that are due at `micros` and that no living process has claimed: owners take turns, and the URLs of an owner.
    fn due_deliveries(&self, micros: i64, most: FairBatch) -> StoreFuture<'_, Vec<DueDelivery>>;

    /// Claims for this process a delivery that is as `record` says; `None`: it was claimed or changed meanwhile.
    fn claim_delivery(&self, record: DeliveryRecord) -> StoreFuture<'_, Option<DeliveryRecord>>;

    /// Writes a delivery whose claim is still that of `record`, and ends the claim.
    fn change_delivery(&self, record: DeliveryRecord) -> StoreFuture<'_, bool>;
}
