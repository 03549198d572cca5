//! Mounts of templates: checked once, and asked of the provisioners that would make them.

use himalia_model::{EngineConfig, EngineError, Template};
use himalia_provisioner::{MAX_MOUNTS, SandboxError, overlapping};

use crate::Provisioners;

/// Checks the names of a template's mounts, and that they go together. An error begins with the field.
pub(super) fn check_names(config: &EngineConfig, template: &Template) -> Result<(), String> {
    if template.mounts.len() > MAX_MOUNTS {
        return Err(format!("mounts are more than {MAX_MOUNTS}"));
    }
    let mut targets = Vec::new();
    for name in &template.mounts {
        let Some(mount) = config.mounts.get(name) else {
            return Err(format!("mounts has {name:?}, which is not in [mounts]"));
        };
        if template.pool.size > 0 && mount.is_personal() {
            return Err(format!(
                "pool: the mount {name} depends on who starts a session, so that none can wait for it"
            ));
        }
        targets.push(mount.target.as_path());
    }
    overlapping(&targets).map_or(Ok(()), |(one, other)| {
        Err(format!(
            "mounts: {} and {} cover one another",
            one.display(),
            other.display()
        ))
    })
}

/// Refuses a mount that would let sandboxes decide what another one shows.
pub(super) fn check_apart(config: &EngineConfig) -> Result<(), EngineError> {
    for (name, mount) in &config.mounts {
        let redirected = config.mounts.iter().find(|(_, other)| mount.can_redirect(other));
        if let Some((other, _)) = redirected {
            let reason = format!(
                "{name} can be written to, and the directory of {other} is in it: a session could put something else there"
            );
            return Err(EngineError::bad_request("mounts", reason));
        }
    }
    Ok(())
}

/// Asks each provisioner for the mounts that it can make.
///
/// # Errors
/// [`EngineError::BadRequest`] for `mounts`, with the name of the mount. One that no provisioner can make is an error too.
pub(crate) async fn check_sources(
    config: &EngineConfig,
    provisioners: &Provisioners,
) -> Result<(), EngineError> {
    for (name, mount) in &config.mounts {
        let mut is_possible = false;
        for provisioner in provisioners.iter() {
            if !provisioner.capabilities().mounts.contains(&mount.source.kind()) {
                continue;
            }
            is_possible = true;
            let checked = provisioner.check_mounts(vec![mount.common()]).await;
            checked.map_err(|error| match error {
                SandboxError::BadSpec { field, reason } => EngineError::bad_request(field, reason),
                other => EngineError::bad_request("mounts", format!("{name}: {other}")),
            })?;
        }
        if !is_possible {
            let kind = mount.source.kind().as_str();
            let reason = format!("{name}: no provisioner of this gateway mounts a {kind}");
            return Err(EngineError::bad_request("mounts", reason));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use himalia_model::{MountTemplate, PoolConfig};
    use himalia_provisioner::{Isolation, MountSource, SharedMount};

    use super::*;
    use crate::testing::StubProvisioner;

    fn config(mounts: &[(&str, &str, &str)]) -> EngineConfig {
        let mut config = EngineConfig::new("/nowhere");
        for (name, subdirectory, target) in mounts {
            let mount = SharedMount {
                name: (*name).to_owned(),
                source: MountSource::Directory {
                    base: "/srv".into(),
                    subdirectory: subdirectory.into(),
                },
                target: target.into(),
                read_only: false,
                owner: None,
            };
            let mount = MountTemplate::new(mount).unwrap();
            config.mounts.insert((*name).to_owned(), mount);
        }
        config
    }

    fn template(mounts: &[&str], pool: u32) -> Template {
        Template {
            mounts: mounts.iter().map(|name| (*name).to_owned()).collect(),
            pool: PoolConfig {
                size: pool,
                ..PoolConfig::default()
            },
            ..Template::default()
        }
    }

    #[test]
    fn mounts_of_a_template_go_together() {
        let config = config(&[
            ("a", "a", "/data"),
            ("b", "{tenant}", "/data/b"),
            ("c", "c", "/c"),
        ]);
        assert_eq!(check_names(&config, &template(&["a", "c"], 1)), Ok(()));
        let refused = |mounts: &[&str], pool| check_names(&config, &template(mounts, pool)).unwrap_err();
        assert!(refused(&["d"], 0).contains("not in [mounts]"));
        assert!(refused(&["a", "b"], 0).contains("cover one another"));
        assert!(refused(&["b"], 1).starts_with("pool: the mount b"));
        assert!(refused(&["a"; 17], 0).contains("more than 16"));
    }

    #[test]
    fn no_session_decides_what_another_mount_shows() {
        assert!(check_apart(&config(&[("a", "a", "/a"), ("b", "b", "/b")])).is_ok());
        let refused = check_apart(&config(&[("homes", "{tenant}", "/a"), ("data", "x/data", "/b")]));
        let refused = refused.unwrap_err().to_string();
        assert!(
            refused.contains("homes can be written to, and the directory of data"),
            "{refused}"
        );
    }

    #[tokio::test]
    async fn a_mount_that_no_provisioner_makes_is_refused() {
        let provisioners: Provisioners = Arc::new(StubProvisioner::new(Isolation::Namespaces)).into();
        let refused = check_sources(&config(&[("a", "a", "/a")]), &provisioners).await;
        let refused = refused.unwrap_err().to_string();
        assert!(
            refused.contains("a: no provisioner of this gateway mounts a directory"),
            "{refused}"
        );
    }
}
