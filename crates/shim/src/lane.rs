use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use himalia_lane_socket::LaneSocket;
use himalia_shim_protocol::{Decoder, Lane, ProtocolError, ToGateway, ToShim};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout};

use crate::chain::Chain;
use crate::company::{COMPANY, Company, Ring};
use crate::link::Link;
use crate::redial::Redial;

/// For the gateway to answer a hello.
const WELCOME: Duration = Duration::from_secs(10);
/// What is handed to a socket's chain before more is taken from the window.
const CHAIN_BYTES: usize = 256 * 1024;
/// Chains that are written before the other tasks have their turn.
const PUMP_ROUNDS: usize = 16;

/// Dials one lane for ever.
pub(crate) async fn run(link: Rc<Link>, lane: Lane) {
    let mut quiet = false;
    let mut redial = Redial::default();
    loop {
        let begun = Instant::now();
        match connect(&link, lane).await {
            Ok(()) => {
                quiet = false;
                redial.connected(begun.elapsed());
            }
            Err(error) => {
                // Once per outage: a gateway may be away for days.
                if !std::mem::replace(&mut quiet, true) {
                    tracing::info!(%lane, "no gateway: {error}");
                }
            }
        }
        link.lane_lost(lane);
        sleep(redial.pause(crate::kernel::random_u64().unwrap_or(0))).await;
    }
}

/// One connection, from hello to its end. `Ok` when it had been welcomed.
async fn connect(link: &Rc<Link>, lane: Lane) -> Result<(), Error> {
    let stream = UnixStream::connect(link.socket()).await?;
    link.linger().add(&stream)?;
    let mut connection = Connection {
        socket: LaneSocket::new(stream)?,
        decoder: Decoder::new(),
        chain: Chain::default(),
    };
    timeout(WELCOME, connection.greet(link, lane))
        .await
        .map_err(|_| Error::Io(io::Error::new(io::ErrorKind::TimedOut, "no welcome")))??;
    tracing::info!(%lane, epoch = link.outlet.link(|link| link.epoch_seen()), "connected");
    let end = connection.serve(link, lane).await;
    if let Err(error) = end {
        tracing::info!(%lane, "connection ended: {error}");
    }
    Ok(())
}

#[derive(Debug)]
enum Error {
    Io(io::Error),
    Protocol(ProtocolError),
    Denied(String),
    Replaced,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Protocol(error) => error.fmt(f),
            Self::Denied(reason) => write!(f, "the gateway refuses: {reason}"),
            Self::Replaced => f.write_str("the other lane belongs to a newer gateway"),
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<ProtocolError> for Error {
    fn from(error: ProtocolError) -> Self {
        Self::Protocol(error)
    }
}

struct Connection {
    socket: LaneSocket,
    decoder: Decoder,
    chain: Chain,
}

impl Connection {
    /// Says hello and takes in the welcome.
    async fn greet(&mut self, link: &Link, lane: Lane) -> Result<(), Error> {
        let hello = link.hello(lane);
        let mut frame = BytesMut::new();
        ToGateway::Hello(Box::new(hello)).encode(&mut frame)?;
        self.chain.push(&[], &frame.freeze());
        while !self.chain.write_to(&self.socket)? {
            poll_fn(|cx| self.socket.poll_room(cx)).await?;
        }
        let frame = loop {
            if let Some(frame) = self.decoder.next()? {
                break frame;
            }
            poll_fn(|cx| self.poll_read(cx)).await?;
        };
        match ToShim::parse(frame)? {
            ToShim::Welcome(welcome) => {
                link.welcomed(lane, &welcome)?;
                Ok(())
            }
            ToShim::Denied(denied) => Err(Error::Denied(denied.reason)),
            other => Err(ProtocolError::State(format!("{other:?} before the welcome")).into()),
        }
    }

