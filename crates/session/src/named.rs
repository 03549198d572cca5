//! Sessions by the names that their owners gave them, and what is changed of a session later.

use std::sync::Arc;
use std::time::Duration;

use himalia_kernel::Phase;
use himalia_model::{
    EngineError, KernelId, NotOffered, Principal, SessionChange, SessionInfo, StartKernel, TimeChange,
};
use tokio::sync::oneshot;

use crate::templates::{check_labels, duration};
use crate::{SessionKernel, SessionManager};

/// Characters of a name, as of a label of the DNS.
pub const MAX_NAME_CHARS: usize = 63;
/// What a name looks like, as a regular expression.
pub const NAME_PATTERN: &str = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$";

/// Whether a text may be a session's name: no id, and nothing that has to be quoted in an address or a shell.
fn check_name(name: &str) -> Result<(), EngineError> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let fits = !name.is_empty() && name.len() <= MAX_NAME_CHARS && name.bytes().all(inner);
    if !fits || name.starts_with('-') || name.ends_with('-') {
        return Err(EngineError::bad_request(
            "name",
            format!(
                "must have 1 to {MAX_NAME_CHARS} lower-case letters, digits and hyphens, with a letter or digit at both ends"
            ),
        ));
    }
    if name.parse::<KernelId>().is_ok() {
        return Err(EngineError::bad_request("name", "must not look like an id"));
    }
    Ok(())
}

/// Whether it is over, or on its way to its end.
fn ends(handle: &SessionKernel) -> bool {
    handle.is_over() || handle.snapshot.borrow().phase == Phase::Stopping
}

impl SessionManager {
    /// The session of this name, one that is ending included.
    pub fn named(&self, owner: &str, name: &str) -> Option<Arc<SessionKernel>> {
        let all = self.registry.all_unordered();
        all.into_iter().find(|handle| {
            let facts = handle.facts();
            facts.owner == owner && facts.session_name.as_deref() == Some(name)
        })
    }

    /// Starts a session with a name; with `attach`, only if there is none of that name. Gives whether it was started.
    pub async fn start_named(
        self: &Arc<Self>,
        principal: &Principal,
        start: StartKernel,
        attach: bool,
    ) -> Result<(Arc<SessionKernel>, bool), EngineError> {
        self.check_open()?;
        let name = start.session_name.clone().unwrap_or_default();
        check_name(&name)?;
        // In a task of its own: a caller that goes away must not let the next one in while a start is under way.
        let (reply, answer) = oneshot::channel();
        let (inner, principal) = (Arc::clone(self), principal.clone());
        self.background.spawn(async move {
            let turn = inner.gate.enter(&format!("{}/{name}", principal.owner())).await;
            let result = inner.start_in_turn(&principal, &name, start, attach).await;
            drop(turn);
            // The caller may have gone; the session has a name by which it is found.
            let _ = reply.send(result);
        });
        answer
            .await
            .map_err(|_| EngineError::unavailable("the gateway is stopping"))?
    }

    async fn start_in_turn(
        self: &Arc<Self>,
        principal: &Principal,
        name: &str,
        start: StartKernel,
        attach: bool,
    ) -> Result<(Arc<SessionKernel>, bool), EngineError> {
        while let Some(handle) = self.named(principal.owner(), name) {
            if ends(&handle) {
                // Its name is free when nothing of it is left.
                handle.gone().await;
                self.check_open()?;
                self.registry.remove(&handle);
                continue;
            }
            let template = handle.facts().template.clone();
            return match &start.name {
                _ if !attach => Err(EngineError::Conflict {
                    reason: format!("a session has this name: {name}"),
                }),
                Some(wanted) if *wanted != template => Err(EngineError::Conflict {
                    reason: format!("the session {name} is of the template {template}"),
                }),
                _ => {
                    if handle.snapshot.borrow().phase == Phase::Dead {
                        self.revive(&handle, Some(start)).await?;
                    }
                    Ok((handle, false))
                }
            };
        }
        self.start_kernel(principal, start)
            .await
            .map(|handle| (handle, true))
    }

    /// Changes a session. What is shown has been stored.
    pub async fn change_session(
        &self,
        handle: &SessionKernel,
        change: SessionChange,
    ) -> Result<SessionInfo, EngineError> {
        let id = handle.id();
        let _turn = self.gate.enter(&id.to_string()).await;
        let facts = handle.facts();
        let mut labels = facts.labels.clone();
        for (label, value) in change.labels {
            match value {
                Some(value) => drop(labels.insert(label, value)),
                None => drop(labels.remove(&label)),
            }
        }
        check_labels(&labels)?;
        // A template that is not configured any more limits nothing.
        let chosen = self
            .templates
            .choose(&self.catalog, Some(facts.template.as_str()), facts.origin)
            .await
            .ok();
        let (most_idle, most_life) = chosen.map_or((None, None), |chosen| {
            (chosen.template.idle_timeout, chosen.template.lifetime)
        });
        let idle_timeout = match change.idle_timeout {
            TimeChange::Keep => facts.idle_timeout,
            TimeChange::Reset => most_idle,
            TimeChange::Set(time) => duration("idle_timeout", most_idle, Some(time))?,
        };
        let now = self.time().micros();
        let expires_micros = match change.lifetime {
            TimeChange::Keep => facts.expires_micros,
            TimeChange::Reset => expiry(facts.created_micros, now, most_life, None)?,
            TimeChange::Set(time) => expiry(facts.created_micros, now, most_life, Some(time))?,
        };
        let stored = self
            .store
            .set_kernel_terms(
                id.0,
                labels.clone(),
                idle_timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
                expires_micros.map(|at| i64::try_from(at).unwrap_or(i64::MAX)),
            )
            .await;
        if !stored.map_err(|error| EngineError::internal("cannot note a session's change", error))? {
            return Err(EngineError::no_kernel(id));
        }
        handle.change_facts(|facts| {
            facts.labels = labels;
            facts.idle_timeout = idle_timeout;
            facts.expires_micros = expires_micros;
        });
        Ok(handle.info())
    }
}

/// When a session ends that is given so much more time: not after its template's lifetime since its creation.
fn expiry(
    created_micros: u64,
    now_micros: u64,
    most: Option<Duration>,
    asked: Option<Duration>,
) -> Result<Option<u64>, EngineError> {
    let after =
        |from: u64, time: Duration| from.saturating_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    let last = most.map(|most| after(created_micros, most));
    let Some(asked) = asked else { return Ok(last) };
    let wanted = after(now_micros, asked);
    match last {
        Some(last) if wanted > last => Err(EngineError::not_offered(
            NotOffered::Limit,
            "lifetime",
            "goes beyond the lifetime that the template allows",
        )),
        _ => Ok(Some(wanted)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_no_ids() {
        for good in ["a", "eda", "q3-report", "0", &"x".repeat(63)] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "-a",
            "a-",
            "A",
            "a b",
            "a/b",
            "a.b",
            "ä",
            "..",
            &"x".repeat(64),
            "67e55044-10b1-426f-9247-bb680e5fe0c8",
        ] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn more_time_ends_where_the_template_says() {
        let hour = Duration::from_hours(1);
        assert_eq!(expiry(5, 9, None, None).unwrap(), None);
        assert_eq!(expiry(5, 9, Some(hour), None).unwrap(), Some(3_600_000_005));
        let late = 5 + 3_600_000_000;
        assert!(expiry(5, late, Some(hour), Some(Duration::from_secs(1))).is_err());
        let given = expiry(5, 9, Some(hour), Some(Duration::from_secs(1)));
        assert_eq!(given.unwrap(), Some(1_000_009));
    }
}
