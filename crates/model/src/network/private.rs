//! Addresses that are not public and can be reached nevertheless.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use ipnet::IpNet;

/// Addresses that sessions may reach although they are not public, as the operator names them: `10.1.0.0/16`, `10.1.2.3` or, on one
/// port, `127.0.0.1:8080` and `[::1]:8080`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrivateAddresses {
    addresses: IpNet,
    /// `None`: all.
    port: Option<u16>,
}

impl PrivateAddresses {
    /// Returns true if the address and port are in the list.
    pub fn has(&self, address: IpAddr, port: u16) -> bool {
        self.addresses.contains(&address) && self.port.is_none_or(|one| one == port)
    }
}

impl FromStr for PrivateAddresses {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let one = |address: IpAddr, port| Self {
            addresses: IpNet::from(address.to_canonical()),
            port,
        };
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(one(address.ip(), Some(address.port())));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(one(address, None));
        }
        let addresses = text.parse::<IpNet>();
        let addresses = addresses
            .map_err(|_| format!("{text:?} must be an address, address:port or range such as 10.1.0.0/16"))?;
        Ok(Self {
            addresses,
            port: None,
        })
    }
}

impl fmt::Display for PrivateAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => SocketAddr::new(self.addresses.addr(), port).fmt(f),
            None => self.addresses.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_read_as_they_are_written() {
        for (text, written) in [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("10.1.0.0/16", "10.1.0.0/16"),
            ("[::1]:9", "[::1]:9"),
            ("192.168.0.7", "192.168.0.7/32"),
            ("::ffff:10.0.0.1", "10.0.0.1/32"),
        ] {
            assert_eq!(text.parse::<PrivateAddresses>().unwrap().to_string(), written);
        }
        for text in ["localhost", "10.0.0.0/33", "", "10.0.0.1:99999", "lab:80"] {
            assert!(text.parse::<PrivateAddresses>().is_err(), "{text}");
        }
    }
}
