//! This gateway among others that share a store.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use himalia_engine::{ObjectStoreUrl, PostgresUrl, SharedStore, check_replica_name};

use super::ConfigError;
use crate::settings::{Seconds, Secret};

/// Bounds of a lease: it is renewed every second, and a gateway that could not renew it for half of it stops.
const LEASE: std::ops::RangeInclusive<Duration> = Duration::from_secs(3)..=Duration::from_mins(5);

/// The name of a gateway that is alone.
const ALONE: &str = "main";

/// Identity of this gateway as a replica.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    pub(crate) name: String,
    /// The store that it shares; `None`: it is alone.
    pub(crate) store: Option<SharedStore>,
    /// Connection with other replicas; `None`: no relays.
    pub(crate) relay: Option<RelaySettings>,
}

/// Addresses and files for relays between replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RelaySettings {
    /// Address on which this replica listens.
    pub(crate) listen: SocketAddr,
    /// Address for the other replicas, `host:port`; `None`: the address on which it listens.
    pub(crate) address: Option<String>,
    /// The file with the key that they share.
    pub(crate) key: PathBuf,
}

/// Settings of relays as they were given.
#[derive(Debug, Default)]
pub(crate) struct SaidOfRelays {
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) address: Option<String>,
    pub(crate) key: Option<PathBuf>,
}

impl SaidOfRelays {
    fn check(self, shares: bool) -> Result<Option<RelaySettings>, ConfigError> {
        let Some(listen) = self.listen else {
            let alone = [
                ("replica_address", self.address.is_some()),
                ("replica_key", self.key.is_some()),
            ];
            return match alone.into_iter().find(|(_, said)| *said) {
                Some((field, _)) => Err(ConfigError::new(field, "needs --replica-listen")),
                None => Ok(None),
            };
        };
        if !shares {
            return Err(ConfigError::new(
                "replica_listen",
                "needs a store that gateways share: give --store",
            ));
        }
        let Some(key) = self.key else {
            let reason = "is missing: --replica-listen needs the key that the gateways share";
            return Err(ConfigError::new("replica_key", reason));
        };
        if self.address.is_none() && listen.ip().is_unspecified() {
            let reason = "is missing: other replicas cannot reach the address of --replica-listen";
            return Err(ConfigError::new("replica_address", reason));
        }
        if let Some(address) = &self.address {
            let port = address.rsplit_once(':').and_then(|(host, port)| {
                let port: u16 = port.parse().ok()?;
                (!host.is_empty() && (!host.contains(':') || is_bracketed(host))).then_some(port)
            });
            if port.is_none() {
                let reason = "is not host:port; an IPv6 address is in brackets, as in [fd00::1]:8889";
                return Err(ConfigError::new("replica_address", reason));
            }
        }
        Ok(Some(RelaySettings {
            listen,
            address: self.address,
            key,
        }))
    }
}

/// Returns true for an IPv6 address in brackets.
fn is_bracketed(host: &str) -> bool {
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    inner.is_some_and(|inner| inner.parse::<Ipv6Addr>().is_ok())
}

