//! Decisions of a replica about leases: when it may act, when it stops, and which sessions it takes over.
//!
//! Pure: there is no clock, no store and no task in this crate. Times are arguments, and what a statement has brought is one too. So the
//! product and the simulator of replicas (crate `kernel`, `sim/replicas`) make the same decisions.
//!
//! ```text
//! a statement that gives or renews a lease ── Heartbeat::after ──▶ Next: a pause, or the end of this process
//!                        └─▶ Term: how long this process may act, half of what others wait
//! replicas whose lease has ended ── TakeOverPlan::look ──▶ TakeOver: what the next statement takes
//! ```

mod heartbeat;
mod take_over;
mod term;

pub use heartbeat::{Heartbeat, Next, Renewal};
pub use take_over::{AGAIN, DeadReplica, EVERY, GIVEN_UP, LATE, MOST, OTHERS_FIRST, TakeOver, TakeOverPlan};
pub use term::Term;
