//! Templates are checked once, when the engine opens: what is wrong with one is found before a caller finds it.

use std::collections::BTreeSet;

use himalia_kernelspecs::check_variables;
use himalia_model::credential::MAX_CREDENTIALS_OF_TEMPLATE;
use himalia_model::{
    EngineConfig, EngineError, FilesMode, LlmConfig, LlmPolicy, MAX_LLMS_OF_TEMPLATE, MAX_TOOL_PATTERNS,
    OPERATOR, ProvisionerChoice, SessionLimits, Spend, Template, TenantLimits, ToolServerKind,
};
use himalia_provisioner::Network;

use super::grants::check_lists;
use super::mounts;
use crate::provisioners::Provisioners;

/// Characters of a template's name.
const MAX_NAME: usize = 64;
/// Modules that a template may preload.
const MAX_PRELOAD: usize = 64;
/// Kernels that a pool may hold.
const MAX_POOL: u32 = 1000;

/// Checks every template of a configuration.
///
/// # Errors
/// [`EngineError::BadRequest`] for `templates`, naming the template and its field; for `tool_servers`, whose programs need them.
pub(crate) fn check(config: &EngineConfig, provisioners: &Provisioners) -> Result<(), EngineError> {
    mounts::check_apart(config)?;
    for (name, template) in &config.templates {
        let named = !name.is_empty()
            && name.len() <= MAX_NAME
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if !named {
            let shown: String = name.chars().take(MAX_NAME).collect();
            let reason = format!("{shown:?} is not a valid name: up to {MAX_NAME} of A-Z a-z 0-9 . _ -");
            return Err(EngineError::bad_request("templates", reason));
        }
        one(config, provisioners, template)
            .map_err(|reason| EngineError::bad_request("templates", format!("{name}.{reason}")))?;
    }
    for (name, tenant) in &config.tenants {
        check_lists(config, &tenant.networks, &tenant.images)
            .and_then(|()| check_day_of_models(config, name, tenant))
            .map_err(|reason| EngineError::bad_request("tenants", format!("{name}.{reason}")))?;
    }
    check_programs(config).map_err(|reason| EngineError::bad_request("tool_servers", reason))?;
    let defaults = &config.defaults;
    if defaults.pool.size > 0 {
        return Err(EngineError::bad_request(
            "defaults",
            "pool.size is for templates with a name",
        ));
    }
    one(config, provisioners, defaults).map_err(|reason| EngineError::bad_request("defaults", reason))
}

fn one(config: &EngineConfig, provisioners: &Provisioners, template: &Template) -> Result<(), String> {
    // One that is chosen for each start is asked then, and so is one that is not there.
    let named = match template.provisioner {
        ProvisionerChoice::Named(kind) => provisioners.of_kind(kind).map(|one| (kind, one.capabilities())),
        ProvisionerChoice::Auto => None,
    };
    if let Network::Open(network) = &template.network {
        if let Some((kind, _)) = named.filter(|(_, can)| !can.networks) {
            return Err(format!(
                "network is open, which provisioner {kind} cannot give (network_unsupported)"
            ));
        }
        if !config.networks.contains(network) {
            return Err(format!("network {network:?} is not in the list of networks"));
        }
    }
    if let Some((kind, _)) = named.filter(|(_, can)| !can.proxy && template.network == Network::Allow) {
        return Err(format!(
            "network is allow, which provisioner {kind} cannot enforce (network_unsupported)"
        ));
    }
    let has_credentials = !template.credentials.is_empty() || !template.intercept.is_none();
    if has_credentials && template.network != Network::Allow {
        return Err("credentials and intercept need network = \"allow\"".to_owned());
    }
    let tools = &template.tools;
    if matches!(template.network, Network::Open(_)) && !tools.is_empty() {
        return Err("tools need network = \"none\" or \"allow\"".to_owned());
    }
    for (list, patterns) in [("tools", &tools.tools), ("tools_write", &tools.write)] {
        if patterns.len() > MAX_TOOL_PATTERNS {
            return Err(format!("{list} has more than {MAX_TOOL_PATTERNS} patterns"));
        }
        let known = |name: &str| config.tool_servers.iter().any(|server| server.name == name);
        let mut servers = patterns.iter().filter_map(|pattern| pattern.server());
        if let Some(name) = servers.find(|name| !known(name)) {
            return Err(format!("{list} has {name:?}, which is not in [tool_servers]"));
        }
    }
    check_models(config, template)?;
    if template.credentials.len() > MAX_CREDENTIALS_OF_TEMPLATE {
        return Err(format!("credentials are more than {MAX_CREDENTIALS_OF_TEMPLATE}"));
    }
    let names: BTreeSet<&String> = template.credentials.iter().map(|one| &one.name).collect();
    if names.len() < template.credentials.len() {
        return Err("credentials has a name twice".to_owned());
    }
    let runs_images = named.is_none_or(|(_, can)| can.images());
    if !runs_images && (template.image.is_some() || template.runtime.is_some()) {
        return Err("image and runtime need a provisioner that runs images".to_owned());
    }
    if let Some(image) = template
        .image
        .as_ref()
        .filter(|image| !config.images.contains(*image))
    {
        return Err(format!("image {image:?} is not in the list of images"));
    }
    check_lists(config, &template.networks, &template.images)?;
    mounts::check_names(config, template)?;
    if template.trust_domain.as_ref().is_some_and(String::is_empty) {
        return Err("trust_domain must not be empty".to_owned());
    }
    check_variables(&template.env).map_err(|error| error.to_string())?;
    if template.preload.len() > MAX_PRELOAD {
        return Err(format!("preload names more than {MAX_PRELOAD} modules"));
    }
    if let Some(module) = template.preload.iter().find(|module| !is_module(module)) {
        return Err(format!("preload: {module:?} is not the name of a module"));
    }
    for (place, limits) in [("limits", &template.limits), ("max", &template.max)] {
        if let Some(field) = zero(limits) {
            return Err(format!("{place}.{field} must be above 0"));
        }
    }
    let (size, max) = (template.pool.size, template.pool.max);
    if size > MAX_POOL || max > MAX_POOL {
        return Err(format!("pool: at most {MAX_POOL} kernels"));
    }
    if size > 0 && max != 0 && max < size {
        return Err("pool.max is below pool.size".to_owned());
    }
    if size > 0 && template.files == FilesMode::Session {
        return Err(
            "pool: files of a session are bound at its start, so that none can wait for it".to_owned(),
        );
    }
    if size > 0 && template.pool.max_age.is_zero() {
        return Err("pool.max_age must be above 0".to_owned());
    }
    for (field, value) in [
        ("idle_timeout", template.idle_timeout),
        ("lifetime", template.lifetime),
    ] {
        if value.is_some_and(|value| value.is_zero()) {
            return Err(format!("{field} must be above 0"));
        }
    }
    Ok(())
}

