//! Calls to the engine. Each has a deadline, and each error has a reason that an operator can act on.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error;
use parking_lot::Mutex;

use super::mapping::Mapping;
use crate::{Enforcement, LimitReport, SandboxError};

/// The oldest version of the engine's interface that has all we need (own cgroup namespaces): Docker 20.10.
const OLDEST_API: (u32, u32) = (1, 41);

/// Facts about the engine; read once, and again after a loss of the connection.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Version of the engine.
    pub(super) version: String,
    /// Version of its interface.
    pub(super) api: String,
    pub(super) cgroup_version: Option<String>,
    /// Version of runc, where it tells.
    pub(super) runc: Option<String>,
    /// Thousandths of processors that it has.
    pub(super) cpu_millis: u32,
    /// Runtimes, each with its arguments.
    pub(super) runtimes: BTreeMap<String, Vec<String>>,
    /// Mechanisms that enforce the limits of containers, except for the disk.
    pub(super) limits: LimitReport,
    pub(super) seccomp: bool,
    pub(super) mapping: Mapping,
    /// Warnings that the engine reports.
    pub(super) warnings: Vec<String>,
}

/// Reason why a call failed.
#[derive(Debug)]
pub(super) enum CallError {
    /// The named object does not exist.
    NotFound(String),
    /// It is in use, or already so.
    Conflict(String),
    /// The engine refused, with this text.
    Refused(String),
    /// The engine was not reached, or did not answer in time.
    Away(String),
}

/// The engine's socket. Every call makes a connection of its own, so there is nothing to reconnect.
#[derive(Debug)]
pub(super) struct Client {
    socket: PathBuf,
    deadline: Duration,
    facts: Mutex<Option<Facts>>,
}

impl Client {
    pub(super) fn new(socket: PathBuf, deadline: Duration) -> Self {
        Self {
            socket,
            deadline,
            facts: Mutex::new(None),
        }
    }

    /// The interface, without any traffic yet.
    pub(super) fn docker(&self) -> Result<Docker, CallError> {
        let path = self.socket.to_string_lossy();
        let seconds = self.deadline.as_secs().saturating_add(1);
        Docker::connect_with_unix(&path, seconds, bollard::API_DEFAULT_VERSION)
            .map_err(|error| self.explain(&error))
    }

    /// One call, at most as long as the deadline.
    pub(super) async fn call<T, F, R>(&self, work: F) -> Result<T, CallError>
    where
        F: FnOnce(Docker) -> R,
        R: Future<Output = Result<T, Error>>,
    {
        let docker = self.docker()?;
        let result = match tokio::time::timeout(self.deadline, work(docker)).await {
            Ok(result) => result.map_err(|error| self.explain(&error)),
            Err(_) => Err(CallError::Away(format!(
                "gave no answer in {} s",
                self.deadline.as_secs_f32()
            ))),
        };
        if let Err(CallError::Away(_)) = result {
            // It may come back as another version.
            *self.facts.lock() = None;
        }
        result
    }

    /// Facts about the engine.
    pub(super) async fn facts(&self) -> Result<Facts, SandboxError> {
        if let Some(facts) = self.facts.lock().clone() {
            return Ok(facts);
        }
        let version = self.call(async |docker| docker.version().await).await;
        let version = version.map_err(|error| self.error("its version", error))?;
        let api = version.api_version.unwrap_or_default();
        if parse_version(&api).is_none_or(|api| api < OLDEST_API) {
            let (major, minor) = OLDEST_API;
            return Err(self.reason(format!(
                "speaks version {api:?} of its interface; {major}.{minor} (Docker 20.10) or newer is needed"
            )));
        }
        let info = self.call(async |docker| docker.info().await).await;
        let info = info.map_err(|error| self.error("its properties", error))?;
        let cpus = u32::try_from(info.ncpu.unwrap_or(0)).unwrap_or(0);
        let options = info.security_options.unwrap_or_default();
        let security = |name: &str| options.iter().any(|option| option.contains(name));
        let facts = Facts {
            version: version.version.unwrap_or_default(),
            api,
            cgroup_version: info.cgroup_version.map(|version| version.to_string()),
            runc: version
                .components
                .unwrap_or_default()
                .into_iter()
                .find_map(|part| (part.name == "runc").then_some(part.version)),
            cpu_millis: cpus.saturating_mul(1000),
            runtimes: info
                .runtimes
                .unwrap_or_default()
                .into_iter()
                .map(|(name, runtime)| (name, runtime.runtime_args.unwrap_or_default()))
                .collect(),
            limits: LimitReport {
                memory: cgroup(info.memory_limit),
                pids: cgroup(info.pids_limit),
                cpu: cgroup(info.cpu_cfs_quota),
                disk: Enforcement::None,
            },
            seccomp: security("seccomp"),
            mapping: Mapping::of(&options),
            warnings: info.warnings.unwrap_or_default(),
        };
        *self.facts.lock() = Some(facts.clone());
        Ok(facts)
    }

