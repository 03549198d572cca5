//! Standby sandboxes: created by a zygote in advance, one for each form that was requested before.
//!
//! A standby sandbox is complete and its limits are in force, but no kernel runs in it: its shim waits for the key of
//! its future owner. When the gateway ends, the shim reads the end of its pipe instead, and ends too.
//!
//! Without it, the first result of a session that a zygote starts takes 71 instead of 46 ms (p50 of 20 interleaved starts, each after half
//! a second of idle time).

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::oneshot;

use super::inner::Inner;
use super::record::Record;
use super::start::NewSandbox;
use super::zygote::Zygote;
use crate::host::blocking;
use crate::host::short;
use crate::{Files, Limits, MountSource, Network, SandboxSpec, SharedMount, ZygoteSpec};

/// The most forms with a standby sandbox. A new form evicts the one that was made or requested the longest time ago.
const MAX_FORMS: usize = 8;
/// Delay from a start to the creation of the next standby sandbox, so that the started kernel gets the processor first.
const AFTER: Duration = Duration::from_millis(100);

/// A sandbox without an owner.
#[derive(Debug)]
pub(super) struct Standby {
    pub(super) record: Record,
    /// Exit status of the first process.
    pub(super) status: Option<oneshot::Receiver<i32>>,
    /// Takes the key.
    pub(super) key: File,
}

/// All that distinguishes one sandbox from another while they have no owner.
#[derive(Clone, Debug, PartialEq)]
struct Form {
    limits: Limits,
    /// Host paths that are bound, with device and inode: a directory that replaced another one is a different one.
    binds: Vec<(PathBuf, Option<(u64, u64)>)>,
    names: BTreeMap<&'static str, PathBuf>,
    network: Network,
    /// Mounts of the operator, likewise.
    mounts: Vec<(SharedMount, Option<(u64, u64)>)>,
    show_data: bool,
    orphan_ttl: Option<Duration>,
    zygote: ZygoteSpec,
}

impl Form {
    /// `None` for a spec without a standby sandbox: no zygote, or files of a session. Reads the disk.
    fn of(spec: &SandboxSpec) -> Option<Self> {
        if spec.files != Files::Ephemeral {
            return None;
        }
        let identity = |path: &PathBuf| {
            let found = std::fs::metadata(path).ok();
            (path.clone(), found.map(|found| (found.dev(), found.ino())))
        };
        let mounts = spec.mounts.iter().map(|mount| {
            let found = match &mount.source {
                MountSource::Directory { base, subdirectory } => identity(&base.join(subdirectory)).1,
                MountSource::Volume(_) | MountSource::Claim { .. } => None,
            };
            (mount.clone(), found)
        });
        Some(Self {
            limits: spec.limits.clone(),
            binds: spec.binds.iter().map(identity).collect(),
            names: spec.names.clone(),
            network: spec.network.clone(),
            mounts: mounts.collect(),
            show_data: spec.show_data,
            orphan_ttl: spec.orphan_ttl,
            zygote: spec.zygote.clone()?,
        })
    }
}

#[derive(Debug)]
enum State {
    /// It is being made.
    Coming,
    Ready(Box<Standby>),
}

/// All standby sandboxes; the last requested are at the end.
#[derive(Debug, Default)]
pub(super) struct Standbys {
    all: Mutex<Vec<(Form, State)>>,
    /// Read while one is made; true when none shall be made any more.
    closed: RwLock<bool>,
}

impl Standbys {
    fn take(&self, form: &Form) -> Option<Standby> {
        let mut all = self.all.lock();
        let ready = |(other, state): &(Form, State)| matches!(state, State::Ready(_)) && other == form;
        let at = all.iter().position(ready)?;
        match all.remove(at) {
            (_, State::Ready(standby)) => Some(*standby),
            (_, State::Coming) => None,
        }
    }

    /// Decides whether to create a standby sandbox of this form now, and which one has to end first.
    fn reserve(&self, form: &Form) -> (bool, Option<Standby>) {
        let mut all = self.all.lock();
        if all.iter().any(|(other, _)| other == form) {
            return (false, None);
        }
        let oldest = all.iter().position(|(_, state)| matches!(state, State::Ready(_)));
        let mut ended = None;
        if all.len() >= MAX_FORMS {
            let Some(oldest) = oldest else {
                return (false, None);
            };
            if let (_, State::Ready(standby)) = all.remove(oldest) {
                ended = Some(*standby);
            }
        }
        all.push((form.clone(), State::Coming));
        (true, ended)
    }

    /// One of this form was made, or could not be.
    fn settle(&self, form: &Form, standby: Option<Standby>) {
        let mut all = self.all.lock();
        all.retain(|(other, state)| !(matches!(state, State::Coming) && other == form));
        all.extend(standby.map(|standby| (form.clone(), State::Ready(Box::new(standby)))));
    }

    /// Takes away all that are ready.
    pub(super) fn drain(&self) -> Vec<Standby> {
        let mut found = Vec::new();
        self.all.lock().retain_mut(|(_, state)| {
            if let State::Ready(standby) = std::mem::replace(state, State::Coming) {
                found.push(*standby);
                return false;
            }
            true
        });
        found
    }
}

