//! `himalia-jail`: makes a sandbox and starts its first process. See the library's documentation.
//!
//! One thread, no state, no retries: a plan succeeds or fails at once, and a failure leaves nothing.

mod check;
mod descriptors;
mod exec;
mod failure;
mod harden;
mod link;
mod maker;
mod prepare;
mod probe;
mod proc;
mod resize;
mod root;
mod shared;
mod sys;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use himalia_jail::plan::MAX_PLAN_BYTES;
use himalia_jail::seccomp::docker_profile;
use himalia_jail::{ExecPlan, Failure, HostIds, Plan, Resize, Step};
use rustix::fs::Mode;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::descriptors::Descriptors;
use crate::failure::AtStep;

/// Makes sandboxes out of Linux namespaces.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make a sandbox and start its first process; the plan is read from standard input
    Exec {
        /// Descriptor for the answer, one line of JSON
        #[arg(long, default_value_t = 3)]
        report_fd: i32,
    },
    /// Make a sandbox without a process; the plan is read from standard input
    Prepare {
        /// Unix socket for the answer, one line of JSON with the descriptors of the namespaces
        #[arg(long, default_value_t = 3)]
        report_fd: i32,
    },
    /// Give file systems in memory of a sandbox other sizes; the plan is read from standard input
    Resize {
        /// Descriptor for the answer, one line of JSON
        #[arg(long, default_value_t = 3)]
        report_fd: i32,
        /// Descriptor of a process in the sandbox
        #[arg(long, default_value_t = 4)]
        process_fd: i32,
    },
    /// Try whether sandboxes can be made here
    Probe {
        /// For root: the user id of the trial on the host
        #[arg(long, default_value_t = 65534)]
        host_uid: u32,
        /// For root: its group id
        #[arg(long, default_value_t = 65534)]
        host_gid: u32,
    },
    /// Print the list of system calls as a profile for container engines
    SeccompProfile,
}

fn main() -> ExitCode {
    // Directories of the root must be open to the sandbox's user, whatever the caller's mask is.
    rustix::process::umask(Mode::from_raw_mode(0o022));
    match Options::parse().verb {
        Verb::Exec { report_fd } => with_report(report_fd, |report| {
            let plan: ExecPlan = read_plan()?;
            check::exec(&plan, caller(), report_fd)?;
            let descriptors = Descriptors::take(&plan.program)?;
            let started = exec::run(&plan, &descriptors)?;
            answer(report, &started).at(Step::Report, "answer")
        }),
        Verb::Prepare { report_fd } => with_report(report_fd, |report| {
            let plan: Plan = read_plan()?;
            check::place(&plan, caller())?;
            prepare::run(&plan, report)
        }),
        Verb::Resize {
            report_fd,
            process_fd,
        } => with_report(report_fd, |report| {
            let process = sys::inherited(process_fd).at(Step::Descriptors, process_fd)?;
            let plan: Resize = read_plan()?;
            check::resize(&plan)?;
            let resized = resize::run(&plan, &process)?;
            answer(report, &resized).at(Step::Report, "answer")
        }),
        Verb::Probe { host_uid, host_gid } => {
            let report = probe::run(HostIds {
                uid: host_uid,
                gid: host_gid,
            });
            let written = answer(&io::stdout(), &report);
            status(written.is_ok() && report.failure.is_none())
        }
        Verb::SeccompProfile => status(io::stdout().write_all(docker_profile().as_bytes()).is_ok()),
    }
}

/// Runs a verb and reports its failure.
fn with_report(number: i32, verb: impl FnOnce(&OwnedFd) -> Result<(), Failure>) -> ExitCode {
    let report = match sys::inherited(number) {
        Ok(report) => report,
        Err(error) => {
            let _ = writeln!(io::stderr(), "himalia-jail: --report-fd {number}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let done = verb(&report);
    if let Err(failure) = &done
        && let Err(error) = answer(&report, failure)
    {
        let _ = writeln!(io::stderr(), "himalia-jail: {failure}; and no answer: {error}");
    }
    status(done.is_ok())
}

fn read_plan<T: DeserializeOwned>() -> Result<T, Failure> {
    let mut text = Vec::new();
    let read = io::stdin().lock().take(MAX_PLAN_BYTES + 1).read_to_end(&mut text);
    let length = read.at(Step::Plan, "standard input")?;
    if length as u64 > MAX_PLAN_BYTES {
        return Err(Failure::new(
            Step::Plan,
            format_args!("is longer than {MAX_PLAN_BYTES} bytes"),
        ));
    }
    serde_json::from_slice(&text).at(Step::Plan, "standard input")
}

fn answer(to: &impl std::os::fd::AsFd, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    File::from(to.as_fd().try_clone_to_owned()?).write_all(&line)
}

fn caller() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn status(good: bool) -> ExitCode {
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
