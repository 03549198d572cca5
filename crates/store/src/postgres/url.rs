//! The address of the database, and the encryption of connections to it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

/// The time that a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The time for which sent bytes may stay unacknowledged, and for which a connection may be silent before it is probed.
const DEAD_PEER: Duration = Duration::from_secs(5);

/// The address of a database: `postgres://user:password@host:port/database`.
///
/// The parameter `sslmode` is `disable`, or `verify-full` (also written `require`): the certificate is verified against the host name,
/// and against the certificates in the PEM file `sslrootcert`, or those of this machine. Without it, only a connection to a loopback
/// address or a Unix socket is not encrypted.
#[derive(Clone)]
pub struct PostgresUrl {
    pub(super) config: Config,
    /// PEM file of the authority.
    pub(super) root_cert: Option<PathBuf>,
}

impl PostgresUrl {
    /// The database, without password.
    pub fn shown(&self) -> String {
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            Some(Host::Unix(path)) => path.display().to_string(),
            None => String::new(),
        };
        let port = self.config.get_ports().first().copied().unwrap_or(5432);
        let database = self.config.get_dbname().or(self.config.get_user());
        format!("postgres://{host}:{port}/{}", database.unwrap_or_default())
    }

    /// Returns true if the connection is encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        self.config.get_ssl_mode() != SslMode::Disable
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresUrl({})", self.shown())
    }
}

impl FromStr for PostgresUrl {
    type Err = String;

    /// An error quotes nothing of the text, which has a password.
    fn from_str(text: &str) -> Result<Self, String> {
        let scheme = text
            .strip_prefix("postgres://")
            .or_else(|| text.strip_prefix("postgresql://"));
        if scheme.is_none() {
            return Err("must be an address such as postgres://user@host/database".to_owned());
        }
        let (address, query) = text.split_once('?').unwrap_or((text, ""));
        let (mut mode, mut root_cert, mut rest) = (None, None, Vec::new());
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            match parameter.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value),
                Some(("sslrootcert", value)) => root_cert = Some(PathBuf::from(decoded(value)?)),
                _ => rest.push(parameter),
            }
        }
        let plain = if rest.is_empty() {
            address.to_owned()
        } else {
            format!("{address}?{}", rest.join("&"))
        };
        let mut config: Config = plain.parse().map_err(|error: tokio_postgres::Error| {
            match std::error::Error::source(&error) {
                Some(cause) => format!("cannot be read: {cause}"),
                None => "cannot be read".to_owned(),
            }
        })?;
        if config.get_hosts().is_empty() {
            return Err("names no host".to_owned());
        }
        let encrypted = match mode {
            None => !config.get_hosts().iter().all(is_local),
            Some("disable") => false,
            Some("require" | "verify-full") => true,
            Some(_) => return Err("sslmode is neither disable nor verify-full (or require)".to_owned()),
        };
        if root_cert.is_some() && !encrypted {
            return Err("sslrootcert needs sslmode=verify-full".to_owned());
        }
        config
            .ssl_mode(if encrypted {
                SslMode::Require
            } else {
                SslMode::Disable
            })
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_user_timeout(DEAD_PEER)
            .keepalives_idle(DEAD_PEER)
            .application_name("himalia");
        Ok(Self { config, root_cert })
    }
}

/// A loopback address, or a socket of this machine.
fn is_local(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost"
                || name
                    .parse()
                    .is_ok_and(|address: std::net::IpAddr| address.is_loopback())
        }
    }
}

/// A value of a URL's query, in which `%2F` is a slash.
fn decoded(value: &str) -> Result<String, String> {
    let bad = || "sslrootcert: is not a percent-encoded path".to_owned();
    let mut bytes = Vec::new();
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next().ok_or_else(bad)?, rest.next().ok_or_else(bad)?];
        let digits = std::str::from_utf8(&digits).map_err(|_| bad())?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| bad())?);
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> PostgresUrl {
        text.parse().unwrap()
    }

    #[test]
    fn only_what_stays_on_this_machine_is_not_encrypted() {
        for (text, encrypted) in [
            ("postgres://u@db.example.org/himalia", true),
            ("postgresql://u@10.0.0.5:5433/himalia", true),
            ("postgres://u@db.example.org/himalia?sslmode=disable", false),
            (
                "postgres://u@db/himalia?sslmode=require&sslrootcert=%2Fetc%2Fca.pem",
                true,
            ),
            ("postgres://u@localhost/himalia", false),
            ("postgres://u@127.0.0.1/himalia", false),
            ("postgres://u@[::1]/himalia", false),
            ("postgres://u@localhost/himalia?sslmode=verify-full", true),
            ("postgres://u@%2Frun%2Fpostgresql/himalia", false),
        ] {
            assert_eq!(url(text).is_encrypted(), encrypted, "{text}");
        }
        let with_root = url("postgres://u@db/himalia?sslrootcert=%2Fetc%2Fca.pem");
        assert_eq!(with_root.root_cert, Some("/etc/ca.pem".into()));
    }

    #[test]
    fn no_password_is_shown() {
        let url = url("postgres://u:canary@db:5433/himalia?sslmode=disable");
        assert_eq!(format!("{url:?}"), "PostgresUrl(postgres://db:5433/himalia)");
        for bad in [
            "canary",
            "mysql://u:canary@db/himalia",
            "postgres://u:canary@db/himalia?sslmode=prefer",
            "postgres://u:canary@db/himalia?nothing=1",
            "postgres://u:canary@db/himalia?sslmode=disable&sslrootcert=a",
            "postgres://u:canary@db/himalia?sslrootcert=%2",
            "postgres:///himalia",
            "postgres://u:canary@db:no/himalia",
        ] {
            let error = bad.parse::<PostgresUrl>().unwrap_err();
            assert!(!error.is_empty() && !error.contains("canary"), "{error}");
        }
    }
}
