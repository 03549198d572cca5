//! Settings of TCP connections.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

/// Silence after which the system asks whether the other side is still there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
/// Between two such questions.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);
/// Questions without an answer after which the connection has ended.
const KEEPALIVE_COUNT: u32 = 3;
/// Bytes that are not acknowledged for so long end the connection.
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// Listens for TCP connections. `[::]` takes those of IPv4 as well, and is `0.0.0.0` where the system has no IPv6.
///
/// # Errors
/// When the address is taken, or is none of this system.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    if !matches!(address, SocketAddr::V6(all) if all.ip().is_unspecified()) {
        return TcpListener::bind(address);
    }
    match listen_on_both(address.port()) {
        Err(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL) => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port()))
        }
        listener => Ok(listener?),
    }
}

/// Listens on IPv4 and IPv6, with any value of the system's `bindv6only`.
fn listen_on_both(port: u16) -> Result<TcpListener, Errno> {
    let socket = rustix::net::socket_with(
        AddressFamily::INET6,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_ipv6_v6only(&socket, false)?;
    rustix::net::bind(&socket, &SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

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

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn all_addresses_are_those_of_both_versions() {
        let listener = listen("[::]:0".parse().unwrap()).unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        if listener.local_addr().unwrap().is_ipv6() {
            TcpStream::connect((Ipv6Addr::LOCALHOST, port)).unwrap();
        }
        assert!(
            listen(listener.local_addr().unwrap()).is_err(),
            "the port is taken"
        );
        listen("127.0.0.1:0".parse().unwrap()).unwrap();
    }
}
