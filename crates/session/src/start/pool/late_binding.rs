//! Late binding: what a kernel that waits has to receive so that it is as if it had been started for its claim.

use himalia_kernelspecs::{Launch, is_ours};
use himalia_model::{KernelId, KernelSpec};
use himalia_shim_protocol::Bind;

/// Variables that are read once, when a process or a library starts, so that setting them later does nothing …
const AT_START: &[&str] = &[
    "CONDA_PREFIX",
    "GLIBC_TUNABLES",
    "IPYTHONDIR",
    "LANG",
    "LANGUAGE",
    "MPLBACKEND",
    "NUMEXPR_MAX_THREADS",
    "TMPDIR",
    "TZDIR",
    "VIRTUAL_ENV",
];
/// … those whose names begin so …
const AT_START_BEGINS: &[&str] = &[
    "ARROW_",
    "BLIS_",
    "CUDA_",
    "JUPYTER_",
    "KMP_",
    "LC_",
    "LD_",
    "MALLOC_",
    "MKL_",
    "NVIDIA_",
    "OMP_",
    "OPENBLAS_",
    "PYDEVD_",
    "PYTHON",
];
/// … and those whose names end so.
const AT_START_ENDS: &str = "_NUM_THREADS";

/// True if a variable has to be there when the process starts.
fn is_read_at_start(name: &str) -> bool {
    AT_START.contains(&name)
        || AT_START_BEGINS.iter().any(|begin| name.starts_with(begin))
        || name.ends_with(AT_START_ENDS)
}

/// True if a kernelspec's kernels can receive data after their start: our own launcher's, and those with `metadata.himalia.late_bind`.
fn binds_late(spec: &KernelSpec) -> bool {
    let says = spec
        .spec
        .metadata
        .get("himalia")
        .and_then(|ours| ours.get("late_bind"));
    is_ours(spec) || says.and_then(serde_json::Value::as_bool) == Some(true)
}

/// A variable that the request changes and that only a new process would read: neither a kernel that waits nor a fork
/// can have it.
pub(crate) fn changed_at_start(launch: &Launch) -> Option<&str> {
    let changed = launch
        .env
        .iter()
        .filter(|(name, value)| launch.base_env.get(*name) != Some(value));
    let unset = launch
        .base_env
        .keys()
        .filter(|name| !launch.env.contains_key(*name));
    let mut names = changed.map(|(name, _)| name).chain(unset);
    names.find(|name| is_read_at_start(name)).map(String::as_str)
}

/// Data of a request for a kernel that was started without it; `None` when there is nothing that it could receive or has to be.
///
/// # Errors
/// One line that says why it has to be a new process.
pub(super) fn binding(
    spec: &KernelSpec,
    launch: &Launch,
    shares_files: bool,
    id: KernelId,
) -> Result<Option<Bind>, String> {
    let mut bind = Bind {
        kernel_id: Some(id.to_string()),
        ..Bind::default()
    };
    for (name, value) in &launch.env {
        if launch.base_env.get(name) != Some(value) {
            bind.env.insert(name.clone(), value.clone());
        }
    }
    bind.unset = launch
        .base_env
        .keys()
        .filter(|name| !launch.env.contains_key(*name))
        .cloned()
        .collect();
    bind.cwd = (shares_files && launch.cwd != launch.base_cwd).then(|| launch.cwd.clone());
    if let Some(name) = changed_at_start(launch) {
        return Err(format!("{name} is read when a process starts"));
    }
    if binds_late(spec) {
        return Ok(Some(bind));
    }
    if let Some(name) = bind.env.keys().chain(&bind.unset).next() {
        return Err(format!("this kernel cannot receive {name} after its start"));
    }
    if bind.cwd.is_some() {
        return Err("this kernel cannot receive its directory after its start".to_owned());
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use himalia_model::{InterruptMode, KernelJson};

    use super::*;

    fn spec(argv: &[&str]) -> KernelSpec {
        KernelSpec {
            name: "k".to_owned(),
            spec: KernelJson {
                argv: argv.iter().map(|&word| word.to_owned()).collect(),
                ..KernelJson::default()
            },
            resources: BTreeMap::new(),
            dir: "/k".into(),
            problem: None,
        }
    }

    fn launch(env: &[(&str, &str)], cwd: &str) -> Launch {
        let base_env = BTreeMap::from([("PATH".to_owned(), "/bin".to_owned())]);
        let mut all = base_env.clone();
        all.extend(
            env.iter()
                .map(|&(name, value)| (name.to_owned(), value.to_owned())),
        );
        Launch {
            argv: Vec::new(),
            env: all,
            base_env,
            base_cwd: "/home".to_owned(),
            cwd: cwd.to_owned(),
            interrupt_mode: InterruptMode::Signal,
        }
    }

    const OURS: [&str; 3] = ["python3", "-m", "himalia_kernel"];

    #[test]
    fn only_what_differs_is_told() {
        let id = KernelId::random();
        let bind = |env: &[(&str, &str)], cwd, shares| {
            binding(&spec(&OURS), &launch(env, cwd), shares, id)
                .unwrap()
                .unwrap()
        };
        let told = bind(&[("A", "1"), ("PATH", "/bin")], "/home", true);
        assert_eq!(told.env, BTreeMap::from([("A".to_owned(), "1".to_owned())]));
        assert_eq!((told.cwd, told.kernel_id), (None, Some(id.to_string())));
        assert_eq!(bind(&[], "/data", true).cwd.as_deref(), Some("/data"));
        assert_eq!(bind(&[], "/data", false).cwd, None);
    }

    #[test]
    fn what_is_read_at_the_start_needs_a_start() {
        let id = KernelId::random();
        for name in [
            "PYTHONHASHSEED",
            "PYTHONPATH",
            "LD_PRELOAD",
            "OMP_NUM_THREADS",
            "RAYON_NUM_THREADS",
            "MPLBACKEND",
            "LC_ALL",
            "TMPDIR",
        ] {
            let why = binding(&spec(&OURS), &launch(&[(name, "1")], "/home"), true, id).unwrap_err();
            assert_eq!(why, format!("{name} is read when a process starts"));
        }
        for name in ["TZ", "KERNEL_USERNAME", "JPY_SESSION_NAME", "PATH", "MY_LC_ALL"] {
            assert!(
                binding(&spec(&OURS), &launch(&[(name, "1")], "/home"), true, id).is_ok(),
                "{name}"
            );
        }
    }

    #[test]
    fn other_kernels_are_told_nothing() {
        let id = KernelId::random();
        let foreign = spec(&["xpython", "-f"]);
        assert!(
            binding(&foreign, &launch(&[], "/home"), true, id)
                .unwrap()
                .is_none()
        );
        assert!(
            binding(&foreign, &launch(&[], "/data"), false, id)
                .unwrap()
                .is_none()
        );
        assert!(
            binding(&foreign, &launch(&[("A", "1")], "/home"), true, id)
                .unwrap_err()
                .contains("receive A")
        );
        assert!(
            binding(&foreign, &launch(&[], "/data"), true, id)
                .unwrap_err()
                .contains("directory")
        );
        let mut says = foreign;
        let metadata = serde_json::json!({"himalia": {"late_bind": true}});
        says.spec.metadata = metadata.as_object().unwrap().clone();
        assert!(
            binding(&says, &launch(&[("A", "1")], "/home"), true, id)
                .unwrap()
                .is_some()
        );
    }
}
