//! `himalia`: reads its settings, makes the directories that it needs, connects provisioner, engine and HTTP facade,
//! and ends them in order. All behaviour is in those crates.
//!
//! Exit codes (`exec` has more, see its help): 0 done; 1 it failed; 2 the command line, a variable or the configuration file is wrong; 130 and 143 a
//! second signal cut the drain short.

#![cfg_attr(
    not(feature = "full"),
    allow(dead_code, reason = "settings and helpers of the parts that are left out")
)]

mod backup;
mod banner;
mod cli;
mod config;
mod data_dir;
mod doctor;
mod elsewhere;
mod env;
#[cfg_attr(not(feature = "facades"), path = "facades_absent.rs")]
mod facades;
mod host_uids;
mod keys;
mod lock;
mod log;
mod notify;
mod oidc;
mod paths;
mod private_file;
mod programs;
mod relay;
mod reload;
mod rundir;
mod sandboxes;
mod serve;
mod settings;
mod signals;
#[cfg_attr(not(feature = "otlp"), path = "telemetry_absent.rs")]
mod telemetry;
mod tenants;
mod tls;
mod token;
mod version;
mod viewer;

use std::process::ExitCode;

use clap::Parser as _;
use himalia_cli::ConfigError;
use mimalloc::MiMalloc;

use crate::cli::{Cli, Command, EnvCommand};
use crate::config::Config;
use crate::settings::Flags;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("himalia: {error:#}");
            ExitCode::from(if error.is::<ConfigError>() { 2 } else { 1 })
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Serve(Flags(given)) => serve::run(Config::load(given.clone())?, given),
        Command::Up {
            settings: Flags(given),
            build,
        } => {
            let config = Config::load_warm(given.clone())?;
            env::build(&config.env_dir, &build)?;
            serve::run(config, given)
        }
        Command::Env(EnvCommand::Build { dir, build }) => {
            let env = env::build(&paths::env_dir(dir)?, &build)?;
            println_path(&env.python())
        }
        Command::Env(EnvCommand::Path { dir }) => {
            println_path(&env::PythonEnv::locate(&paths::env_dir(dir)?).dir)
        }
        Command::Env(EnvCommand::E2b { gateway }) => himalia_cli::e2b_variables(&gateway),
        Command::Env(EnvCommand::Image { script }) => env::build_image(script.as_deref()),
        Command::Gateway(command) => himalia_cli::call(command),
        Command::Backup { output, data_dir } => backup::backup(&paths::data_dir(data_dir)?, &output),
        Command::Restore { backup, data_dir } => backup::restore(&backup, &paths::data_dir(data_dir)?),
        Command::Mcp(args) => himalia_cli::mcp(args),
        Command::Doctor {
            session,
            kubernetes,
            settings: Flags(given),
            json,
        } => {
            let config = Config::load(given)?;
            if kubernetes {
                return doctor::cluster(&config, json);
            }
            match session {
                Some(session) => doctor::session(&config, &session, json),
                None => doctor::run(&config, json),
            }
        }
    }
}

/// The result of a command, alone on standard output, for scripts.
fn println_path(path: &std::path::Path) -> anyhow::Result<ExitCode> {
    use std::io::Write as _;
    writeln!(std::io::stdout(), "{}", path.display())?;
    Ok(ExitCode::SUCCESS)
}
