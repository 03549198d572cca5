//! The names by which a kernel in a built root has its interpreter and the programs of its environment.
//!
//! The environment is at its own path of the host there, since scripts in it contain that path, and has a name in the directory of
//! the sandbox's own things. What code and people see is the name.

use std::path::Path;

use himalia_provisioner::inside;
use himalia_shim_protocol::KernelSpec;

use super::binds;

/// The path of the environment in a sandbox.
pub(crate) fn env_name() -> String {
    format!("{}/{}", inside::OWN_DIR, binds::ENV)
}

/// Starts a kernel by the name of its environment, and has commands find that environment's programs by it. `env_dir`: the
/// environment's path of the host.
pub(crate) fn by_name(spec: &mut KernelSpec, env_dir: Option<&Path>) {
    let Some(env_dir) = env_dir else { return };
    let named = |path: &str| {
        let rest = Path::new(path).strip_prefix(env_dir).ok()?;
        Path::new(&env_name()).join(rest).to_str().map(str::to_owned)
    };
    if let Some(first) = spec.argv.first_mut()
        && let Some(named) = named(first)
    {
        *first = named;
    }
    if let Some(path) = spec.env.get_mut("PATH") {
        let dirs = path.split(':');
        let dirs = dirs.map(|dir| named(dir).unwrap_or_else(|| dir.to_owned()));
        *path = dirs.collect::<Vec<_>>().join(":");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use himalia_shim_protocol::{InterruptMode, ResourceLimits};

    use super::*;

    #[test]
    fn paths_of_the_environment_become_its_name() {
        let mut spec = KernelSpec {
            argv: ["/home/ada/env/bin/python3", "-P", "/home/ada/env/x"]
                .map(str::to_owned)
                .to_vec(),
            env: BTreeMap::from([(
                "PATH".to_owned(),
                "/home/ada/env/bin:/home/ada/envy:/usr/bin".to_owned(),
            )]),
            cwd: "/session".to_owned(),
            interrupt_mode: InterruptMode::Signal,
            kernel_name: "python3".to_owned(),
            limits: ResourceLimits::default(),
            connect_ms: 0,
            via_zygote: false,
        };
        by_name(&mut spec, None);
        assert_eq!(spec.argv[0], "/home/ada/env/bin/python3");
        by_name(&mut spec, Some(Path::new("/home/ada/env")));
        assert_eq!(spec.argv, ["/himalia/env/bin/python3", "-P", "/home/ada/env/x"]);
        assert_eq!(spec.env["PATH"], "/himalia/env/bin:/home/ada/envy:/usr/bin");
    }
}
