//! The ZMQ sockets of a kernel, as its client.

use std::cell::RefCell;
use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use himalia_shim_protocol::{RefusalKind, RequestId};
use himalia_wire::zmtp::SocketType;
use himalia_wire::{Channel, ConnectionFile, Error, Parts, Signer, Socket as Name, zmq};
use tokio::time::timeout;

use super::connection::{Connection, ReceivedData};
use crate::linger::Linger;

/// Bytes that may wait for a kernel that does not read a socket; one message may always wait.
const QUEUED_BYTES: usize = 64 << 20;

/// All sockets of a kernel but the heartbeat.
pub(super) struct Sockets {
    pub(super) shell: (Sender, Receiver),
    pub(super) control: (Sender, Receiver),
    pub(super) stdin: (Sender, Receiver),
    pub(super) iopub: Receiver,
}

/// Connects to a kernel, to all sockets at once, iopub subscribed, so that nothing is missed once shell is used. Waits for
/// each socket to appear. One identity for all three: kernels send input requests to the identity of the shell request.
pub(super) async fn connect(
    file: &ConnectionFile,
    identity: &str,
    linger: &Linger,
) -> Result<Sockets, String> {
    let open = async |name, socket| -> Result<(Sender, Receiver), String> {
        // What a cell says in its middle can wait a moment, a reply cannot.
        let urgent = (name != Name::Iopub).then_some(linger);
        let connection = Connection::open(&path(file, name), socket, identity.as_bytes(), urgent).await;
        let connection = Rc::new(RefCell::new(
            connection.map_err(|error| format!("{name:?}: {error}"))?,
        ));
        Ok((Sender(Rc::clone(&connection)), Receiver(connection)))
    };
    let (iopub, shell, control, stdin) = tokio::try_join!(
        open(Name::Iopub, SocketType::Sub),
        open(Name::Shell, SocketType::Dealer),
        open(Name::Control, SocketType::Dealer),
        open(Name::Stdin, SocketType::Dealer),
    )?;
    Ok(Sockets {
        shell,
        control,
        stdin,
        iopub: iopub.1,
    })
}

fn path(file: &ConnectionFile, name: Name) -> PathBuf {
    let endpoint = file.endpoint(name);
    // The shim itself has made the file, always for unix sockets.
    Path::new(endpoint.strip_prefix("ipc://").unwrap_or(&endpoint)).to_owned()
}

/// Sends to a kernel, never waits.
pub(super) struct Sender(Rc<RefCell<Connection>>);

impl Sender {
    /// Hands a message of so many bytes to the socket or to its queue, or says what stands in its way, with a reason in one
    /// line.
    pub(super) fn send(&mut self, frames: &[Bytes], bytes: usize) -> Result<(), (RefusalKind, String)> {
        let mut connection = self.0.borrow_mut();
        let queued = connection.queued();
        if queued > 0 && queued + bytes > QUEUED_BYTES {
            let reason = format!("the kernel does not read: {queued} bytes wait for it");
            return Err((RefusalKind::Full, reason));
        }
        if connection.send(frames) {
            Ok(())
        } else {
            let reason = "the kernel has closed the channel".to_owned();
            Err((RefusalKind::NotRunning, reason))
        }
    }
}

/// The sending halves of a kernel's sockets.
pub(super) struct Outlets {
    pub(super) shell: Sender,
    pub(super) control: Sender,
    pub(super) stdin: Sender,
    pub(super) signer: Rc<Signer>,
}

impl std::fmt::Debug for Outlets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outlets").finish_non_exhaustive()
    }
}

impl Outlets {
    /// Signs a message and hands it to its socket, or says what stands in its way, with a reason in one line.
    pub(super) fn send(
        &mut self,
        channel: Channel,
        request: Option<RequestId>,
        parts: &Parts,
    ) -> Result<(), (RefusalKind, String)> {
        let identity = request.map(|request| Bytes::from(request.identity()));
        let frames = zmq::encode(identity.as_slice(), parts, &self.signer);
        let socket = match channel {
            Channel::Shell => &mut self.shell,
            Channel::Control => &mut self.control,
            Channel::Stdin => &mut self.stdin,
            Channel::Iopub => return Err((RefusalKind::Never, "iopub takes no messages".into())),
        };
        socket.send(&frames, parts.byte_len())
    }
}

pub(super) struct Receiver(Rc<RefCell<Connection>>);

impl Receiver {
    /// Next data. Nothing follows an error or the end.
    pub(super) async fn next(&mut self) -> Result<ReceivedData, Error> {
        poll_fn(|cx| self.0.borrow_mut().poll_next(cx)).await
    }
}

/// The heartbeat of a kernel. A request without an answer leaves its socket useless, so the next one gets a new socket.
pub(super) struct Heart {
    path: PathBuf,
    connection: Option<Connection>,
}

impl Heart {
    pub(super) fn new(file: &ConnectionFile) -> Self {
        Self {
            path: path(file, Name::Heartbeat),
            connection: None,
        }
    }

    /// Does the kernel answer within `patience`?
    pub(super) async fn beat(&mut self, patience: Duration) -> bool {
        let before = self.connection.take();
        let answer = timeout(patience, async {
            let mut connection = match before {
                Some(connection) => connection,
                None => Connection::open(&self.path, SocketType::Req, b"", None)
                    .await
                    .ok()?,
            };
            // A request has an empty frame before its own.
            let sent = connection.send(&[Bytes::new(), Bytes::from_static(b"ping")]);
            let answer = poll_fn(|cx| connection.poll_next(cx)).await;
            (sent && matches!(answer, Ok(ReceivedData::Message(_)))).then_some(connection)
        });
        self.connection = answer.await.ok().flatten();
        self.connection.is_some()
    }
}
