//! Requests that another replica serves.
//!
//! A session is at one replica of the [`Cluster`](himalia_cluster::Cluster), its owner. A request for a session of another replica is
//! relayed to it, in one place: the layer between authentication and handlers. Handlers do not know of it, except one (`answers`).
//!
//! * `served_at`: the column of the table of routes that the decision is made by
//! * `layer`: the decision
//! * `replay`: requests that can be sent more than once, and their responses
//! * `events`: streams of events, which continue at the next owner
//! * `answers`: signed answers to prompts, which a handler relays
//! * `channels`: the channels of a kernel; the replica of the client has the WebSocket, and its owner the log
//! * `lists`: requests that all replicas serve; the room of a list merges its pages (`merged_list`)
//! * `bodies`: objects that a body names, which the room of the route reads
//! * `starts`: starts that the pool of another replica serves
//! * `repeatable`: the column of the table of routes with the requests that may be sent to the next owner after they were lost
//! * `peers`: requests of other replicas. They are never relayed again

mod answers;
mod bodies;
mod channels;
mod events;
mod layer;
mod lists;
mod merged_list;
mod peers;
mod repeatable;
mod replay;
mod served_at;
mod start_body;
mod starts;

use himalia_cluster::RelayError;
use himalia_engine::EngineError;

pub(crate) use answers::answer_elsewhere;
pub(crate) use bodies::{BodyObjects, BodyReader};
pub(crate) use layer::relay;
#[cfg(test)]
pub(crate) use merged_list::testing;
pub(crate) use merged_list::{ListRequest, ListedItem, MergedList, read_part, unique};
pub(crate) use peers::{inside, service};
pub(crate) use repeatable::Repeatability;
pub(crate) use served_at::{PathParameter, RequestHead, ServedAt, Target, execution, prompt};
pub(crate) use start_body::{Start, StartBody};

use crate::error::ApiError;

impl From<RelayError> for ApiError {
    fn from(error: RelayError) -> Self {
        let text = error.to_string();
        match error {
            RelayError::Engine(error) => error.into(),
            RelayError::Lost { repeatable, .. } => Self {
                retryable: repeatable,
                ..EngineError::unavailable(text).into()
            },
            RelayError::Principal => Self::internal("relaying a request"),
            _ => EngineError::unavailable(text).into(),
        }
    }
}

/// The error of a replica that lost its lease before it responded: 503. A request that only reads, has a key, or was not begun, can be
/// sent again.
pub(crate) fn not_an_owner(can_be_sent_again: bool) -> ApiError {
    if can_be_sent_again {
        return EngineError::unavailable("this gateway has lost its lease and ends").into();
    }
    let reason = "this gateway lost its lease while it handled the request, which may have been done";
    ApiError {
        retryable: false,
        ..EngineError::unavailable(reason).into()
    }
}
