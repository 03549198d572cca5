//! Sections that are tables by name, each of which may be of one tenant: servers of tools, language models.

use std::collections::BTreeMap;

use himalia_engine::TenantLimits;

use super::ConfigError;

/// Most tables of a section.
const MAX_TABLES: usize = 256;

/// Reads a section. `tenant`: owner of a table; `make` returns the problem of a table, beginning with the name of the member.
pub(super) fn read<F, C>(
    section: &str,
    tables: BTreeMap<String, F>,
    tenants: &BTreeMap<String, TenantLimits>,
    tenant: impl Fn(&F) -> Option<&str>,
    make: impl Fn(&str, F) -> Result<C, String>,
) -> Result<Vec<C>, ConfigError> {
    if tables.len() > MAX_TABLES {
        return Err(ConfigError::new(section, format!("are more than {MAX_TABLES}")));
    }
    let read = |(name, fields): (String, F)| {
        let key = format!("{section}.{name}");
        if let Some(tenant) = tenant(&fields).filter(|tenant| !tenants.contains_key(*tenant)) {
            return Err(ConfigError::new(
                format!("{key}.tenant"),
                format!("{tenant:?} is not in [tenants]"),
            ));
        }
        make(&name, fields).map_err(|reason| {
            let (member, reason) = reason.split_once(": ").unwrap_or(("url", &reason));
            ConfigError::new(format!("{key}.{member}"), reason)
        })
    };
    tables.into_iter().map(read).collect()
}
