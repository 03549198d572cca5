//! Schedules and webhooks, without a clock, a store or a network:
//!
//! ```text
//! when        Timetable (timetable.rs): cron and time zone -> the next due time
//! what then   step (step.rs): due times up to now, missed ones and overlapping ones by policy -> one run, and the next due time
//! signatures  Secret (signature.rs): those of Standard Webhooks, made and checked
//! again       pause (pause.rs): how long until a failed delivery is tried again
//! ```
//!
//! Times are microseconds since 1970.

mod pause;
mod signature;
mod step;
mod timetable;

pub use pause::{DELIVERY_ATTEMPTS, pause};
pub use signature::{MAX_ID_BYTES, Secret, SignatureError, SignedMessage, TOLERANCE_S};
pub use step::{
    DueTime, GRACE_MICROS, LOOK_BACK_MICROS, MAX_COUNTED, MissedPolicy, Overlap, Policy, Step, Verdict, step,
};
pub use timetable::{Invalid, MAX_CRON_BYTES, MIN_INTERVAL_S, Timetable};
