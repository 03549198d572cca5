//! What an account bounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;

use super::support::{Host, Proxy};
use crate::{Account, ConnectionPermit};

#[derive(Default)]
struct Bounded {
    /// Shared with other sessions.
    places: Option<Arc<()>>,
    bytes: Option<u64>,
    carried: AtomicU64,
    longest: Option<Duration>,
}

impl Account for Bounded {
    fn owner(&self) -> &'static str {
        "acme"
    }

    fn connection(&self) -> Result<ConnectionPermit, String> {
        match &self.places {
            Some(places) if Arc::strong_count(places) > 1 => {
                Err("the limit of 1 connection of the tenant is reached".to_owned())
            }
            Some(places) => Ok(Box::new(Arc::clone(places))),
            None => Ok(Box::new(())),
        }
    }

    fn carried(&self, sent: u64, received: u64) -> Result<(), String> {
        let carried = self.carried.fetch_add(sent + received, Ordering::Relaxed) + sent + received;
        match self.bytes {
            Some(bytes) if carried >= bytes => Err(format!("the limit of {bytes} bytes is reached")),
            _ => Ok(()),
        }
    }

    fn longest(&self) -> Option<Duration> {
        self.longest
    }
}

async fn proxy(account: Bounded) -> (Host, Proxy) {
    let host = Host::answering("ping", b"pong").await;
    let proxy = Proxy::new(json!([format!("a.test:{}", host.port())]), &[host.address]);
    proxy.access.set_account(Arc::new(account));
    (host, proxy)
}

#[tokio::test]
async fn one_more_connection_than_there_are_places_is_refused() {
    let (host, proxy) = proxy(Bounded {
        places: Some(Arc::default()),
        ..Bounded::default()
    })
    .await;
    let target = format!("a.test:{}", host.port());
    let mut first = proxy.connect();
    first.tunnel(&target).await;
    let refused = proxy
        .says(format!("CONNECT {target} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes())
        .await;
    assert!(
        refused.starts_with("HTTP/1.1 503 egress_limit: the limit of 1 connection of the tenant"),
        "{refused}"
    );
    drop(first);
    proxy.reports(1).await;
    proxy.until_tunnel(&target).await;
}

#[tokio::test]
async fn a_connection_is_cut_at_the_last_byte_and_the_next_is_refused() {
    let (host, proxy) = proxy(Bounded {
        bytes: Some(6),
        ..Bounded::default()
    })
    .await;
    let target = format!("a.test:{}", host.port());
    let mut client = proxy.connect();
    client.tunnel(&target).await;
    client.send(b"ping").await;
    assert!(client.rest().await.len() <= 4);
    let [report] = &proxy.reports(1).await[..] else {
        panic!()
    };
    assert_eq!(
        report.denial.as_ref().unwrap().to_string(),
        "egress_limit: the limit of 6 bytes is reached"
    );
    let refused = proxy
        .says(format!("CONNECT {target} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes())
        .await;
    assert!(
        refused.starts_with("HTTP/1.1 503 egress_limit: the limit of 6 bytes"),
        "{refused}"
    );
    assert_eq!(host.accepted(), 1);
}

#[tokio::test]
async fn a_connection_that_has_lasted_long_enough_is_cut() {
    let (host, proxy) = proxy(Bounded {
        longest: Some(Duration::from_millis(20)),
        ..Bounded::default()
    })
    .await;
    let mut client = proxy.connect();
    client.tunnel(&format!("a.test:{}", host.port())).await;
    assert!(client.rest().await.is_empty());
    let [report] = &proxy.reports(1).await[..] else {
        panic!()
    };
    assert!(
        report
            .denial
            .as_ref()
            .unwrap()
            .to_string()
            .starts_with("egress_limit: a connection lasts at most")
    );
}
