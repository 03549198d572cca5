//! The WebSocket to the kernel, which reconnects when it is lost.

use std::future::Future;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use himalia_backoff::Backoff;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::end::{End, Error};
use crate::hub::Hub;

/// Time after which an unreachable gateway is given up.
const PATIENCE: Duration = Duration::from_mins(5);
/// From one attempt to the next: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3));
/// A gateway from which nothing comes for so long is away: it pings every 25 s.
const SILENCE: Duration = Duration::from_secs(90);
/// Bytes of a message from the gateway, with its frame of offsets: kernels send 256 MiB at most.
const MESSAGE_BYTES: usize = 257 << 20;

/// A stream of bytes in both directions.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Reasons why there is no connection.
#[derive(Debug)]
pub enum DialError {
    /// The gateway cannot be reached, or not now: worth another attempt.
    Away(String),
    /// The session is gone.
    Ended(String),
    /// The gateway does not want this client.
    Refused(String),
}

/// Makes connections.
pub trait Dial: Sync {
    /// Opens a WebSocket to the kernel's channels, with the v1 subprotocol and this `session_id`; gives the bytes after the upgrade.
    fn dial(&self, session_id: &str) -> impl Future<Output = Result<Box<dyn Io>, DialError>> + Send;
}

/// Carries messages until the session ends. A gateway that is away is tried again; nothing that it sent meanwhile is lost, since it
/// knows by the `session_id` how far this client was. A request goes to the gateway once: one that was on its way as the
/// connection was lost may not have arrived.
pub(crate) async fn run(hub: &Hub, dial: &impl Dial, report: &(dyn Fn(&str) + Sync)) -> Result<End, Error> {
    let (mut connected_before, mut since) = (false, Instant::now());
    let mut pauses = Backoff::new(PAUSE.0, PAUSE.1);
    loop {
        match dial.dial(hub.session()).await {
            Ok(io) => {
                if connected_before {
                    report("connected again");
                }
                let began = Instant::now();
                let lost = carry(hub, io).await;
                report(&format!(
                    "the connection to the gateway was lost ({lost}); trying again"
                ));
                (connected_before, since) = (true, Instant::now());
                // One that is closed again and again is not asked without a pause.
                if began.elapsed() > PAUSE.1 {
                    pauses.reset();
                }
            }
            Err(DialError::Ended(reason)) => return Ok(End::Session(reason)),
            Err(DialError::Refused(reason)) => return Err(Error::Refused(reason)),
            Err(DialError::Away(reason)) if !connected_before || since.elapsed() > PATIENCE => {
                return Err(Error::Away(reason));
            }
            Err(DialError::Away(_)) => {}
        }
        tokio::time::sleep(pauses.pause()).await;
    }
}

/// Carries messages over one connection; why it ended.
async fn carry(hub: &Hub, io: Box<dyn Io>) -> String {
    let config = WebSocketConfig::default()
        .max_message_size(Some(MESSAGE_BYTES))
        .max_frame_size(Some(MESSAGE_BYTES));
    let socket = WebSocketStream::from_raw_socket(io, Role::Client, Some(config)).await;
    let (sink, stream) = socket.split();
    tokio::select! {
        why = send(hub, sink) => why,
        why = receive(hub, stream) => why,
    }
}

async fn send(hub: &Hub, mut sink: SplitSink<WebSocketStream<Box<dyn Io>>, Message>) -> String {
    loop {
        let Some(frame) = hub.requests().next().await else {
            return "there are no more requests".to_owned();
        };
        if let Err(error) = sink.send(Message::Binary(frame)).await {
            return error.to_string();
        }
    }
}

async fn receive(hub: &Hub, mut stream: SplitStream<WebSocketStream<Box<dyn Io>>>) -> String {
    loop {
        match tokio::time::timeout(SILENCE, stream.next()).await {
            Err(_) => return format!("nothing came for {} s", SILENCE.as_secs()),
            Ok(None) => return "it was closed".to_owned(),
            Ok(Some(Err(error))) => return error.to_string(),
            Ok(Some(Ok(Message::Binary(frame)))) => hub.deliver(&frame).await,
            Ok(Some(Ok(Message::Close(Some(close))))) => return format!("{}, {}", close.reason, close.code),
            Ok(Some(Ok(_))) => {}
        }
    }
}
