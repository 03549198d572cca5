//! The mode of a pod that is to find out what a sandbox reaches, and how many processes it may have: `himalia doctor --kubernetes` starts
//! two.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::{Parser, Subcommand};

/// First argument that selects this mode.
pub(crate) const MODE: &str = "probe";
/// Longest time for a connection.
const CONNECT_TIME: Duration = Duration::from_secs(3);
/// Attempts at each address: a policy may be enforced a moment after a pod has started.
const ATTEMPTS: usize = 2;
/// Mount point of control groups in a container.
const CONTROL_GROUPS: &str = "/sys/fs/cgroup";
/// Tasks that are tried: more than clusters usually allow for one pod.
const TASKS: u64 = 5_000;
/// The stack of each of them, bytes.
const STACK: usize = 16 << 10;
/// File from which Kubernetes reads the last message of a container.
const LAST_WORDS: &str = "/dev/termination-log";

#[derive(Debug, Parser)]
#[command(name = "himalia-shim probe", version)]
struct Options {
    #[command(subcommand)]
    what: ProbeTask,
}

#[derive(Debug, Subcommand)]
enum ProbeTask {
    /// Accept connections until the pod is deleted.
    Listen {
        /// Address to connect to.
        address: SocketAddr,
    },
    /// Try to connect to each of these and to the API server, and say `open ADDRESS` or `closed ADDRESS`; then say how many processes
    /// the pod may have, `processes NUMBER` or `processes max`.
    Connect {
        /// Addresses with ports.
        addresses: Vec<SocketAddr>,
    },
}

pub(crate) fn run() -> ExitCode {
    match Options::parse_from(std::env::args_os().skip(1)).what {
        ProbeTask::Listen { address } => listen(address),
        ProbeTask::Connect { addresses } => connect(addresses),
    }
}

fn listen(address: SocketAddr) -> ExitCode {
    match himalia_link::listen_tcp(address) {
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
    last_words(&said);
    // Second, as it takes memory: what was found until now is said in any case.
    let processes = match processes(Path::new(CONTROL_GROUPS), TASKS) {
        Some(limit) => format!("processes {limit}\n"),
        None => "processes max\n".to_owned(),
    };
    last_words(&processes);
    // Not zero, so that the log is the message where there is no such file.
    ExitCode::FAILURE
}

fn last_words(said: &str) {
    eprint!("{said}");
    if let Ok(mut file) = std::fs::File::options().append(true).open(LAST_WORDS) {
        let _ = file.write_all(said.as_bytes());
    }
}

/// Limit of processes and threads of the pod; `None`: more than `most`. A pod's limit is often in a control group above those of its
/// containers, which cannot be read, so it is found by trial.
fn processes(groups: &Path, most: u64) -> Option<u64> {
    let read = |file: &str| {
        std::fs::read_to_string(groups.join(file))
            .ok()?
            .trim()
            .parse()
            .ok()
    };
    let declared: Option<u64> = read("pids.max").or_else(|| read("pids/pids.max"));
    declared.or_else(|| tasks_until_refused(most))
}

/// Limit of tasks of this process; `None`: more than `most`. All tasks but one have ended when this returns.
fn tasks_until_refused(most: u64) -> Option<u64> {
    let gate = Arc::new(Mutex::new(()));
    let closed = gate.lock();
    let mut tasks = Vec::new();
    let refused = (1..most).find(|_| {
        let gate = Arc::clone(&gate);
        let task = std::thread::Builder::new()
            .stack_size(STACK)
            .spawn(move || drop(gate.lock()));
        task.map(|task| tasks.push(task)).is_err()
    });
    drop(closed);
    for task in tasks {
        let _ = task.join();
    }
    refused
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_read_in_both_versions_of_control_groups() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("pids")).unwrap();
        std::fs::write(dir.path().join("pids/pids.max"), "512\n").unwrap();
        assert_eq!(processes(dir.path(), 2), Some(512));
        std::fs::write(dir.path().join("pids.max"), "1024\n").unwrap();
        assert_eq!(processes(dir.path(), 2), Some(1024));
    }

    #[test]
    fn a_limit_that_cannot_be_read_is_tried() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("pids.max"), "max\n").unwrap();
        assert_eq!(processes(dir.path(), 20), None);
    }
}
