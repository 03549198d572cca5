//! Templates of the configuration file, in the engine's terms.

use std::time::Duration;

use himalia_engine::{
    FilesMode, Intercept, LlmLimitFields, LlmLimits, LlmPolicy, ProvisionerChoice, SessionLimits, Template,
    ToolCallLimits, ToolPolicy, TreeLimits, UsualSizes, usual_shm,
};
use himalia_sandbox::{Isolation, Network, ProvisionerKind};

use super::ConfigError;
use super::sandboxes::{Docker, pool, weakest};
use crate::settings::{ByteSize, LimitsTable, Processors, Seconds, TemplateTable};

/// Longest name of a template.
const NAME_BYTES: usize = 64;
/// Most modules of `preload`.
const MAX_PRELOAD: usize = 64;
/// Size of `/dev/shm` where the memory has no limit.
const SHM: u64 = 64 << 20;

/// Reads templates; what one does not say is said by `defaults`, or else here.
pub(super) struct Reader<'a> {
    pub(super) docker: &'a Docker,
    pub(super) defaults: &'a TemplateTable,
}

impl Reader<'_> {
    /// The template of kernelspecs that have none of their own.
    pub(super) fn defaults(&self) -> Result<Template, ConfigError> {
        self.read("defaults", self.defaults)
    }

    /// The template of this name.
    pub(super) fn template(&self, name: &str, table: &TemplateTable) -> Result<Template, ConfigError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if name.is_empty() || name.len() > NAME_BYTES || !name.bytes().all(plain) {
            let reason = format!("a name has 1 to {NAME_BYTES} letters, digits, '.', '_' and '-'");
            return Err(ConfigError::new(format!("templates.{name:?}"), reason));
        }
        let mut template = self.read(&format!("templates.{name}"), table)?;
        template.kernelspec = Some(table.kernelspec.clone().unwrap_or_else(|| name.to_owned()));
        Ok(template)
    }

    fn read(&self, key: &str, own: &TemplateTable) -> Result<Template, ConfigError> {
        let base = self.defaults;
        let bad = |field: &str, reason: String| Err(ConfigError::new(format!("{key}.{field}"), reason));
        let plain = Template::default();
        let network = own.network.as_ref().or(base.network.as_ref());
        let network = match network.map(String::as_str) {
            None | Some("none") => Network::None,
            Some("allow") => Network::Allow,
            Some(name) if self.docker.networks.iter().any(|known| known == name) => {
                Network::Open(name.to_owned())
            }
            Some(name) => {
                return bad(
                    "network",
                    format!("{name:?} is not in [{}] networks", self.docker.table),
                );
            }
        };
        let allow = own
            .allow
            .as_ref()
            .or(base.allow.as_ref())
            .cloned()
            .unwrap_or_default();
        if network == Network::Allow && allow.is_empty() {
            return bad("allow", "is needed with network = \"allow\"".to_owned());
        }
        if network != Network::Allow && own.allow.is_some() {
            return bad("allow", "needs network = \"allow\"".to_owned());
        }
        let credentials = own.credentials.as_ref().or(base.credentials.as_ref());
        let credentials = credentials.cloned().unwrap_or_default();
        let intercept = own.intercept.as_ref().or(base.intercept.as_ref());
        let intercept = intercept.cloned().unwrap_or_default();
        let is_allow = network == Network::Allow;
        let wants = [
            (
                "credentials",
                own.credentials.is_some() && !credentials.is_empty(),
            ),
            ("intercept", own.intercept.is_some() && !intercept.is_none()),
        ];
        if let Some((field, _)) = wants.iter().find(|(_, wanted)| *wanted && !is_allow) {
            return bad(field, "needs network = \"allow\"".to_owned());
        }
        let tools = own.tools.as_ref().or(base.tools.as_ref());
        let tools_write = own.tools_write.as_ref().or(base.tools_write.as_ref());
        let tool_limits = ToolCallLimits::new(
            own.tool_calls_per_execution.or(base.tool_calls_per_execution),
            own.tool_calls.or(base.tool_calls),
        );
        let tools = ToolPolicy {
            tools: tools.cloned().unwrap_or_default(),
            write: tools_write.cloned().unwrap_or_default(),
            approval: own.tools_approval.or(base.tools_approval).unwrap_or(true),
            limits: tool_limits.map_err(|reason| {
                let (member, reason) = reason.split_once(": ").unwrap_or(("tool_calls", &reason));
                ConfigError::new(format!("{key}.{member}"), reason)
            })?,
        };
        let skills = own.skills.or(base.skills).unwrap_or(false);
        if matches!(network, Network::Open(_)) && own.skills == Some(true) {
            return bad("skills", "need network = \"none\" or \"allow\"".to_owned());
        }
        let tree = TreeLimits::new(
            own.tree_depth.or(base.tree_depth),
            own.tree_sessions.or(base.tree_sessions),
        );
        let tree = tree.map_err(|reason| {
            let (member, reason) = reason.split_once(": ").unwrap_or(("tree_depth", &reason));
            ConfigError::new(format!("{key}.{member}"), reason)
        })?;
        let models = own.models.as_ref().or(base.models.as_ref());
        let model_limits = LlmLimits::new(LlmLimitFields {
            calls: own.model_calls.or(base.model_calls),
            tokens: own.model_tokens.or(base.model_tokens),
            spend: own.model_spend.or(base.model_spend),
            parallel: own.model_parallel.or(base.model_parallel),
        });
        let models = Box::new(LlmPolicy {
            models: models.cloned().unwrap_or_default(),
            limits: model_limits.map_err(|reason| {
                let (member, reason) = reason.split_once(": ").unwrap_or(("models", &reason));
                ConfigError::new(format!("{key}.{member}"), reason)
            })?,
        });
        if matches!(network, Network::Open(_)) && own.models.is_some() && !models.is_empty() {
            return bad("models", "need network = \"none\" or \"allow\"".to_owned());
        }
        if matches!(network, Network::Open(_)) && own.tools.is_some() && !tools.is_empty() {
            return bad("tools", "need network = \"none\" or \"allow\"".to_owned());
        }
        let is_open = matches!(network, Network::Open(_));
        let image = own.image.clone().or_else(|| base.image.clone());
        if let Some(image) = image.as_ref().filter(|image| !self.docker.images.contains(image)) {
            return bad(
                "image",
                format!(
                    "{image:?} is neither [{}] image nor in its images",
                    self.docker.table
                ),
            );
        }
        let networks = own.networks.as_ref().or(base.networks.as_ref());
        let networks = networks.cloned().unwrap_or_default();
        let images = own.images.as_ref().or(base.images.as_ref());
        let images = images.cloned().unwrap_or_default();
        self.docker
            .check_grants(&networks, &images)
            .map_err(|(field, reason)| ConfigError::new(format!("{key}.{field}"), reason))?;
        let mut env = base.env.clone();
        env.extend(own.env.clone());
        if let Some(name) = env
            .keys()
            .find(|name| name.is_empty() || name.contains(['=', '\0']))
        {
            return bad("env", format!("{name:?} is not a variable's name"));
        }
        let mounts = own.mounts.as_ref().or(base.mounts.as_ref());
        let preload = own.preload.as_ref().or(base.preload.as_ref());
        let preload = preload.cloned().unwrap_or_default();
        if let Some(name) = preload.iter().find(|name| !is_module(name)) {
            return bad("preload", format!("{name:?} is not a module's name"));
        }
        if preload.len() > MAX_PRELOAD {
            return bad("preload", format!("has more than {MAX_PRELOAD} modules"));
        }
        let limits = limits(key, &own.limits(), &base.limits(), true)?;
        let said = own.limits();
        let usual = |own: Option<ByteSize>, base: Option<ByteSize>| own.or(base).is_none();
        let usual_sizes = UsualSizes {
            disk: usual(said.disk, base.disk),
            tmp: usual(said.tmp, base.tmp),
            shm: usual(said.shm, base.shm),
        };
        let none = LimitsTable::default();
        let max = self::limits(
            &format!("{key}.max"),
            own.max.as_ref().unwrap_or(&none),
            base.max.as_ref().unwrap_or(&none),
            false,
        )?;
        let time = |own: Option<Seconds>, base: Option<Seconds>| {
            own.or(base).map(Seconds::duration).filter(|time| !time.is_zero())
        };
        let mut template = Template {
            kernelspec: None,
            provisioner: own.provisioner.or(base.provisioner).unwrap_or_default(),
            image,
            images,
            runtime: own.runtime.clone().or_else(|| base.runtime.clone()),
            isolation: own.isolation.or(base.isolation).unwrap_or_default(),
            network,
            allow,
            credentials: if is_allow { credentials } else { Vec::new() },
            intercept: if is_allow { intercept } else { Intercept::None },
            tools: if is_open { ToolPolicy::default() } else { tools },
            skills: skills && !is_open,
            tree,
            models: if is_open { Box::default() } else { models },
            networks,
            mounts: mounts.cloned().unwrap_or_default(),
            limits,
            usual_sizes,
            max,
            idle_timeout: time(own.idle_timeout, base.idle_timeout),
            lifetime: time(own.lifetime, base.lifetime),
            env,
            preload,
            files: own.files.or(base.files).unwrap_or(FilesMode::Ephemeral),
            pool: own
                .pool
                .as_ref()
                .map_or(Ok(plain.pool), |table| pool(&format!("{key}.pool"), table))?,
            trust_domain: own.trust_domain.clone().or_else(|| base.trust_domain.clone()),
        };
        let domain = template.trust_domain.as_ref();
        if domain.is_some_and(|domain| !(1..=NAME_BYTES).contains(&domain.len())) {
            return bad("trust_domain", format!("has not 1 to {NAME_BYTES} characters"));
        }
        self.place(key, own, &mut template)?;
        Ok(template)
    }

    /// Checks that provisioner, runtime and level go together, and finds the runtime for a level.
    fn place(&self, key: &str, own: &TemplateTable, template: &mut Template) -> Result<(), ConfigError> {
        let bad = |field: &str, reason: String| Err(ConfigError::new(format!("{key}.{field}"), reason));
        let docker = self.docker;
        if template.provisioner == ProvisionerChoice::Named(ProvisionerKind::Local) {
            let wants = [
                ("image", template.image.is_some() && own.image.is_some()),
                ("runtime", template.runtime.is_some() && own.runtime.is_some()),
                ("network", matches!(template.network, Network::Open(_))),
                ("isolation", template.isolation > Isolation::Namespaces),
            ];
            if let Some((field, _)) = wants.iter().find(|(_, wanted)| *wanted) {
                return bad(field, "is not supported by provisioner = \"local\"".to_owned());
            }
            (template.image, template.runtime) = (None, None);
            return Ok(());
        }
        if let Some(runtime) = &template.runtime {
            let Some(level) = docker.runtimes.get(runtime) else {
                return bad(
                    "runtime",
                    format!("{runtime:?} is not in [{}.runtimes]", docker.table),
                );
            };
            if *level < template.isolation {
                let wanted = template.isolation;
                return bad(
                    "runtime",
                    format!("{runtime} gives {level}, and isolation is {wanted}"),
                );
            }
            return Ok(());
        }
        if template.isolation > Isolation::Namespaces {
            let given = docker.runtimes.get(&docker.runtime);
            if given.is_some_and(|given| *given >= template.isolation) {
                return Ok(());
            }
            template.runtime = weakest(&docker.runtimes, template.isolation);
            if template.runtime.is_none() {
                let wanted = template.isolation;
                return bad(
                    "isolation",
                    format!("{wanted} is given by no runtime of [{}.runtimes]", docker.table),
                );
            }
        }
        Ok(())
    }
}

