//! `himalia-shim`: the first process of a sandbox.
//!
//! It starts kernels, owns their ZMQ sockets (ipc, inside the sandbox), numbers what they say, keeps it until the
//! gateway has stored it, and dials the gateway for ever. The link is described in `himalia_shim_protocol`.
//!
//! One thread runs everything; another exists only while a message above 1 MiB is verified.

mod chain;
mod exec_kernel;
mod harden;
mod kernel;
mod lane;
mod options;
mod outlet;
mod proc_tree;
mod reaper;
mod shim;
mod signals;
mod spill_file;
mod stats;

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

use options::Options;

fn main() -> ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|mode| mode == exec_kernel::MODE)
    {
        return exec_kernel::run();
    }
    let options = Options::parse();
    tracing_subscriber::fmt()
        .with_max_level(options.log)
        .with_writer(std::io::stderr)
        .init();
    match start(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(options: Options) -> anyhow::Result<()> {
    // Before the key is read, and long before a kernel could look.
    harden::apply(&options)?;
    let key = options.read_key()?;
    let signals = signals::Signals::block().context("signalfd")?;
    let options = options.prepare()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("runtime")?;
    tokio::task::LocalSet::new().block_on(&runtime, shim::run(options, key, signals))
}
