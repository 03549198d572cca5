use himalia_engine::{FilesMode, Template};
use himalia_provisioner::{Isolation, Network};

use super::*;
use crate::settings::IsolationSetting;

fn check(text: &str) -> Result<Config, ConfigError> {
    Config::check(toml::from_str::<GivenSettings>(text).unwrap().complete())
}

fn refused(text: &str) -> String {
    check(text).unwrap_err().to_string()
}

#[test]
fn the_defaults_are_sound() {
    let config = check("data_dir = \"/d\"\nenv_dir = \"/e\"").unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:8888");
    assert_eq!((config.base_url.as_str(), config.max_kernels), ("/", 100));
    assert_eq!(
        (config.on_sigterm, config.on_interrupt),
        (OnStop::Keep, OnStop::Stop)
    );
    assert_eq!(config.cull, CullConfig::default());
    assert!(matches!(config.token, TokenSource::Made));
}

#[test]
fn beyond_loopback_a_token_is_needed() {
    for open in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1"] {
        assert!(
            refused(&format!("listen = \"{open}\"")).starts_with("listen: "),
            "{open}"
        );
        assert!(check(&format!("listen = \"{open}\"\ntoken = \"t\"")).is_ok());
        assert!(check(&format!("listen = \"{open}\"\ntoken_file = \"t\"")).is_ok());
    }
    for closed in [
        "127.0.0.1:0",
        "127.9.9.9:0",
        "[::1]:0",
        "localhost:0",
        "[::ffff:127.0.0.1]:0",
    ] {
        assert!(check(&format!("listen = \"{closed}\"")).is_ok(), "{closed}");
    }
}

#[test]
fn each_refusal_names_the_key() {
    for (text, key) in [
        ("listen = \"8888\"", "listen"),
        ("listen = \"example.org:80\"", "listen"),
        ("token = \"\"", "token"),
        ("token = \"a b\"", "token"),
        ("token = \"a\"\ntoken_file = \"b\"", "token"),
        ("base_url = \"/A\"", "base_url"),
        ("base_url = \"/a/../b\"", "base_url"),
        ("allow_origin = [\"lab.example.org\"]", "allow_origin"),
        (
            "allow_origin = [\"https://lab.example.org/path\"]",
            "allow_origin",
        ),
        ("max_kernels = 0", "max_kernels"),
        ("orphan_ttl = 0", "orphan_ttl"),
        ("default_kernel = \"\"", "default_kernel"),
        ("log = \"himalia=loud\"", "log"),
    ] {
        assert!(
            refused(text).starts_with(&format!("{key}: ")),
            "{text}: {}",
            refused(text)
        );
    }
}

#[test]
fn a_wrong_file_names_key_and_line_and_quotes_no_value() {
    let error = |text: &str| parse(text).unwrap_err();
    let (line, reason) = error("max_kernels = 3\nlisen = \"canary\"\n");
    assert!(
        line == 2 && reason.contains("`lisen`") && !reason.contains("canary"),
        "{line}: {reason}"
    );
    let (line, reason) = error("\n\nmax_kernels = \"many\"");
    assert!(
        line == 3 && reason.starts_with("max_kernels: "),
        "{line}: {reason}"
    );
    let (line, reason) = error("token = 471147");
    assert!(
        line == 1 && reason == "token: must be a string",
        "{line}: {reason}"
    );
    assert!(error("on_sigterm = \"explode\"").1.contains("explode"));
    assert_eq!(error("a = ").0, 1);
}

#[test]
fn base_urls_are_normalised() {
    for (given, wanted) in [
        ("", "/"),
        ("/", "/"),
        ("jupyter", "/jupyter/"),
        ("/a/b/", "/a/b/"),
    ] {
        assert_eq!(base_url(given).unwrap(), wanted);
    }
}

const GIB: u64 = 1 << 30;