    /// Reads and writes until the connection ends.
    async fn serve(&mut self, link: &Rc<Link>, lane: Lane) -> Result<(), Error> {
        let mut timer = pin!(sleep(COMPANY));
        let mut company = Company::default();
        // What came right behind the welcome.
        let mut joins = self.dispatch(link, lane)?;
        let (mut now, mut patient) = (false, false);
        loop {
            if std::mem::take(&mut joins)
                && let Some(at) = company.joins(Instant::now())
            {
                timer.as_mut().reset(at);
            }
            if !std::mem::take(&mut patient) && self.pump(link, lane, std::mem::take(&mut now))? {
                company.goes();
            }
            let has_room = self.chain.len() < CHAIN_BYTES;
            tokio::select! {
                progress = poll_fn(|cx| self.poll(cx)) => {
                    joins = progress? == Progress::Received && self.dispatch(link, lane)?;
                }
                () = link.outlet.woken(lane), if has_room => {
                    // Let the readers that are ready put in what they have: one write for all, and one waking.
                    tokio::task::yield_now().await;
                    link.outlet.forget_wake(lane);
                }
                () = link.outlet.hinted(lane) => (joins, patient) = (true, true),
                () = link.cut(lane) => return Err(Error::Replaced),
                () = &mut timer, if company.is_armed() => match company.rings(Instant::now()) {
                    Ring::Send => now = true,
                    Ring::Again(at) => {
                        timer.as_mut().reset(at);
                        patient = true;
                    }
                    Ring::Nothing => patient = true,
                },
            }
        }
    }

    /// Moves what is to be sent into the socket, until it takes no more or nothing is left. What was accepted is told
    /// along with other things, or `now`. False when there was nothing to send.
    fn pump(&mut self, link: &Link, lane: Lane, now: bool) -> Result<bool, Error> {
        for round in 0..PUMP_ROUNDS {
            while self.chain.len() < CHAIN_BYTES {
                if lane == Lane::Now
                    && let Some(frame) = link.outlet.take_transient()
                {
                    self.chain.push(&[], &frame);
                    continue;
                }
                let Some(item) = link.outlet.link(|link| link.next_item(lane)) else {
                    break;
                };
                self.chain.push_item(&item);
            }
            if !self.chain.is_empty() || now {
                self.push_accepted(link, lane)?;
            }
            if self.chain.is_empty() {
                return Ok(round > 0);
            }
            if !self.chain.write_to(&self.socket)? {
                return Ok(true);
            }
        }
        link.outlet.wake(lane);
        Ok(true)
    }

    fn push_accepted(&mut self, link: &Link, lane: Lane) -> Result<(), Error> {
        while let Some((kernel, number)) = link.outlet.link(|link| link.take_accepted(lane)) {
            let mut frame = BytesMut::new();
            ToGateway::Accepted { kernel, number }.encode(&mut frame)?;
            self.chain.push(&frame, &Bytes::new());
        }
        Ok(())
    }

    /// Does what the frames that are there ask for. True when one of them was a request.
    fn dispatch(&mut self, link: &Rc<Link>, lane: Lane) -> Result<bool, Error> {
        let mut requests = false;
        while let Some(frame) = self.decoder.next()? {
            requests |= link.receive(lane, ToShim::parse(frame)?)?;
        }
        Ok(requests)
    }

    /// Ready when something came, or when there is room for what waits to be written.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Progress>> {
        if !self.chain.is_empty()
            && let Poll::Ready(room) = self.socket.poll_room(cx)
        {
            return Poll::Ready(room.map(|()| Progress::Room));
        }
        self.poll_read(cx).map_ok(|()| Progress::Received)
    }

    /// Ready when something came. The end of the stream is an error here.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match ready!(self.socket.poll_read(cx, self.decoder.buffer()))? {
            0 => Poll::Ready(Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "closed by the gateway",
            ))),
            _ => Poll::Ready(Ok(())),
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Progress {
    Received,
    Room,
}
