//! The mode of a pod that is to find out what a sandbox reaches: `himalia doctor --kubernetes` starts two.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

/// First argument that selects this mode.
pub(crate) const MODE: &str = "probe";
/// How long a connection may take.
const CONNECT_TIME: Duration = Duration::from_secs(3);
/// Attempts at each address: a policy may be enforced a moment after a pod has started.
const ATTEMPTS: usize = 2;
/// Where Kubernetes reads the last words of a container.
const LAST_WORDS: &str = "/dev/termination-log";

#[derive(Debug, Parser)]
#[command(name = "himalia-shim probe", version)]
struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Accept connections until the pod is deleted.
    Listen {
        /// Where.
        address: SocketAddr,
    },
    /// Try to connect to each of these and to the API server, and say `open ADDRESS` or `closed ADDRESS`.
    Connect {
        /// Addresses with ports.
        addresses: Vec<SocketAddr>,
    },
}

pub(crate) fn run() -> ExitCode {
    match Options::parse_from(std::env::args_os().skip(1)).what {
        What::Listen { address } => listen(address),
        What::Connect { addresses } => connect(addresses),
    }
}

fn listen(address: SocketAddr) -> ExitCode {
    match TcpListener::bind(address) {
        Ok(listener) => {
            for connection in listener.incoming() {
                drop(connection);
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{address}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn connect(mut addresses: Vec<SocketAddr>) -> ExitCode {
    addresses.extend(api_server());
    let mut said = String::new();
    for address in addresses {
        // The first attempt may come before the policy; what counts is the last.
        let open = (0..ATTEMPTS).fold(false, |_, _| reaches(address));
        said.push_str(if open { "open " } else { "closed " });
        said.push_str(&address.to_string());
        said.push('\n');
    }
    eprint!("{said}");
    if let Ok(mut file) = std::fs::File::options().write(true).open(LAST_WORDS) {
        let _ = file.write_all(said.as_bytes());
    }
    // Not zero, so that the log is the message where there is no such file.
    ExitCode::FAILURE
}

fn reaches(address: SocketAddr) -> bool {
    let connected = TcpStream::connect_timeout(&address, CONNECT_TIME).is_ok();
    if !connected {
        // A refusal comes at once.
        std::thread::sleep(CONNECT_TIME / 3);
    }
    connected
}

/// As the cluster names it to every pod.
fn api_server() -> Option<SocketAddr> {
    let host = std::env::var("KUBERNETES_SERVICE_HOST").ok()?.parse().ok()?;
    let port = std::env::var("KUBERNETES_SERVICE_PORT").ok()?.parse().ok()?;
    Some(SocketAddr::new(host, port))
}
