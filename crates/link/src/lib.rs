//! The link between a gateway and the shim of a sandbox: the driver of `himalia_shim_protocol` on both sides.
//!
//! A *link* has a name, two connections (lanes), and one more for each stream. How the two sides meet is the *transport*, and
//! this crate alone knows it:
//!
//! - The gateway has an [`Endpoint`], which its provisioner gives it with the sandbox. [`Endpoint::listen`] lets in who
//!   proves the sandbox key: lanes come as an [`Arrival`], streams as a [`StreamConnection`].
//! - The shim has a [`Gateway`], from its command line, and connects to links by their names.
//!
//! There are two transports; frames, lanes and streams are the same on both:
//!
//! - Unix sockets in a directory that both see: the gateway listens, the shim dials.
//! - Mutual TLS over TCP: the shim listens on one port for all its links, the gateway dials. For each link a connection
//!   is always there, on which the shim says hello when it would dial.
//!
//! Both sides keep a lane in a [`Connection`], which reads frames and writes through a [`WriteQueue`]. What a frame says is
//! the business of the caller, as is when to connect again.

mod connection;
mod endpoint;
mod gateway;
mod plain;
mod queue;
mod redial;
mod shim;
mod socket;
mod tls;

pub use connection::Connection;
pub use endpoint::{Endpoint, FIRST_LINK, KEY_FILE};
pub use gateway::{
    Arrival, ExpectedStream, Gate, Listener, StreamConnection, StreamError, StreamReader, StreamWriter,
    Streams, UnprovenBudget,
};
pub use plain::PlainSocket;
pub use queue::WriteQueue;
pub use redial::Redial;
pub use shim::{BlockingSocket, Gateway, ListeningSocket, open_key};
pub use socket::Socket;
pub use tls::{CA_FILE, CERT_FILE, CERT_KEY_FILE, TlsClient, TlsEndpoint, TlsServer, listen_tcp};
