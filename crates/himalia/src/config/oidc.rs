//! Sign-in by an identity provider, checked.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use himalia_engine::TenantLimits;
use himalia_http::Grant;
use himalia_oidc::Algorithm;

use super::ConfigError;
use crate::paths;
use crate::settings::{GrantTable, OidcTable, Scope, Seconds};

/// Most grants.
const MAX_GRANTS: usize = 1000;
/// The least and the most time that a sign-in lasts.
const LIFETIME: std::ops::RangeInclusive<Duration> = Duration::from_mins(1)..=Duration::from_hours(30 * 24);
/// End of the address to which the provider sends browsers back.
const CALLBACK: &str = "viewer/oidc/callback";

/// Settings of the identity provider, before files are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OidcSettings {
    pub(crate) issuer: String,
    pub(crate) name: String,
    pub(crate) client_id: String,
    pub(crate) client_secret: Option<PathBuf>,
    pub(crate) redirect_url: String,
    pub(crate) scopes: Vec<String>,
    pub(crate) algorithms: Vec<Algorithm>,
    pub(crate) ca: Option<PathBuf>,
    /// `None`: a key is made, and kept in the data directory.
    pub(crate) cookie_key: Option<PathBuf>,
    pub(crate) caller_claim: String,
    pub(crate) grants_claim: String,
    pub(crate) grants: Vec<Grant>,
    pub(crate) lifetime: Duration,
}

impl OidcSettings {
    /// Checks the table. `base_url` begins and ends with `/`; `shares`: several gateways share a store.
    pub(super) fn check(
        table: OidcTable,
        tenants: &BTreeMap<String, TenantLimits>,
        base_url: &str,
        shares: bool,
    ) -> Result<Self, ConfigError> {
        let bad = |field: &str, reason: &str| ConfigError::new(format!("oidc.{field}"), reason);
        let needed = |field: &str, said: Option<String>| {
            let said = said.filter(|text| !text.is_empty());
            said.ok_or_else(|| bad(field, "is missing"))
        };
        let file = |field: &str, said: Option<PathBuf>| {
            let path = said.map(|path| paths::absolute("oidc", &path)).transpose();
            path.map_err(|error| bad(field, &error.to_string()))
        };
        let issuer = needed("issuer", table.issuer)?;
        let redirect_url = needed("redirect_url", table.redirect_url)?;
        if !redirect_url.ends_with(&format!("{base_url}{CALLBACK}")) {
            let reason = format!("does not end with {base_url}{CALLBACK}");
            return Err(bad("redirect_url", &reason));
        }
        if shares && table.cookie_key_file.is_none() {
            let reason = "is missing: the gateways that share a store share this key, too; openssl rand -hex 32 makes one";
            return Err(bad("cookie_key_file", reason));
        }
        let names = table
            .algorithms
            .unwrap_or_else(|| vec!["RS256".into(), "ES256".into()]);
        let algorithms = names.iter().map(|name| name.parse::<Algorithm>());
        let algorithms: Vec<_> = algorithms
            .collect::<Result<_, _>>()
            .map_err(|reason| bad("algorithms", &reason))?;
        let lifetime = table.lifetime.unwrap_or(Seconds(12 * 3600)).duration();
        if !LIFETIME.contains(&lifetime) {
            return Err(bad("lifetime", "is not between 1m and 30d"));
        }
        let scopes = table
            .scopes
            .unwrap_or_else(|| vec!["profile".into(), "email".into()]);
        Ok(Self {
            name: table.name.unwrap_or_else(|| issuer.clone()),
            issuer,
            client_id: needed("client_id", table.client_id)?,
            client_secret: file("client_secret_file", table.client_secret_file)?,
            redirect_url,
            scopes,
            algorithms,
            ca: file("ca_file", table.ca_file)?,
            cookie_key: file("cookie_key_file", table.cookie_key_file)?,
            caller_claim: table.caller_claim.unwrap_or_else(|| "preferred_username".into()),
            grants_claim: table.grants_claim.unwrap_or_else(|| "groups".into()),
            grants: grants(table.grants, tenants)?,
            lifetime,
        })
    }
}

