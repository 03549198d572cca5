//! Servers of tools.

use std::collections::BTreeMap;

use himalia_engine::{TenantLimits, ToolServerConfig, ToolServerFields};

use super::ConfigError;

/// Most servers.
const MAX_SERVERS: usize = 256;

/// What `[tool_servers]` says.
pub(super) fn servers(
    tables: BTreeMap<String, ToolServerFields>,
    tenants: &BTreeMap<String, TenantLimits>,
) -> Result<Vec<ToolServerConfig>, ConfigError> {
    if tables.len() > MAX_SERVERS {
        return Err(ConfigError::new(
            "tool_servers",
            format!("are more than {MAX_SERVERS}"),
        ));
    }
    let read = |(name, fields): (String, ToolServerFields)| {
        let key = format!("tool_servers.{name}");
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
        ToolServerConfig::new(&name, fields).map_err(|reason| {
            let (member, reason) = reason.split_once(": ").unwrap_or(("url", &reason));
            ConfigError::new(format!("{key}.{member}"), reason)
        })
    };
    tables.into_iter().map(read).collect()
}
