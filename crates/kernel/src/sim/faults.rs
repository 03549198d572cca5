//! What goes wrong.

use himalia_shim_protocol::{Cause, Lane, RefusalKind};

use super::world::World;

impl World {
    pub(super) fn fault(&mut self, lane: Lane) {
        if self.rng.percent(20) {
            let kind = match self.rng.below(4) {
                0 => RefusalKind::Never,
                _ => RefusalKind::Full,
            };
            self.note(|| format!("the next message is refused: {kind:?}"));
            self.shim.refuse_next = Some(kind);
        } else if self.rng.percent(15) {
            self.lose_sandbox();
        } else if self.rng.percent(40) && self.deaths_left > 0 {
            self.deaths_left -= 1;
            self.note(|| "the kernel dies".to_owned());
            self.shim.end(Cause::Signal { signal: 9 }, false);
        } else if self.breaks_left > 0 {
            self.breaks_left -= 1;
            self.shim_closes(lane);
        }
    }

    /// The shim's end closes: what was on its way to it is lost, what it wrote may still arrive.
    pub(super) fn shim_closes(&mut self, lane: Lane) {
        let Some(wire) = &mut self.wires[lane] else { return };
        wire.shim = false;
        wire.to_shim.clear();
        let keep = self.rng.index(wire.to_gateway.len() + 1);
        wire.to_gateway.truncate(keep);
        self.shim.link.disconnected(lane);
        self.note(|| format!("{lane} breaks"));
    }

    /// kill -9: what the disk had taken is there, what was written to a connection may still arrive in part.
    pub(super) fn crash(&mut self) {
        if self.crashes_left == 0 || self.gateway.is_none() {
            return;
        }
        self.crashes_left -= 1;
        self.note(|| "gateway is killed".to_owned());
        let gateway = self.gateway.take();
        self.waiters.clear();
        self.ordered_move = false;
        if let Some(batch) = gateway.and_then(|gateway| gateway.at_disk)
            && self.rng.percent(50)
        {
            self.disk.append(&batch, self.now.wall);
            self.note(|| "… its last write is there".to_owned());
        }
        for lane in Lane::ALL {
            let Some(wire) = &mut self.wires[lane] else {
                continue;
            };
            wire.gateway = false;
            wire.to_gateway.clear();
            let keep = self.rng.index(wire.to_shim.len() + 1);
            wire.to_shim.truncate(keep);
            if !wire.shim {
                self.wires[lane] = None;
            }
        }
    }
}
