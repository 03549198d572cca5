//! The socket of one lane between gateway and shim, or between shim and kernel.
//!
//! A tokio `UnixStream` listens for "readable" and "writable" for its whole life. On a unix socket Linux reports
//! "writable" each time that the peer takes something out (`unix_write_space`), so every frame that was sent wakes its
//! sender once for nothing; on a busy link that is a third of all wake-ups. [`Socket`] listens for "readable" only,
//! and for "writable" only while the socket is full.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use crate::tls::TlsSocket;

/// A connected stream socket. Dropping it closes the connection.
#[derive(Debug)]
pub struct Socket(Kind);

#[derive(Debug)]
enum Kind {
    Unix(UnixSocket),
    /// TCP reports "writable" only to who was refused, so that tokio's own type serves.
    Tls(Box<TlsSocket>),
}

#[derive(Debug)]
struct UnixSocket {
    /// tokio's type for a descriptor that is read with `read(2)` and watched for "readable" alone.
    reader: pipe::Receiver,
    /// There while room is waited for.
    room: Option<pipe::Sender>,
}

impl Socket {
    /// Takes over a connection.
    ///
    /// # Errors
    /// When the descriptor cannot be watched.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        let reader = pipe::Receiver::from_owned_fd_unchecked(OwnedFd::from(stream.into_std()?))?;
        Ok(Self(Kind::Unix(UnixSocket { reader, room: None })))
    }

    pub(crate) fn tls(socket: TlsSocket) -> Self {
        Self(Kind::Tls(Box::new(socket)))
    }

    /// Appends what is there to `buffer`, as far as its capacity goes, and gives the number of bytes: 0 at the end of
    /// the stream. Nothing that was read is lost when a caller stops waiting.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut BytesMut) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Kind::Unix(unix) => {
                let mut reading = pin!(unix.reader.read_buf(buffer));
                Pin::as_mut(&mut reading).poll(cx)
            }
            Kind::Tls(tls) => tls.poll_read(cx, buffer),
        }
    }

    /// Takes what the socket has room for now, in order, and gives the number of bytes. They are written, or
    /// [`Socket::is_unsent`].
    ///
    /// # Errors
    /// `WouldBlock` when it is full: [`Socket::poll_room`] tells when to try again.
    pub fn try_write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match &mut self.0 {
            Kind::Unix(unix) => Ok(rustix::io::writev(&unix.reader, slices)?),
            Kind::Tls(tls) => tls.try_write(slices),
        }
    }

    /// True if accepted bytes wait to be written; [`Socket::flush`] does that.
    pub fn is_unsent(&self) -> bool {
        match &self.0 {
            Kind::Unix(_) => false,
            Kind::Tls(tls) => tls.is_unsent(),
        }
    }

    /// Writes what was taken and is not written. True when nothing of it is left; otherwise [`Socket::poll_room`] tells when
    /// to try again.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn flush(&mut self) -> io::Result<bool> {
        match &mut self.0 {
            Kind::Unix(_) => Ok(true),
            Kind::Tls(tls) => tls.flush(),
        }
    }

    /// Ready when a full socket has room again, or its peer is gone.
    pub fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Kind::Unix(unix) => unix.poll_room(cx),
            Kind::Tls(tls) => tls.poll_room(cx),
        }
    }
}

impl UnixSocket {
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let room = if let Some(room) = &self.room {
            room
        } else {
            let same = self.reader.as_fd().try_clone_to_owned()?;
            self.room.insert(pipe::Sender::from_owned_fd_unchecked(same)?)
        };
        let result = ready!(room.poll_write_ready(cx));
        self.room = None;
        Poll::Ready(result)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Kind::Unix(unix) => unix.reader.as_fd(),
            Kind::Tls(tls) => tls.as_fd(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use tokio::io::AsyncWriteExt;

    use super::*;

    fn pair() -> (Socket, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        (Socket::new(ours).unwrap(), theirs)
    }

    async fn within<T>(future: impl Future<Output = T>) -> T {
        tokio::time::timeout(Duration::from_secs(30), future)
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn what_is_written_arrives_and_a_full_socket_goes_on_when_there_is_room() {
        let (mut ours, mut theirs) = pair();
        let sent: Vec<u8> = (0..4_000_000_u32)
            .map(|at| u8::try_from(at % 251).unwrap())
            .collect();
        let mut received = vec![0; sent.len()];
        let mut full = 0;
        let write = async {
            let mut at = 0;
            while at < sent.len() {
                let rest = &sent[at..];
                let (left, right) = rest.split_at(rest.len() / 2);
                match ours.try_write(&[IoSlice::new(left), IoSlice::new(right)]) {
                    Ok(written) => at += written,
                    Err(error) => {
                        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                        full += 1;
                        poll_fn(|cx| ours.poll_room(cx)).await.unwrap();
                    }
                }
            }
        };
        let (read, ()) = within(async { tokio::join!(theirs.read_exact(&mut received), write) }).await;
        read.unwrap();
        assert!(received == sent);
        assert!(full > 0);
        assert!(matches!(ours.0, Kind::Unix(UnixSocket { room: None, .. })));
    }

    #[tokio::test]
    async fn reads_up_to_the_end() {
        let (mut ours, mut theirs) = pair();
        theirs.write_all(b"one").await.unwrap();
        let mut buffer = BytesMut::with_capacity(2);
        assert_eq!(
            within(poll_fn(|cx| ours.poll_read(cx, &mut buffer)))
                .await
                .unwrap(),
            2
        );
        buffer.reserve(10);
        assert_eq!(
            within(poll_fn(|cx| ours.poll_read(cx, &mut buffer)))
                .await
                .unwrap(),
            1
        );
        assert_eq!(&buffer[..], b"one");
        let next = poll_fn(|cx| ours.poll_read(cx, &mut buffer));
        drop(theirs);
        assert_eq!(within(next).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_peer_that_is_gone_is_an_error_for_who_waits_for_room() {
        let (mut ours, theirs) = pair();
        let block = vec![7; 64 * 1024];
        while ours.try_write(&[IoSlice::new(&block)]).is_ok() {}
        drop(theirs);
        within(poll_fn(|cx| ours.poll_room(cx))).await.unwrap();
        assert!(ours.try_write(&[IoSlice::new(&block)]).is_err());
    }

    /// The reason why this type exists.
    #[tokio::test]
    async fn a_peer_that_reads_does_not_wake_the_sender() {
        let (mut ours, mut theirs) = pair();
        // A task of its own, so that only its socket wakes it. Each time that it is woken it sends a byte.
        let reading = tokio::spawn(async move {
            let mut buffer = BytesMut::with_capacity(16);
            poll_fn(|cx| {
                ours.try_write(&[IoSlice::new(b"x")]).unwrap();
                ours.poll_read(cx, &mut buffer)
            })
            .await
        });
        let mut byte = [0];
        within(theirs.read_exact(&mut byte)).await.unwrap();
        let second = tokio::time::timeout(Duration::from_millis(50), theirs.read_exact(&mut byte)).await;
        second.unwrap_err();
        theirs.write_all(b"y").await.unwrap();
        assert_eq!(within(reading).await.unwrap().unwrap(), 1);
    }
}
