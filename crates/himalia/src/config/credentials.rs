//! Credentials of the configuration, and the file with the keys of those in the store.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use himalia_engine::{
    ConfiguredCredential, CredentialDefinition, CredentialFields, CredentialKeys, CredentialSettings,
    CredentialValue, GivenSecrets, OAuthFields, SecretText, TenantLimits, ValueSource, check_credential_name,
};

use super::ConfigError;
use crate::settings::CredentialTable;
use crate::{keys, paths, private_file};

/// The owner of what is no tenant's.
const OPERATOR: &str = "operator";
/// Bytes of a key that is made here.
const KEY_BYTES: usize = 32;

/// Credentials of the configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Credentials {
    configured: Vec<ConfiguredCredential>,
    key_file: Option<PathBuf>,
}

impl Credentials {
    pub(super) fn check(
        tables: BTreeMap<String, CredentialTable>,
        key_file: Option<PathBuf>,
        tenants: &BTreeMap<String, TenantLimits>,
    ) -> Result<Self, ConfigError> {
        let key_file = key_file.map(|file| paths::absolute("credentials_key_file", &file));
        let configured = tables.into_iter().map(|(name, table)| read(name, table, tenants));
        Ok(Self {
            configured: configured.collect::<Result<_, _>>()?,
            key_file: key_file.transpose()?,
        })
    }

    /// With the keys. A single gateway makes one in its data directory, if none is configured; replicas must share one.
    pub(crate) fn settings(&self, data_dir: &Path, is_shared: bool) -> anyhow::Result<CredentialSettings> {
        let keys = match &self.key_file {
            Some(file) => Some(keys::shared_key("credentials_key_file", file)?),
            None if is_shared => None,
            None => Some(own_key(&data_dir.join("credentials.key"))?),
        };
        Ok(CredentialSettings {
            keys: keys.map(CredentialKeys),
            configured: self.configured.clone(),
        })
    }
}

fn own_key(path: &Path) -> anyhow::Result<String> {
    if path.exists() {
        return std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    }
    private_file::make(path, KEY_BYTES, "the key of credentials")
}

fn read(
    name: String,
    table: CredentialTable,
    tenants: &BTreeMap<String, TenantLimits>,
) -> Result<ConfiguredCredential, ConfigError> {
    let key = format!("credentials.{name}");
    let bad = |member: &str, reason: &str| ConfigError::new(format!("{key}{member}"), reason);
    check_credential_name(&name).map_err(|reason| bad("", &reason))?;
    let owner = match table.tenant {
        None => OPERATOR.to_owned(),
        Some(tenant) if tenants.contains_key(&tenant) => tenant,
        Some(tenant) => return Err(bad(".tenant", &format!("{tenant:?} is not in [tenants]"))),
    };
    let source =
        |member: &'static str, file: Option<PathBuf>, variable: Option<String>| match (file, variable) {
            (Some(file), None) => Ok(Some(ValueSource::File(paths::absolute(member, &file)?))),
            (None, Some(variable)) => Ok(Some(ValueSource::Variable(variable))),
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err(bad(
                &format!(".{member}_file"),
                &format!("give {member}_file or {member}_env, not both"),
            )),
        };
    let value = source("value", table.value_file, table.value_env)?;
    let client_secret = source("client_secret", table.client_secret_file, table.client_secret_env)?;
    let session_token = source("session_token", table.session_token_file, table.session_token_env)?;
    let fields = CredentialFields {
        kind: table.kind,
        hosts: table.hosts,
        base_url: table.base_url,
        header: table.header,
        prefix: table.prefix,
        parameter: table.parameter,
        user: table.user,
        access_key: table.access_key,
        region: table.region,
        service: table.service,
        oauth: OAuthFields {
            grant: table.grant,
            issuer: table.issuer,
            resource: table.resource,
            authorization_url: table.authorization_url,
            token_url: table.token_url,
            client_id: table.client_id,
            scope: table.scope,
        },
    };
    let definition = CredentialDefinition::try_from(fields).map_err(|reason| {
        let (member, reason) = reason.split_once(": ").unwrap_or(("kind", &reason));
        bad(&format!(".{member}"), reason)
    })?;
    // What the secrets must be, whatever they are.
    let any = |source: &Option<ValueSource>| source.as_ref().map(|_| SecretText::new("*".repeat(8)));
    let given = GivenSecrets {
        value: any(&value),
        session_token: any(&session_token),
        client_secret: any(&client_secret),
    };
    CredentialValue::new(definition.kind(), given).map_err(|reason| {
        let (member, reason) = reason.split_once(": ").unwrap_or(("value", &reason));
        bad(
            &format!(".{member}_file"),
            &format!("{reason} ({member}_file, or {member}_env)"),
        )
    })?;
    Ok(ConfiguredCredential {
        name,
        owner,
        definition,
        value,
        client_secret,
        session_token,
    })
}
