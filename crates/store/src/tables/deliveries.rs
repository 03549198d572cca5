//! Deliveries of the results of runs that triggers have started.

use uuid::Uuid;

use crate::failure::Failure;
use crate::part::part;
use crate::sql::{Sql, changed, params, record};

/// One row of `deliveries`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DeliveryRecord {
    pub id: Uuid,
    pub trigger: Uuid,
    /// The run whose result is delivered.
    pub run: Uuid,
    /// The time when it was made, in microseconds since the Unix epoch.
    pub created_micros: i64,
    /// The time when it is to be tried; `None`: it has ended.
    pub next_micros: Option<i64>,
    /// All else, JSON.
    pub detail: String,
    /// The process that has claimed it; empty: none.
    pub claim: String,
}

/// A delivery that is to be tried.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DueDelivery {
    pub record: DeliveryRecord,
    /// The owner of its trigger.
    pub owner: String,
    /// The kind of its trigger.
    pub kind: String,
}

/// The number of rows that are read at once where owners take turns.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FairBatch {
    /// Rows of one owner.
    pub of_one: i64,
    /// Rows of all owners together.
    pub all: i64,
}

record!(DeliveryRecord in "deliveries" {
    id, trigger as "trigger_id", run as "run_id", created_micros, next_micros, detail, claim
});

record!(DueDelivery in "deliveries" { record as .., owner as "whose", kind });

part! {
    /// Deliveries of results.
    DeliveryStore {
        /// One delivery.
        read fn delivery(id: Uuid) -> Option<DeliveryRecord> = one(ONE, id);

        /// The latest deliveries of a trigger, the latest first.
        read fn deliveries(trigger: Uuid, most: i64) -> Vec<DeliveryRecord> = list(LIST, trigger, most);

        /// Deliveries that are due at `micros` and that no living process has claimed: owners take turns, and the URLs of an owner.
        read fn due_deliveries(micros: i64, most: FairBatch) -> Vec<DueDelivery> = list(DUE, micros, most.of_one, most.all);

        /// Claims for this process a delivery that is as `record` says; `None`: it was claimed or changed meanwhile.
        write fn claim_delivery(record: DeliveryRecord) -> Option<DeliveryRecord>;

        /// Writes a delivery whose claim is still that of `record`, and ends the claim.
        write fn change_delivery(record: DeliveryRecord) -> bool;
    }
}

/// A condition: no living process has this claim. A claim of a process whose lease has ended, or that was followed by another one of its
/// name, is free.
macro_rules! free {
    ($claim:literal) => {
        concat!(
            "{sqlite ",
            $claim,
            " <> {claimant}}{postgres NOT EXISTS (SELECT 1 FROM himalia.replicas r
    WHERE r.name || '/' || r.epoch = ",
            $claim,
            " AND r.lease_until > clock_timestamp())}"
        )
    };
}
pub(super) use free;

const ONE: &str = "SELECT * FROM himalia.deliveries WHERE id = $1";

const LIST: &str = "
SELECT * FROM himalia.deliveries WHERE trigger_id = $1 ORDER BY created_micros DESC, id DESC LIMIT $2";

/// Owners take turns, and of an owner the URLs, so that one that does not answer is not before all others.
const DUE: &str = concat!(
    "SELECT told.*, placed.owner AS whose, placed.kind FROM himalia.deliveries told JOIN (
    SELECT id, owner, kind, row_number() OVER (PARTITION BY owner, kind ORDER BY turn, next_micros, id) AS place FROM (
        SELECT due.id, due.next_micros, one.owner, one.kind, row_number() OVER (
            PARTITION BY one.owner, one.kind, due.detail{postgres ::json} ->> 'url' ORDER BY due.next_micros, due.id) AS turn
        FROM himalia.deliveries due JOIN himalia.triggers one ON one.id = due.trigger_id
        WHERE due.next_micros <= $1 AND ",
    free!("due.claim"),
    ") turns) placed USING (id)
WHERE placed.place <= $2 ORDER BY placed.place, told.next_micros, told.id LIMIT $3"
);

const CLAIM: &str = "
UPDATE himalia.deliveries SET claim = {claimant}
WHERE id = $1 AND claim = $2 AND claim <> {claimant} AND next_micros = $3 AND {member}";

const CHANGE: &str = "
UPDATE himalia.deliveries SET next_micros = $2, detail = $3, claim = '' WHERE id = $1 AND claim = $4 AND {member}";

async fn claim_delivery(
    sql: &impl Sql,
    mut record: DeliveryRecord,
) -> Result<Option<DeliveryRecord>, Failure> {
    let claimed = changed(sql, CLAIM, params![record.id, record.claim, record.next_micros]).await?;
    record.claim = sql.process().claimant.to_string();
    Ok(claimed.then_some(record))
}

async fn change_delivery(sql: &impl Sql, record: DeliveryRecord) -> Result<bool, Failure> {
    let values = params![record.id, record.next_micros, record.detail, record.claim];
    changed(sql, CHANGE, values).await
}
