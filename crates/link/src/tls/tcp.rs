//! Settings of TCP connections.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::sockopt;

/// Silence after which the system asks whether the other side is still there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
/// Between two such questions.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);
/// Questions without an answer after which the connection has ended.
const KEEPALIVE_COUNT: u32 = 3;
/// Bytes that are not acknowledged for so long end the connection.
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// Makes a connection send at once, and end when the other side is gone without a word.
pub(super) fn prepare(socket: impl AsFd) -> io::Result<()> {
    let socket = socket.as_fd();
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(socket, KEEPALIVE_EVERY)?;
    sockopt::set_tcp_keepcnt(socket, KEEPALIVE_COUNT)?;
    let millis = u32::try_from(UNACKNOWLEDGED.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_tcp_user_timeout(socket, millis)?;
    Ok(())
}
