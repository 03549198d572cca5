use std::collections::HashSet;
use std::time::Duration;

use himalia_shim_protocol::{Event, InterruptMode, KernelState, KernelStopped, RequestId};
use himalia_wire::build;
use rustix::process::Signal;
use tokio::time::{Instant, sleep_until};

use super::Order;
use super::actor::{Actor, UNKNOWN};
use crate::proc_tree::{self, Process};

/// After SIGKILL, for the kernel to be gone.
const AFTER_KILL: Duration = Duration::from_secs(2);

/// The steps of a stop, each harder than the one before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Step {
    Ask,
    Terminate,
    Kill,
    GiveUp,
}

impl Actor {
    /// Ends the process: interrupt and `shutdown_request` at once, SIGTERM to the group after half of the grace, SIGKILL
    /// after all of it. Orders that come meanwhile wait, but a stop with less time left shortens this one.
    pub(super) async fn stop(&mut self, grace: Duration, restart: bool) {
        if self.running.is_none() {
            return;
        }
        self.kernel.set_state(KernelState::Stopping);
        let mut begin = Instant::now();
        let mut grace = grace;
        let mut step = if grace.is_zero() { Step::Kill } else { Step::Ask };
        loop {
            let due = begin
                + match step {
                    Step::Ask => Duration::ZERO,
                    Step::Terminate => grace / 2,
                    Step::Kill => grace,
                    Step::GiveUp => grace + AFTER_KILL,
                };
            let Some(running) = &mut self.running else { return };
            tokio::select! {
                biased;
                death = &mut running.death => {
                    return self.exited(death.unwrap_or(UNKNOWN), true, String::new()).await;
                }
                () = sleep_until(due) => {
                    match step {
                        Step::Ask => self.ask(restart),
                        Step::Terminate => self.kernel.signal(Signal::TERM),
                        Step::Kill => self.kernel.signal(Signal::KILL),
                        Step::GiveUp => {
                            return self.exited(UNKNOWN, true, "it survived SIGKILL for 2 s".into()).await;
                        }
                    }
                    step = match step {
                        Step::Ask => Step::Terminate,
                        Step::Terminate => Step::Kill,
                        Step::Kill | Step::GiveUp => Step::GiveUp,
                    };
                }
                order = self.inbox.recv() => {
                    let Some(order) = order else { continue };
                    if let Order::Stop { grace: new, .. } | Order::Restart { grace: new, .. } = &order
                        && Instant::now() + *new < begin + grace
                    {
                        (begin, grace) = (Instant::now(), *new);
                        if grace.is_zero() && step != Step::GiveUp {
                            step = Step::Kill;
                        }
                    }
                    self.backlog.push_back(order);
                }
            }
        }
    }

    fn ask(&self, restart: bool) {
        let kernel = &self.kernel;
        kernel.interrupt();
        // A kernel that takes signals may die of one before it listens: it was asked to end anyway.
        if kernel.interrupt_mode.get() == InterruptMode::Signal && kernel.outlets.borrow().is_none() {
            kernel.signal(Signal::TERM);
        }
        kernel.send_own(&build::shutdown_request(&kernel.session_name(), restart));
    }

    /// Kills what is left below the shim and reports the end of a stop.
    pub(super) async fn stopped(&mut self, request: Option<RequestId>) {
        let (killed, left) = self.sweep().await;
        if left > 0 {
            tracing::error!(kernel = self.kernel.number, left, "processes survive SIGKILL");
        }
        // Sockets and connection file are of no use without a process.
        let _ = std::fs::remove_dir_all(&self.kernel.dir);
        let stopped = KernelStopped {
            incarnation: self.incarnation(),
            killed,
            left,
            request,
        };
        self.kernel
            .outlet
            .event(self.kernel.number, Event::Stopped(stopped));
    }

    /// Kills the descendants of the kernel's incarnations. With the kernel gone they are the shim's children; those of
    /// other kernels that run are spared.
    pub(super) async fn sweep(&self) -> (u32, u32) {
        let own = i32::try_from(std::process::id()).unwrap_or(i32::MAX);
        let children = &self.kernel.children;
        let others = children.reaper.watched();
        let spared = children.spared();
        if own == 1 && others.is_empty() && spared.is_empty() {
            // Reaches also what is being forked at this moment.
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(-1), nix::sys::signal::SIGKILL);
        }
        proc_tree::sweep(|| self.victims(own, &others, &spared)).await
    }

    fn victims(&self, own: i32, others: &HashSet<i32>, spared: &HashSet<i32>) -> Vec<Process> {
        let below = proc_tree::below(own, &(others | spared));
        if others.is_empty() {
            return below;
        }
        // Orphans of another kernel look like ours: only those that are still in our session are known to be.
        below
            .into_iter()
            .filter(|process| process.session == self.last_pid)
            .collect()
    }
}
