//! Language models that code in sessions calls.

use std::collections::BTreeMap;

use himalia_engine::{LlmConfig, LlmFields, TenantLimits};

use super::ConfigError;

/// Most models.
const MAX_MODELS: usize = 256;

/// What `[models]` says.
pub(super) fn models(
    tables: BTreeMap<String, LlmFields>,
    tenants: &BTreeMap<String, TenantLimits>,
) -> Result<Vec<LlmConfig>, ConfigError> {
    if tables.len() > MAX_MODELS {
        return Err(ConfigError::new("models", format!("are more than {MAX_MODELS}")));
    }
    let read = |(name, fields): (String, LlmFields)| {
        let key = format!("models.{name}");
        if let Some(tenant) = fields
            .tenant
            .as_ref()
            .filter(|tenant| !tenants.contains_key(*tenant))
        {
            return Err(ConfigError::new(
                format!("{key}.tenant"),
                format!("{tenant:?} is not in [tenants]"),
            ));
        }
        LlmConfig::new(&name, fields).map_err(|reason| {
            let (member, reason) = reason.split_once(": ").unwrap_or(("url", &reason));
            ConfigError::new(format!("{key}.{member}"), reason)
        })
    };
    tables.into_iter().map(read).collect()
}
