//! Several replicas of the gateway, any of which serves any client.
//!
//! A session is at one replica, its owner. This crate finds owners and sends requests to them: again while there is no owner, and to the
//! next one after an owner was lost. It knows neither routes nor bodies: `http` decides which requests are relayed.
//!
//! * [`Cluster`]: the replicas, the connections to them and the known locations; [`Directory`] is what finds an owner
//! * [`forward`]: one request to its owner, as a [`ReplayableRequest`]
//! * [`ask_peers`], [`first_with`]: one request to all other replicas
//! * [`start_at_peer`]: starts that the pool of another replica serves
//! * [`EventSplitter`]: streams of events that continue at the next owner
//! * [`open_channels`], [`serve_channels`]: the channels of a kernel, for a client of another replica
//! * [`cut_ended`]: connections to replicas whose lease has ended
//!
//! A request waits for an owner for at most [`Cluster::patience`].

mod channels;
mod cluster;
mod directory;
mod engine;
mod error;
mod events;
mod forward;
mod leases;
mod locations;
mod peers;
mod request;
mod starts;

pub use channels::{
    AttachRequest, CHANNELS, Link, Refusal, RemoteChannels, RemoteFeed, RemoteRequests, open_channels,
    serve_channels,
};
pub use cluster::Cluster;
pub use directory::{Directory, Location};
pub use error::RelayError;
pub use events::{EventPart, EventSplitter, end_of, events_of, line};
pub use forward::{ForwardOutcome, forward};
pub use leases::cut_ended;
pub use peers::{Part, ask_peers, first_with};
pub use request::{OwnRoutes, RelayedPrincipal, Repeatable, ReplayableRequest, RequestBody};
pub use starts::{HELD_KERNELS, HoldRequest, start_at_peer};