/// Programs that are servers of tools: what they are started with is there.
fn check_programs(config: &EngineConfig) -> Result<(), String> {
    for server in &config.tool_servers {
        let (name, ToolServerKind::Program(program)) = (&server.name, &server.kind) else {
            continue;
        };
        let templates = &config.templates;
        if let Some(template) = program
            .template
            .as_ref()
            .filter(|one| !templates.contains_key(*one))
        {
            return Err(format!("{name}.template: {template:?} is not in [templates]"));
        }
        check_variables(&program.env).map_err(|error| format!("{name}.env: {error}"))?;
    }
    Ok(())
}

/// Models that a template names: they are there, and have prices where they are needed.
fn check_models(config: &EngineConfig, template: &Template) -> Result<(), String> {
    let LlmPolicy { models, limits } = &*template.models;
    if matches!(template.network, Network::Open(_)) && !models.is_empty() {
        return Err("models need network = \"none\" or \"allow\"".to_owned());
    }
    if models.len() > MAX_LLMS_OF_TEMPLATE {
        return Err(format!("models are more than {MAX_LLMS_OF_TEMPLATE}"));
    }
    for name in models {
        let Some(model) = config.models.iter().find(|model| model.name == *name) else {
            return Err(format!("models has {name:?}, which is not in [models]"));
        };
        if limits.spend.is_some() && model.prices.is_none() {
            return Err(format!(
                "model_spend needs the prices of {name:?}: input_price and output_price"
            ));
        }
        if limits.spend.is_some() && costs_without_bound(model) {
            return Err(format!(
                "model_spend needs max_output_tokens of {name:?}: an answer that is left early may cost as much"
            ));
        }
    }
    let names: BTreeSet<&String> = models.iter().collect();
    if names.len() < models.len() {
        return Err("models has a name twice".to_owned());
    }
    Ok(())
}

/// Models that sessions of a tenant may call, if what these cost in a day is bounded: the cost of each call is known before it is sent.
fn check_day_of_models(config: &EngineConfig, name: &str, tenant: &TenantLimits) -> Result<(), String> {
    if tenant.day.model_spend.is_none() {
        return Ok(());
    }
    let templates = config.templates.values().chain([&config.defaults]);
    let named: BTreeSet<&String> = templates.flat_map(|one| &one.models.models).collect();
    let callable =
        |model: &&LlmConfig| named.contains(&model.name) && (model.owner == OPERATOR || model.owner == name);
    match config
        .models
        .iter()
        .filter(callable)
        .find(|one| costs_without_bound(one))
    {
        None => Ok(()),
        Some(model) => Err(format!(
            "model_spend_per_day needs max_output_tokens of {:?}: an answer without a bound may cost more than the day has left",
            model.name
        )),
    }
}

/// Returns true if the output of a model has a price, and no bound.
fn costs_without_bound(model: &LlmConfig) -> bool {
    let price = model.prices.map(|prices| prices.spend(0, 1_000_000));
    price.is_some_and(|price| price > Spend::default()) && model.max_output_tokens.is_none()
}

