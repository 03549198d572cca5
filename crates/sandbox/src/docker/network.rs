//! Networks that a sandbox may join.

use bollard::query_parameters::InspectNetworkOptions;

use super::apart::{self, Trial};
use super::client::CallError;
use super::image::Image;
use super::inner::Inner;
use crate::{Isolation, Network, SandboxError};

/// Option of bridges that lets their containers reach each other, or not.
const BETWEEN_CONTAINERS: &str = "com.docker.network.bridge.enable_icc";

/// The engine's word for a network, checked: the operator allowed it, it exists, and containers of this image and runtime on
/// it cannot reach each other.
pub(super) async fn mode(
    inner: &Inner,
    network: &Network,
    (image, runtime, isolation): (&Image, &str, Isolation),
) -> Result<String, SandboxError> {
    let client = &inner.client;
    let Network::Open(name) = network else {
        return Ok("none".to_owned());
    };
    let bad = |reason: String| SandboxError::BadSpec {
        field: "network",
        reason,
    };
    if !inner.config.networks.contains(name) {
        return Err(bad(format!("{name:?} is not in the operator's list")));
    }
    let make = format!("`docker network create -o {BETWEEN_CONTAINERS}=false {name}` makes a fitting one");
    let found = client
        .call(async |docker| docker.inspect_network(name, None::<InspectNetworkOptions>).await)
        .await
        .map_err(|error| match error {
            CallError::NotFound(_) => bad(format!("{name} does not exist in the engine; {make}")),
            other => client.error("network", other),
        })?;
    let wanted = found
        .options
        .unwrap_or_default()
        .get(BETWEEN_CONTAINERS)
        .is_some_and(|value| value == "false");
    let is_bridge = found.driver.as_deref() == Some("bridge");
    if is_bridge && !wanted {
        return Err(bad(format!("{name} lets sandboxes reach each other; {make}")));
    }
    let known = (found.id.unwrap_or_default(), runtime.to_owned());
    if inner.apart.lock().contains(&known) {
        return Ok(name.clone());
    }
    let trial = Trial {
        network: name,
        image,
        runtime,
        isolation,
    };
    if !apart::are_apart(client, &inner.names, trial).await? {
        let why = if is_bridge {
            format!(
                ", although {BETWEEN_CONTAINERS} is false: the packet filters that would hold them apart are not there, as \
                 with \"iptables\": false in the engine's daemon.json, or without br_netfilter on its host"
            )
        } else {
            String::new()
        };
        return Err(bad(format!(
            "{name} lets sandboxes reach each other: one container on it answered another{why}"
        )));
    }
    inner.apart.lock().insert(known);
    Ok(name.clone())
}
