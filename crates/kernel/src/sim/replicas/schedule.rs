//! What happens, and when: first with faults, then without.

use himalia_shim_protocol::Lane;

use super::world::{Machine, World};
use super::{LEASE, REPLICAS, check};

/// Steps before the faults end: this many, and up to as many again.
const STEPS: u64 = 600;
/// Things that happen in a step.
const ACTIONS: u32 = 6;
/// Rounds of the quiet end, of [`ROUND`] each; more is a livelock.
const QUIET: u32 = 9_000;
/// Microseconds.
const ROUND: u64 = 20_000;

impl World {
    fn start_due(&mut self) {
        for machine in 0..REPLICAS {
            let Machine {
                process, start_at, ..
            } = self.machines[machine];
            if process.is_none() && (self.is_quiet || start_at <= self.now) {
                if !self.is_quiet && self.rng.percent(20) {
                    self.machines[machine].known = 0;
                }
                self.start_process(machine);
            }
        }
    }

    fn any_lane(&mut self) -> Lane {
        if self.rng.percent(40) {
            Lane::Now
        } else {
            Lane::Data
        }
    }

    /// Everything with its faults.
    pub(super) fn play(&mut self) -> Result<(), String> {
        for _ in 0..STEPS + self.rng.below(STEPS) {
            self.now += 1 + self.rng.below(12_000);
            if self.rng.percent(2) {
                self.now += self.rng.below(1_500_000);
            }
            self.start_due();
            let running = self.running();
            for id in &running {
                if self.rng.percent(50) {
                    self.tick(*id)?;
                }
            }
            for _ in 0..ACTIONS {
                self.act()?;
            }
            let (kernel, lane) = (self.rng.index(self.sandboxes.len()), self.any_lane());
            if self.rng.percent(10) {
                self.fault(kernel, lane);
            }
        }
        Ok(())
    }

    fn act(&mut self) -> Result<(), String> {
        let running = self.running();
        let (kernel, lane) = (self.rng.index(self.sandboxes.len()), self.any_lane());
        match self.rng.below(100) {
            0..30 => {
                if !self.calls.is_empty() {
                    let at = self.rng.index(self.calls.len());
                    self.database_step(at)?;
                }
            }
            30..50 => {
                if !running.is_empty() {
                    let id = running[self.rng.index(running.len())];
                    self.flush(id, kernel);
                    self.gateway_takes(id, kernel, lane)?;
                }
            }
            50..62 => drop(self.shim_takes(kernel, lane)?),
            62..74 => drop(self.pump(kernel, lane)),
            74..86 => self.sandboxes[kernel].shim.kernel_step(&mut self.rng),
            86 => self.ask(),
            87..90 => drop(self.deliver()?),
            90..96 => drop(self.dial(kernel, lane)),
            _ => self.read()?,
        }
        Ok(())
    }

    /// No more faults: runs until nothing moves, for longer than a lease, as what is still to end has ended then.
    pub(super) fn quiesce(&mut self) -> Result<(), String> {
        self.settle(LEASE / ROUND + 50)
    }

    /// Without faults, until nothing has moved for so many rounds.
    pub(super) fn settle(&mut self, rounds: u64) -> Result<(), String> {
        self.note(|| "quiet".to_owned());
        self.is_quiet = true;
        self.stalled_until = 0;
        for machine in &mut self.machines {
            machine.paused_until = 0;
        }
        let mut settled = 0;
        for _ in 0..QUIET {
            self.now += ROUND;
            self.start_due();
            for id in self.running() {
                self.tick(id)?;
            }
            let mut moved = self.deliver()?;
            for _ in 0..2 {
                let mut at = 0;
                while at < self.calls.len() {
                    let before = self.calls.len();
                    self.database_step(at)?;
                    at += usize::from(self.calls.len() >= before);
                }
            }
            for id in self.running() {
                for kernel in 0..self.sandboxes.len() {
                    self.flush(id, kernel);
                    for lane in Lane::ALL {
                        while self.gateway_takes(id, kernel, lane)? {
                            moved = true;
                        }
                    }
                }
            }
            for kernel in 0..self.sandboxes.len() {
                for lane in Lane::ALL {
                    moved |= self.dial(kernel, lane);
                    while self.shim_takes(kernel, lane)? {
                        moved = true;
                    }
                    while self.pump(kernel, lane) {
                        moved = true;
                    }
                }
                let shim = &mut self.sandboxes[kernel].shim;
                while shim.process.as_ref().is_some_and(|process| !process.is_idle()) {
                    shim.kernel_step(&mut self.rng);
                    moved = true;
                }
            }
            settled = if moved || check::rest(self).is_err() {
                0
            } else {
                settled + 1
            };
            if settled >= rounds {
                return Ok(());
            }
        }
        check::rest(self)
    }
}
