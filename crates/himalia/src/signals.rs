//! Signals that end the gateway, and the one that has it read its tokens again.

use std::io;

use rustix::termios::isatty;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config::Config;
use crate::settings::OnStop;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM, or SIGHUP when the terminal went away.
    Terminate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalRequest {
    End(Ending),
    /// SIGHUP without an end of a terminal: tokens are to be read again.
    Reload,
}

impl Ending {
    /// Effect on the kernels.
    pub(crate) fn kernels(self, config: &Config) -> OnStop {
        match self {
            Self::Interrupt => config.on_interrupt,
            Self::Terminate => config.on_sigterm,
        }
    }

    /// The exit code when a second signal does not let the drain finish: 128 and the signal's number.
    pub(crate) fn hurried(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

/// The signals, caught from the moment this is made.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
    on_terminal: bool,
}

impl Signals {
    /// Must be called within a runtime.
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            // Under nohup(1) it is ignored, and stays so.
            hangup: (!hangup_is_ignored())
                .then(|| signal(SignalKind::hangup()))
                .transpose()?,
            on_terminal: is_on_terminal(),
        })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> SignalRequest {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => SignalRequest::End(Ending::Interrupt),
            _ = self.terminate.recv() => SignalRequest::End(Ending::Terminate),
            // One that has hung up is none any more.
            _ = hangup => if self.on_terminal && !is_on_terminal() {
                SignalRequest::End(Ending::Terminate)
            } else {
                SignalRequest::Reload
            },
        }
    }

    /// Waits for the next one that ends the gateway.
    pub(crate) async fn ending(&mut self) -> Ending {
        loop {
            if let SignalRequest::End(ending) = self.next().await {
                return ending;
            }
        }
    }
}

fn is_on_terminal() -> bool {
    isatty(io::stdin()) || isatty(io::stdout()) || isatty(io::stderr())
}

/// Returns true if this process was started with SIGHUP ignored; see `SigIgn` in proc(5).
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 == 1)
}
