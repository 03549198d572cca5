//! Variables that tell programs in a sandbox how to reach the network: the proxy, the package index of `pip`, or that there is no network.

use std::collections::BTreeMap;
use std::path::Path;

use himalia_provisioner::Network;

/// Directory of the packages, in the work directory. Our launcher appends it to `sys.path`.
const DIRECTORY: &str = ".packages";
/// Package index of `pip` without a network. It is nowhere, and `pip` prints it: at once, instead of after several failed connections and without a
/// reason.
const NO_INDEX: &str = "file:///this-session-has-no-network";

/// Address of the shim's proxy in the sandbox.
const PROXY: &str = "http://127.0.0.1:3128";
pub(super) const PROXY_HOST: &str = "127.0.0.1";
pub(super) const PROXY_PORT: &str = "3128";
const OWN_HOSTS: &str = "localhost,127.0.0.1,::1";

/// The variables that a kernel in a sandbox with this work directory gets, unless something else sets them.
/// `proxy`: the shim is their
/// proxy. `index`: it may use the index of packages of the gateway.
pub(crate) fn variables(
    work_dir: &Path,
    network: &Network,
    proxy: bool,
    index: bool,
) -> BTreeMap<&'static str, String> {
    let target = work_dir.join(DIRECTORY).to_string_lossy().into_owned();
    let mut variables = BTreeMap::from([
        ("PIP_DISABLE_PIP_VERSION_CHECK", "1".to_owned()),
        ("PIP_TARGET", target),
    ]);
    if *network == Network::None {
        variables.extend([
            ("HIMALIA_NETWORK", "none".to_owned()),
            ("PIP_INDEX_URL", NO_INDEX.to_owned()),
            ("PIP_RETRIES", "0".to_owned()),
        ]);
    }
    if *network == Network::Allow {
        variables.insert("HIMALIA_NETWORK", "allow".to_owned());
    }
    if proxy {
        variables.insert("HIMALIA_API", format!("http://{}", himalia_sandbox_api::NAME));
        for name in [
            "HTTP_PROXY",
            "HTTPS_PROXY",
            "ALL_PROXY",
            "http_proxy",
            "https_proxy",
            "all_proxy",
        ] {
            variables.insert(name, PROXY.to_owned());
        }
        for name in ["NO_PROXY", "no_proxy"] {
            variables.insert(name, OWN_HOSTS.to_owned());
        }
        // Otherwise Node does not look at those of the proxy.
        variables.insert("NODE_USE_ENV_PROXY", "1".to_owned());
        if index && *network == Network::Allow {
            let url = format!("http://{}/simple/", himalia_packages::NAME);
            variables.extend([
                ("PIP_INDEX_URL", url.clone()),
                ("PIP_TRUSTED_HOST", himalia_packages::NAME.to_owned()),
                ("UV_DEFAULT_INDEX", url),
                ("UV_INSECURE_HOST", himalia_packages::NAME.to_owned()),
            ]);
        }
    }
    variables
}

/// Puts the directory of programs that come with such packages on `PATH`: last, as the packages are on `sys.path`.
pub(crate) fn find_programs(work_dir: &Path, env: &mut BTreeMap<String, String>) {
    let programs = work_dir.join(DIRECTORY).join("bin");
    if let Some(path) = env.get_mut("PATH") {
        *path = format!("{path}:{}", programs.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_without_a_network_does_pip_look_nowhere() {
        let none = variables(Path::new("/session"), &Network::None, false, true);
        assert_eq!(none["PIP_TARGET"], "/session/.packages");
        assert_eq!((&*none["PIP_RETRIES"], &*none["HIMALIA_NETWORK"]), ("0", "none"));
        let open = variables(Path::new("/session"), &Network::Open("lab".into()), false, true);
        assert_eq!(open["PIP_TARGET"], "/session/.packages");
        assert!(!open.contains_key("PIP_INDEX_URL") && !open.contains_key("HIMALIA_NETWORK"));
        assert!(!open.contains_key("HTTP_PROXY") && !none.contains_key("HTTP_PROXY"));
        let allow = variables(Path::new("/session"), &Network::Allow, true, false);
        for name in ["HTTP_PROXY", "https_proxy", "ALL_PROXY"] {
            assert_eq!(allow[name], "http://127.0.0.1:3128");
        }
        assert!(!allow.contains_key("PIP_INDEX_URL"));
        let index = variables(Path::new("/session"), &Network::Allow, true, true);
        assert_eq!(index["PIP_INDEX_URL"], "http://packages.internal/simple/");
        assert_eq!(index["UV_DEFAULT_INDEX"], index["PIP_INDEX_URL"]);
        // The proxy is there for the services of the gateway alone.
        let door = variables(Path::new("/session"), &Network::None, true, true);
        assert_eq!(
            (&*door["HIMALIA_NETWORK"], &*door["HIMALIA_API"]),
            ("none", "http://himalia.internal")
        );
        assert_eq!((&*door["http_proxy"], &*door["PIP_INDEX_URL"]), (PROXY, NO_INDEX));
    }
}
