//! Mounts that the operator configures, and what of them is a tenant's or a caller's own.

use std::path::{Component, Path, PathBuf};

use himalia_provisioner::{MountSource, SharedMount};

use crate::Session;

/// Replaced by the name of the tenant, or `operator`.
const TENANT: &str = "{tenant}";
/// Replaced by the name of the caller, or `operator`.
const CALLER: &str = "{caller}";

/// A mount that templates can name. The subdirectory, or the name of the volume, may have the placeholders `{tenant}` and
/// `{caller}`: then each tenant or caller has a part of its own.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MountTemplate(SharedMount);

impl MountTemplate {
    /// Checks the text with placeholders.
    ///
    /// # Errors
    /// The key of configuration that is wrong, and why.
    pub fn new(mount: SharedMount) -> Result<Self, (&'static str, String)> {
        let this = Self(mount);
        let (key, text) = match &this.0.source {
            MountSource::Volume(name) => ("volume", name.clone()),
            MountSource::Directory { subdirectory, .. } | MountSource::Claim { subdirectory, .. } => {
                let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
                if !subdirectory.components().all(plain) {
                    return Err(("subdirectory", "must be relative, without . and ..".to_owned()));
                }
                ("subdirectory", subdirectory.to_string_lossy().into_owned())
            }
        };
        let filled = fill(&text, "t", "c");
        if filled.contains(['{', '}', '\0']) {
            return Err((
                key,
                format!("{text:?}: the placeholders are {TENANT} and {CALLER}"),
            ));
        }
        // Names have the same characters as what is between them: `a-b` with `c` and `a` with `b-c` would be one.
        let both = |name: &str| name.contains(TENANT) && name.contains(CALLER);
        if text.split('/').any(both) {
            let reason =
                format!("{text:?}: {TENANT} and {CALLER} are in one name, which two tenants could share");
            return Err((key, reason));
        }
        if key == "volume" && !is_volume(&filled) {
            return Err((
                key,
                format!("{text:?} must be a volume name: letters, digits, '.', '_' and '-'"),
            ));
        }
        Ok(this)
    }

    /// Part of the mount that is the same for every caller.
    pub fn common(&self) -> SharedMount {
        if !self.is_personal() {
            return self.0.clone();
        }
        let mut mount = self.0.clone();
        match &mut mount.source {
            MountSource::Directory { subdirectory, .. } | MountSource::Claim { subdirectory, .. } => {
                let parts = subdirectory.components();
                *subdirectory = parts
                    .take_while(|part| !has_placeholder(part.as_os_str()))
                    .collect();
            }
            MountSource::Volume(_) => {}
        }
        mount
    }

    /// Returns true if a part depends on the tenant or caller, and is unknown before a session starts.
    pub fn is_personal(&self) -> bool {
        match &self.0.source {
            MountSource::Directory { subdirectory, .. } | MountSource::Claim { subdirectory, .. } => {
                has_placeholder(subdirectory.as_os_str())
            }
            MountSource::Volume(name) => has_placeholder(name.as_ref()),
        }
    }

    /// The mount of a session.
    pub fn of(&self, session: &Session) -> SharedMount {
        let mut mount = self.0.clone();
        let (tenant, caller) = (session.owner.as_str(), session.started_by.as_str());
        match &mut mount.source {
            MountSource::Directory { subdirectory, .. } | MountSource::Claim { subdirectory, .. } => {
                *subdirectory = fill(&subdirectory.to_string_lossy(), tenant, caller).into();
            }
            MountSource::Volume(name) => *name = fill(name, tenant, caller),
        }
        mount
    }

    /// Returns true if a sandbox that writes here could replace a directory above the other mount's path, and so choose the content of that
    /// mount.
    pub fn can_redirect(&self, other: &Self) -> bool {
        let (Some(own), Some(other)) = (self.path(), other.path()) else {
            return false;
        };
        let same = |(one, other): (Component<'_>, Component<'_>)| {
            one == other || has_placeholder(one.as_os_str()) || has_placeholder(other.as_os_str())
        };
        let (length, of_other) = (own.components().count(), other.components().count());
        !self.0.read_only && length < of_other && own.components().zip(other.components()).all(same)
    }

    fn path(&self) -> Option<PathBuf> {
        match &self.0.source {
            MountSource::Directory { base, subdirectory } => Some(base.join(subdirectory)),
            MountSource::Volume(_) | MountSource::Claim { .. } => None,
        }
    }
}

impl std::ops::Deref for MountTemplate {
    type Target = SharedMount;

    fn deref(&self) -> &SharedMount {
        &self.0
    }
}

fn has_placeholder(text: &std::ffi::OsStr) -> bool {
    Path::new(text).to_string_lossy().contains('{')
}