/// Takes the standby sandbox for this spec, if there is one. Blocks.
pub(super) fn take(inner: &Arc<Inner>, spec: &SandboxSpec) -> Option<NewSandbox> {
    let standby = inner.standbys.take(&Form::of(spec)?)?;
    let id = standby.record.id;
    if standby.record.living_shim().is_none() {
        tracing::warn!(sandbox = %short(id), "a standby sandbox has ended");
        inner.discard(&standby.record);
        return None;
    }
    match NewSandbox::take(Arc::clone(inner), standby, spec) {
        Ok(fresh) => Some(fresh),
        Err(error) => {
            tracing::warn!(sandbox = %short(id), %error, "a standby sandbox cannot be used");
            None
        }
    }
}

/// Has one made for the next start with a spec like this one, unless there is one. Needs the runtime.
pub(super) fn refill(inner: &Arc<Inner>, mut spec: SandboxSpec) {
    // It has no owner: the labels are removed, and the key is not used.
    spec.labels.clear();
    let inner = Arc::downgrade(inner);
    tokio::spawn(async move {
        tokio::time::sleep(AFTER).await;
        let Some(inner) = inner.upgrade() else { return };
        let Some(zygote) = spec
            .zygote
            .as_ref()
            .and_then(|zygote| inner.zygotes.ready(zygote))
        else {
            return;
        };
        // It fails only when the runtime ends.
        let _ = blocking(move || make(&inner, &spec, &zygote)).await;
    });
}

/// Makes one, unless there is one. Blocks.
fn make(inner: &Arc<Inner>, spec: &SandboxSpec, zygote: &Zygote) {
    let closed = inner.standbys.closed.read();
    let Some(form) = Form::of(spec).filter(|_| !*closed) else {
        return;
    };
    let (wanted, ended) = inner.standbys.reserve(&form);
    if let Some(ended) = ended {
        inner.discard(&ended.record);
    }
    if !wanted {
        return;
    }
    let made = NewSandbox::start_standby(Arc::clone(inner), spec, zygote);
    let standby = made.map(|(fresh, key)| fresh.into_standby(key));
    if let Err(error) = &standby {
        tracing::warn!(%error, "the zygote made no standby sandbox");
    }
    inner.standbys.settle(&form, standby.ok());
}

/// Ends all, those in the making too; none is made any more. Blocks, for as long as a zygote may take.
pub(super) fn close(inner: &Inner) {
    *inner.standbys.closed.write() = true;
    for standby in inner.standbys.drain() {
        inner.discard(&standby.record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SandboxId, SandboxKey};

    fn form(pids: u32) -> Form {
        let mut spec = SandboxSpec::new(SandboxKey::generate().unwrap());
        spec.limits.pids = Some(pids);
        spec.zygote = Some(ZygoteSpec {
            trust_domain: String::new(),
            python: "/usr/bin/python3".into(),
            env: std::collections::BTreeMap::new(),
            preload: Vec::new(),
        });
        Form::of(&spec).unwrap()
    }

    fn standby(mark: u32) -> Standby {
        let id = SandboxId::generate().unwrap();
        Standby {
            record: Record::new(
                id,
                mark.to_string(),
                std::collections::BTreeMap::new(),
                super::super::record::Details::default(),
            ),
            status: None,
            key: File::open("/dev/null").unwrap(),
        }
    }

    #[test]
    fn there_is_one_for_each_form_and_it_is_taken_once() {
        let all = Standbys::default();
        assert!(all.reserve(&form(1)).0 && !all.reserve(&form(1)).0);
        assert!(all.take(&form(1)).is_none(), "it is still being made");
        all.settle(&form(1), Some(standby(1)));
        assert!(!all.reserve(&form(1)).0 && all.take(&form(2)).is_none());
        assert!(all.take(&form(1)).is_some() && all.take(&form(1)).is_none());
        // One that could not be made is tried again later.
        assert!(all.reserve(&form(1)).0);
        all.settle(&form(1), None);
        assert!(all.reserve(&form(1)).0);
    }

    #[test]
    fn the_oldest_makes_room() {
        let all = Standbys::default();
        let forms = u32::try_from(MAX_FORMS).unwrap();
        for number in 0..forms {
            assert!(all.reserve(&form(number)).0);
            all.settle(&form(number), Some(standby(number)));
        }
        let (wanted, ended) = all.reserve(&form(forms));
        assert!(wanted);
        assert_eq!(ended.unwrap().record.mark, "0");
        assert_eq!(all.drain().len(), MAX_FORMS - 1);
        // What is being made is not taken away.
        all.settle(&form(forms), Some(standby(forms)));
        assert!(all.take(&form(forms)).is_some());
    }

    #[test]
    fn a_directory_in_the_place_of_another_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("environment");
        let mut spec = SandboxSpec::new(SandboxKey::generate().unwrap());
        assert!(Form::of(&spec).is_none(), "there is no zygote");
        spec.zygote = Some(form(1).zygote);
        spec.binds = vec![path.clone()];
        std::fs::create_dir(&path).unwrap();
        let before = Form::of(&spec);
        assert_eq!(before, Form::of(&spec));
        std::fs::rename(&path, dir.path().join("old")).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert_ne!(before, Form::of(&spec));
        spec.files = Files::Session("mine".to_owned());
        assert!(Form::of(&spec).is_none(), "its files belong to a session");
    }
}
