//! Templates of the configuration file, in the engine's terms.

use std::time::Duration;

use himalia_engine::{
    AllowList, FilesMode, LlmLimitFields, LlmLimits, LlmPolicy, ProvisionerChoice, SessionLimits, Template,
    ToolCallLimits, ToolPolicy, TreeLimits, UsualSizes, usual_shm,
};
use himalia_provisioner::{Isolation, Network, ProvisionerKind};

use super::ConfigError;
use super::sandboxes::{Docker, pool, weakest};
use crate::settings::{ByteSize, LimitsTable, Processors, Seconds, TemplateTable};

/// Longest name of a template.
const NAME_BYTES: usize = 64;
/// Most modules of `preload`.
const MAX_PRELOAD: usize = 64;
/// Reason why a member cannot be used with an open network.
const NEEDS_NO_NETWORK: &str = "need network = \"none\" or \"allow\"";
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
        let all = &own.with_defaults(self.defaults);
        let docker = self.docker;
        Source {
            docker,
            key,
            own,
            all,
        }
        .template()
    }
}

/// One template.
struct Source<'a> {
    docker: &'a Docker,
    /// Name of the table in the configuration, for errors.
    key: &'a str,
    /// The members of the table. A default that cannot be used is left out, a member is refused.
    own: &'a TemplateTable,
    /// The members of the table and of `[defaults]`.
    all: &'a TemplateTable,
}