impl Replica {
    pub(super) fn check(
        store: Option<Secret>,
        object_store: Option<String>,
        name: Option<String>,
        lease: Seconds,
        relays: SaidOfRelays,
    ) -> Result<Self, ConfigError> {
        let relay = relays.check(store.is_some())?;
        let Some(Secret(url)) = store else {
            for (key, given) in [
                ("replica", name.is_some()),
                ("object_store", object_store.is_some()),
            ] {
                if given {
                    return Err(ConfigError::new(
                        key,
                        "needs a store that gateways share: give --store",
                    ));
                }
            }
            return Ok(Self {
                name: ALONE.to_owned(),
                store: None,
                relay,
            });
        };
        let parsed: Result<PostgresUrl, String> = url.parse();
        parsed.map_err(|reason| ConfigError::new("store", reason))?;
        if let Some(url) = &object_store {
            let parsed: Result<ObjectStoreUrl, String> = url.parse();
            parsed.map_err(|reason| ConfigError::new("object_store", reason))?;
        }
        let lease = lease.duration();
        if !LEASE.contains(&lease) {
            return Err(ConfigError::new("lease", "is not between 3s and 5m"));
        }
        let name = name.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned());
        check_replica_name(&name).map_err(|reason| ConfigError::new("replica", reason))?;
        Ok(Self {
            name,
            store: Some(SharedStore {
                url,
                lease,
                object_store,
            }),
            relay,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "postgres://himalia:canary@db.example.org/himalia";

    #[test]
    fn an_object_store_is_an_address_and_needs_a_store() {
        let check = |store: Option<&str>, objects: &str| {
            let store = store.map(|url| Secret(url.to_owned()));
            let relays = SaidOfRelays::default();
            Replica::check(store, Some(objects.to_owned()), None, Seconds(5), relays)
                .map_err(|error| error.to_string())
        };
        let shared = check(Some(URL), "file:///srv/himalia").unwrap().store.unwrap();
        assert_eq!(shared.object_store.as_deref(), Some("file:///srv/himalia"));
        for (store, objects, expected) in [
            (None, "file:///srv/himalia", "object_store: needs a store"),
            (
                Some(URL),
                "s3://key:canary@bucket/x",
                "object_store: has no name of a bucket",
            ),
            (Some(URL), "/srv/himalia", "object_store: must be an address"),
        ] {
            let error = check(store, objects).unwrap_err();
            assert!(
                error.starts_with(expected) && !error.contains("canary"),
                "{error}"
            );
        }
    }

    fn check(store: Option<&str>, name: Option<&str>, seconds: u64) -> Result<Replica, String> {
        let store = store.map(|url| Secret(url.to_owned()));
        let relays = SaidOfRelays::default();
        let name = name.map(str::to_owned);
        Replica::check(store, None, name, Seconds(seconds), relays).map_err(|error| error.to_string())
    }

    #[test]
    fn a_gateway_is_alone_or_has_a_name() {
        let alone = check(None, None, 5).unwrap();
        assert_eq!((&*alone.name, alone.store), ("main", None));
        let shared = check(Some(URL), Some("a"), 5).unwrap();
        assert_eq!(shared.name, "a");
        assert!(!format!("{shared:?}").contains("canary"));
        assert_eq!(shared.store.unwrap().lease, Duration::from_secs(5));
        assert!(!check(Some(URL), None, 5).unwrap().name.is_empty());
    }

    #[test]
    fn relays_need_a_store_a_key_and_an_address() {
        let relays = |listen: &str, address: Option<&str>, key: bool| SaidOfRelays {
            listen: Some(listen.parse().unwrap()),
            address: address.map(str::to_owned),
            key: key.then(|| "/key.pem".into()),
        };
        let check = |relays: SaidOfRelays| relays.check(true).map_err(|error| error.to_string());
        let found = check(relays("10.0.0.1:8443", None, true)).unwrap().unwrap();
        assert_eq!(found.key, PathBuf::from("/key.pem"));
        assert!(check(relays("0.0.0.0:8443", Some("r0.himalia:8443"), true)).is_ok());
        assert!(check(relays("[::]:8443", Some("[fd00::1]:8443"), true)).is_ok());
        for (relays, expected) in [
            (relays("0.0.0.0:8443", None, true), "replica_address: is missing"),
            (
                relays("0.0.0.0:8443", Some("r0"), true),
                "replica_address: is not",
            ),
            (
                relays("[::]:8443", Some("fd00::1:8443"), true),
                "replica_address: is not",
            ),
            (relays("10.0.0.1:8443", None, false), "replica_key: is missing"),
            (
                SaidOfRelays {
                    key: Some("/key.pem".into()),
                    ..SaidOfRelays::default()
                },
                "replica_key: needs",
            ),
        ] {
            let error = check(relays).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        let error = relays("10.0.0.1:8443", None, true).check(false).unwrap_err();
        assert!(error.to_string().starts_with("replica_listen: needs"));
    }

    #[test]
    fn an_error_names_the_setting_and_no_password() {
        for (store, name, seconds, expected) in [
            (None, Some("a"), 5, "replica: needs"),
            (
                Some("mysql://u:canary@db/x"),
                Some("a"),
                5,
                "store: must be an address",
            ),
            (
                Some(URL),
                Some("a b"),
                5,
                "replica: the replica name \"a b\" must have",
            ),
            (Some(URL), Some("a"), 2, "lease: is not between"),
            (Some(URL), Some("a"), 301, "lease: is not between"),
        ] {
            let error = check(store, name, seconds).unwrap_err();
            assert!(
                error.starts_with(expected) && !error.contains("canary"),
                "{error}"
            );
        }
    }
}
