//! Not a test: how long a start takes. `cargo test -p himalia-sandbox --test namespaces -- --ignored --nocapture`

use std::path::Path;
use std::time::{Duration, Instant};

use himalia_sandbox::{Limits, Provisioner as _, ZygoteSpec};

use crate::fixture::{Place, QUIET, binary, spec, start};

#[tokio::test]
#[ignore = "prints figures"]
async fn starts() {
    for (what, place) in [
        ("groups", Place::new(QUIET)),
        ("no groups", Place::without_groups(QUIET)),
    ] {
        let provisioner = place.provisioner();
        let (mut starts, mut stops) = (Vec::new(), Vec::new());
        for _ in 0..30 {
            let mut wanted = spec();
            wanted.limits = Limits {
                memory_bytes: Some(1 << 30),
                pids: Some(100),
                cpu_millis: Some(1000),
                ..Limits::default()
            };
            let begin = Instant::now();
            let handle = start(&provisioner, wanted).await;
            starts.push(begin.elapsed());
            let begin = Instant::now();
            provisioner.stop(handle.id, Duration::ZERO).await.unwrap();
            stops.push(begin.elapsed());
        }
        starts.sort_unstable();
        stops.sort_unstable();
        println!(
            "{what}: start median {:?} min {:?}; stop median {:?} min {:?}",
            starts[15], starts[0], stops[15], stops[0]
        );
    }
}

/// With `HIMALIA_TEST_PYTHON` (an interpreter with the kernel's packages) and `HIMALIA_TEST_PACKAGE` (the directory that
/// holds `himalia_kernel`): the real zygote and the real shim.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "prints figures, needs the kernels' environment"]
async fn starts_by_the_real_zygote() {
    let variable = |name: &str| std::path::PathBuf::from(std::env::var(name).unwrap());
    let python = variable("HIMALIA_TEST_PYTHON");
    for (what, mut place) in [
        ("groups", Place::new("")),
        ("no groups", Place::without_groups("")),
    ] {
        place.config.shim = binary("himalia-shim");
        place.config.kernel_package_dir = variable("HIMALIA_TEST_PACKAGE");
        let provisioner = place.provisioner();
        let mut wanted = spec();
        wanted.limits = Limits {
            memory_bytes: Some(1 << 30),
            pids: Some(100),
            ..Limits::default()
        };
        let prefix = |program: &Path| program.parent().and_then(Path::parent).map(Path::to_owned);
        // The environment, and the installation that it stands on.
        wanted.binds = prefix(&python)
            .into_iter()
            .chain(prefix(&python.canonicalize().unwrap()))
            .collect();
        wanted.zygote = Some(ZygoteSpec {
            trust_domain: "gateway".to_owned(),
            python: python.clone(),
            env: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
            preload: Vec::new(),
        });
        let begin = Instant::now();
        provisioner.warm(wanted.zygote.as_ref().unwrap()).await.unwrap();
        println!("{what}: zygote ready after {:?}", begin.elapsed());
        let (mut starts, mut stops) = (Vec::new(), Vec::new());
        for _ in 0..20 {
            let begin = Instant::now();
            let handle = start(&provisioner, wanted.clone()).await;
            starts.push(begin.elapsed());
            let zygotes = place.config.run_dir.join("zygotes.log");
            assert!(handle.zygote, "{}", std::fs::read_to_string(zygotes).unwrap());
            assert!(handle.exit.borrow().is_none(), "{:?}", handle.exit.borrow());
            let begin = Instant::now();
            provisioner.stop(handle.id, Duration::ZERO).await.unwrap();
            stops.push(begin.elapsed());
        }
        starts.sort_unstable();
        stops.sort_unstable();
        println!(
            "{what}: start by zygote median {:?} min {:?}; stop median {:?}",
            starts[10], starts[0], stops[10]
        );
        provisioner.close().await;
        assert!(place.left().is_empty());
    }
}
