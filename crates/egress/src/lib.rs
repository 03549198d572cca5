//! The network of sandboxes that have none: a proxy in the gateway, which reaches for a session what its list allows.
//!
//! A sandbox has a loopback device and nothing else. Its shim carries the bytes of each connection to its proxy port to the gateway,
//! without looking at them, and [`Egress::serve`] takes them from there:
//!
//! ```text
//! serve (serve.rs)      the first byte tells:
//!   |- proxy.rs         CONNECT, and requests with a whole URL, which are written anew
//!   |                   (head.rs; server.rs has the refusals)
//!   |- socks.rs         SOCKS5, names included
//!   |- destination.rs   what is at the name of a CONNECT; credentials.rs: requests that get a secret here
//!   `- tunnel.rs        what follows a CONNECT to a host: TLS whose server name is checked (client_hello.rs), plain HTTP, other bytes
//! each asks             Gate (gate.rs): the list, then connect (connect.rs): resolve once, address.rs, connect to that address,
//!                         or to the proxy of the gateway's own network (upstream.rs)
//! ```
//!
//! Everything that a client sends is hostile. A connection is checked when it is made, and cut when the list no longer allows it.

mod account;
mod address;
mod client_hello;
mod connect;
mod credentials;
mod denial;
mod destination;
mod egress;
mod gate;
mod head;
mod internal;
mod meter;
mod outbound;
mod prefixed;
mod proxy;
mod resolve;
mod serve;
mod server;
mod socks;
#[cfg(test)]
mod tests;
mod tunnel;
mod upstream;

pub use account::{Account, ConnectionPermit, UnboundedAccount};
pub use credentials::{CredentialAccess, InterceptAuthority, InterceptKey, Roots, TrustStore};
pub use denial::{Denial, DenialKind, Target};
pub use egress::Egress;
pub use gate::{MAX_CONNECTIONS, NetworkAccess};
pub use internal::{Body, BodyError, InternalService};
pub use meter::{Report, Reports};
pub use outbound::Outbound;
pub use upstream::{Route, route};
