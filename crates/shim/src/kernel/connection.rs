use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use himalia_link::{Socket, WriteQueue};
use himalia_wire::zmtp::{self, Decoder, Item, SocketType};
use himalia_wire::{Error, Limits};
use tokio::net::UnixStream;
use tokio::time::sleep;

use crate::linger::Linger;

/// Until a socket that is not there, or does not listen yet, is tried again.
const RETRY: Duration = Duration::from_millis(2);
/// The longest such wait.
const RETRY_MAX: Duration = Duration::from_millis(20);

/// Data that was received from a kernel.
#[derive(Debug)]
pub(super) enum ReceivedData {
    /// The frames of a message.
    Message(Vec<Bytes>),
    /// A message of this many bytes was too large to be taken in.
    TooLarge(u64),
    /// The kernel has closed the connection; everything before that was received.
    End,
}

/// One connection to a socket of a kernel: ZMTP over a unix socket. It is not made again when it ends, since a kernel's
/// sockets live as long as its process.
#[derive(Debug)]
pub(super) struct Connection {
    socket: Socket,
    decoder: Decoder,
    /// Data that the socket has not accepted yet.
    out: WriteQueue,
    /// Task that receives; it also continues to write when the socket has room.
    receiver: Option<Waker>,
    closed: bool,
}

impl Connection {
    /// Connects as soon as the kernel listens at `path`, and shakes hands. Waits for ever: the caller has the patience. What
    /// comes is urgent where there is a `Linger`.
    pub(super) async fn open(
        path: &Path,
        socket: SocketType,
        identity: &[u8],
        urgent: Option<&Linger>,
    ) -> Result<Self, Error> {
        let stream = dial(path).await?;
        if let Some(linger) = urgent {
            linger.add(&stream).map_err(|error| broken(&error))?;
        }
        let mut connection = Self {
            socket: Socket::new(stream).map_err(|error| broken(&error))?,
            decoder: Decoder::new(socket, &Limits::KERNEL),
            out: WriteQueue::default(),
            receiver: None,
            closed: false,
        };
        connection.out.push(&[], &zmtp::opening(socket, identity));
        let ready = poll_fn(|cx| connection.poll_item(cx)).await?;
        let subscribed = socket != SocketType::Sub || connection.send(&[Bytes::from_static(zmtp::SUBSCRIBE)]);
        if ready == Some(Item::Ready) && subscribed {
            Ok(connection)
        } else {
            Err(Error::Zmtp {
                reason: "closed by the kernel before it was ready",
            })
        }
    }

    /// Bytes that the kernel has not taken yet.
    pub(super) fn queued(&self) -> usize {
        self.out.len()
    }

    /// Sends a message; what the socket does not take now is kept and sent later. False when the connection is gone, and
    /// the message is not sent.
    pub(super) fn send(&mut self, frames: &[Bytes]) -> bool {
        if self.closed {
            return false;
        }
        for (at, frame) in frames.iter().enumerate() {
            let (head, length) = zmtp::frame_head(at + 1 < frames.len(), frame.len());
            self.out.push(&head[..length], frame);
        }
        self.closed = self.write().is_err();
        !self.closed
    }

    fn write(&mut self) -> io::Result<()> {
        if !self.out.write_to(&mut self.socket)?
            && let Some(receiver) = self.receiver.take()
        {
            receiver.wake();
        }
        Ok(())
    }

    /// Next data. An error ends the connection and describes the violation of the protocol. Cancel-safe.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<ReceivedData, Error>> {
        loop {
            let received = match ready!(self.poll_item(cx))? {
                Some(Item::Message(frames)) => ReceivedData::Message(frames),
                Some(Item::TooLarge(bytes)) => ReceivedData::TooLarge(bytes),
                Some(Item::Ping(context)) => {
                    self.pong(&context);
                    continue;
                }
                Some(Item::Ready) => continue,
                None => ReceivedData::End,
            };
            return Poll::Ready(Ok(received));
        }
    }

    /// A kernel that pings and does not read its answers gets no more of them.
    fn pong(&mut self, context: &[u8]) {
        if self.out.is_empty() && !self.closed {
            self.out.push(&[], &zmtp::pong(context));
            self.closed = self.write().is_err();
        }
    }

    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Item>, Error>> {
        loop {
            if let Some(item) = self.decoder.next()? {
                return Poll::Ready(Ok(Some(item)));
            }
            self.poll_write(cx);
            let read = match self.socket.poll_read(cx, self.decoder.buffer()) {
                Poll::Ready(read) => read,
                Poll::Pending => {
                    self.receiver = Some(cx.waker().clone());
                    return Poll::Pending;
                }
            };
            if !matches!(read, Ok(1..)) {
                self.closed = true;
                return Poll::Ready(Ok(None));
            }
        }
    }

    /// Writes what waits. A connection that takes nothing more may still have something to say.
    fn poll_write(&mut self, cx: &mut Context<'_>) {
        while !self.closed && !self.out.is_empty() {
            match self.out.write_to(&mut self.socket) {
                Ok(true) => return,
                Ok(false) => {}
                Err(_) => self.closed = true,
            }
            match self.socket.poll_room(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => self.closed = true,
                Poll::Pending => return,
            }
        }
    }
}

