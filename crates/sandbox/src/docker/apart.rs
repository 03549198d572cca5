//! Tests whether the engine isolates the containers of a network from each other.
//!
//! Its option says what is wanted; its packet filters do it. An engine with `"iptables": false` has none, nor has one
//! whose host does not pass bridged packets through them, and neither says so in a way that all versions share. So it
//! is tried: of two containers with nothing in them one calls the other.

use std::collections::HashMap;

use bollard::errors::Error;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, InspectContainerOptions, StartContainerOptions, WaitContainerOptions,
};
use futures_util::StreamExt as _;

use super::client::{CallError, Client};
use super::image::Image;
use super::names::Names;
use super::volume::remove_container;
use super::{body, seccomp};
use crate::{Isolation, Limits, SandboxError, SandboxId};

/// The user of both containers. No sandbox has it or receives it.
const USER: &str = "65533:65533";
/// gVisor's own kernel needs most of it.
const MEMORY: i64 = 256 << 20;
const PIDS: u32 = 16;

/// Waits to be called, for as long as the other may take.
const CALLED: &str = "import time; time.sleep(60)";
/// Connects to a port on which nothing listens: a refusal is an answer.
const CALLER: &str = "\
import socket, sys
def answers(address):
    try:
        socket.create_connection((address, 9), 3).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return True
sys.exit(3 if any(map(answers, sys.argv[1:])) else 0)";
const REACHED: i64 = 3;

/// Trial of a network: containers of this image and runtime on this network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial<'a> {
    pub(super) network: &'a str,
    pub(super) image: &'a Image,
    pub(super) runtime: &'a str,
    pub(super) isolation: Isolation,
}

/// Returns true if two containers on the network cannot reach each other. Removes both; the next gateway's sweep removes what a killed
/// gateway leaves.
pub(super) async fn are_apart(
    client: &Client,
    names: &Names,
    trial: Trial<'_>,
) -> Result<bool, SandboxError> {
    let id = SandboxId::generate()?;
    let (called, caller) = (names.container(id), names.helper(id));
    let result = call(client, (names, id), trial, (&called, &caller)).await;
    for container in [&caller, &called] {
        if let Err(error) = remove_container(client, container).await {
            tracing::warn!(?error, "a container of a trial remains until the next start");
        }
    }
    match result {
        Ok(Some(apart)) => Ok(apart),
        Ok(None) => Err(client.reason(format!(
            "cannot try whether sandboxes on the network {} reach each other: the image does not run python3",
            trial.network
        ))),
        Err(error) => Err(client.error("a trial of the network", error)),
    }
}

/// `None`: the programs did not run.
async fn call(
    client: &Client,
    (names, id): (&Names, SandboxId),
    trial: Trial<'_>,
    (called, caller): (&str, &str),
) -> Result<Option<bool>, CallError> {
    let labels = names.helper_labels(id);
    start(client, called, program(trial, labels.clone(), &["-c", CALLED])).await?;
    let Some(addresses) = addresses(client, called, trial.network).await? else {
        return Ok(None);
    };
    let mut arguments = vec!["-c", CALLER];
    arguments.extend(addresses.iter().map(String::as_str));
    start(client, caller, program(trial, labels, &arguments)).await?;
    let code = client
        .call(async |docker| {
            let mut ends = Box::pin(docker.wait_container(caller, None::<WaitContainerOptions>));
            match ends.next().await {
                Some(Ok(end)) => Ok(Some(end.status_code)),
                // That is how the library tells a code other than 0.
                Some(Err(Error::DockerContainerWaitError { code, .. })) => Ok(Some(code)),
                Some(Err(error)) => Err(error),
                None => Ok(None),
            }
        })
        .await?;
    // A container that has ended meanwhile cannot answer.
    let still_there = self::addresses(client, called, trial.network).await?.is_some();
    Ok(match code {
        Some(REACHED) => Some(false),
        Some(0) if still_there => Some(true),
        _ => None,
    })
}

async fn start(client: &Client, name: &str, body: ContainerCreateBody) -> Result<(), CallError> {
    let options = CreateContainerOptionsBuilder::new().name(name).build();
    client
        .call(async |docker| docker.create_container(Some(options), body).await)
        .await?;
    client
        .call(async |docker| docker.start_container(name, None::<StartContainerOptions>).await)
        .await
}

/// The addresses of a container that runs.
async fn addresses(client: &Client, name: &str, network: &str) -> Result<Option<Vec<String>>, CallError> {
    let found = client
        .call(async |docker| {
            docker
                .inspect_container(name, None::<InspectContainerOptions>)
                .await
        })
        .await?;
    if found.state.and_then(|state| state.running) != Some(true) {
        return Ok(None);
    }
    let networks = found.network_settings.and_then(|settings| settings.networks);
    let own = networks
        .and_then(|mut networks| networks.remove(network))
        .unwrap_or_default();
    let all = [own.ip_address, own.global_ipv6_address].into_iter().flatten();
    let all: Vec<String> = all.filter(|address| !address.is_empty()).collect();
    Ok((!all.is_empty()).then_some(all))
}

fn program(trial: Trial<'_>, labels: HashMap<String, String>, arguments: &[&str]) -> ContainerCreateBody {
    let limits = Limits {
        pids: Some(PIDS),
        ..Limits::default()
    };
    ContainerCreateBody {
        image: Some(trial.image.id.clone()),
        user: Some(USER.to_owned()),
        entrypoint: Some(vec!["python3".to_owned()]),
        cmd: Some(arguments.iter().map(|&argument| argument.to_owned()).collect()),
        labels: Some(labels),
        host_config: Some(HostConfig {
            runtime: Some(trial.runtime.to_owned()),
            network_mode: Some(trial.network.to_owned()),
            cap_drop: Some(vec!["ALL".to_owned()]),
            security_opt: Some(vec![
                "no-new-privileges".to_owned(),
                format!("seccomp={}", seccomp::profile(trial.isolation)),
            ]),
            readonly_rootfs: Some(true),
            init: Some(false),
            memory: Some(MEMORY),
            memory_swap: Some(MEMORY),
            pids_limit: Some(body::pids(&limits, trial.isolation)),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    }
}

#[cfg(test)]
mod tests;