fn grants(
    tables: Vec<GrantTable>,
    tenants: &BTreeMap<String, TenantLimits>,
) -> Result<Vec<Grant>, ConfigError> {
    let bad = |reason: String| Err(ConfigError::new("oidc.grants", reason));
    if tables.is_empty() {
        return bad("is empty: no person could sign in".to_owned());
    }
    if tables.len() > MAX_GRANTS {
        return bad(format!("are {}, at most {MAX_GRANTS} are possible", tables.len()));
    }
    let mut grants = Vec::with_capacity(tables.len());
    for (at, table) in tables.into_iter().enumerate() {
        if let Some(tenant) = table
            .tenant
            .as_deref()
            .filter(|name| !tenants.contains_key(*name))
        {
            return bad(format!("[{at}]: tenant {tenant:?} is not in [tenants]"));
        }
        grants.push(Grant {
            value: table.value,
            tenant: table.tenant,
            scope: match table.scope {
                Scope::Read => himalia_engine::Scope::Read,
                Scope::Execute => himalia_engine::Scope::Execute,
                Scope::Admin => himalia_engine::Scope::Admin,
            },
        });
    }
    Ok(grants)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "issuer = 'https://id.example'\nclient_id = 'himalia'\n\
        redirect_url = 'https://gw.example/lab/viewer/oidc/callback'\n";
    const GRANT: &str = "[[grants]]\nvalue = 'g'\ntenant = 'acme'\nscope = 'execute'\n";

    fn check(text: &str, shares: bool) -> Result<OidcSettings, String> {
        let table: OidcTable = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        let tenants = BTreeMap::from([("acme".to_owned(), TenantLimits::default())]);
        OidcSettings::check(table, &tenants, "/lab/", shares).map_err(|error| error.to_string())
    }

    #[test]
    fn a_short_table_has_defaults() {
        let found = check(&format!("{GOOD}{GRANT}"), false).unwrap();
        assert_eq!(found.name, "https://id.example");
        assert_eq!(found.algorithms, [Algorithm::Rs256, Algorithm::Es256]);
        assert_eq!(found.lifetime, Duration::from_hours(12));
        assert_eq!(
            (&*found.caller_claim, &*found.grants_claim),
            ("preferred_username", "groups")
        );
        let key = "cookie_key_file = '/k'\n";
        assert!(check(&format!("{GOOD}{key}{GRANT}"), true).is_ok());
    }

    #[test]
    fn what_cannot_be_used_names_its_key() {
        for (text, shares, said) in [
            (GRANT.to_owned(), false, "oidc.issuer: "),
            (GOOD.to_owned(), false, "oidc.grants: is empty"),
            (format!("{GOOD}{GRANT}"), true, "oidc.cookie_key_file: "),
            (
                format!("{GOOD}algorithms = ['none']\n{GRANT}"),
                false,
                "oidc.algorithms: ",
            ),
            (
                format!("{GOOD}algorithms = ['HS256']\n{GRANT}"),
                false,
                "oidc.algorithms: ",
            ),
            (
                format!("{GOOD}lifetime = '10s'\n{GRANT}"),
                false,
                "oidc.lifetime: ",
            ),
            (
                format!("{GOOD}{}", GRANT.replace("acme", "other")),
                false,
                "oidc.grants: [0]",
            ),
            (
                format!("{}{GRANT}", GOOD.replace("/lab", "")),
                false,
                "oidc.redirect_url: ",
            ),
            (
                format!("{GOOD}client_secret = 'canary'\n{GRANT}"),
                false,
                "unknown field",
            ),
        ] {
            let error = check(&text, shares).unwrap_err();
            assert!(error.starts_with(said), "{text}: {error}");
            assert!(!error.contains("canary"), "{error}");
        }
    }
}
