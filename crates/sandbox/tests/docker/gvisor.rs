use himalia_provisioner::{ExitCause, Isolation, Provisioner as _, SandboxSpec};

use crate::fixture::{Fixture, LONG, dialled, spec};
use crate::hardening;

fn gvisor() -> SandboxSpec {
    let mut spec = spec();
    spec.runtime = Some("runsc".to_owned());
    spec.minimum = Isolation::Gvisor;
    // The sandbox's own kernel needs some.
    spec.limits.memory_bytes = Some(256 << 20);
    spec.limits.pids = Some(256);
    spec
}

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn a_sandbox_under_gvisor_starts_reaches_the_gateway_and_stops() {
    let fixture = Fixture::new();
    let handle = fixture.start(gvisor()).await;
    assert_eq!(handle.isolation, Isolation::Gvisor);
    assert_eq!(
        fixture.provisioner.list().await.unwrap()[0].isolation,
        Isolation::Gvisor
    );
    dialled(&handle).await;
    let (_, text) = fixture.run(handle.id, &["dmesg"]).await;
    assert!(text.contains("gVisor"), "{text}");
    let exit = fixture.provisioner.stop(handle.id, LONG).await.unwrap();
    assert_eq!(exit.cause, ExitCause::Exited(0), "{}", exit.log_tail);
    fixture.nothing_left().await;
}

/// A command of the engine's own gets no filter under gVisor, so the probe is the first process.
#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn a_sandbox_under_gvisor_is_closed_as_seen_from_inside() {
    let fixture = Fixture::with_shim(&format!("#!/usr/bin/env python3\n{}", hardening::PROBE));
    let handle = fixture.start(gvisor()).await;
    let exit = handle.ended().await.unwrap();
    assert_eq!(exit.cause, ExitCause::Exited(0), "{}", exit.log_tail);
    hardening::check(&serde_json::from_str(&exit.log_tail).unwrap());
    fixture.nothing_left().await;
}

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn a_memory_bomb_under_gvisor_ends_its_sandbox() {
    let fixture =
        Fixture::with_shim("#!/usr/bin/env python3\nb = []\nwhile True: b.append(bytearray(4 << 20))\n");
    let handle = fixture.start(gvisor()).await;
    let exit = handle.ended().await.unwrap();
    assert_eq!(exit.cause, ExitCause::OutOfMemory, "{}", exit.log_tail);
    fixture.nothing_left().await;
}

#[tokio::test]
#[ignore = "needs an engine: make test-docker"]
async fn a_report_warns_of_a_runtime_that_cannot_reach_the_gateway() {
    let fixture = Fixture::new();
    let report = fixture.provisioner.report().await.unwrap();
    assert_eq!(report.runtimes["runsc"], (Isolation::Gvisor, true));
    assert!(
        !report.warnings.iter().any(|text| text.starts_with("runtime ")),
        "{report:?}"
    );
    // The usual runtime, taken for gVisor, has no such argument.
    let wrong = Fixture::with(|config| {
        config.runtimes.insert("runc".to_owned(), Isolation::Gvisor);
    });
    let report = wrong.provisioner.report().await.unwrap();
    assert!(
        report
            .warnings
            .iter()
            .any(|text| text.contains("--host-uds=open")),
        "{report:?}"
    );
}