#[test]
fn templates_take_what_they_do_not_say_from_the_defaults() {
    let config = check(
        r#"
        [docker]
        images = ["science"]
        networks = ["lab"]
        [defaults]
        memory = "4GiB"
        env = { A = "1", B = "1" }
        [defaults.max]
        memory = "8GiB"
        [templates.python3]
        cpu = 1.5
        env = { B = "2" }
        preload = ["numpy", "matplotlib.pyplot"]
        idle_timeout = "1h"
        lifetime = 0
        execution_time = "10m"
        [templates.python3.pool]
        size = 2
        [templates.open]
        kernelspec = "python3"
        image = "science"
        network = "lab"
        memory = "1GiB"
        files = "session"
        tmp = "256MiB"
        "#,
    )
    .unwrap();
    let sandboxes = config.sandboxes;
    assert!(sandboxes.docker_wanted);
    assert_eq!(sandboxes.docker.images, ["himalia-kernel", "science"]);
    assert_eq!(sandboxes.docker.runtime, "runc");
    assert_eq!(sandboxes.host_uids, None);
    let defaults = &sandboxes.defaults;
    assert_eq!(defaults.limits.memory_bytes, Some(4 * GIB));
    assert_eq!(
        (defaults.limits.pids, defaults.limits.cpu_millis),
        (Some(256), None)
    );
    assert_eq!(defaults.limits.disk_bytes, Some(GIB));
    let usual = |template: &Template| {
        let usual = template.usual_sizes;
        (usual.disk, usual.tmp, usual.shm)
    };
    assert_eq!(usual(defaults), (true, true, true));
    assert_eq!(usual(&sandboxes.templates["open"]), (true, false, true));
    assert_eq!(defaults.limits.open_files, Some(4096));
    assert_eq!((defaults.kernelspec.as_deref(), defaults.pool.size), (None, 0));
    let python = &sandboxes.templates["python3"];
    assert_eq!(python.kernelspec.as_deref(), Some("python3"));
    assert_eq!(python.limits.memory_bytes, Some(4 * GIB));
    assert_eq!(python.max.memory_bytes, Some(8 * GIB));
    assert_eq!(python.max.pids, None);
    assert_eq!(python.limits.cpu_millis, Some(1500));
    assert_eq!(python.limits.execution_ms, Some(600_000));
    assert_eq!(
        (python.idle_timeout, python.lifetime),
        (Some(Duration::from_hours(1)), None)
    );
    assert_eq!((python.env["A"].as_str(), python.env["B"].as_str()), ("1", "2"));
    assert_eq!((python.pool.size, python.pool.max), (2, 4));
    let open = &sandboxes.templates["open"];
    assert_eq!(open.kernelspec.as_deref(), Some("python3"));
    assert_eq!(open.network, Network::Open("lab".into()));
    assert_eq!(
        (open.limits.memory_bytes, open.files),
        (Some(GIB), FilesMode::Session)
    );
}

#[test]
fn a_level_finds_its_runtime() {
    let config = check("isolation = \"gvisor\"").unwrap().sandboxes;
    assert!(config.docker_wanted);
    assert_eq!(config.docker.runtime, "runsc");
    assert_eq!(
        (config.defaults.isolation, config.defaults.runtime),
        (Isolation::Gvisor, None)
    );
    let text =
        "[docker.runtimes]\nkata = \"microvm\"\nrunc = \"container\"\n[templates.x]\nisolation = \"gvisor\"";
    let config = check(text).unwrap().sandboxes;
    assert_eq!(config.docker.runtime, "runc");
    assert_eq!(config.templates["x"].runtime.as_deref(), Some("kata"));
    let config = check("").unwrap().sandboxes;
    assert!(!config.docker_wanted);
    assert_eq!(config.isolation, IsolationSetting::Auto);
    assert_eq!(config.defaults.isolation, Isolation::None);
}

