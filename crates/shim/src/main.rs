//! `himalia-shim`: the first process of a sandbox.
//!
//! It starts kernels, owns their ZMQ sockets (ipc, inside the sandbox), numbers what they say, keeps it until the
//! gateway has stored it, and dials the gateway for ever, or listens for it. The link is described in `himalia_shim_protocol`; a branch of a
//! kernel has one of its own.
//!
//! One thread runs everything; others exist only while a message above 1 MiB is verified or files are copied, removed or
//! transferred, and for the network of a sandbox that reaches it through the gateway.

mod children;
mod coalesce;
mod exec_kernel;
mod files;
mod fork;
mod harden;
mod inherited;
mod install;
mod kernel;
mod lane;
mod linger;
mod link;
mod memory;
mod network;
mod options;
mod outlet;
mod probe;
mod proc_tree;
mod process;
mod random;
mod reaper;
mod shared_memory;
mod shim;
mod signals;
mod spill_file;
mod stats;
mod text;
mod work_dir;
mod zygote;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Parser;
use tokio::runtime::{Builder, LocalOptions};

use linger::Linger;
use options::Options;

fn main() -> ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|mode| mode == exec_kernel::MODE)
    {
        return exec_kernel::run();
    }
    if std::env::args_os()
        .nth(1)
        .is_some_and(|mode| mode == install::MODE)
    {
        return install::run();
    }
    if std::env::args_os().nth(1).is_some_and(|mode| mode == probe::MODE) {
        return probe::run();
    }
    let options = Options::parse();
    let log = tracing_subscriber::fmt()
        .with_max_level(options.log)
        .with_ansi(false)
        .with_writer(std::io::stderr);
    let _ = tracing::subscriber::set_global_default(log.finish());
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
    let inherited = options.inherit()?;
    let signals = signals::Signals::block().context("signalfd")?;
    let options = options.prepare()?;
    let gateway = options.gateway()?;
    let linger = Arc::new(Linger::new().context("epoll")?);
    let parked = Arc::clone(&linger);
    // Not a `LocalSet`: each wake of one of its tasks costs an eventfd write.
    let runtime = Builder::new_current_thread()
        .enable_all()
        .on_thread_park(move || {
            parked.park();
        })
        .build_local(LocalOptions::default());
    runtime.context("runtime")?.block_on(shim::run(
        options,
        inherited,
        gateway,
        signals,
        linger,
        lane::dial,
    ))
}