/// Waits for the socket to appear and to listen.
async fn dial(path: &Path) -> Result<UnixStream, Error> {
    let mut pause = RETRY;
    loop {
        match UnixStream::connect(path).await {
            Ok(stream) => return Ok(stream),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
                ) => {}
            Err(error) => return Err(broken(&error)),
        }
        sleep(pause).await;
        pause = (pause + pause / 64).min(RETRY_MAX);
    }
}

fn broken(error: &io::Error) -> Error {
    tracing::debug!("a kernel's socket: {error}");
    Error::Zmtp {
        reason: "the socket cannot be reached",
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;
    use tokio::time::timeout;

    use super::*;

    /// Greeting and READY of a DEALER without an identity.
    const OPENING: usize = 64 + 30;

    async fn within<T>(future: impl Future<Output = T>) -> T {
        timeout(Duration::from_secs(30), future).await.unwrap()
    }

    /// A DEALER may talk to a DEALER, so that the other side says the same.
    async fn pair() -> (Connection, UnixStream) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let serve = async {
            // A request may be waiting already.
            tokio::task::yield_now().await;
            let listener = UnixListener::bind(&path).unwrap();
            let (mut stream, _) = listener.accept().await.unwrap();
            let ours = zmtp::opening(SocketType::Dealer, b"");
            let mut theirs = [0; OPENING];
            stream.read_exact(&mut theirs).await.unwrap();
            assert_eq!(theirs[..], ours[..]);
            stream.write_all(&ours).await.unwrap();
            stream
        };
        let open = Connection::open(&path, SocketType::Dealer, b"", None);
        let (connection, stream) = within(async { tokio::join!(open, serve) }).await;
        (connection.unwrap(), stream)
    }

    #[tokio::test]
    async fn messages_in_both_directions_and_the_end() {
        let (mut connection, mut stream) = pair().await;
        assert!(connection.send(&[Bytes::new(), Bytes::from_static(b"ping")]));
        let mut bytes = [0; 8];
        within(stream.read_exact(&mut bytes)).await.unwrap();
        assert_eq!(&bytes, b"\x01\0\0\x04ping");
        stream
            .write_all(b"\x04\x08\x04PING\0\0c\x01\x01a\0\x01b")
            .await
            .unwrap();
        let next = within(poll_fn(|cx| connection.poll_next(cx))).await.unwrap();
        assert!(matches!(next, ReceivedData::Message(frames) if frames == ["a", "b"]));
        within(stream.read_exact(&mut bytes)).await.unwrap();
        assert_eq!(&bytes, b"\x04\x06\x04PONGc");
        drop(stream);
        let next = within(poll_fn(|cx| connection.poll_next(cx))).await.unwrap();
        assert!(matches!(next, ReceivedData::End));
        assert!(!connection.send(&[Bytes::from_static(b"late")]));
    }

    #[tokio::test]
    async fn what_the_kernel_does_not_read_yet_is_kept_and_sent_by_who_receives() {
        let (mut connection, mut stream) = pair().await;
        let body = Bytes::from(vec![7; 1_000_000]);
        for _ in 0..4 {
            assert!(connection.send(std::slice::from_ref(&body)));
        }
        assert!(connection.queued() > 0);
        let read = async {
            let mut bytes = vec![0; 4 * 1_000_009];
            stream.read_exact(&mut bytes).await.unwrap();
            stream.write_all(b"\0\x03end").await.unwrap();
            bytes
        };
        let receive = poll_fn(|cx| connection.poll_next(cx));
        let (bytes, next) = within(async { tokio::join!(read, receive) }).await;
        assert!(bytes.chunks(1_000_009).all(|message| message[9..] == body));
        assert!(matches!(next, Ok(ReceivedData::Message(frames)) if frames == ["end"]));
        assert_eq!(connection.queued(), 0);
    }
}
