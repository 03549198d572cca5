//! Networks and images that a caller may request: those of the template, those that it grants in addition, and for a tenant's callers those of these
//! that the tenant is granted.

use himalia_model::{EngineConfig, EngineError, NotOffered, StartSession, Template};
use himalia_provisioner::Network;

/// Grants for one start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grants<'a> {
    pub(super) config: &'a EngineConfig,
    /// Name of the template.
    pub(super) name: &'a str,
    pub(super) template: &'a Template,
    /// Owner of the start; `None`: the gateway's own.
    pub(super) owner: Option<&'a str>,
}

impl Grants<'_> {
    /// Refuses a network or an image that is asked for and not granted.
    ///
    /// # Errors
    /// [`EngineError::NotOffered`], naming the field and who does not grant it.
    pub(super) fn check(&self, start: &StartSession) -> Result<(), EngineError> {
        let tenant = self.owner.and_then(|owner| self.config.tenants.get(owner));
        if let Some(Network::Open(name)) = &start.network
            && self.template.network != Network::Open(name.clone())
        {
            let of_tenant = tenant.map(|tenant| tenant.networks.as_slice());
            self.granted(name, &self.template.networks, of_tenant, "networks")
                .map_err(|reason| EngineError::not_offered(NotOffered::Network, "network", reason))?;
        }
        if start.network == Some(Network::Allow) && self.template.network != Network::Allow {
            let reason = format!("the template {} has no list of hosts", self.name);
            return Err(EngineError::not_offered(NotOffered::Network, "network", reason));
        }
        let wider = start
            .allow
            .as_ref()
            .and_then(|allow| allow.exceeds(&self.template.allow));
        if let Some(rule) = wider {
            let reason = format!(
                "{rule} is more than the template {} allows: {}",
                self.name, self.template.allow
            );
            return Err(EngineError::not_offered(
                NotOffered::Network,
                "network.allow",
                reason,
            ));
        }
        let has = |name: &String| self.template.credentials.iter().any(|one| one.name == *name);
        if let Some(name) = start.credentials.iter().flatten().find(|name| !has(name)) {
            let shown: String = name.chars().take(64).flat_map(char::escape_debug).collect();
            let reason = format!(
                "{shown} is not among the credentials of the template {}",
                self.name
            );
            return Err(EngineError::not_offered(
                NotOffered::Credential,
                "credentials",
                reason,
            ));
        }
        if start.credentials.as_ref().is_some_and(|names| !names.is_empty())
            && start
                .network
                .as_ref()
                .is_some_and(|network| *network != Network::Allow)
        {
            let reason = "need network \"allow\"".to_owned();
            return Err(EngineError::not_offered(
                NotOffered::Credential,
                "credentials",
                reason,
            ));
        }
        let wider = start
            .tools
            .as_ref()
            .and_then(|tools| self.template.tools.exceeded_by(tools));
        if let Some(pattern) = wider {
            let reason = format!("{pattern} is more than the tools of the template {}", self.name);
            return Err(EngineError::not_offered(NotOffered::Tool, "tools", reason));
        }
        if let Some(name) = &start.image
            && self.template.image.as_ref() != Some(name)
        {
            let of_tenant = tenant.map(|tenant| tenant.images.as_slice());
            self.granted(name, &self.template.images, of_tenant, "images")
                .map_err(|reason| EngineError::not_offered(NotOffered::Image, "image", reason))?;
        }
        Ok(())
    }

    fn granted(
        &self,
        name: &String,
        of_template: &[String],
        of_tenant: Option<&[String]>,
        list: &str,
    ) -> Result<(), String> {
        if !of_template.contains(name) {
            let template = self.name;
            return Err(format!(
                "{name:?} is not among the {list} of the template {template}"
            ));
        }
        if of_tenant.is_some_and(|granted| !granted.contains(name)) {
            let tenant = self.owner.unwrap_or_default();
            return Err(format!("{name:?} is not among the {list} of the tenant {tenant}"));
        }
        Ok(())
    }
}

/// Checks that a template, or a tenant, grants only what the operator has named.
///
/// # Errors
/// What is wrong, beginning with the name of the list.
pub(super) fn check_lists(
    config: &EngineConfig,
    networks: &[String],
    images: &[String],
) -> Result<(), String> {
    for (list, granted, known) in [
        ("networks", networks, &config.networks),
        ("images", images, &config.images),
    ] {
        if let Some(name) = granted.iter().find(|name| !known.contains(name)) {
            return Err(format!(
                "{list} has {name:?}, which is not in the gateway's list of {list}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use himalia_model::TenantLimits;

    use super::*;

    fn refusal(template: &Template, owner: Option<&str>, start: &StartSession) -> Option<String> {
        let mut config = EngineConfig::new("/nowhere");
        let tenant = TenantLimits {
            networks: vec!["lab".to_owned(), "other".to_owned()],
            images: vec!["tools".to_owned()],
            ..TenantLimits::default()
        };
        config.tenants.insert("acme".to_owned(), tenant);
        config.tenants.insert("plain".to_owned(), TenantLimits::default());
        let grants = Grants {
            config: &config,
            name: "t",
            template,
            owner,
        };
        grants.check(start).err().map(|error| error.to_string())
    }

    fn network(name: &str) -> StartSession {
        StartSession {
            network: Some(Network::Open(name.to_owned())),
            ..StartSession::default()
        }
    }

    fn image(name: &str) -> StartSession {
        StartSession {
            image: Some(name.to_owned()),
            ..StartSession::default()
        }
    }

    #[test]
    fn template_and_tenant_both_grant() {
        let template = Template {
            network: Network::Open("own".to_owned()),
            networks: vec!["lab".to_owned()],
            image: Some("plain".to_owned()),
            images: vec!["tools".to_owned()],
            ..Template::default()
        };
        for owner in [None, Some("operator"), Some("acme"), Some("plain")] {
            // The template's own, and nothing at all.
            for start in [network("own"), image("plain"), StartSession::default()] {
                assert_eq!(refusal(&template, owner, &start), None, "{owner:?}");
            }
            let none = StartSession {
                network: Some(Network::None),
                ..StartSession::default()
            };
            assert_eq!(refusal(&template, owner, &none), None, "{owner:?}");
        }
        for start in [network("lab"), image("tools")] {
            assert_eq!(refusal(&template, Some("operator"), &start), None);
            assert_eq!(refusal(&template, Some("acme"), &start), None);
        }
        assert_eq!(
            refusal(&template, Some("plain"), &network("lab")).unwrap(),
            "network: \"lab\" is not among the networks of the tenant plain"
        );
        assert_eq!(
            refusal(&template, Some("plain"), &image("tools")).unwrap(),
            "image: \"tools\" is not among the images of the tenant plain"
        );
        assert_eq!(
            refusal(&template, Some("acme"), &network("other")).unwrap(),
            "network: \"other\" is not among the networks of the template t"
        );
        assert_eq!(
            refusal(&Template::default(), Some("operator"), &image("tools")).unwrap(),
            "image: \"tools\" is not among the images of the template t"
        );
    }
}
