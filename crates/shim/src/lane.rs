use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use himalia_link::{Connection, ListeningSocket, Redial};
use himalia_shim_protocol::shim_link::Item;
use himalia_shim_protocol::{Decoder, Lane, ProtocolError, ToGateway, ToShim};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::coalesce::{COALESCE_WINDOW, Coalescer, TimerAction};
use crate::link::Link;

/// For the gateway to answer a hello.
const WELCOME: Duration = Duration::from_secs(10);
/// The first pause between two dials: the gateway listens a moment after it has made a sandbox.
const REDIAL_FIRST: Duration = Duration::from_millis(1);
const REDIAL_LONGEST: Duration = Duration::from_millis(200);
/// Bytes that may wait for a socket before more are taken from the window.
const QUEUE_BYTES: usize = 256 * 1024;
/// Queues that are written before the other tasks have their turn.
const PUMP_ROUNDS: usize = 16;

/// Dials one lane for ever, in a task.
pub(crate) fn dial(link: Rc<Link>, lane: Lane) -> AbortHandle {
    tokio::task::spawn_local(run(link, lane)).abort_handle()
}

async fn run(link: Rc<Link>, lane: Lane) {
    let mut quiet = false;
    let mut redial = Redial::new(REDIAL_FIRST, REDIAL_LONGEST);
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
        sleep(redial.pause(crate::random::random_u64().unwrap_or(0))).await;
    }
}

/// One connection, from hello to its end. `Ok` when it had been welcomed.
async fn connect(link: &Rc<Link>, lane: Lane) -> Result<(), Error> {
    // Before it connects: a socket that is replaced meanwhile counts as another one.
    let listening = link.listening();
    let mut lane_io = LaneIo(Connection::new(link.connect().await?, Decoder::new()));
    link.linger().add(lane_io.0.socket())?;
    timeout(WELCOME, lane_io.greet(link, lane))
        .await
        .map_err(|_| Error::Io(io::Error::new(io::ErrorKind::TimedOut, "no welcome")))??;
    tracing::info!(%lane, epoch = link.outlet.link(|link| link.epoch_seen()), "connected");
    let end = lane_io.serve(link, lane, listening).await;
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
    Another,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Protocol(error) => error.fmt(f),
            Self::Denied(reason) => write!(f, "the gateway refuses: {reason}"),
            Self::Another => f.write_str("another gateway listens"),
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

struct LaneIo(Connection);

impl LaneIo {
    /// Says hello and takes in the welcome.
    async fn greet(&mut self, link: &Link, lane: Lane) -> Result<(), Error> {
        let hello = link.hello(lane);
        let hello = ToGateway::Hello(Box::new(hello));
        self.0.queue_with(|out| hello.encode(out))?;
        while !self.0.flush()? {
            poll_fn(|cx| self.0.poll_room(cx)).await?;
        }
        let frame = loop {
            if let Some(frame) = self.0.next_frame()? {
                break frame;
            }
            poll_fn(|cx| self.0.poll_read(cx)).await?;
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
    async fn serve(
        &mut self,
        link: &Rc<Link>,
        lane: Lane,
        listening: Option<ListeningSocket>,
    ) -> Result<(), Error> {
        let mut another = pin!(link.another_listens(listening));
        let mut timer = pin!(sleep(COALESCE_WINDOW));
        let mut coalescer = Coalescer::default();
        // What came right behind the welcome.
        let mut joins = self.dispatch(link, lane)?;
        let (mut now, mut coalesce) = (false, false);
        loop {
            if std::mem::take(&mut joins)
                && let Some(at) = coalescer.add(Instant::now())
            {
                timer.as_mut().reset(at);
            }
            if !std::mem::take(&mut coalesce) && self.pump(link, lane, std::mem::take(&mut now))? {
                coalescer.sent();
            }
            let has_room = self.0.queued() < QUEUE_BYTES;
            tokio::select! {
                progress = poll_fn(|cx| self.poll(cx)) => {
                    joins = progress? == Progress::Received && self.dispatch(link, lane)?;
                }
                () = link.outlet.woken(lane), if has_room => {
                    // Let the readers that are ready put in what they have: one write for all, and one waking.
                    tokio::task::yield_now().await;
                    link.outlet.forget_wake(lane);
                }
                () = link.outlet.hinted(lane) => (joins, coalesce) = (true, true),
                () = link.cut(lane) => return Err(Error::Replaced),
                // The other lane follows when the gateway welcomes this one.
                () = &mut another, if lane == Lane::Now => return Err(Error::Another),
                () = &mut timer, if coalescer.is_armed() => match coalescer.timer_fired(Instant::now()) {
                    TimerAction::Send => now = true,
                    TimerAction::Again(at) => {
                        timer.as_mut().reset(at);
                        coalesce = true;
                    }
                    TimerAction::Nothing => coalesce = true,
                },
            }
        }
    }

    /// Moves what is to be sent into the socket, until it takes no more or nothing is left. Acceptances are sent
    /// along with other frames, or `now`. False when there was nothing to send.
    fn pump(&mut self, link: &Link, lane: Lane, now: bool) -> Result<bool, Error> {
        for round in 0..PUMP_ROUNDS {
            while self.0.queued() < QUEUE_BYTES {
                if lane == Lane::Now
                    && let Some(frame) = link.outlet.take_transient()
                {
                    self.0.queue(&[], &frame);
                    continue;
                }
                let Some(item) = link.outlet.link(|link| link.next_item(lane)) else {
                    break;
                };
                self.queue_item(&item);
            }
            if self.0.queued() > 0 || now {
                self.push_accepted(link, lane)?;
            }
            if self.0.queued() == 0 {
                return Ok(round > 0);
            }
            if !self.0.flush()? {
                return Ok(true);
            }
        }
        link.outlet.wake(lane);
        Ok(true)
    }

    fn push_accepted(&mut self, link: &Link, lane: Lane) -> Result<(), Error> {
        while let Some((kernel, number)) = link.outlet.link(|link| link.take_accepted(lane)) {
            let accepted = ToGateway::Accepted { kernel, number };
            self.0.queue_with(|out| accepted.encode(out))?;
        }
        Ok(())
    }

    /// Queues what is kept for the gateway.
    fn queue_item(&mut self, item: &Item) {
        let mut prefix = item.prefix();
        for piece in item.body().pieces() {
            self.0.queue(std::mem::take(&mut prefix), piece);
        }
    }

    /// Does what the frames that are there ask for. True when one of them was a request.
    fn dispatch(&mut self, link: &Rc<Link>, lane: Lane) -> Result<bool, Error> {
        let mut requests = false;
        while let Some(frame) = self.0.next_frame()? {
            requests |= link.receive(lane, ToShim::parse(frame)?)?;
        }
        Ok(requests)
    }

    /// Ready when something came, or when there is room for what waits to be written.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Progress>> {
        if self.0.queued() > 0
            && let Poll::Ready(room) = self.0.poll_room(cx)
        {
            return Poll::Ready(room.map(|()| Progress::Room));
        }
        self.0.poll_read(cx).map_ok(|()| Progress::Received)
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Progress {
    Received,
    Room,
}
