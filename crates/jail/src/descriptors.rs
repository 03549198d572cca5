//! The open files of a sandbox's first process.

use std::os::fd::OwnedFd;

use himalia_jail::{Failure, Program, Step};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use crate::failure::AtStep;
use crate::sys;

/// Descriptors that were taken while the caller's were still in place.
#[derive(Debug)]
pub(crate) struct Descriptors {
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    keep: Vec<i32>,
}

impl Descriptors {
    /// Takes what the program names. To be called before anything else is opened: a number that the caller did not
    /// open must be an error, not a file of this process.
    pub(crate) fn take(program: &Program) -> Result<Self, Failure> {
        let at = |name, number: i32| format!("program.{name} {number}");
        for number in &program.keep_fds {
            drop(sys::inherited(*number).at(Step::Descriptors, at("keep_fds", *number))?);
        }
        let standard = |name, number: Option<i32>| match number {
            Some(number) => sys::inherited(number).at(Step::Descriptors, at(name, number)),
            None => openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
                .at(Step::Descriptors, "/dev/null"),
        };
        Ok(Self {
            stdin: standard("stdin", program.stdin)?,
            stdout: standard("stdout", program.stdout)?,
            stderr: standard("stderr", program.stderr)?,
            keep: program.keep_fds.clone(),
        })
    }

    /// Puts them in their places; all others close at `execve`.
    pub(crate) fn arrange(&self) -> Result<(), Failure> {
        dup2_stdin(&self.stdin).at(Step::Descriptors, "stdin")?;
        dup2_stdout(&self.stdout).at(Step::Descriptors, "stdout")?;
        dup2_stderr(&self.stderr).at(Step::Descriptors, "stderr")?;
        sys::close_on_exec_from(3).at(Step::Descriptors, "close_range")?;
        for number in &self.keep {
            sys::keep_through_exec(*number).at(Step::Descriptors, format_args!("{number}"))?;
        }
        Ok(())
    }
}
