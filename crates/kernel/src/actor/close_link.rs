//! The end of a kernel whose sandbox lives on for others: its link is closed, and with it what of the kernel still runs.

use std::time::Duration;

use himalia_shim_protocol::{Command, Lane, Stop, ToShim};
use tokio::time::{Instant, timeout_at};

use super::{RunningActor, Wake};

/// Time for the sandbox to close a link; after that it has to notice by itself that the gateway does not answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The number of the only order that is ever given to the link as a whole.
const ORDER: u64 = 1;

impl RunningActor {
    /// Tells the sandbox to close this kernel's link, and waits until it has: what it still has to say is taken, since it
    /// closes when all of it is acknowledged.
    pub(super) async fn close_link(&mut self) {
        if self.actor.core.life.sandbox_is_gone() {
            return;
        }
        let end = Instant::now() + PATIENCE;
        let mut told = false;
        loop {
            if !told && self.lanes.now.is_some() {
                told = true;
                let command = Command::Close(Stop { grace_ms: 0 });
                self.queue(
                    Lane::Now,
                    &ToShim::Command {
                        kernel: 0,
                        number: ORDER,
                        command,
                    },
                );
                self.write_and_send(self.now());
            }
            if told && self.lanes.now.is_none() && self.lanes.data.is_none() {
                return;
            }
            match timeout_at(end, self.wait()).await {
                Ok(Wake::Stop) => return,
                Ok(wake) => self.round(wake),
                Err(_) => {
                    tracing::warn!(kernel = %self.actor.handle.id(), "a sandbox does not close the link of a kernel that has ended");
                    return;
                }
            }
            if self.actor.core.life.sandbox_is_gone() {
                return;
            }
        }
    }
}
