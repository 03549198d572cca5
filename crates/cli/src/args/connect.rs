//! `himalia connect`.

use clap::{Args, ValueEnum};

use super::gateway::GatewayArgs;

pub const EXAMPLES: &str = "\
Examples:
  himalia connect eda                 then, elsewhere: jupyter console --existing FILE
  himalia connect eda --transport ipc
  himalia connect eda --url https://gateway.example/ --token-file ~/.himalia-token

The connection file is in Jupyter's runtime directory; its name is printed. Jupyter console, qtconsole, Spyder, Emacs and Vim
attach with it, several at once. Ctrl-C ends this and removes the file; the session and what runs in it continue. A gateway
that is restarted is found again within 5 minutes, and nothing that was printed meanwhile is lost.

With tcp every user of this machine can connect; without the key in the file they cannot run code, but they can
read what the kernel prints. With ipc only you can.";

/// Session, and the sockets for its clients.
#[derive(Debug, Args)]
pub struct ConnectArgs {
    /// A session: its id, the beginning of its id, its name, or its label `name`
    pub(crate) session: String,
    /// Another kernel of the session than its first: its id, the beginning of its id, or its kernelspec
    #[arg(long, value_name = "KERNEL")]
    pub(crate) kernel: Option<String>,
    /// Kind of the sockets
    #[arg(long, value_name = "TRANSPORT", default_value = "tcp")]
    pub(crate) transport: Sockets,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

/// The sockets of `himalia connect`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Sockets {
    /// On 127.0.0.1
    Tcp,
    /// Unix sockets that only you can connect to
    Ipc,
}
