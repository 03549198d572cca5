//! The two directions of a connection after an upgrade.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use rustix::net::{Shutdown, shutdown};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio_rustls::rustls::ServerConnection;

use super::records::Records;
use super::unacknowledged::unacknowledged;

/// The receiving half.
#[derive(Debug)]
pub(crate) enum ReadHalf {
    Plain(OwnedReadHalf),
    Tls(Tls),
}

/// The sending half.
#[derive(Debug)]
pub(crate) enum WriteHalf {
    Plain(OwnedWriteHalf),
    Tls(Tls),
}

/// One connection, as both of its halves have it. The lock is held for no longer than one call of the system.
#[derive(Clone, Debug)]
pub(crate) struct Tls(Arc<SharedSocket>);

#[derive(Debug)]
struct SharedSocket {
    tcp: TcpStream,
    records: Mutex<Records>,
}

/// Splits a connection whose handshake is complete.
pub(super) fn split(tcp: TcpStream, session: ServerConnection) -> (ReadHalf, WriteHalf) {
    let records = Mutex::new(Records::new(session));
    let tls = Tls(Arc::new(SharedSocket { tcp, records }));
    (ReadHalf::Tls(tls.clone()), WriteHalf::Tls(tls))
}

impl AsyncRead for ReadHalf {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(half) => Pin::new(half).poll_read(context, buffer),
            Self::Tls(tls) => tls.poll_read(context, buffer),
        }
    }
}

impl Tls {
    fn poll_read(&self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let SharedSocket { tcp, records } = &*self.0;
        loop {
            let read = records.lock().read(buffer.initialize_unfilled());
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => {
                    buffer.advance(read?);
                    return Poll::Ready(Ok(()));
                }
            }
            ready!(tcp.poll_read_ready(context))?;
            match records.lock().receive(&mut Receive(tcp)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                received => {
                    received?;
                }
            }
        }
    }
}

/// The bytes that TCP has received.
struct Receive<'a>(&'a TcpStream);

impl io::Read for Receive<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }
}

