//! Orders that come while the sandbox is not connected: after a gateway's start its two connections come back one after
//! the other, and a broken one is made again. An order waits for that, for a while.

use himalia_shim_protocol::Lane;

use super::core::Core;
use super::event::{Command, CommandError, Effect};
use super::life::Phase;

/// How long an order waits, microseconds. Less than callers wait for its answer.
const WAIT: u64 = 20_000_000;
/// Orders that wait; further ones are refused.
const MAX: usize = 64;

/// An order that waits.
#[derive(Debug)]
pub(super) struct Early {
    waiter: u64,
    command: Command,
    deadline: u64,
}

impl Core {
    /// Whether the sandbox takes orders now.
    fn takes_orders(&self) -> bool {
        self.outbox.connected(Lane::Now) && self.outbox.greeted()
    }

    /// Whether the order has to wait for the sandbox.
    pub(super) fn is_early(&self, command: &Command) -> bool {
        let possible = match command {
            Command::Interrupt | Command::Fork(_) | Command::Ask(_) => self.life.phase == Phase::Running,
            Command::Restart => matches!(self.life.phase, Phase::Running | Phase::Restarting | Phase::Dead),
            Command::Revive => self.life.phase == Phase::Dead,
            // The sandbox is there without a process, too.
            Command::Open(_) | Command::AddLink(_) => self.has_files(),
            Command::Start(_)
            | Command::Stop(_)
            | Command::GiveUpSandbox(_)
            | Command::Claim(_)
            // Executions wait in a queue of their own, if they wait at all.
            | Command::Submit(_)
            | Command::StopExecution(_)
            | Command::Input { .. }
            | Command::ListExecutions => false,
        };
        possible && !self.life.sandbox_gone && !self.takes_orders()
    }

    pub(super) fn hold_order(&mut self, waiter: u64, command: Command) -> Result<bool, CommandError> {
        if self.early.len() >= MAX {
            return Err(CommandError::Disconnected);
        }
        self.early.push(Early {
            waiter,
            command,
            deadline: self.now.mono + WAIT,
        });
        Ok(false)
    }

    /// Gives the orders that need not, or can not, wait any longer.
    pub(super) fn give_held_orders(&mut self, out: &mut Vec<Effect>) {
        for order in std::mem::take(&mut self.early) {
            if !self.is_early(&order.command) {
                self.command(order.waiter, order.command, out);
            } else if order.deadline <= self.now.mono {
                out.push(Effect::Done(order.waiter, Err(CommandError::Disconnected)));
            } else {
                self.early.push(order);
            }
        }
    }

    /// When the first of them has waited long enough.
    pub(super) fn held_order_deadline(&self) -> Option<u64> {
        self.early.iter().map(|order| order.deadline).min()
    }
}
