//! This gateway among others that share a store.

use std::time::Duration;

use himalia_engine::{PostgresUrl, SharedStore, check_replica_name};

use super::ConfigError;
use crate::settings::{Seconds, Secret};

/// Bounds of a lease: it is renewed every second, and a gateway that could not renew it for half of it stops.
const LEASE: std::ops::RangeInclusive<Duration> = Duration::from_secs(3)..=Duration::from_mins(5);

/// The name of a gateway that is alone.
const ALONE: &str = "main";

/// Which replica this gateway is.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    /// Its name.
    pub(crate) name: String,
    /// The store that it shares; `None`: it is alone.
    pub(crate) store: Option<SharedStore>,
}

impl Replica {
    pub(super) fn check(
        store: Option<Secret>,
        name: Option<String>,
        lease: Seconds,
    ) -> Result<Self, ConfigError> {
        let Some(Secret(url)) = store else {
            if name.is_some() {
                return Err(ConfigError::new(
                    "replica",
                    "needs a store that gateways share: give --store",
                ));
            }
            return Ok(Self {
                name: ALONE.to_owned(),
                store: None,
            });
        };
        let parsed: Result<PostgresUrl, String> = url.parse();
        parsed.map_err(|reason| ConfigError::new("store", reason))?;
        let lease = lease.duration();
        if !LEASE.contains(&lease) {
            return Err(ConfigError::new("lease", "is not between 3s and 5m"));
        }
        let name = name.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned());
        check_replica_name(&name).map_err(|reason| ConfigError::new("replica", reason))?;
        Ok(Self {
            name,
            store: Some(SharedStore { url, lease }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "postgres://himalia:canary@db.example.org/himalia";

    fn check(store: Option<&str>, name: Option<&str>, seconds: u64) -> Result<Replica, String> {
        let store = store.map(|url| Secret(url.to_owned()));
        Replica::check(store, name.map(str::to_owned), Seconds(seconds)).map_err(|error| error.to_string())
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
    fn an_error_names_the_setting_and_no_password() {
        for (store, name, seconds, expected) in [
            (None, Some("a"), 5, "replica: needs"),
            (
                Some("mysql://u:canary@db/x"),
                Some("a"),
                5,
                "store: is no address",
            ),
            (Some(URL), Some("a b"), 5, "replica: \"a b\" is no name"),
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
