//! `exec`: a sandbox with its first process.

use std::os::unix::process::CommandExt;
use std::process::Command;

use himalia_jail::seccomp::{Arch, Filter, filter};
use himalia_jail::{ExecPlan, ExecReply, Failure, Plan, Program, Rlimit, Step};
use rustix::process::{chdir, setsid};
use rustix::thread::UnshareFlags;

use crate::descriptors::Descriptors;
use crate::failure::AtStep;
use crate::link::{Link, Note};
use crate::maker::Maker;
use crate::{harden, proc};

/// Last action of the first process after its isolation.
#[derive(Debug)]
pub(crate) enum Finish<'a> {
    /// It becomes this program.
    Program(&'a Program, &'a Descriptors),
    /// It ends.
    Leave,
}

pub(crate) fn run(plan: &ExecPlan, descriptors: &Descriptors) -> Result<ExecReply, Failure> {
    for cgroup in &plan.cgroups {
        std::fs::write(cgroup, "0").at(Step::Cgroups, cgroup.display())?;
    }
    start(
        &plan.place,
        &plan.rlimits,
        &Finish::Program(&plan.program, descriptors),
    )
}

/// Makes the sandbox and its first process; returns when that runs its program or has failed.
pub(crate) fn start(plan: &Plan, rlimits: &[Rlimit], finish: &Finish<'_>) -> Result<ExecReply, Failure> {
    let filter = filter(Arch::HOST).at(Step::Seccomp, "filter")?;
    let setgroups = plan.host_ids.is_some();
    let maker = Maker::start(plan, |link| {
        let body = |()| {
            if let Err(failure) = first_process(setgroups, rlimits, &filter, finish) {
                let _ = link.send(&Note::Failed(failure));
            }
        };
        let own = UnshareFlags::NEWPID | UnshareFlags::NEWCGROUP;
        let (pid, ()) = crate::sys::spawn(own, (), body).at(Step::Namespaces, "a PID namespace")?;
        link.send(&Note::FirstProcess(pid.as_raw_nonzero().get().cast_unsigned()))
    })?;
    let outcome = listen(&maker.link);
    maker.wait();
    outcome
}

/// Takes the notes until the last end closes: the maker is gone, and the first process has executed its program or gone.
fn listen(link: &Link) -> Result<ExecReply, Failure> {
    let (mut pid, mut failed) = (None, None);
    while let Some(note) = link.receive()? {
        match note {
            Note::FirstProcess(id) => pid = Some(id),
            Note::Failed(failure) => failed = Some(failure),
            Note::MapIds | Note::Go | Note::Ready => {}
        }
    }
    match (failed, pid) {
        (Some(failure), _) => Err(failure),
        (None, Some(pid)) => Ok(ExecReply { pid }),
        (None, None) => Err(Failure::new(Step::Process, "the sandbox's maker ended early")),
    }
}

/// In PID 1 of the sandbox. Returns only with a failure, or to leave.
fn first_process(
    setgroups: bool,
    rlimits: &[Rlimit],
    filter: &Filter,
    finish: &Finish<'_>,
) -> Result<(), Failure> {
    setsid().at(Step::Process, "setsid")?;
    proc::mount()?;
    harden::forget_caller()?;
    if let Finish::Program(_, descriptors) = finish {
        descriptors.arrange()?;
    }
    harden::limit(rlimits)?;
    harden::become_sandbox_user(setgroups)?;
    if let Finish::Program(program, _) = finish {
        chdir(&program.cwd).at(Step::Cwd, program.cwd.display())?;
    }
    filter.load().at(Step::Seccomp, "filter")?;
    match finish {
        Finish::Leave => Ok(()),
        Finish::Program(program, _) => {
            let (path, arguments) = program
                .argv
                .split_first()
                .ok_or_else(|| Failure::new(Step::Exec, "program.argv is empty"))?;
            // Also gives it the default signal mask and SIGPIPE, which Rust's runtime ignores.
            let error = Command::new(path)
                .args(arguments)
                .env_clear()
                .envs(&program.env)
                .exec();
            Err(error).at(Step::Exec, path)
        }
    }
}
