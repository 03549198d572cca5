//! One request to the owner of its object.

use axum::extract::Request;
use himalia_engine::{Principal, ResourceRef};
use himalia_relay::{HEADER, Response, SendError};
use tokio::time::{Instant, sleep};

use crate::cluster::{Cluster, RETRY_PAUSE, principal_text};
use crate::directory::Location;
use crate::error::RelayError;
use crate::request::ReplayableRequest;

/// Owners that may be lost with a request.
const LOSSES: u32 = 3;

#[derive(Debug)]
pub enum ForwardOutcome {
    /// The response of the owner.
    Response(Response),
    /// This replica has become the owner: the request for its handler.
    Here(Request),
}

/// Sends a request to the owner, and again for [`Cluster::patience`] while no owner can be reached. A request that may have been done is
/// sent again only if it is repeatable, and after at most three owners that were lost with it.
pub async fn forward(
    cluster: &Cluster,
    principal: &Principal,
    sought: &ResourceRef,
    request: &ReplayableRequest,
) -> Result<ForwardOutcome, RelayError> {
    let caller = principal_text(principal)?;
    let (mut start, mut losses) = (Instant::now(), 0);
    let mut again = false;
    loop {
        let (sent, mut had_it) = (Instant::now(), false);
        let reason = match cluster.locate(principal, sought, again).await? {
            None | Some(Location::Here) => return Ok(ForwardOutcome::Here(request.for_handler())),
            Some(Location::Lost { replica }) => format!("replica {replica} is gone"),
            Some(Location::At(peer)) => {
                match cluster.send(&peer, principal, &caller, request.for_peer()).await {
                    Ok(response) if response.headers().contains_key(HEADER) => {
                        had_it = true;
                        format!("replica {} does not have it", peer.replica)
                    }
                    Ok(response) => return Ok(ForwardOutcome::Response(response)),
                    Err(SendError::NotSent(reason)) => reason,
                    Err(error @ SendError::Lost(_)) => {
                        if !request.is_repeatable() {
                            return Err(RelayError::Lost {
                                reason: error.to_string(),
                                repeatable: false,
                            });
                        }
                        had_it = true;
                        error.to_string()
                    }
                    Err(error) => return Err(RelayError::NoOwner(error.to_string())),
                }
            }
        };
        // An owner that had the request for a while: the wait for the next one begins now.
        if had_it && sent.elapsed() > RETRY_PAUSE && losses < LOSSES {
            (start, losses) = (Instant::now(), losses + 1);
        }
        if !request.is_complete() || start.elapsed() + RETRY_PAUSE >= cluster.patience() {
            return Err(RelayError::NoOwner(reason));
        }
        if again {
            sleep(RETRY_PAUSE).await;
        }
        again = true;
    }
}