/// A dotted name of Python identifiers, ASCII ones.
fn is_module(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 128
        && name.split('.').all(|part| {
            part.bytes()
                .all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
                && part.bytes().next().is_some_and(|first| !first.is_ascii_digit())
        })
}

fn zero(limits: &SessionLimits) -> Option<&'static str> {
    let fields = [
        ("memory_bytes", limits.memory_bytes),
        ("pids", limits.pids.map(u64::from)),
        ("cpu_millis", limits.cpu_millis.map(u64::from)),
        ("disk_bytes", limits.disk_bytes),
        ("tmp_bytes", limits.tmp_bytes),
        ("shm_bytes", limits.shm_bytes),
        ("open_files", limits.open_files),
        ("output_bytes", limits.output_bytes),
        ("execution_ms", limits.execution_ms),
    ];
    fields
        .into_iter()
        .find(|(_, value)| *value == Some(0))
        .map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use himalia_model::{LlmFields, PoolConfig};
    use himalia_provisioner::{Isolation, ProvisionerKind};

    use super::*;
    use crate::testing::StubProvisioner;

    fn local() -> Provisioners {
        Arc::new(StubProvisioner::new(Isolation::Namespaces)).into()
    }

    fn refused(change: impl Fn(&mut Template)) -> String {
        let mut config = EngineConfig::new("/nowhere");
        config.images = vec!["known".to_owned()];
        config.networks = vec!["net".to_owned()];
        let mut template = Template::default();
        change(&mut template);
        config.templates.insert("a".to_owned(), template);
        check(&config, &local()).map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn a_day_of_money_needs_the_most_tokens_of_answers_that_cost() {
        let checked = |owner: &str, output_price: f64, most: Option<u64>| {
            let fields = LlmFields {
                url: Some("http://a.test/v1".to_owned()),
                tenant: (owner != OPERATOR).then(|| owner.to_owned()),
                input_price: Some(1.0),
                output_price: Some(output_price),
                max_output_tokens: most,
                ..LlmFields::default()
            };
            let mut config = EngineConfig::new("/nowhere");
            config.models = vec![LlmConfig::new("big", fields).unwrap()];
            *config.defaults.models = LlmPolicy {
                models: vec!["big".to_owned()],
                ..LlmPolicy::default()
            };
            let mut bank = TenantLimits::default();
            bank.day.model_spend = Spend::of_units(1.0);
            config.tenants = [
                ("bank".to_owned(), bank),
                ("free".to_owned(), TenantLimits::default()),
            ]
            .into();
            check(&config, &local()).map_err(|error| error.to_string())
        };
        for owner in [OPERATOR, "bank"] {
            let refused = checked(owner, 2.0, None).unwrap_err();
            let wanted = "bank.model_spend_per_day needs max_output_tokens of \"big\"";
            assert!(refused.contains(wanted), "{refused}");
            assert_eq!(checked(owner, 2.0, Some(100)), Ok(()));
            assert_eq!(checked(owner, 0.0, None), Ok(()));
        }
        assert_eq!(checked("free", 2.0, None), Ok(()), "the bank may not call it");
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert_eq!(refused(|_| {}), "");
        assert_eq!(
            refused(|one| {
                one.image = Some("known".to_owned());
                one.network = Network::Open("net".to_owned());
            }),
            ""
        );
        let pool = |size, max| PoolConfig {
            size,
            max,
            max_age: Duration::from_secs(1),
        };
        assert_eq!(refused(|one| one.pool = pool(2, 0)), "");
        assert!(refused(|one| one.image = Some("other".to_owned())).contains("a.image \"other\""));
        assert!(refused(|one| one.network = Network::Open("host".to_owned())).contains("list of networks"));
        assert!(
            refused(|one| {
                one.provisioner = ProvisionerChoice::Named(ProvisionerKind::Local);
                one.network = Network::Open("net".to_owned());
            })
            .contains("network_unsupported")
        );
        assert!(refused(|one| one.limits.pids = Some(0)).contains("a.limits.pids must be above 0"));
        assert!(refused(|one| one.preload = vec!["os; import x".to_owned()]).contains("preload"));
        assert!(refused(|one| one.pool = pool(2, 1)).contains("below pool.size"));
        assert!(
            refused(|one| {
                one.pool = pool(1, 1);
                one.files = FilesMode::Session;
            })
            .contains("a.pool")
        );
        assert!(refused(|one| drop(one.env.insert("a b".to_owned(), String::new()))).contains("a.env"));
        assert!(refused(|one| one.models.models = vec!["m".to_owned()]).contains("not in [models]"));
        let mut config = EngineConfig::new("/nowhere");
        config.templates.insert("a/b".to_owned(), Template::default());
        assert!(
            check(&config, &local())
                .unwrap_err()
                .to_string()
                .contains("\"a/b\" is not a valid name")
        );
    }
}
