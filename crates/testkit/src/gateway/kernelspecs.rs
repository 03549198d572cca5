//! Kernelspecs of the test kernels.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::binaries;

/// Writes `fake` and `hostile`.
pub(super) fn write_standard(dir: &Path) -> Result<()> {
    for (name, binary) in [
        ("fake", binaries::fake_kernel()?),
        ("hostile", binaries::hostile_kernel()?),
    ] {
        let spec = json!({
            "argv": [binary, "-f", "{connection_file}"],
            "display_name": name,
            "language": "script",
            "interrupt_mode": "signal",
        });
        write_kernelspec(dir, name, &spec)?;
    }
    Ok(())
}

/// Writes `{dir}/{name}/kernel.json`.
pub fn write_kernelspec(dir: &Path, name: &str, spec: &Value) -> Result<()> {
    let dir = dir.join(name);
    std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
    std::fs::write(dir.join("kernel.json"), spec.to_string()).with_context(|| dir.display().to_string())
}