/// The names of principals have letters, digits, `.`, `_` and `-`. One that is no name of a directory, or a hidden one, begins with `_`
/// in addition.
fn fill(text: &str, tenant: &str, caller: &str) -> String {
    let safe = |name: &str| {
        if name.is_empty() || name.starts_with(['.', '_']) {
            format!("_{name}")
        } else {
            name.to_owned()
        }
    };
    text.replace(TENANT, &safe(tenant)).replace(CALLER, &safe(caller))
}

/// Returns true for a name that the container engine accepts as a volume.
fn is_volume(name: &str) -> bool {
    name.len() > 1
        && name
            .bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_alphanumeric())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(base: &str, subdirectory: &str, read_only: bool) -> MountTemplate {
        let source = MountSource::Directory {
            base: base.into(),
            subdirectory: subdirectory.into(),
        };
        MountTemplate::new(mount(source, read_only)).unwrap()
    }

    fn mount(source: MountSource, read_only: bool) -> SharedMount {
        SharedMount {
            name: "home".to_owned(),
            source,
            target: "/mnt/home".into(),
            read_only,
            owner: None,
        }
    }

    fn shown(template: &MountTemplate, owner: &str, started_by: &str) -> PathBuf {
        let session = Session {
            owner: owner.to_owned(),
            started_by: started_by.to_owned(),
            ..Session::default()
        };
        match template.of(&session).source {
            MountSource::Directory { base, subdirectory } => base.join(subdirectory),
            MountSource::Volume(name) => name.into(),
            MountSource::Claim { subdirectory, .. } => subdirectory,
        }
    }

    #[test]
    fn names_are_directories_of_their_own() {
        let homes = directory("/srv/homes", "{tenant}/{caller}", false);
        assert!(homes.is_personal());
        let paths = ["ada", ".", "..", "_.", "", "_", "__", ".a", "_.a", "__.a", "_a"]
            .map(|name| shown(&homes, "acme", name));
        for (at, path) in paths.iter().enumerate() {
            assert!(path.starts_with("/srv/homes/acme"), "{path:?}");
            assert!(
                path.components()
                    .all(|part| part != Component::ParentDir && part != Component::CurDir)
            );
            assert_eq!(path.components().count(), 5, "{path:?}");
            assert!(!paths[..at].contains(path), "{path:?} twice");
        }
        assert_eq!(paths[0], Path::new("/srv/homes/acme/ada"));
        let MountSource::Directory { subdirectory, .. } = homes.common().source else {
            panic!("a directory")
        };
        assert_eq!(subdirectory, Path::new(""));
        let volume =
            MountTemplate::new(mount(MountSource::Volume("home-{caller}".to_owned()), false)).unwrap();
        assert_eq!(shown(&volume, "acme", "ada"), Path::new("home-ada"));
    }

    #[test]
    fn a_bad_text_is_named() {
        let refused = |source| MountTemplate::new(mount(source, false)).unwrap_err();
        let claim = |subdirectory: &str| MountSource::Claim {
            claim: "c".to_owned(),
            subdirectory: subdirectory.into(),
        };
        assert_eq!(refused(claim("../x")).0, "subdirectory");
        assert_eq!(refused(claim("/x")).0, "subdirectory");
        for both in ["{tenant}-{caller}", "homes/{caller}.{tenant}"] {
            assert!(refused(claim(both)).1.contains("two tenants could share"));
        }
        let volume = MountSource::Volume("home-{tenant}-{caller}".to_owned());
        assert!(refused(volume).1.contains("two tenants could share"));
        assert!(refused(claim("{user}")).1.contains("{tenant}"));
        assert_eq!(refused(MountSource::Volume("a/b".to_owned())).0, "volume");
        assert_eq!(refused(MountSource::Volume("{caller".to_owned())).0, "volume");
    }

    #[test]
    fn a_directory_below_one_that_is_written_to_could_be_replaced() {
        let all = directory("/srv/homes", "", false);
        let tenants = directory("/srv/homes", "{tenant}", false);
        let own = directory("/srv/homes", "{tenant}/{caller}", false);
        let read = directory("/srv/homes", "", true);
        let data = directory("/srv/homes/acme/data", "", true);
        assert!(
            all.can_redirect(&own)
                && tenants.can_redirect(&own)
                && own.can_redirect(&directory("/srv/homes/a/b/c", "", true))
        );
        assert!(tenants.can_redirect(&data));
        for (one, other) in [(&own, &tenants), (&own, &own), (&read, &own), (&own, &data)] {
            assert!(!one.can_redirect(other));
        }
        assert!(!directory("/srv/home", "", false).can_redirect(&own));
    }
}
