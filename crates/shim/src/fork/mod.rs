//! A branch of a running kernel: files, process, sockets, a probe, and then a link of its own.
//!
//! `additional` opens a link without a branch. `parent_files` has the files, `process` what its process goes through, `socket_name` the name of its link's socket.

mod additional;
mod parent_files;
mod process;
mod refusal;
mod socket_name;

use std::rc::Rc;
use std::time::Duration;

use himalia_shim_protocol::{
    BranchFiles, Event, Fork, ForkFailed, ForkFailure, ForkTimes, Hazard, KernelForked, KernelSpec,
    KernelState, RequestId,
};
use tokio::time::{Instant, timeout};

use crate::kernel::Kernel;
use crate::link::Link;
use crate::shim::Shim;
use crate::text;
use crate::work_dir::{CopySummary, WorkCopy};
pub(crate) use additional::add_link;
use parent_files::{ParentFiles, path_text};
use process::Attempt;
use refusal::{Refusal, not_running, refusal};
use socket_name::SocketName;

/// Most bytes of a reason.
const REASON_BYTES: usize = 500;
/// A branch that does not work is killed, and gone by then.
const AFTER_KILL: Duration = Duration::from_secs(4);

/// Makes the branch and answers the request, on the parent's link.
pub(crate) async fn run(shim: Rc<Shim>, link: Rc<Link>, parent: Rc<Kernel>, request: RequestId, order: Fork) {
    let begin = Instant::now();
    let event = match attempt(&shim, &link, &parent, order).await {
        Ok(made) => {
            let ms = ForkTimes {
                total: millis(begin),
                ..made.ms
            };
            tracing::info!(link = made.link.name(), pid = made.pid, ?ms, "forked");
            let forked = KernelForked {
                request,
                pid: made.pid,
                cwd: made.cwd,
                copied_bytes: made.copied.bytes,
                skipped: made.copied.skipped,
                hazards: made.hazards,
                ms,
            };
            shim.open(&made.link);
            Event::Forked(forked)
        }
        Err(Refusal {
            code,
            reason,
            hazards,
        }) => {
            tracing::info!(?code, "not forked: {reason}");
            Event::ForkFailed(ForkFailed {
                request,
                reason: text::line(&reason, REASON_BYTES),
                code,
                hazards,
            })
        }
    };
    link.outlet.event(parent.number(), event);
}

/// A branch that works and has not dialled yet.
struct NewBranch {
    link: Rc<Link>,
    pid: i32,
    cwd: String,
    copied: CopySummary,
    hazards: Vec<Hazard>,
    ms: ForkTimes,
}

async fn attempt(
    shim: &Rc<Shim>,
    link: &Rc<Link>,
    parent: &Rc<Kernel>,
    mut order: Fork,
) -> Result<NewBranch, Refusal> {
    let name = SocketName::reserve(shim, &order.socket)?;
    if order.cwd.as_ref().is_some_and(|cwd| !cwd.starts_with('/')) {
        return Err(refusal(ForkFailure::BadRequest, "cwd is not absolute"));
    }
    let _turn = parent.forking.lock().await;
    let parent_spec = running_spec(shim, parent)?;
    let number = shim.next_branch();
    let mut ms = ForkTimes::default();

    let begin = Instant::now();
    let parent_files = ParentFiles::of(shim, link, parent, &parent_spec);
    let (files, copied) = match order.files {
        BranchFiles::Share => (link.files().cloned(), CopySummary::default()),
        BranchFiles::Copy => {
            let (copy, copied) = parent_files.copy(shim, number, order.max_copy_bytes).await?;
            (Some(Rc::new(copy)), copied)
        }
    };
    ms.copy = millis(begin);

    let copy = files.as_deref().filter(|_| order.files == BranchFiles::Copy);
    let wanted = order
        .cwd
        .clone()
        .or_else(|| copy.map(|copy| parent_files.inside(copy)));
    let mut spec = (*parent_spec).clone();
    if let Some((name, home)) = copy.and_then(|copy| parent_files.home(&spec, copy)) {
        order.env.entry(name).or_insert(home);
    }
    spec.env.extend(order.env.clone());
    spec.cwd = wanted.clone().unwrap_or_else(|| path_text(&parent_files.cwd));
    let spec = Rc::new(spec);

    let branch = Link::new(Rc::clone(shim), order.socket.clone(), Some(number), files.clone());
    let kernel = match branch.add_kernel(1) {
        Ok(kernel) => kernel,
        Err(error) => {
            drop(branch);
            remove(files).await;
            return Err(refusal(ForkFailure::Failed, error.to_string()));
        }
    };
    kernel.mute(true);
    let attempt = Attempt {
        shim,
        parent,
        kernel: &kernel,
        order: &order,
        spec: &spec,
    };
    match attempt.process(wanted, &mut ms).await {
        Ok((pid, hazards)) if !shim.is_ending() && !link.is_closing() => {
            kernel.mute(false);
            name.keep();
            Ok(NewBranch {
                pid,
                cwd: spec.cwd.clone(),
                link: branch,
                copied,
                hazards,
                ms,
            })
        }
        result => {
            end(&kernel).await;
            branch.forget_kernels();
            drop(branch);
            remove(files).await;
            Err(result.err().unwrap_or_else(not_running))
        }
    }
}

fn running_spec(shim: &Shim, parent: &Kernel) -> Result<Rc<KernelSpec>, Refusal> {
    match parent.spec() {
        Some(spec) if parent.state() == KernelState::Running && !shim.is_ending() => Ok(spec),
        _ => Err(not_running()),
    }
}

/// Removes a copy of files that nothing else uses.
async fn remove(files: Option<Rc<WorkCopy>>) {
    if let Some(files) = files.and_then(Rc::into_inner) {
        files.remove().await;
    }
}

/// Ends what there is of a branch, directories included.
async fn end(kernel: &Rc<Kernel>) {
    let _ = timeout(AFTER_KILL, kernel.stop(Duration::ZERO)).await;
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
