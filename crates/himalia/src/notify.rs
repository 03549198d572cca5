//! Tells the service manager how far the gateway is, where there is one: `sd_notify(3)`.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// It can be used.
pub(crate) const READY: &str = "READY=1";
/// It ends.
pub(crate) const STOPPING: &str = "STOPPING=1";

/// Says it to the one that `NOTIFY_SOCKET` names. A manager that does not listen is no reason to stop.
pub(crate) fn say(state: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
        return;
    };
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name),
        None => SocketAddr::from_pathname(&name),
    };
    let said = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address));
    if let Err(error) = said {
        tracing::warn!(%error, "the service manager was not notified");
    }
}