impl WriteHalf {
    /// Hands over what is taken without waiting; how many bytes. [`io::ErrorKind::WouldBlock`]: nothing.
    pub(crate) fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(half) => half.try_write_vectored(slices),
            Self::Tls(Tls(shared)) => {
                let mut records = shared.records.lock();
                records.send(|bytes| shared.tcp.try_write(bytes))?;
                let taken = records.seal(slices)?;
                match records.send(|bytes| shared.tcp.try_write(bytes)) {
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
                    _ => Ok(taken),
                }
            }
        }
    }

    /// Hands to TCP what was taken and is held here. [`io::ErrorKind::WouldBlock`]: some of it still is.
    pub(crate) fn try_flush(&self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(Tls(shared)) => shared.records.lock().send(|bytes| shared.tcp.try_write(bytes)),
        }
    }

    /// Until there may be room.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Plain(half) => half.writable().await,
            Self::Tls(Tls(shared)) => shared.tcp.writable().await,
        }
    }

    /// Bytes that were taken and that the peer cannot have: its TCP has not acknowledged them, or with TLS not all of their record.
    /// `None` if the system does not say.
    pub(crate) fn unacknowledged(&self) -> Option<u64> {
        match self {
            Self::Plain(half) => unacknowledged(half.as_ref()),
            Self::Tls(Tls(shared)) => {
                // Under the lock: what would be sent between the two counts would be taken for acknowledged.
                let mut records = shared.records.lock();
                Some(records.unacknowledged(unacknowledged(&shared.tcp)?))
            }
        }
    }

    /// Says that nothing more comes, as far as that is possible without waiting.
    pub(crate) fn end(&self) {
        match self {
            Self::Plain(half) => {
                let _ = shutdown(half.as_ref(), Shutdown::Write);
            }
            Self::Tls(Tls(shared)) => {
                self.say_goodbye();
                let _ = shutdown(&shared.tcp, Shutdown::Write);
            }
        }
    }

    /// The goodbye of TLS, if it is TLS and there is room: without it a client takes the end for a cut.
    pub(crate) fn say_goodbye(&self) {
        if let Self::Tls(Tls(shared)) = self {
            let mut records = shared.records.lock();
            records.close();
            let _ = records.send(|bytes| shared.tcp.try_write(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;
    use tokio::net::{TcpListener, TcpSocket};
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
    use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};

    use super::*;
    use crate::socket::Stream;

    /// A client that sees the bytes of TCP, and reads none that it does not ask for.
    struct Client {
        tcp: TcpStream,
        session: ClientConnection,
    }

    impl Client {
        /// Takes in what has arrived, whether or not the runtime has noticed it.
        fn receive(&mut self) -> io::Result<()> {
            struct Arrived<'a>(&'a TcpStream);
            impl io::Read for Arrived<'_> {
                fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                    Ok(rustix::io::read(self.0, buffer)?)
                }
            }
            self.session.read_tls(&mut Arrived(&self.tcp))?;
            self.session.process_new_packets().map_err(io::Error::other)?;
            Ok(())
        }

        fn send(&mut self) {
            struct Send<'a>(&'a TcpStream);
            impl io::Write for Send<'_> {
                fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                    self.0.try_write(bytes)
                }
                fn flush(&mut self) -> io::Result<()> {
                    Ok(())
                }
            }
            while self.session.wants_write() {
                self.session.write_tls(&mut Send(&self.tcp)).unwrap();
            }
        }

        async fn handshake(&mut self) {
            while self.session.is_handshaking() {
                self.send();
                self.tcp.readable().await.unwrap();
                match self.receive() {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    done => done.unwrap(),
                }
            }
            self.send();
        }

        /// Plain bytes of all that has arrived.
        fn plain(&mut self) -> Vec<u8> {
            let mut all = Vec::new();
            loop {
                let mut block = vec![0; 1 << 16];
                while let Ok(read @ 1..) = io::Read::read(&mut self.session.reader(), &mut block) {
                    all.extend_from_slice(&block[..read]);
                }
                match self.receive() {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return all,
                    done => done.unwrap(),
                }
            }
        }
    }

    /// Both ends of a TLS connection whose client has a small buffer.
    async fn pair() -> (ReadHalf, WriteHalf, Client) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let chain = vec![made.cert.der().clone()];
        let server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let server = server.with_safe_default_protocol_versions().unwrap();
        let server = server.with_no_client_auth().with_single_cert(chain, key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let client = client.with_safe_default_protocol_versions().unwrap();
        let client = client.with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let tcp = socket.connect(listener.local_addr().unwrap()).await.unwrap();
        let mut client = Client {
            tcp,
            session: ClientConnection::new(Arc::new(client), name).unwrap(),
        };
        let stream = listener.accept().await.unwrap().0;
        let acceptor = TlsAcceptor::from(Arc::new(server));
        let (accepted, ()) = tokio::join!(acceptor.accept(stream), client.handshake());
        let (read, write) = Stream::Tls(Box::new(accepted.unwrap())).into_split();
        (read, write, client)
    }

    /// What the server may count as received is never more than what the client can use of the bytes that have arrived.
    #[tokio::test(flavor = "multi_thread")]
    async fn no_byte_of_a_record_counts_before_its_record() {
        let (_read, write, mut client) = pair().await;
        let (mut taken, mut counted, mut usable) = (0_u64, 0, 0);
        for round in 0..200_u64 {
            let bytes = vec![7; usize::try_from(1 + round * 977 % 100_000).unwrap()];
            match write.try_write_vectored(&[IoSlice::new(&bytes)]) {
                Ok(some) => taken += some as u64,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
            let _ = write.try_flush();
            counted = taken - write.unacknowledged().unwrap();
            // The client looks after the server has: what arrives in between only makes more of it usable.
            usable += if round % 7 == 0 {
                client.plain().len() as u64
            } else {
                0
            };
            if round % 7 == 0 {
                assert!(
                    counted <= usable,
                    "{round}: {counted} count, {usable} can be used"
                );
            }
        }
        assert!(taken > 1 << 20 && counted > 0);
        // In the end all of it counts.
        while counted < taken {
            let _ = write.try_flush();
            usable += client.plain().len() as u64;
            counted = taken - write.unacknowledged().unwrap();
            tokio::task::yield_now().await;
        }
        usable += client.plain().len() as u64;
        assert_eq!(usable, taken);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn both_directions_work_at_once_and_end_with_a_goodbye() {
        let (mut read, write, mut client) = pair().await;
        io::Write::write_all(&mut client.session.writer(), b"from the client").unwrap();
        client.send();
        let mut got = [0; 15];
        read.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"from the client");
        let taken = write
            .try_write_vectored(&[IoSlice::new(b"from "), IoSlice::new(b"the server")])
            .unwrap();
        assert_eq!(taken, 15);
        let mut plain = Vec::new();
        while plain.len() < 15 {
            client.tcp.readable().await.unwrap();
            plain.extend(client.plain());
        }
        assert_eq!(plain, b"from the server");
        client.session.send_close_notify();
        client.send();
        assert_eq!(read.read(&mut got).await.unwrap(), 0);
        write.end();
        loop {
            client.tcp.readable().await.unwrap();
            match client.receive() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => {
                    done.unwrap();
                    let end = io::Read::read(&mut client.session.reader(), &mut got);
                    if matches!(end, Ok(0)) {
                        break;
                    }
                }
            }
        }
    }
}
