//! Events of the engine about our containers, and events that were missed while it was away.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bollard::models::{ContainerSummary, ContainerSummaryStateEnum, EventMessage};
use bollard::query_parameters::{EventsOptionsBuilder, ListContainersOptionsBuilder};
use futures_util::StreamExt as _;
use himalia_backoff::Backoff;
use tokio::sync::watch;

use super::client::CallError;
use super::ending;
use super::inner::Inner;
use super::member::Member;
use super::names;
use super::volume::remove_container;
use crate::host::short;
use crate::{Isolation, SandboxId};

/// First and longest pause before the events are asked for again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// Interval of the lookup of all containers without an event: the engine keeps only few events for clients that missed some.
const LOOK: Duration = Duration::from_secs(15);

/// Follows the events until the provisioner is gone. `alive` closes then.
pub(super) async fn follow(weak: Weak<Inner>, mut alive: watch::Receiver<()>, mut since: i64) {
    let mut backoff = Backoff::new(PAUSES.0, PAUSES.1);
    let mut away = false;
    loop {
        let began = tokio::time::Instant::now();
        let reason = tokio::select! {
            _ = alive.changed() => return,
            reason = read(&weak, &mut since, &mut away) => reason,
        };
        if !away {
            tracing::warn!(%reason, "no events from the container engine");
            away = true;
        }
        if began.elapsed() > PAUSES.1 {
            backoff.reset();
        }
        tokio::select! {
            _ = alive.changed() => return,
            () = tokio::time::sleep(backoff.pause()) => {}
        }
    }
}

/// Reads one stream of events to its end and says why it ended.
async fn read(weak: &Weak<Inner>, since: &mut i64, away: &mut bool) -> String {
    let Some(inner) = weak.upgrade() else {
        return "ending".to_owned();
    };
    let mut filter = inner.names.filter();
    filter.insert("type".to_owned(), vec!["container".to_owned()]);
    filter.insert("event".to_owned(), vec!["die".to_owned(), "oom".to_owned()]);
    let from = format!("{}.{:09}", *since / 1_000_000_000, *since % 1_000_000_000);
    let options = EventsOptionsBuilder::new().since(&from).filters(&filter).build();
    let docker = match inner.client.docker() {
        Ok(docker) => docker,
        Err(error) => return text(&error),
    };
    // Events first, then a look: an end in between is seen by one of them.
    let mut events = Box::pin(docker.events(Some(options)));
    drop(inner);
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => {
                    let Some(inner) = weak.upgrade() else { continue };
                    let at = event.time_nano.unwrap_or(0);
                    // The engine sends the last event again after a new connection.
                    if at > *since {
                        *since = at;
                        take(&inner, &event, at);
                    }
                }
                Some(Err(error)) => return error.to_string(),
                None => return "the stream ended".to_owned(),
            },
            _ = look.tick() => {
                let Some(inner) = weak.upgrade() else { continue };
                match compare(&inner).await {
                    Ok(()) if *away => {
                        tracing::info!("the container engine is back");
                        *away = false;
                    }
                    Ok(()) => {}
                    Err(error) => return text(&error),
                }
            }
        }
    }
}

fn take(inner: &Arc<Inner>, event: &EventMessage, at: i64) {
    let empty = HashMap::new();
    let attributes = event
        .actor
        .as_ref()
        .and_then(|actor| actor.attributes.as_ref())
        .unwrap_or(&empty);
    if attributes.get(names::ROLE).map(String::as_str) != Some(names::ROLE_SANDBOX) {
        return;
    }
    let Some(member) = names::sandbox_of(attributes).and_then(|id| inner.any_member(id)) else {
        return;
    };
    match event.action.as_deref() {
        Some("oom") => {
            member.note_kill(at);
            end_if_broken(inner, member);
        }
        Some("die") => {
            let code = attributes.get("exitCode").and_then(|code| code.parse().ok());
            if member.died(code) {
                ending::see_to(inner, member);
            }
        }
        _ => {}
    }
}

/// Ends a sandbox under gVisor after an out-of-memory kill: the host killed a part of gVisor's kernel, which may wait
/// for that part forever.
fn end_if_broken(inner: &Arc<Inner>, member: Arc<Member>) {
    let level = member.details().map(|details| details.labels.isolation);
    if level != Some(Isolation::Gvisor) {
        return;
    }
    let inner = Arc::clone(inner);
    tokio::spawn(async move {
        if let Err(error) = inner.signal(&member, "SIGKILL").await {
            tracing::warn!(sandbox = %short(member.id), %error, "a sandbox without memory cannot be ended");
        }
    });
}

pub(super) async fn containers(inner: &Inner) -> Result<Vec<ContainerSummary>, CallError> {
    let options = ListContainersOptionsBuilder::new()
        .all(true)
        .filters(&inner.names.filter())
        .build();
    inner
        .client
        .call(async |docker| docker.list_containers(Some(options)).await)
        .await
}

/// Ends the members whose containers are not running any more, and removes containers that a failed start left.
async fn compare(inner: &Arc<Inner>) -> Result<(), CallError> {
    // Members first: a container that appears in between belongs to none of them.
    let live = inner.live_members();
    let all = containers(inner).await?;
    let running: HashSet<SandboxId> = all
        .iter()
        .filter(|container| is_running(container))
        .filter_map(|container| names::sandbox_of(container.labels.as_ref()?))
        .collect();
    for member in live {
        if !running.contains(&member.id) && member.died(None) {
            ending::see_to(inner, member);
        }
    }
    let old = inner.config.start_deadline.as_secs().saturating_mul(2).max(60);
    let old = ending::now_nanos() / 1_000_000_000 - i64::try_from(old).unwrap_or(i64::MAX);
    for container in all {
        let never_started = container.state == Some(ContainerSummaryStateEnum::CREATED);
        let id = container.labels.as_ref().and_then(names::sandbox_of);
        let unknown = id.is_none_or(|id| inner.any_member(id).is_none());
        if never_started
            && unknown
            && container.created.unwrap_or(i64::MAX) < old
            && let Some(name) = container.id
        {
            let _ = remove_container(&inner.client, &name).await;
        }
    }
    Ok(())
}

pub(super) fn is_running(container: &ContainerSummary) -> bool {
    matches!(
        container.state,
        Some(ContainerSummaryStateEnum::RUNNING | ContainerSummaryStateEnum::PAUSED)
    )
}

fn text(error: &CallError) -> String {
    match error {
        CallError::NotFound(text)
        | CallError::Conflict(text)
        | CallError::Refused(text)
        | CallError::Away(text) => text.clone(),
    }
}