impl Source<'_> {
    fn template(&self) -> Result<Template, ConfigError> {
        let (own, all) = (self.own, self.all);
        let network = self.network()?;
        let (is_allow, is_open) = (network == Network::Allow, matches!(network, Network::Open(_)));
        self.check_allow(is_allow)?;
        let tools = self.tools()?;
        if is_open && own.skills == Some(true) {
            return self.bad("skills", NEEDS_NO_NETWORK);
        }
        let tree = TreeLimits::new(all.tree_depth, all.tree_sessions);
        let tree = tree.map_err(|reason| self.member("tree_depth", &reason))?;
        let models = self.models()?;
        if is_open && own.models.is_some() && !models.is_empty() {
            return self.bad("models", NEEDS_NO_NETWORK);
        }
        if is_open && own.tools.is_some() && !tools.is_empty() {
            return self.bad("tools", NEEDS_NO_NETWORK);
        }
        self.check_images()?;
        self.check_names()?;
        let limits = limits(self.key, &all.limits(), true)?;
        let max = self::limits(&format!("{}.max", self.key), &all.max, false)?;
        let time = |time: Option<Seconds>| time.map(Seconds::duration).filter(|time| !time.is_zero());
        let mut template = Template {
            kernelspec: None,
            provisioner: all.provisioner.unwrap_or_default(),
            image: all.image.clone(),
            images: all.images.clone().unwrap_or_default(),
            runtime: all.runtime.clone(),
            isolation: all.isolation.unwrap_or_default(),
            network,
            allow: all.allow.clone().unwrap_or_default(),
            credentials: all.credentials.clone().filter(|_| is_allow).unwrap_or_default(),
            intercept: all.intercept.clone().filter(|_| is_allow).unwrap_or_default(),
            tools: if is_open { ToolPolicy::default() } else { tools },
            skills: all.skills.unwrap_or(false) && !is_open,
            tree,
            models: if is_open { Box::default() } else { models },
            networks: all.networks.clone().unwrap_or_default(),
            mounts: all.mounts.clone().unwrap_or_default(),
            limits,
            usual_sizes: UsualSizes {
                disk: all.disk.is_none(),
                tmp: all.tmp.is_none(),
                shm: all.shm.is_none(),
            },
            max,
            idle_timeout: time(all.idle_timeout),
            lifetime: time(all.lifetime),
            env: all.env.clone(),
            preload: all.preload.clone().unwrap_or_default(),
            files: all.files.unwrap_or(FilesMode::Ephemeral),
            pool: match &own.pool {
                Some(table) => pool(&format!("{}.pool", self.key), table)?,
                None => Template::default().pool,
            },
            trust_domain: all.trust_domain.clone(),
        };
        let domain = template.trust_domain.as_ref();
        if domain.is_some_and(|domain| !(1..=NAME_BYTES).contains(&domain.len())) {
            return self.bad("trust_domain", format!("must have 1 to {NAME_BYTES} characters"));
        }
        self.place(&mut template)?;
        Ok(template)
    }

    fn error(&self, field: &str, reason: impl Into<String>) -> ConfigError {
        ConfigError::new(format!("{}.{field}", self.key), reason)
    }

    fn bad<T>(&self, field: &str, reason: impl Into<String>) -> Result<T, ConfigError> {
        Err(self.error(field, reason))
    }

    /// The error for a reason that begins with the name of a member, or else is about `field`.
    fn member(&self, field: &str, reason: &str) -> ConfigError {
        let (field, reason) = reason.split_once(": ").unwrap_or((field, reason));
        self.error(field, reason)
    }

    fn network(&self) -> Result<Network, ConfigError> {
        match self.all.network.as_deref() {
            None | Some("none") => Ok(Network::None),
            Some("allow") => Ok(Network::Allow),
            Some(name) if self.docker.networks.iter().any(|known| known == name) => {
                Ok(Network::Open(name.to_owned()))
            }
            Some(name) => self.bad(
                "network",
                format!("{name:?} is not in [{}] networks", self.docker.table),
            ),
        }
    }

    /// Checks the members that belong to `network = "allow"`.
    fn check_allow(&self, is_allow: bool) -> Result<(), ConfigError> {
        let own = self.own;
        if is_allow && self.all.allow.as_ref().is_none_or(AllowList::is_empty) {
            return self.bad("allow", "is needed with network = \"allow\"");
        }
        let members = [
            ("allow", own.allow.is_some()),
            (
                "credentials",
                own.credentials.as_ref().is_some_and(|all| !all.is_empty()),
            ),
            (
                "intercept",
                own.intercept.as_ref().is_some_and(|hosts| !hosts.is_none()),
            ),
        ];
        match members.iter().find(|(_, is_there)| *is_there && !is_allow) {
            Some((field, _)) => self.bad(field, "needs network = \"allow\""),
            None => Ok(()),
        }
    }

    fn tools(&self) -> Result<ToolPolicy, ConfigError> {
        let all = self.all;
        let limits = ToolCallLimits::new(all.tool_calls_per_execution, all.tool_calls);
        Ok(ToolPolicy {
            tools: all.tools.clone().unwrap_or_default(),
            write: all.tools_write.clone().unwrap_or_default(),
            approval: all.tools_approval.unwrap_or(true),
            limits: limits.map_err(|reason| self.member("tool_calls", &reason))?,
        })
    }

    fn models(&self) -> Result<Box<LlmPolicy>, ConfigError> {
        let all = self.all;
        let limits = LlmLimits::new(LlmLimitFields {
            calls: all.model_calls,
            tokens: all.model_tokens,
            spend: all.model_spend,
            parallel: all.model_parallel,
        });
        Ok(Box::new(LlmPolicy {
            models: all.models.clone().unwrap_or_default(),
            limits: limits.map_err(|reason| self.member("models", &reason))?,
        }))
    }

    fn check_images(&self) -> Result<(), ConfigError> {
        let (docker, all) = (self.docker, self.all);
        if let Some(image) = all.image.as_ref().filter(|image| !docker.images.contains(image)) {
            let reason = format!("{image:?} is neither [{}] image nor in its images", docker.table);
            return self.bad("image", reason);
        }
        docker
            .check_grants(
                all.networks.as_deref().unwrap_or_default(),
                all.images.as_deref().unwrap_or_default(),
            )
            .map_err(|(field, reason)| self.error(field, reason))
    }

    /// Checks the names of variables and of modules.
    fn check_names(&self) -> Result<(), ConfigError> {
        let mut names = self.all.env.keys();
        if let Some(name) = names.find(|name| name.is_empty() || name.contains(['=', '\0'])) {
            return self.bad("env", format!("{name:?} is not a variable's name"));
        }
        let preload = self.all.preload.as_deref().unwrap_or_default();
        if let Some(name) = preload.iter().find(|name| !is_module(name)) {
            return self.bad("preload", format!("{name:?} is not a module's name"));
        }
        if preload.len() > MAX_PRELOAD {
            return self.bad("preload", format!("has more than {MAX_PRELOAD} modules"));
        }
        Ok(())
    }

    /// Checks that provisioner, runtime and level go together, and finds the runtime for a level.
    fn place(&self, template: &mut Template) -> Result<(), ConfigError> {
        let (docker, own) = (self.docker, self.own);
        if template.provisioner == ProvisionerChoice::Named(ProvisionerKind::Local) {
            let wants = [
                ("image", template.image.is_some() && own.image.is_some()),
                ("runtime", template.runtime.is_some() && own.runtime.is_some()),
                ("network", matches!(template.network, Network::Open(_))),
                ("isolation", template.isolation > Isolation::Namespaces),
            ];
            if let Some((field, _)) = wants.iter().find(|(_, wanted)| *wanted) {
                return self.bad(field, "is not supported by provisioner = \"local\"".to_owned());
            }
            (template.image, template.runtime) = (None, None);
            return Ok(());
        }
        if let Some(runtime) = &template.runtime {
            let Some(level) = docker.runtimes.get(runtime) else {
                return self.bad(
                    "runtime",
                    format!("{runtime:?} is not in [{}.runtimes]", docker.table),
                );
            };
            if *level < template.isolation {
                let wanted = template.isolation;
                return self.bad(
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
                return self.bad(
                    "isolation",
                    format!("{wanted} is given by no runtime of [{}.runtimes]", docker.table),
                );
            }
        }
        Ok(())
    }
}

/// The limits in the engine's terms; with `fill`, missing ones get their usual value.
fn limits(key: &str, table: &LimitsTable, fill: bool) -> Result<SessionLimits, ConfigError> {
    let size = |size: Option<ByteSize>, usual: u64| size.map(|size| size.0).or_else(|| fill.then_some(usual));
    let pids = table.pids.or_else(|| fill.then_some(256));
    let open_files = table.open_files.or_else(|| fill.then_some(4096));
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
    let time = table.execution_time.map(Seconds::duration);
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let memory_bytes = size(table.memory, 2 << 30);
    Ok(SessionLimits {
        memory_bytes,
        pids,
        cpu_millis: table.cpu.map(Processors::millis),
        disk_bytes: size(table.disk, 1 << 30),
        tmp_bytes: size(table.tmp, 256 << 20),
        shm_bytes: size(table.shm, memory_bytes.map_or(SHM, usual_shm)),
        open_files,
        output_bytes: table.output.map(|size| size.0),
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
