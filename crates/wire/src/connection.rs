//! Connection files: where a kernel's sockets are and how its messages are signed.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Error, Result, Signer};

/// Longest path of a unix socket in bytes (`sun_path` less its final zero).
const MAX_SOCKET_PATH: usize = 107;

/// The five sockets of a kernel.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Hash)]
pub enum Socket {
    /// ROUTER, requests.
    Shell,
    /// ROUTER, urgent requests.
    Control,
    /// ROUTER, input requests to clients.
    Stdin,
    /// PUB or XPUB, output.
    Iopub,
    /// REP or ROUTER, echoes any bytes.
    Heartbeat,
}

/// Transports of a kernel's sockets.
#[derive(Copy, Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// `tcp://{ip}:{port}`
    Tcp,
    /// `ipc://{ip}-{port}`: `ip` is the beginning of a path, the ports are small numbers.
    Ipc,
}

/// A connection file
/// ([format](https://jupyter-client.readthedocs.io/en/stable/kernels.html#connection-files)).
/// Unknown fields are ignored.
#[derive(Clone, Eq, PartialEq, Serialize, Deserialize)]
pub struct ConnectionFile {
    /// `tcp` or `ipc`.
    #[serde(default = "tcp")]
    pub transport: Transport,
    /// Address for tcp, beginning of a path for ipc.
    pub ip: String,
    /// Port (tcp) or number (ipc) of the shell socket; so for the four below.
    pub shell_port: u16,
    /// See `shell_port`.
    pub iopub_port: u16,
    /// See `shell_port`.
    pub stdin_port: u16,
    /// See `shell_port`.
    pub control_port: u16,
    /// See `shell_port`.
    pub hb_port: u16,
    /// Key of the signatures; empty for none.
    #[serde(default)]
    pub key: String,
    /// For example `hmac-sha256`.
    #[serde(default = "sha256")]
    pub signature_scheme: String,
    /// Name of the kernelspec, for information.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_name: Option<String>,
}

fn tcp() -> Transport {
    Transport::Tcp
}

fn sha256() -> String {
    "hmac-sha256".to_owned()
}

impl ConnectionFile {
    /// Sockets `{dir}/k-1` to `{dir}/k-5`. Refuses a directory whose sockets would have paths over 107 bytes,
    /// and one whose path is not UTF-8, since the file is JSON.
    pub fn new_ipc(dir: &Path, key: &str) -> Result<Self> {
        let bad = |reason| Error::BadPath { field: "ip", reason };
        let ip = dir.join("k");
        let ip = ip
            .to_str()
            .ok_or_else(|| bad("the directory is not UTF-8"))?
            .to_owned();
        if ip.len().saturating_add("-5".len()) > MAX_SOCKET_PATH {
            return Err(bad("the path of a socket would be over 107 bytes"));
        }
        Ok(Self {
            transport: Transport::Ipc,
            ip,
            shell_port: 1,
            iopub_port: 2,
            stdin_port: 3,
            control_port: 4,
            hb_port: 5,
            key: key.to_owned(),
            signature_scheme: sha256(),
            kernel_name: None,
        })
    }

    /// Reads a connection file.
    pub fn parse(json: &[u8]) -> Result<Self> {
        serde_json::from_slice(json).map_err(|error| Error::json("connection file", &error))
    }

    /// Writes a connection file.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        serde_json::to_vec_pretty(self).map_err(|error| Error::json("connection file", &error))
    }

    /// The ZMQ endpoint of a socket.
    pub fn endpoint(&self, socket: Socket) -> String {
        let port = match socket {
            Socket::Shell => self.shell_port,
            Socket::Control => self.control_port,
            Socket::Stdin => self.stdin_port,
            Socket::Iopub => self.iopub_port,
            Socket::Heartbeat => self.hb_port,
        };
        match self.transport {
            Transport::Tcp if self.ip.contains(':') => format!("tcp://[{}]:{port}", self.ip),
            Transport::Tcp => format!("tcp://{}:{port}", self.ip),
            Transport::Ipc => format!("ipc://{}-{port}", self.ip),
        }
    }

    /// A signer for this file's key and scheme.
    pub fn signer(&self) -> Result<Signer> {
        Signer::new(&self.signature_scheme, self.key.as_bytes())
    }
}

impl fmt::Debug for ConnectionFile {
    /// Formats all fields but the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ports = [
            self.shell_port,
            self.iopub_port,
            self.stdin_port,
            self.control_port,
            self.hb_port,
        ];
        f.debug_struct("ConnectionFile")
            .field("transport", &self.transport)
            .field("ip", &self.ip)
            .field("ports", &ports)
            .field("signature_scheme", &self.signature_scheme)
            .field("kernel_name", &self.kernel_name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_as_jupyter_client_writes_it() {
        let json = br#"{"shell_port":41001,"iopub_port":41002,"stdin_port":41003,"control_port":41004,
            "hb_port":41005,"ip":"127.0.0.1","key":"secret-key","transport":"tcp",
            "signature_scheme":"hmac-sha256","kernel_name":"python3","curve_publickey":"x"}"#;
        let file = ConnectionFile::parse(json).unwrap();
        assert_eq!(file.endpoint(Socket::Shell), "tcp://127.0.0.1:41001");
        assert_eq!(file.endpoint(Socket::Heartbeat), "tcp://127.0.0.1:41005");
        assert!(file.signer().unwrap().is_signing());
        assert!(!format!("{file:?}").contains("secret"));
        assert_eq!(ConnectionFile::parse(&file.to_json().unwrap()), Ok(file));
    }

    #[test]
    fn ipc_paths() {
        let file = ConnectionFile::new_ipc(Path::new("/run/x"), "k").unwrap();
        assert_eq!(file.endpoint(Socket::Iopub), "ipc:///run/x/k-2");
        let sockets = [
            Socket::Shell,
            Socket::Control,
            Socket::Stdin,
            Socket::Iopub,
            Socket::Heartbeat,
        ];
        let names: std::collections::HashSet<_> = sockets.map(|socket| file.endpoint(socket)).into();
        assert_eq!(names.len(), 5);
    }

    #[test]
    fn socket_paths_at_the_limit() {
        let dir = |n: usize| format!("/{}", "d".repeat(n - 1));
        let fits = ConnectionFile::new_ipc(Path::new(&dir(103)), "").unwrap();
        assert_eq!(fits.endpoint(Socket::Shell).len() - "ipc://".len(), 107);
        assert!(matches!(
            ConnectionFile::new_ipc(Path::new(&dir(104)), ""),
            Err(Error::BadPath { .. })
        ));
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = ConnectionFile::parse(br#"{"ip":"x"}"#).unwrap_err().to_string();
        assert!(
            error.contains("connection file") && error.contains("shell_port"),
            "{error}"
        );
        assert!(ConnectionFile::parse(br#"{"transport":"udp"}"#).is_err());
    }

    #[test]
    fn ipv6_addresses_are_bracketed() {
        let mut file = ConnectionFile::new_ipc(Path::new("/x"), "").unwrap();
        file.transport = Transport::Tcp;
        file.ip = "::1".to_owned();
        assert_eq!(file.endpoint(Socket::Shell), "tcp://[::1]:1");
    }
}
