//! The tables of templates and their defaults.

use std::collections::BTreeMap;

use himalia_cli::values::Seconds;
use himalia_engine::{AllowList, FilesMode, Intercept, ProvisionerChoice, TemplateCredential, ToolPattern};
use himalia_provisioner::Isolation;
use serde::Deserialize;

use super::values::{ByteSize, Processors};

/// Settings that can be merged with others of lower precedence.
trait Over {
    fn over(&self, base: &Self) -> Self;
}

impl<T: Clone> Over for Option<T> {
    fn over(&self, base: &Self) -> Self {
        self.as_ref().or(base.as_ref()).cloned()
    }
}

/// Variables are merged by name.
impl Over for BTreeMap<String, String> {
    fn over(&self, base: &Self) -> Self {
        let all = base.iter().chain(self);
        all.map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

/// Declares a table whose members are merged one by one.
macro_rules! table {
    ($(#[$about:meta])* pub(crate) struct $name:ident { $($(#[$doc:meta])* pub(crate) $field:ident: $kind:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(crate) struct $name {
            $($(#[$doc])* pub(crate) $field: $kind,)*
        }

        impl Over for $name {
            fn over(&self, base: &Self) -> Self {
                Self { $($field: self.$field.over(&base.$field),)* }
            }
        }
    };
}

table! {
    /// `[templates.NAME]` and `[defaults]`; `None`: the table does not have the member.
    pub(crate) struct TemplateTable {
        pub(crate) kernelspec: Option<String>,
        pub(crate) provisioner: Option<ProvisionerChoice>,
        pub(crate) image: Option<String>,
        /// Images that callers may ask for instead.
        pub(crate) images: Option<Vec<String>>,
        pub(crate) runtime: Option<String>,
        /// `none`, `allow`, or a name of `[docker] networks`.
        pub(crate) network: Option<String>,
        /// Hosts that `allow` permits.
        pub(crate) allow: Option<AllowList>,
        /// Credentials that its sessions may use.
        pub(crate) credentials: Option<Vec<TemplateCredential>>,
        /// Hosts whose TLS the gateway reads.
        pub(crate) intercept: Option<Intercept>,
        /// Tools that its sessions may use.
        pub(crate) tools: Option<Vec<ToolPattern>>,
        /// Tools that may be called although they change something.
        pub(crate) tools_write: Option<Vec<ToolPattern>>,
        /// True if a person is asked to approve calls of other tools that change something.
        pub(crate) tools_approval: Option<bool>,
        /// Calls of tools while one request runs.
        pub(crate) tool_calls_per_execution: Option<u32>,
        /// Calls of tools of a session.
        pub(crate) tool_calls: Option<u64>,
        /// True if code of the sessions may run skills.
        pub(crate) skills: Option<bool>,
        /// Sessions below each other that code starts.
        pub(crate) tree_depth: Option<u32>,
        /// Sessions of such a tree that live at once.
        pub(crate) tree_sessions: Option<u32>,
        /// Models that its sessions may use.
        pub(crate) models: Option<Vec<String>>,
        /// Caps on calls of models, of one execution.
        pub(crate) model_calls: Option<u64>,
        pub(crate) model_tokens: Option<u64>,
        pub(crate) model_spend: Option<f64>,
        pub(crate) model_parallel: Option<u32>,
        /// Networks that callers may ask for instead.
        pub(crate) networks: Option<Vec<String>>,
        /// At least.
        pub(crate) isolation: Option<Isolation>,
        pub(crate) memory: Option<ByteSize>,
        pub(crate) cpu: Option<Processors>,
        pub(crate) pids: Option<u32>,
        pub(crate) disk: Option<ByteSize>,
        pub(crate) tmp: Option<ByteSize>,
        pub(crate) shm: Option<ByteSize>,
        pub(crate) open_files: Option<u64>,
        pub(crate) output: Option<ByteSize>,
        pub(crate) execution_time: Option<Seconds>,
        /// The most that callers may ask for.
        pub(crate) max: LimitsTable,
        pub(crate) idle_timeout: Option<Seconds>,
        pub(crate) lifetime: Option<Seconds>,
        pub(crate) files: Option<FilesMode>,
        /// Names of `[mounts]`.
        pub(crate) mounts: Option<Vec<String>>,
        pub(crate) preload: Option<Vec<String>>,
        pub(crate) trust_domain: Option<String>,
        pub(crate) env: BTreeMap<String, String>,
        pub(crate) pool: Option<PoolTable>,
    }
}

impl TemplateTable {
    /// The table with the members of `defaults` that it does not have, except for the kernelspec and the pool, which belong to one template.
    pub(crate) fn with_defaults(&self, defaults: &Self) -> Self {
        Self {
            kernelspec: self.kernelspec.clone(),
            pool: self.pool.clone(),
            ..self.over(defaults)
        }
    }

    pub(crate) fn limits(&self) -> LimitsTable {
        LimitsTable {
            memory: self.memory,
            cpu: self.cpu,
            pids: self.pids,
            disk: self.disk,
            tmp: self.tmp,
            shm: self.shm,
            open_files: self.open_files,
            output: self.output,
            execution_time: self.execution_time,
        }
    }
}

table! {
    /// `[templates.NAME.max]`, and the limits of a template.
    pub(crate) struct LimitsTable {
        pub(crate) memory: Option<ByteSize>,
        pub(crate) cpu: Option<Processors>,
        pub(crate) pids: Option<u32>,
        pub(crate) disk: Option<ByteSize>,
        pub(crate) tmp: Option<ByteSize>,
        pub(crate) shm: Option<ByteSize>,
        pub(crate) open_files: Option<u64>,
        pub(crate) output: Option<ByteSize>,
        pub(crate) execution_time: Option<Seconds>,
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PoolTable {
    /// Kernels kept ready.
    pub(crate) size: Option<u32>,
    /// The most while claims come fast.
    pub(crate) max: Option<u32>,
    /// One that waited for so long is replaced.
    pub(crate) max_age: Option<Seconds>,
}
