//! Networks that a sandbox may join.

use bollard::query_parameters::InspectNetworkOptions;

use super::client::{CallError, Client};
use super::config::DockerConfig;
use crate::{Network, SandboxError};

/// Option of bridges that lets their containers reach each other, or not.
const BETWEEN_CONTAINERS: &str = "com.docker.network.bridge.enable_icc";

/// The engine's word for a network, checked: the operator allowed it, it exists, and sandboxes on it cannot reach
/// each other.
pub(super) async fn mode(
    client: &Client,
    config: &DockerConfig,
    network: &Network,
) -> Result<String, SandboxError> {
    let Network::Open(name) = network else {
        return Ok("none".to_owned());
    };
    let bad = |reason: String| SandboxError::BadSpec {
        field: "network",
        reason,
    };
    if !config.networks.contains(name) {
        return Err(bad(format!(
            "{name:?} is not among those that the operator allows"
        )));
    }
    let make = format!("`docker network create -o {BETWEEN_CONTAINERS}=false {name}` makes a fitting one");
    let found = client
        .call(async |docker| docker.inspect_network(name, None::<InspectNetworkOptions>).await)
        .await
        .map_err(|error| match error {
            CallError::NotFound(_) => bad(format!("{name} does not exist in the engine; {make}")),
            other => client.error("network", other),
        })?;
    let apart = found
        .options
        .unwrap_or_default()
        .get(BETWEEN_CONTAINERS)
        .is_some_and(|value| value == "false");
    if found.driver.as_deref() == Some("bridge") && !apart {
        return Err(bad(format!("{name} lets sandboxes reach each other; {make}")));
    }
    Ok(name.clone())
}