/// The limits in the engine's terms; with `fill`, unsaid ones that should exist get their usual value.
fn limits(
    key: &str,
    own: &LimitsTable,
    base: &LimitsTable,
    fill: bool,
) -> Result<SessionLimits, ConfigError> {
    let size = |own: Option<ByteSize>, base: Option<ByteSize>, usual: u64| {
        own.or(base).map(|size| size.0).or_else(|| fill.then_some(usual))
    };
    let pids = own.pids.or(base.pids).or_else(|| fill.then_some(256));
    let open_files = own
        .open_files
        .or(base.open_files)
        .or_else(|| fill.then_some(4096));
    for (field, value, least) in [
        ("pids", pids.map(u64::from), 16),
        // The kernel's sockets, pipes and modules.
        ("open_files", open_files, 64),
    ] {
        if let Some(value) = value.filter(|value| !(least..=1 << 20).contains(value)) {
            let reason = format!("{value} is not between {least} and {}", 1 << 20);
            return Err(ConfigError::new(format!("{key}.{field}"), reason));
        }
    }
    let time = own.execution_time.or(base.execution_time).map(Seconds::duration);
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let memory_bytes = size(own.memory, base.memory, 2 << 30);
    Ok(SessionLimits {
        memory_bytes,
        pids,
        cpu_millis: own.cpu.or(base.cpu).map(Processors::millis),
        disk_bytes: size(own.disk, base.disk, 1 << 30),
        tmp_bytes: size(own.tmp, base.tmp, 256 << 20),
        shm_bytes: size(own.shm, base.shm, memory_bytes.map_or(SHM, usual_shm)),
        open_files,
        output_bytes: own.output.or(base.output).map(|size| size.0),
        execution_ms: time.filter(|time| !time.is_zero()).map(millis),
    })
}

/// Returns true for a name that Python can import: `package.module`.
fn is_module(name: &str) -> bool {
    let part = |part: &str| {
        part.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    name.len() <= 255 && name.split('.').all(part)
}
