//! Changes of a live session by its owner: labels, and its end.

use std::time::Duration;

use himalia_model::network::AllowList;
use himalia_model::{EngineError, NotOffered, Session, SessionChange, SessionInfo, TimeChange};

use crate::network::check_narrower;
use crate::templates::{check_labels, duration};
use crate::{SessionKernel, SessionManager, not_stored};

impl SessionManager {
    /// Changes a session. What is shown has been stored.
    pub async fn change_session(
        &self,
        handle: &SessionKernel,
        change: SessionChange,
    ) -> Result<SessionInfo, EngineError> {
        let id = handle.id();
        let _turn = self.starts.gate.enter(&id.to_string()).await;
        let before = handle.session();
        let mut labels = before.labels.clone();
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
            .choose(&self.catalog, Some(before.template.as_str()), before.origin)
            .await
            .ok();
        let (most_idle, most_life) = chosen.map_or((None, None), |chosen| {
            (chosen.template.idle_timeout, chosen.template.lifetime)
        });
        let idle_timeout = match change.idle_timeout {
            TimeChange::Keep => before.idle_timeout,
            TimeChange::Reset => most_idle,
            TimeChange::Set(time) => duration("idle_timeout", most_idle, Some(time))?,
        };
        let now = self.time().micros();
        let expires_micros = match change.lifetime {
            TimeChange::Keep => before.expires_micros,
            TimeChange::Reset => expiry(before.created_micros, now, most_life, None)?,
            TimeChange::Set(time) => expiry(before.created_micros, now, most_life, Some(time))?,
        };
        if let Some(allow) = change.allow {
            check_narrower(&before, &allow)?;
            self.narrow(handle, &allow).await?;
        }
        let after = Session {
            labels,
            idle_timeout,
            expires_micros,
            ..Session::clone(&handle.session())
        };
        let stored = self.store.amend_session(id.0, after.changes_since(&before)).await;
        if !stored.map_err(|error| not_stored("cannot note a session's change", error))? {
            return Err(EngineError::no_kernel(id));
        }
        handle.change(|session| {
            session.labels = after.labels;
            session.idle_timeout = after.idle_timeout;
            session.expires_micros = after.expires_micros;
        });
        Ok(handle.info())
    }
}

impl SessionManager {
    /// Restricts the network of a kernel's sandbox to this list: at once, before the list is stored.
    async fn narrow(&self, kernel: &SessionKernel, allow: &AllowList) -> Result<(), EngineError> {
        for one in self.in_same_sandbox(kernel) {
            let before = one.session();
            one.change(|session| session.sandbox.allow = allow.clone());
            let changes = one.session().changes_since(&before);
            let stored = self.store.amend_session(one.id().0, changes).await;
            // One that has ended meanwhile has no row.
            stored.map_err(|error| not_stored("cannot note a session's change", error))?;
        }
        Ok(())
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
