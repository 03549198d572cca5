//! From a kernelspec and a request to what the shim is to run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use himalia_model::{EngineError, InterruptMode, KernelSpec};

use super::{HostEnvironment, cwd, environment, paths, program, template};

/// Directory of our kernel package in a container.
const CONTAINER_KERNEL_DIR: &str = "/himalia/kernel";
/// Working directory of a kernel that does not share the host's files.
pub const SANDBOX_WORK_DIR: &str = "/session";
/// The module of our own launcher, which can be bound late, forked, and started by a zygote.
const LAUNCHER: [&str; 2] = ["-m", "himalia_kernel"];

/// Python's option that keeps the working directory off its path.
const SAFE_PATH: &str = "-P";

/// True if a kernelspec starts our own launcher.
pub fn is_ours(spec: &KernelSpec) -> bool {
    spec.spec.argv.windows(2).any(|words| words == LAUNCHER)
}

/// Inputs of a start in addition to the kernelspec. Everything of one request travels in here, as a value.
#[derive(Clone, Debug, Default)]
pub struct LaunchRequest {
    /// Variables of the request, over all but `marks`.
    pub env: BTreeMap<String, String>,
    /// The directory that the client requests; `KERNEL_WORKING_DIR` of `env` counts where this is `None`.
    pub cwd: Option<String>,
    /// Variables that the sandbox wants in each of its kernels (`SandboxHandle::kernel_env`); nothing overrides them.
    pub marks: BTreeMap<String, String>,
    /// Variables of the template, under those of the request.
    pub template_env: BTreeMap<String, String>,
    /// True if the kernel sees the host's files at their own paths: level `none`.
    pub shares_files: bool,
    /// True if its files are those of an image, so that the kernelspec's program is looked up there.
    pub in_container: bool,
    /// Working directory if that cannot be used; `None` is the home directory.
    pub fallback_cwd: Option<PathBuf>,
}

/// A kernel that can be started.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Launch {
    /// Program and arguments. `{connection_file}` is left for the shim, which makes that file.
    pub argv: Vec<String>,
    /// The complete environment; secret.
    pub env: BTreeMap<String, String>,
    /// Variables that do not come from the request; the same for every kernel of a template.
    pub base_env: BTreeMap<String, String>,
    /// Working directory when none is requested.
    pub base_cwd: String,
    /// An absolute path. At level `none` it is a directory, unless the fallback is not.
    pub cwd: String,
    pub interrupt_mode: InterruptMode,
}

/// Resolves a start. Looks at the disk, briefly.
///
/// # Errors
/// [`EngineError::BadRequest`] for `env` or `path`; [`EngineError::KernelStart`] for a kernelspec with a problem.
pub fn launch(
    spec: &KernelSpec,
    request: &LaunchRequest,
    host: &HostEnvironment,
) -> Result<Launch, EngineError> {
    environment::check(&request.env)?;
    let failed = |cause: String| EngineError::KernelStart {
        cause,
        stderr_tail: String::new(),
    };
    // A program that this host has not may well be in an image.
    let of_host = |problem: &String| request.in_container && problem.starts_with(program::PROBLEM_BEGINS);
    if let Some(problem) = spec.problem.as_ref().filter(|problem| !of_host(problem)) {
        return Err(failed(format!("kernelspec {}: {problem}", spec.name)));
    }
    let program = host_program(spec, request, host).map_err(failed)?;
    let mut base = if request.shares_files {
        host.essentials()
    } else {
        host.inside(request.in_container)
    };
    // What a child of a kernel prints belongs to the cell that runs then: with a pipe for a terminal it would hold it back.
    base.insert("PYTHONUNBUFFERED".to_owned(), "1".to_owned());
    if let Some(dir) = program.as_deref().and_then(Path::parent).and_then(Path::to_str) {
        program::find_first(dir, &mut base);
    }
    let asked = |of_request: &BTreeMap<String, String>| {
        let mut asked = request.template_env.clone();
        asked.extend(of_request.clone());
        let mut env = environment::build(base.clone(), &spec.spec.env, &asked);
        if request.in_container && is_ours(spec) {
            env.insert("PYTHONPATH".to_owned(), CONTAINER_KERNEL_DIR.to_owned());
        }
        env
    };
    let base_env = asked(&BTreeMap::new());
    let mut env = asked(&request.env);
    let requested = request
        .cwd
        .as_deref()
        .or_else(|| request.env.get(cwd::CLIENT_VARIABLE).map(String::as_str));
    let fallback = request.fallback_cwd.clone().unwrap_or_else(|| {
        if request.shares_files {
            host.fallback_cwd()
        } else {
            PathBuf::from(SANDBOX_WORK_DIR)
        }
    });
    let choice = cwd::choose(requested, request.shares_files, &fallback)?;
    if let Some(unused) = choice.unused {
        env.insert(cwd::UNUSED_VARIABLE.to_owned(), unused);
    }
    env.extend(request.marks.clone());

    let mut argv: Vec<String> = spec.spec.argv.iter().map(|word| place(word, &spec.dir)).collect();
    if let Some(first) = argv.first_mut() {
        if let Some(program) = &program {
            *first = utf8(program).map_err(failed)?;
        } else if is_ours(spec) {
            // The image's own interpreter, with our package from the mount.
            "python3".clone_into(first);
        }
    }
    safe_path(&mut argv);
    Ok(Launch {
        argv,
        env,
        base_env,
        base_cwd: utf8(&fallback).map_err(failed)?,
        cwd: utf8(&choice.cwd).map_err(failed)?,
        interrupt_mode: spec.spec.interrupt_mode,
    })
}

/// The program of a kernel that runs on the host's files; `None` in a container, or without a command line.
fn host_program(
    spec: &KernelSpec,
    request: &LaunchRequest,
    host: &HostEnvironment,
) -> Result<Option<PathBuf>, String> {
    let Some(first) = spec.spec.argv.first().filter(|_| !request.in_container) else {
        return Ok(None);
    };
    // Never the request's PATH: the program is bound into the sandbox, and may become a zygote outside of it.
    let env = environment::build(host.essentials(), &spec.spec.env, &request.template_env);
    let path = env.get("PATH").map(String::as_str).unwrap_or_default();
    program::resolve(&place(first, &spec.dir), paths::prefix_of(&spec.dir), path)
        .map(Some)
        .map_err(|problem| format!("kernelspec {}: {problem}", spec.name))
}

/// Has our launcher come from where it is installed, never from the directory in which the kernel starts: files there are
/// the session's. Our own kernelspec says so itself; one that a person wrote may not.
fn safe_path(argv: &mut Vec<String>) {
    let Some(at) = argv.windows(2).position(|words| words == LAUNCHER) else {
        return;
    };
    if !argv[..at].iter().any(|word| word == SAFE_PATH) {
        argv.insert(at, SAFE_PATH.to_owned());
    }
}

/// Fills in what depends on the kernelspec's place: `{resource_dir}` and `{prefix}`, which is `/usr` for one that
/// lies below no prefix.
pub(super) fn place(word: &str, dir: &Path) -> String {
    let prefix = paths::prefix_of(dir).unwrap_or_else(|| Path::new("/usr"));
    let (dir, prefix) = (dir.to_string_lossy(), prefix.to_string_lossy());
    template::braces(word, &[("resource_dir", &dir), ("prefix", &prefix)])
}

fn utf8(path: &Path) -> Result<String, String> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| "a path is not UTF-8".to_owned())
}
