//! Where a sandbox's shim calls: a unix socket in its directory, and the proof that the caller is that shim.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use himalia_lane_socket::LaneSocket;
use himalia_sandbox::KEY_FILE;
use himalia_shim_protocol::{Decoder, Denied, Hello, ToGateway, ToShim, VersionRange};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::lane_io::LaneIo;
use super::streams::{StreamSocket, Streams};

/// Connections that have not proven the key yet.
const UNPROVEN_MAX: usize = 4;
/// How long they may take.
const PROOF_TIME: Duration = Duration::from_secs(1);
/// Pause after a failed accept (out of descriptors), so that it does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A proven connection. The welcome is still to be sent.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) hello: Box<Hello>,
    pub(crate) protocol: u16,
    pub(crate) io: LaneIo,
}

/// What a connection with the right key is.
enum Proven {
    Lane(Box<Arrival>),
    /// A stream of this name.
    Stream(String, StreamSocket),
}

/// Listens in a sandbox's directory until `stop`.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: UnixListener,
    dir: PathBuf,
    key_hash: [u8; 32],
    epoch: u64,
}

impl Listener {
    /// Binds the socket of this name, in place of one that an earlier gateway left. `key_hash` is the SHA-256 of the sandbox key.
    pub(crate) fn bind(dir: &Path, name: &str, key_hash: [u8; 32], epoch: u64) -> io::Result<Self> {
        let path = dir.join(name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let socket = UnixListener::bind(&path)?;
        // The shim may run as another user; the directory above is closed to others and the name is a secret.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666))?;
        Ok(Self {
            socket,
            dir: dir.to_owned(),
            key_hash,
            epoch,
        })
    }

    /// Accepts until `stop`. Connections that prove the key go to `arrivals`, or to whoever waits for their stream; others
    /// get a denial and are closed.
    pub(crate) async fn run(
        self,
        arrivals: mpsc::Sender<Arrival>,
        streams: Arc<Streams>,
        stop: CancellationToken,
    ) {
        let unproven = Arc::new(Semaphore::new(UNPROVEN_MAX));
        let this = Arc::new(self);
        loop {
            let permit = tokio::select! {
                () = stop.cancelled() => return,
                permit = Arc::clone(&unproven).acquire_owned() => permit,
            };
            let Ok(permit) = permit else { return };
            let accepted = tokio::select! {
                () = stop.cancelled() => return,
                accepted = this.socket.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let (this, arrivals, streams) =
                        (Arc::clone(&this), arrivals.clone(), Arc::clone(&streams));
                    tokio::spawn(async move {
                        let proven = tokio::time::timeout(PROOF_TIME, this.prove(stream)).await;
                        drop(permit);
                        match proven {
                            // A closed receiver means that the kernel is over.
                            Ok(Some(Proven::Lane(arrival))) => drop(arrivals.send(*arrival).await),
                            Ok(Some(Proven::Stream(name, socket))) => streams.arrive(&name, socket),
                            Ok(None) | Err(_) => {}
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a shim's connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn prove(&self, mut stream: UnixStream) -> Option<Proven> {
        let mut decoder = Decoder::new();
        let hello = match self.hello(&mut stream, &mut decoder).await {
            Ok(hello) => hello,
            Err(reason) => {
                deny(stream, reason).await;
                return None;
            }
        };
        if let Some(name) = hello.stream {
            return Some(Proven::Stream(
                name,
                StreamSocket {
                    socket: stream,
                    decoder,
                },
            ));
        }
        let protocol = match VersionRange::OURS.negotiate(hello.protocol) {
            Ok(protocol) => protocol,
            Err(error) => {
                tracing::error!(build = %hello.build, %error, "a shim speaks another protocol");
                deny(stream, error.to_string()).await;
                return None;
            }
        };
        // The key is known to the shim now, and shall be to nobody else.
        match std::fs::remove_file(self.dir.join(KEY_FILE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, "cannot delete a sandbox's key file");
            }
            _ => {}
        }
        let socket = LaneSocket::new(stream)
            .inspect_err(|error| tracing::warn!(%error, "cannot watch a shim's connection"))
            .ok()?;
        Some(Proven::Lane(Box::new(Arrival {
            hello,
            protocol,
            io: LaneIo::new(socket, decoder),
        })))
    }

    async fn hello(&self, stream: &mut UnixStream, decoder: &mut Decoder) -> Result<Box<Hello>, String> {
        let frame = loop {
            if let Some(frame) = decoder.next().map_err(|error| error.to_string())? {
                break frame;
            }
            let read = stream
                .read_buf(decoder.buffer())
                .await
                .map_err(|error| error.to_string())?;
            if read == 0 {
                return Err("closed before its hello".to_owned());
            }
        };
        let ToGateway::Hello(hello) = ToGateway::parse(frame).map_err(|error| error.to_string())? else {
            return Err("the first frame is no hello".to_owned());
        };
        if !same(&Sha256::digest(hello.key.as_bytes()), &self.key_hash) {
            tracing::warn!(
                lane = hello.lane.as_str(),
                "a connection with a wrong sandbox key"
            );
            return Err("wrong key".to_owned());
        }
        if hello.epoch_seen > self.epoch {
            let (seen, ours) = (hello.epoch_seen, self.epoch);
            tracing::error!(
                seen,
                ours,
                "a shim has seen a later gateway: is another one running?"
            );
            return Err(format!("epoch {ours} is older than {seen}"));
        }
        Ok(hello)
    }
}

async fn deny(mut stream: UnixStream, reason: String) {
    let mut out = bytes::BytesMut::new();
    if ToShim::Denied(Denied { reason }).encode(&mut out).is_ok() {
        // It is closed in any case.
        let _ = stream.write_all(&out).await;
    }
}

/// Compares in a time that does not depend on where two digests differ.
fn same(one: &[u8], other: &[u8; 32]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use himalia_sandbox::SOCKET_FILE;
    use himalia_shim_protocol::Lane;

    const KEY: &str = "the key";

    fn hello(key: &str, epoch_seen: u64) -> BytesMut {
        let hello = Hello {
            lane: Lane::Now,
            key: key.into(),
            protocol: VersionRange::OURS,
            build: "test".into(),
            epoch_seen,
            pid: 1,
            kernels: Vec::new(),
            stream: None,
        };
        let mut out = BytesMut::new();
        ToGateway::Hello(Box::new(hello)).encode(&mut out).unwrap();
        out
    }

    struct Place {
        dir: tempfile::TempDir,
        arrivals: mpsc::Receiver<Arrival>,
        _stop: tokio_util::sync::DropGuard,
    }

    fn listen() -> Place {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(KEY_FILE), KEY).unwrap();
        let listener = Listener::bind(dir.path(), SOCKET_FILE, Sha256::digest(KEY).into(), 5).unwrap();
        let (arrivals_in, arrivals) = mpsc::channel(4);
        let stop = CancellationToken::new();
        tokio::spawn(listener.run(arrivals_in, Arc::default(), stop.clone()));
        Place {
            dir,
            arrivals,
            _stop: stop.drop_guard(),
        }
    }

    impl Place {
        async fn call(&self, bytes: &[u8]) -> UnixStream {
            let mut stream = UnixStream::connect(self.dir.path().join(SOCKET_FILE))
                .await
                .unwrap();
            stream.write_all(bytes).await.unwrap();
            stream
        }

        /// What a caller that is not let in hears.
        async fn denied(&mut self, bytes: &[u8]) -> String {
            let mut heard = Vec::new();
            self.call(bytes).await.read_to_end(&mut heard).await.unwrap();
            assert!(self.arrivals.try_recv().is_err());
            assert!(self.dir.path().join(KEY_FILE).exists(), "the key is still needed");
            String::from_utf8_lossy(&heard).into_owned()
        }
    }

    #[tokio::test]
    async fn whoever_proves_the_key_is_let_in_and_the_key_file_goes() {
        let mut place = listen();
        let _stream = place.call(&hello(KEY, 5)).await;
        let arrival = place.arrivals.recv().await.unwrap();
        assert_eq!(
            (arrival.hello.lane, arrival.protocol),
            (Lane::Now, himalia_shim_protocol::PROTOCOL_MAX)
        );
        assert!(!place.dir.path().join(KEY_FILE).exists());
    }

    #[tokio::test]
    async fn others_hear_why_not() {
        let mut place = listen();
        assert!(place.denied(&hello("another", 0)).await.contains("wrong key"));
        assert!(
            place
                .denied(&hello(KEY, 6))
                .await
                .contains("epoch 5 is older than 6")
        );
        assert!(place.denied(&[0xff; 64]).await.contains("announces"));
    }

    #[tokio::test]
    async fn an_older_socket_is_replaced() {
        let place = listen();
        assert!(Listener::bind(place.dir.path(), SOCKET_FILE, [0; 32], 6).is_ok());
    }
}
