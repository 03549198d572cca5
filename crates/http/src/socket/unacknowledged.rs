//! Bytes of a socket that the peer's TCP has not acknowledged.
#![allow(unsafe_code)] // one ioctl that rustix has no safe function for

use std::os::fd::AsFd;

use rustix::ioctl::{Getter, Opcode, ioctl};

/// `SIOCOUTQ` (`TIOCOUTQ`), see tcp(7): bytes in the send queue, sent or not, that are not acknowledged.
const SIOCOUTQ: Opcode = 0x5411;

/// Bytes written to a TCP socket that the peer has not acknowledged; `None` if the system does not say.
pub(crate) fn unacknowledged(socket: impl AsFd) -> Option<u64> {
    // SAFETY: SIOCOUTQ stores one C int through the pointer that `Getter` passes, and does nothing else.
    let bytes: i32 = unsafe { ioctl(socket, Getter::<SIOCOUTQ, i32>::new()) }.ok()?;
    u64::try_from(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::{TcpListener, TcpStream};

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (listener.accept().await.unwrap().0, client)
    }

    async fn fill(server: &TcpStream) -> u64 {
        let (block, mut written) = (vec![7; 1 << 20], 0);
        loop {
            server.writable().await.unwrap();
            match server.try_write(&block) {
                Ok(n) => written += n as u64,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return written,
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[tokio::test]
    async fn what_the_peer_does_not_read_is_not_acknowledged() {
        let (server, _client) = pair().await;
        assert_eq!(unacknowledged(&server), Some(0));
        let written = fill(&server).await;
        let left = unacknowledged(&server).unwrap();
        assert!(left > 0 && left < written, "{left} of {written}");
    }

    #[tokio::test]
    async fn the_count_survives_a_reset() {
        let (server, client) = pair().await;
        let written = fill(&server).await;
        drop(client); // with unread data: the peer answers with a reset
        while server
            .try_read(&mut [0; 16])
            .is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock)
        {
            server.readable().await.unwrap();
        }
        let left = unacknowledged(&server).unwrap();
        assert!(left > 0 && left < written, "{left} of {written}");
    }
}
