//! Dials a shim: one connection of each link is always open, so that the shim can send its hello.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use himalia_shim_protocol::Decoder;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::incoming::IncomingStream;
use super::listener::{Arrival, Gatekeeper, Pace};
use super::streams::Streams;
use crate::{Redial, TlsEndpoint};

/// The first pause after a connection that was of no use.
const REDIAL_FIRST: Duration = Duration::from_millis(10);
const REDIAL_LONGEST: Duration = Duration::from_secs(1);
/// Connections on which a shim says hello in [`HELLO_WINDOW`]: one that does so without end costs a bounded part of a core.
const HELLO_MAX: u32 = 16;
/// See [`HELLO_MAX`].
const HELLO_WINDOW: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(super) struct Dialer {
    pub(super) endpoint: TlsEndpoint,
    pub(super) link: String,
    pub(super) gatekeeper: Arc<Gatekeeper>,
}

impl Dialer {
    /// Dials until `stop`. As soon as the shim says something on a connection the next one is dialled.
    pub(super) async fn run(
        self,
        arrivals: mpsc::Sender<Arrival>,
        streams: Arc<Streams>,
        stop: CancellationToken,
    ) {
        let mut redial = Redial::new(REDIAL_FIRST, REDIAL_LONGEST);
        let mut pace = Pace::new(HELLO_MAX, HELLO_WINDOW);
        let mut quiet = false;
        loop {
            let begun = Instant::now();
            let spoken = tokio::select! {
                () = stop.cancelled() => return,
                spoken = self.wait() => spoken,
            };
            let pause = match spoken {
                Ok((stream, decoder)) => {
                    quiet = false;
                    redial = Redial::new(REDIAL_FIRST, REDIAL_LONGEST);
                    let (gatekeeper, arrivals, streams) = (
                        Arc::clone(&self.gatekeeper),
                        arrivals.clone(),
                        Arc::clone(&streams),
                    );
                    let stop = stop.clone();
                    tokio::spawn(async move {
                        tokio::select! {
                            () = gatekeeper.admit(stream, decoder, &arrivals, &streams) => {}
                            () = stop.cancelled() => {}
                        }
                    });
                    pace.accepted(Instant::now())
                }
                Err(error) => {
                    // Once per outage.
                    if !std::mem::replace(&mut quiet, true) {
                        tracing::info!(sandbox = %self.endpoint, link = self.link, %error, "a shim is not reached");
                    }
                    redial.connected(begun.elapsed());
                    Some(redial.pause(random()))
                }
            };
            if let Some(pause) = pause {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = sleep(pause) => {}
                }
            }
        }
    }

    /// A connection on which the shim has said something, with what that is.
    async fn wait(&self) -> io::Result<(IncomingStream, Decoder)> {
        let mut stream = self.endpoint.call(&self.link).await?;
        let mut decoder = Decoder::unproven();
        match stream.read_buf(decoder.buffer()).await? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "closed by the shim")),
            _ => Ok((IncomingStream::Tls(Box::new(stream)), decoder)),
        }
    }
}

fn random() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().1
}

#[cfg(test)]
#[path = "dialer_tests.rs"]
#[allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]
mod tests;