    /// An error of the provisioner. `what` names what was wanted, to complete "cannot get".
    pub(super) fn error(&self, what: &str, error: CallError) -> SandboxError {
        match error {
            CallError::Away(reason) => SandboxError::Engine {
                socket: self.socket.clone(),
                away: true,
                reason,
            },
            CallError::NotFound(text) | CallError::Conflict(text) | CallError::Refused(text) => {
                self.reason(format!("{what}: {}", text.trim()))
            }
        }
    }

    pub(super) fn reason(&self, reason: String) -> SandboxError {
        SandboxError::Engine {
            socket: self.socket.clone(),
            away: false,
            reason,
        }
    }

    fn explain(&self, error: &Error) -> CallError {
        match error {
            Error::DockerResponseServerError { status_code, message } => match status_code {
                404 => CallError::NotFound(message.clone()),
                304 | 409 => CallError::Conflict(message.clone()),
                _ => CallError::Refused(message.clone()),
            },
            Error::DockerStreamError { error } => CallError::Refused(error.clone()),
            Error::RequestTimeoutError => CallError::Away("gave no answer in time".to_owned()),
            other => CallError::Away(self.why_away().unwrap_or_else(|| other.to_string())),
        }
    }

    /// Problem of the socket, if there is one; the library's error does not contain it.
    fn why_away(&self) -> Option<String> {
        let error = UnixStream::connect(&self.socket).err()?;
        Some(match error.kind() {
            io::ErrorKind::NotFound => "there is no such socket; does the engine run?".to_owned(),
            io::ErrorKind::ConnectionRefused => "nothing listens there; does the engine run?".to_owned(),
            io::ErrorKind::PermissionDenied => {
                "this user may not connect; root and members of the group `docker` may".to_owned()
            }
            _ => error.to_string(),
        })
    }
}

fn cgroup(there: Option<bool>) -> Enforcement {
    if there == Some(true) {
        Enforcement::Cgroup
    } else {
        Enforcement::None
    }
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    fn client(socket: PathBuf) -> Client {
        Client::new(socket, Duration::from_millis(300))
    }

    #[tokio::test]
    async fn an_engine_that_is_away_is_explained() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("docker.sock");
        let error = client(socket.clone()).facts().await.unwrap_err().to_string();
        assert!(error.contains("no such socket"), "{error}");
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        let error = client(socket).facts().await.unwrap_err().to_string();
        assert!(error.contains("nothing listens"), "{error}");
    }

    #[tokio::test]
    async fn an_engine_that_hangs_is_not_waited_for_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("docker.sock");
        // Connections are accepted by the system, and never answered.
        let _listener = tokio::net::UnixListener::bind(&socket).unwrap();
        let error = client(socket).facts().await.unwrap_err().to_string();
        assert!(error.contains("no answer"), "{error}");
    }

    /// Answers each connection once with this text.
    fn pretend(socket: &std::path::Path, answer: &'static str) {
        let listener = tokio::net::UnixListener::bind(socket).unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut bytes = [0; 4096];
                let _ = stream.read(&mut bytes).await;
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
    }

    #[tokio::test]
    async fn old_engines_and_nonsense_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("old.sock");
        pretend(
            &socket,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 21\r\nconnection: close\r\n\r\n{\"ApiVersion\":\"1.40\"}",
        );
        let error = client(socket).facts().await.unwrap_err().to_string();
        assert!(error.contains("\"1.40\"") && error.contains("20.10"), "{error}");
        let socket = dir.path().join("nonsense.sock");
        pretend(&socket, "SSH-2.0-OpenSSH_9.2\r\n");
        assert!(client(socket).facts().await.is_err());
    }

    #[test]
    fn versions_compare_by_number() {
        assert!(parse_version("1.9") < parse_version("1.41"));
        assert_eq!(parse_version("x"), None);
    }
}