#[test]
fn tables_that_cannot_work_name_their_key() {
    for (text, key) in [
        (
            "listen = \"0.0.0.0:1\"\ntoken = \"t\"\nisolation = \"none\"",
            "isolation",
        ),
        ("isolation = \"microvm\"", "isolation"),
        (
            "isolation = \"none\"\n[templates.x]\nisolation = \"namespaces\"",
            "templates.x.isolation",
        ),
        ("[docker]\nimage = \"a b\"", "docker.images"),
        ("[docker]\nnetworks = [\"host\"]", "docker.networks"),
        ("[docker.runtimes]\nrunc = \"none\"", "docker.runtimes.runc"),
        ("[defaults]\nkernelspec = \"x\"", "defaults.kernelspec"),
        ("[defaults.pool]\nsize = 1", "defaults.pool"),
        ("[defaults]\nnetwork = \"lab\"", "defaults.network"),
        ("[templates.\"a b\"]", "templates.\"a b\""),
        ("[templates.x]\nimage = \"other\"", "templates.x.image"),
        ("[templates.x]\nruntime = \"kata\"", "templates.x.runtime"),
        (
            "[templates.x]\nruntime = \"runc\"\nisolation = \"gvisor\"",
            "templates.x.runtime",
        ),
        ("[templates.x]\nisolation = \"microvm\"", "templates.x.isolation"),
        (
            "[templates.x]\nprovisioner = \"local\"\nisolation = \"container\"",
            "templates.x.isolation",
        ),
        (
            "[templates.x]\nprovisioner = \"local\"\nruntime = \"runc\"",
            "templates.x.runtime",
        ),
        ("[templates.x]\npids = 2", "templates.x.pids"),
        ("[templates.x.max]\nopen_files = 1", "templates.x.max.open_files"),
        ("[templates.x]\npreload = [\"os; rm\"]", "templates.x.preload"),
        ("[templates.x]\nenv = { \"A=B\" = \"\" }", "templates.x.env"),
        ("[templates.x]\ntrust_domain = \"\"", "templates.x.trust_domain"),
        ("[templates.x]\nnetworks = [\"lab\"]", "templates.x.networks"),
        ("[defaults]\nimages = [\"tools\"]", "defaults.images"),
        ("[models.a]\nurl = \"ftp://a.test\"", "models.a.url"),
        (
            "[models.a]\nurl = \"https://a.test\"\ntenant = \"b\"",
            "models.a.tenant",
        ),
        ("[defaults]\nmodel_calls = 0", "defaults.model_calls"),
        ("[templates.x.pool]\nsize = 3\nmax = 2", "templates.x.pool.max"),
        ("[templates.x.pool]\nsize = 1000", "templates.x.pool.max"),
        ("[templates.x.pool]\nmax_age = 0", "templates.x.pool.max_age"),
    ] {
        let said = refused(text);
        assert!(said.starts_with(&format!("{key}: ")), "{text}: {said}");
    }
}

#[test]
fn wrong_lines_of_tables_are_named() {
    let error = |text: &str| parse(text).unwrap_err();
    for (text, line, word) in [
        ("[templates.x]\n\nmemry = \"1GiB\"", 3, "`memry`"),
        ("[templates.x]\nmemory = \"1GB\"", 2, "memory: must be a size"),
        ("[templates.x]\nmemory = 0", 2, "memory: is less than 1MiB"),
        ("[templates.x]\ncpu = 0", 2, "cpu: is not between"),
        ("[templates.x]\nfiles = \"forever\"", 2, "files: "),
        ("[docker]\nhost = \"tcp://h:1\"", 2, "host: must be an address"),
        ("[docker.runtimes]\nrunc = \"strong\"", 2, "runc: "),
        ("isolation = \"strong\"", 1, "isolation: must be one of auto"),
        ("host_uids = \"0-9\"", 1, "host_uids: must be a range"),
        ("[pool]\nsize = 1", 1, "`pool`"),
    ] {
        let (found, reason) = error(text);
        assert!(
            found == line && reason.contains(word),
            "{text}: {found}: {reason}"
        );
    }
}

#[test]
fn up_keeps_a_kernel_ready_unless_the_file_says_otherwise() {
    let warm = |text: &str| {
        let mut settings: GivenSettings = toml::from_str(text).unwrap();
        settings.warm();
        Config::check(settings.complete()).unwrap().sandboxes.templates["python3"].clone()
    };
    let template = warm("");
    assert_eq!((template.pool.size, template.preload.len()), (1, 3));
    let template = warm("[templates.python3]\npreload = []\n[templates.python3.pool]\nsize = 0");
    assert_eq!((template.pool.size, template.preload.len()), (0, 0));
    let template = warm("[defaults]\npreload = [\"polars\"]");
    assert_eq!((template.pool.size, template.preload.len()), (1, 1));
    let template = warm("[templates.python3]\nkernelspec = \"other\"");
    assert_eq!(template.pool.size, 0);
}
