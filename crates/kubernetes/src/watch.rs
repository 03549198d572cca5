//! The one watch over the pods of this gateway.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt as _;
use himalia_provisioner::SandboxId;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};

use crate::error::code;
use crate::inner::Inner;
use crate::member::Member;
use crate::names::{Names, sandbox_of};
use crate::observe::{PodPhase, vanished};

/// Interval of checks that the provisioner still exists.
const LOOK: Duration = Duration::from_secs(5);

/// Runs until the provisioner is gone. The watcher lists again after 410 and continues after broken connections, by
/// itself, with growing pauses.
pub(crate) async fn run(inner: Weak<Inner>) {
    let Some(strong) = inner.upgrade() else { return };
    let config = watcher::Config::default().labels(&strong.names.selector());
    let pods = strong.pods();
    drop(strong);
    let mut events = pin!(watcher(pods, config).default_backoff());
    let mut listed: HashSet<SandboxId> = HashSet::new();
    let mut quiet = false;
    loop {
        let event = match tokio::time::timeout(LOOK, events.next()).await {
            Ok(Some(event)) => event,
            Ok(None) => return,
            Err(_) if inner.strong_count() == 0 => return,
            Err(_) => continue,
        };
        let Some(inner) = inner.upgrade() else { return };
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(pod)) => {
                listed.extend(sandbox_of(&pod.metadata));
                apply(&inner, pod);
            }
            Ok(Event::InitDone) => {
                quiet = false;
                missing(&inner, &listed);
            }
            Ok(Event::Apply(pod)) => apply(&inner, pod),
            Ok(Event::Delete(pod)) => {
                if let Some(member) = sandbox_of(&pod.metadata).and_then(|id| inner.member(id)) {
                    delete(&inner, &member, Some(&pod));
                }
            }
            Err(error) => {
                // Once per outage.
                if !std::mem::replace(&mut quiet, true) {
                    tracing::warn!(%error, "the watch over pods is interrupted");
                }
            }
        }
    }
}

fn apply(inner: &Arc<Inner>, pod: Pod) {
    if let Some(member) = sandbox_of(&pod.metadata).and_then(|id| inner.member(id)) {
        member.see(pod);
        inner.see_to(&member);
    }
}

fn delete(inner: &Arc<Inner>, member: &Arc<Member>, pod: Option<&Pod>) {
    member.set(PodPhase::Ended(vanished(pod)));
    inner.see_to(member);
}

/// Members that a list did not have: each is asked for, since its pod may have been made meanwhile.
fn missing(inner: &Arc<Inner>, listed: &HashSet<SandboxId>) {
    let all = inner.all().into_iter();
    let missing: Vec<_> = all.filter(|member| !listed.contains(&member.id)).collect();
    if missing.is_empty() {
        return;
    }
    let inner = Arc::clone(inner);
    tokio::spawn(async move {
        for member in missing {
            // One whose pod is not made yet has never been seen.
            let Some(last) = member.last.lock().clone() else {
                continue;
            };
            match inner.pods().get(&Names::object(member.id)).await {
                Ok(pod) => apply(&inner, pod),
                Err(error) if code(&error) == Some(404) => delete(&inner, &member, Some(&last)),
                Err(error) => tracing::warn!(%error, "a pod cannot be looked at"),
            }
        }
    });
}
