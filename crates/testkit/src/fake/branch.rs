//! What Himalia's own launcher adds to a kernel: late binding and forks, on the control channel. A scripted kernel
//! cannot fork itself, so a branch is another process that is given the variables.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clap::ValueEnum;
use serde_json::{Value, json};

/// Longer than a shim waits for a fork that need not wait.
const LATE: Duration = Duration::from_secs(16);

/// How `himalia_bind_request` is answered.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum BindMode {
    /// It is done.
    #[default]
    Ok,
    /// It is done, with `busy` and `idle` on iopub.
    Noisy,
    /// It fails.
    Error,
    /// There is no answer, as from a kernel that does not know it.
    Silent,
}

/// How `himalia_fork_request` is answered.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum ForkMode {
    /// There is a branch, and a warning.
    #[default]
    Ok,
    /// The kernel is at work.
    Busy,
    /// Something does not survive a fork.
    Hazard,
    /// The answer arrives after the wait for it has ended.
    Late,
    /// The answer names a process that is none of ours.
    Stranger,
    /// The branch ends at once.
    Stillborn,
    /// The branch answers nothing.
    Mute,
}

/// What was changed since the start, for the whole kernel.
#[derive(Clone, Debug, Default)]
pub(super) struct State(Arc<Mutex<Changed>>);

#[derive(Debug, Default)]
struct Changed {
    variables: BTreeMap<String, String>,
    /// `None` was unset.
    env: BTreeMap<String, Option<String>>,
}

impl State {
    pub(super) fn new(variables: BTreeMap<String, String>) -> Self {
        Self(Arc::new(Mutex::new(Changed {
            variables,
            env: BTreeMap::new(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Changed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, name: String, value: String) {
        self.lock().variables.insert(name, value);
    }

    pub(super) fn get(&self, name: &str) -> Option<String> {
        self.lock().variables.get(name).cloned()
    }

    /// The environment of the process, as changed.
    pub(super) fn env(&self) -> BTreeMap<String, String> {
        let mut env: BTreeMap<String, String> = std::env::vars_os()
            .map(|(name, value)| {
                (
                    name.to_string_lossy().into_owned(),
                    value.to_string_lossy().into_owned(),
                )
            })
            .collect();
        for (name, value) in &self.lock().env {
            match value {
                Some(value) => env.insert(name.clone(), value.clone()),
                None => env.remove(name),
            };
        }
        env
    }

    /// Does a `himalia_bind_request`.
    pub(super) fn bind(&self, mode: BindMode, content: &Value) -> Option<Value> {
        match mode {
            BindMode::Ok | BindMode::Noisy => {}
            BindMode::Error => {
                return Some(json!({"status": "error", "ename": "OSError", "evalue": "told to fail"}));
            }
            BindMode::Silent => return None,
        }
        if let Some(cwd) = content["cwd"].as_str()
            && let Err(error) = std::env::set_current_dir(cwd)
        {
            return Some(json!({"status": "error", "ename": "OSError", "evalue": error.to_string()}));
        }
        let mut changed = self.lock();
        for (name, value) in content["env"].as_object().into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            changed.env.insert(name.clone(), Some(value));
        }
        for name in content["unset"].as_array().into_iter().flatten() {
            changed
                .env
                .insert(name.as_str().unwrap_or_default().to_owned(), None);
        }
        Some(json!({ "status": "ok" }))
    }

    /// Does a `himalia_fork_request`.
    pub(super) async fn fork(&self, mode: ForkMode, content: &Value) -> Value {
        let hazard = |severity: &str| json!([{"kind": "native-thread", "name": "worker", "detail": "it will\nnot run", "severity": severity}]);
        let error = |name: &str, value: &str, hazards: Value| json!({"status": "error", "ename": name, "evalue": value, "hazards": hazards});
        match mode {
            ForkMode::Busy => return error("KernelBusy", "a cell is running", json!([])),
            ForkMode::Hazard => return error("ForkHazard", "1 thread", hazard("refuse")),
            ForkMode::Stranger => return json!({"status": "ok", "pid": 1, "hazards": [], "ms": {}}),
            ForkMode::Late => tokio::time::sleep(LATE).await,
            ForkMode::Ok | ForkMode::Stillborn | ForkMode::Mute => {}
        }
        if content["policy"] == "strict" && mode == ForkMode::Ok {
            return error("ForkHazard", "1 thread", hazard("warn"));
        }
        // The branch is to be a child of the process that asks, as this kernel is.
        let asks = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get());
        if content["parent_pid"] != json!(asks) {
            return error("ValueError", "parent_pid: not my parent", json!([]));
        }
        let mut env = self.env();
        for (name, value) in content["env"].as_object().into_iter().flatten() {
            env.insert(name.clone(), value.as_str().unwrap_or_default().to_owned());
        }
        let variables = json!(self.lock().variables).to_string();
        let file = content["connection_file"].as_str().unwrap_or_default();
        let mut arguments = vec!["-f", file, "--variables", &variables];
        match mode {
            ForkMode::Stillborn => arguments.extend(["--exit-at-start", "3"]),
            ForkMode::Mute => arguments.push("--mute"),
            _ => {}
        }
        let cwd = content["cwd"].as_str().map(Path::new);
        match launch(&arguments, &env, cwd, Stdio::inherit()) {
            Ok(pid) => json!({"status": "ok", "pid": pid, "hazards": hazard("warn"), "ms": {"fork": 1}}),
            Err(failed) => error("OSError", &failed.to_string(), json!([])),
        }
    }
}

/// Starts a fake kernel that is forked twice, so that it is a child of the next subreaper. Standard output and error
/// are `output`.
pub(super) fn launch(
    arguments: &[&str],
    env: &BTreeMap<String, String>,
    cwd: Option<&Path>,
    output: Stdio,
) -> io::Result<i32> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("--launch")
        .args(arguments)
        .env_clear()
        .envs(env)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(output);
    if let Some(cwd) = cwd {
        command.current_dir(cwd);
    }
    let mut middle = command.spawn()?;
    let mut pid = String::new();
    if let Some(mut stdout) = middle.stdout.take() {
        stdout.read_to_string(&mut pid)?;
    }
    middle.wait()?;
    pid.trim().parse().map_err(io::Error::other)
}

/// What a process that was forked twice does first: it begins a session, and ends with its new parent. The death signal
/// can be set only when the process in the middle, `middle`, is gone.
///
/// # Errors
/// When one of the calls fails.
pub fn forked_twice(middle: i32) -> io::Result<()> {
    rustix::process::setsid()?;
    while rustix::process::getppid().is_some_and(|parent| parent.as_raw_nonzero().get() == middle) {
        std::thread::sleep(Duration::from_millis(1));
    }
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    Ok(())
}

/// The process in the middle: starts the same program without `--launch`, tells its pid, ends.
///
/// # Errors
/// When the program cannot be started.
pub fn launched() -> io::Result<()> {
    let arguments = std::env::args_os()
        .skip(1)
        .filter(|argument| argument != "--launch");
    let output = rustix::io::dup(rustix::stdio::stderr())?;
    let child = Command::new(std::env::current_exe()?)
        .args(arguments)
        .arg(format!("--forked-twice-by={}", std::process::id()))
        .stdin(Stdio::null())
        .stdout(output)
        .spawn()?;
    // Standard output is the pipe to the process that asked.
    #[allow(clippy::print_stdout, reason = "it is what is asked for")]
    {
        println!("{}", child.id());
    }
    Ok(())
}
