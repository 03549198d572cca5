//! Selection of the gateway for a command.

use std::path::PathBuf;

use clap::Args;

use crate::values::Secret;

/// Address and token of a gateway.
#[derive(Clone, Debug, Args)]
pub struct GatewayArgs {
    /// URL of the gateway [default: the gateway on --data-dir]
    #[arg(long, value_name = "URL", env = "HIMALIA_URL")]
    pub url: Option<String>,
    /// Token of the gateway; visible in `ps`, so prefer --token-file
    #[arg(long, value_name = "TOKEN", env = "HIMALIA_TOKEN", hide_env_values = true)]
    pub token: Option<Secret>,
    /// File whose first line is the token
    #[arg(long, value_name = "FILE", env = "HIMALIA_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// File with certificates (PEM) of the CAs to check an https URL against [default: CAs of the system]
    #[arg(long, value_name = "FILE", env = "HIMALIA_CA")]
    pub ca: Option<PathBuf>,
    /// The gateway's data directory, which contains its address [default: ~/.local/share/himalia/data]
    #[arg(long, value_name = "DIR", env = "HIMALIA_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// Print the response of the gateway as JSON
    #[arg(long)]
    pub json: bool,
}
