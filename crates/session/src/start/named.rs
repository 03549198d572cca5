//! Sessions by the names that their owners gave them: a start with a name, which may find the session that has it.

use std::future::ready;
use std::sync::Arc;

use himalia_kernel::Phase;
use himalia_model::{EngineError, KernelId, Principal, StartSession};
use himalia_store::EndedRecord;

use super::keyed::{name_of_key, start_key};
use crate::{EndedSessionSnapshot, SessionKernel, SessionManager, ended_session};

/// Characters of a name, as of a label of the DNS.
pub const MAX_NAME_CHARS: usize = 63;
/// Pattern of names, as a regular expression.
pub const NAME_PATTERN: &str = "^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$";

/// Checks the name of a session: no id, and no character that has to be quoted in an address or a shell.
fn check_name(name: &str) -> Result<(), EngineError> {
    let outer = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let inner = |byte: u8| outer(byte) || byte == b'-' || byte == b'_';
    let ends = [name.bytes().next(), name.bytes().next_back()];
    let fits = name.len() <= MAX_NAME_CHARS && name.bytes().all(inner);
    if !fits || !ends.iter().all(|end| end.is_some_and(outer)) {
        return Err(EngineError::bad_request(
            "name",
            format!(
                "must have 1 to {MAX_NAME_CHARS} lower-case letters, digits, hyphens and underscores, with a letter or digit at both ends"
            ),
        ));
    }
    if name.parse::<KernelId>().is_ok() {
        return Err(EngineError::bad_request("name", "must not look like an id"));
    }
    Ok(())
}

impl SessionManager {
    /// The session of this name, one that is ending included.
    pub fn named(&self, owner: &str, name: &str) -> Option<Arc<SessionKernel>> {
        let all = self.registry.all_unordered();
        all.into_iter().find(|handle| {
            let session = handle.session();
            session.owner == owner && session.name.as_deref() == Some(name)
        })
    }

    /// Starts a session with a name; with `attach`, only if there is none of that name. With a key, the session of that name is the
    /// one if it was started with the same key. Gives whether it was started.
    pub async fn start_named(
        self: &Arc<Self>,
        principal: &Principal,
        mut start: StartSession,
        attach: bool,
    ) -> Result<(Arc<SessionKernel>, bool), EngineError> {
        self.check_open()?;
        if let (None, Some(key)) = (&start.session_name, &start.key) {
            start.session_name = Some(name_of_key(principal, key));
        }
        let name = start.session_name.clone().unwrap_or_default();
        check_name(&name)?;
        let (manager, principal) = (Arc::clone(self), principal.clone());
        // The next caller is not let in while a start is under way.
        let work = async move {
            let turn = format!("{}/{name}", principal.owner());
            let _turn = manager.starts.gate.enter(&turn).await;
            manager.start_in_turn(&principal, &name, start, attach).await
        };
        // The session has a name by which it is found.
        self.detached(work, |_| ready(())).await
    }

    async fn start_in_turn(
        self: &Arc<Self>,
        principal: &Principal,
        name: &str,
        start: StartSession,
        attach: bool,
    ) -> Result<(Arc<SessionKernel>, bool), EngineError> {
        while let Some(handle) = self.named(principal.owner(), name) {
            if handle.ends() {
                // Its name is free when nothing of it is left.
                handle.gone().await;
                self.check_open()?;
                self.registry.remove(&handle);
                continue;
            }
            if let Some(wanted) = start_key(principal, &start)? {
                return match handle.session().start_key.clone() {
                    Some(known) if known == wanted => Ok((handle, false)),
                    Some(known) if known.key == wanted.key => Err(EngineError::KeyReused),
                    _ => Err(EngineError::Conflict {
                        reason: format!("a session has this name: {name}"),
                    }),
                };
            }
            let template = handle.session().template.clone();
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
        if start.once.is_some()
            && let Some(row) = self.ended_once(principal, name, &start)?
        {
            return Err(EngineError::NameEnded {
                name: name.to_owned(),
                last: ended_session(&row),
            });
        }
        self.start_kernel(principal, start)
            .await
            .map(|handle| (handle, true))
    }

    /// The session that an earlier start with this key has made, whether it lives or has ended, if the key is good for one
    /// ([`StartSession::once`]). [`EngineError::KeyReused`] if that was another start.
    pub fn started_once(
        &self,
        principal: &Principal,
        name: &str,
        start: &StartSession,
    ) -> Result<Option<KernelId>, EngineError> {
        let Some(handle) = self.named(principal.owner(), name) else {
            let ended = self.ended_once(principal, name, start)?;
            return Ok(ended.map(|row| KernelId(row.id)));
        };
        if handle.session().start_key == start_key(principal, start)? {
            Ok(Some(handle.id()))
        } else {
            Err(EngineError::KeyReused)
        }
    }

    /// True if this replica has a session of this name, or the log of one that had it.
    pub fn has_run(&self, principal: &Principal, name: &str) -> bool {
        self.named(principal.owner(), name).is_some() || self.ended.named(principal.owner(), name).is_some()
    }

    /// The same of those that have ended.
    fn ended_once(
        &self,
        principal: &Principal,
        name: &str,
        start: &StartSession,
    ) -> Result<Option<EndedRecord>, EngineError> {
        let Some(row) = self.ended.named(principal.owner(), name) else {
            return Ok(None);
        };
        let known = EndedSessionSnapshot::of_record(&row).session.start_key;
        if known == start_key(principal, start)? {
            Ok(Some(row))
        } else {
            Err(EngineError::KeyReused)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_no_ids() {
        for good in ["a", "eda", "q3-report", "titanic_eda", "0", &"x".repeat(63)] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "-a",
            "a-",
            "_a",
            "a_",
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
}
