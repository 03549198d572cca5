//! Tests whether namespaces sandboxes work on this host.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::time::{Duration, Instant};

use himalia_jail::{ExecPlan, HostIds, Program};

use super::config::NamespacesConfig;
use super::inner::{limits, private};
use super::jail::{Jail, output};
use super::root::{Memory, Root};
use super::shared::SandboxMount;
use crate::host::blocking;
use crate::host::layout::Layout;
use crate::{LimitReport, Limits, SandboxError, SandboxId, inside};

/// Number of the pipe in `himalia-jail`.
const OUTPUT_FD: i32 = 4;

/// Result of a trial start of a sandbox.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TryOut {
    /// `None`: sandboxes can be made. Otherwise what cannot be done.
    pub failure: Option<TryOutFailure>,
    /// Mechanisms that would enforce the limits.
    pub limits: LimitReport,
    /// Release of the host's Linux kernel; empty if `himalia-jail` did not run.
    pub linux: String,
    /// User namespaces that this user may have at the same time (`user.max_user_namespaces`); each sandbox needs at least one.
    pub max_user_namespaces: Option<u64>,
    /// Duration of the trial start.
    pub start: Option<Duration>,
}

/// Reason why sandboxes cannot be created.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TryOutFailure {
    /// Step that failed.
    pub step: String,
    /// Error of the step.
    pub error: String,
    /// Remedy for the operator.
    pub hint: Option<String>,
}

/// Really makes a sandbox with these settings, runs the shim in it far enough to tell its version, and removes
/// everything again. Nothing of it is left, whatever comes of it.
pub async fn try_out(config: &NamespacesConfig) -> TryOut {
    let config = config.clone();
    let limits = limits(&config);
    let tried = blocking(move || run(&config)).await;
    let mut result = tried.unwrap_or_else(|error| failed(&"runtime", &error, None));
    result.limits = limits;
    result
}

fn failed(step: &dyn Display, error: &dyn Display, hint: Option<String>) -> TryOut {
    TryOut {
        failure: Some(TryOutFailure {
            step: step.to_string(),
            error: error.to_string(),
            hint,
        }),
        limits: LimitReport::default(),
        linux: String::new(),
        max_user_namespaces: None,
        start: None,
    }
}

fn run(config: &NamespacesConfig) -> TryOut {
    let ids = ids(config);
    let jail = Jail::new(&config.jail);
    let probe = match jail.probe(ids) {
        Ok(probe) => probe,
        Err(error) => return failed(&"himalia-jail", &error, None),
    };
    let mut result = match probe.failure {
        Some(failure) => failed(&failure.step, &failure.error, probe.hint),
        None => match sandbox(config, &jail, ids, &[]) {
            Ok(start) => TryOut {
                failure: None,
                start: Some(start),
                ..failed(&"", &"", None)
            },
            Err(error) => failed(&"sandbox", &error, None),
        },
    };
    result.linux = probe.linux;
    result.max_user_namespaces = probe.max_user_namespaces;
    result
}

/// Ids for a trial: the last ones, which are given at last.
pub(super) fn ids(config: &NamespacesConfig) -> Option<HostIds> {
    let last = config.host_uids.last().map(|range| *range.end());
    last.filter(|_| rustix::process::geteuid().is_root())
        .map(|uid| HostIds { uid, gid: uid })
}

/// Runs `himalia-shim --version` in a root as every sandbox has it, with these directories.
pub(super) fn sandbox(
    config: &NamespacesConfig,
    jail: &Jail,
    ids: Option<HostIds>,
    shared: &[SandboxMount],
) -> Result<Duration, SandboxError> {
    let layout = Layout::open(&config.run_dir)?;
    let private = private(config)?;
    let id = SandboxId::generate()?;
    let io = |error: std::io::Error| SandboxError::io(&config.jail, error);
    let result = (|| {
        let root = Root {
            config,
            private: &private,
            host_ids: ids,
            gateway_dir: &layout.create_gateway_dir(id)?,
            kept_files: None,
            memory: Memory::new(&Limits::default(), false, config.sizes),
            binds: &[],
            names: &BTreeMap::new(),
            shared,
            shows_data: false,
        };
        let plan = ExecPlan {
            place: root.plan()?.0,
            cgroups: Vec::new(),
            rlimits: Vec::new(),
            program: Program {
                argv: vec![inside::SHIM.to_owned(), "--version".to_owned()],
                env: std::collections::BTreeMap::new(),
                cwd: inside::WORK_DIR.into(),
                stdin: None,
                stdout: Some(OUTPUT_FD),
                stderr: Some(OUTPUT_FD),
                keep_fds: Vec::new(),
            },
        };
        let (read, write) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|error| io(error.into()))?;
        let own_words = File::from(write.try_clone().map_err(io)?);
        let begin = Instant::now();
        jail.exec(&plan, &id.to_string(), vec![(write, OUTPUT_FD)], own_words)?;
        let taken = begin.elapsed();
        let text = output(read).map_err(io)?;
        if !text.starts_with("himalia-shim") {
            return Err(io(std::io::Error::other(format!(
                "in the sandbox himalia-shim --version printed {text:?}"
            ))));
        }
        Ok(taken)
    })();
    let removed = layout.remove(id);
    result.and_then(|taken| removed.map(|()| taken))
}
