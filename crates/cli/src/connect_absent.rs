//! `himalia connect`, in a build without it.

use std::process::ExitCode;

use anyhow::bail;

use crate::args::connect::ConnectArgs;
use crate::features;

#[expect(clippy::unused_async, reason = "as with the feature")]
pub(super) async fn connect(_args: ConnectArgs) -> anyhow::Result<ExitCode> {
    bail!("connect: {}", features::missing("connect"))
}
