//! What moves between the three: frames, connections, batches for the disk.

use himalia_shim_protocol::{Lane, ProtocolError, ToGateway};
use himalia_wire::v1;

use super::shim::KERNEL;
use super::wire::{Down, Wire, bytes_of, encoded, parsed};
use super::world::World;
use crate::event::Event;

impl World {
    /// The gateway takes one frame, or notices that the other end is gone.
    pub(super) fn gateway_takes(&mut self, lane: Lane) -> bool {
        let Some(wire) = self.wires[lane].as_mut().filter(|wire| wire.gateway) else {
            return false;
        };
        if let Some(bytes) = wire.to_gateway.pop_front() {
            let frame = parsed(&bytes);
            wire.greeted = true;
            self.note(|| format!("{lane} gateway takes {}", brief(&frame)));
            self.step(match frame {
                ToGateway::Hello(hello) => Event::Hello(hello),
                frame => Event::Shim(lane, frame),
            });
            return true;
        }
        if !wire.shim {
            self.wires[lane] = None;
            self.note(|| format!("{lane} gateway sees the end"));
            self.step(Event::LaneClosed(lane));
            return true;
        }
        false
    }

    /// The shim takes one frame, or notices that the other end is gone.
    pub(super) fn shim_takes(&mut self, lane: Lane) -> bool {
        let Some(wire) = self.wires[lane].as_mut().filter(|wire| wire.shim) else {
            return false;
        };
        let Some(down) = wire.to_shim.pop_front() else {
            if wire.gateway {
                return false;
            }
            self.wires[lane] = None;
            self.shim.link.disconnected(lane);
            self.note(|| format!("{lane} shim sees the end"));
            return true;
        };
        self.note(|| format!("{lane} shim takes {down:?}"));
        let taken = match down {
            Down::Welcome(welcome) => match self.shim.link.welcome(lane, &welcome) {
                Ok(stale) => {
                    if stale {
                        let other = if lane == Lane::Now { Lane::Data } else { Lane::Now };
                        self.shim_closes(other);
                    }
                    Ok(())
                }
                // Left over from a gateway that is gone.
                Err(ProtocolError::Epoch { .. }) => {
                    self.shim_closes(lane);
                    Ok(())
                }
                Err(error) => Err(error.to_string()),
            },
            Down::Request(pending) => self.shim.request(lane, &pending),
            Down::Ack(of, link) => self
                .shim
                .link
                .acknowledge(KERNEL, of, link)
                .map_err(|error| error.to_string()),
        };
        if let Err(reason) = taken {
            panic!("the shim refuses: {reason}");
        }
        true
    }

    /// The shim writes one frame.
    pub(super) fn pump(&mut self, lane: Lane) -> bool {
        let Some(wire) = self.wires[lane].as_mut().filter(|wire| wire.shim) else {
            return false;
        };
        if let Some((kernel, number)) = self.shim.link.take_accepted(lane) {
            wire.to_gateway
                .push_back(encoded(&ToGateway::Accepted { kernel, number }));
            return true;
        }
        let Some(item) = self.shim.link.next_item(lane) else {
            return false;
        };
        wire.to_gateway.push_back(bytes_of(&item));
        true
    }

    pub(super) fn dial(&mut self, lane: Lane) -> bool {
        // A connection whose end the gateway has not noticed yet is replaced.
        let busy = self.wires[lane].as_ref().is_some_and(|wire| wire.shim);
        if busy || self.gateway.is_none() || !self.sandbox_lives {
            return false;
        }
        let hello = self.shim.link.hello(lane, "key", "sim", 1);
        let mut wire = Wire {
            gateway: true,
            shim: true,
            ..Wire::default()
        };
        wire.to_gateway
            .push_back(encoded(&ToGateway::Hello(Box::new(hello))));
        self.wires[lane] = Some(wire);
        self.note(|| format!("{lane} shim dials"));
        true
    }

    pub(super) fn disk_done(&mut self, faults: bool) -> bool {
        let Some(gateway) = &mut self.gateway else {
            return false;
        };
        let Some(batch) = gateway.at_disk.take() else {
            gateway.at_disk = gateway.core.take_batch();
            return false;
        };
        if faults && self.disk_faults_left > 0 && self.rng.percent(10) {
            self.disk_faults_left -= 1;
            self.note(|| "disk refuses".to_owned());
            self.step(Event::WriteFailed { batch });
            return true;
        }
        let first_seq = self.disk.append(&batch, self.now.wall);
        self.note(|| format!("disk has {first_seq} and {} more", batch.len() - 1));
        self.step(Event::Written { first_seq, batch });
        true
    }
}

fn brief(frame: &ToGateway) -> String {
    match frame {
        ToGateway::Message {
            link, origin, frame, ..
        } => {
            let (channel, parts) = v1::decode(frame, &himalia_wire::Limits::KERNEL).unwrap();
            let header = String::from_utf8_lossy(&parts.header).into_owned();
            let parent = String::from_utf8_lossy(&parts.parent_header).into_owned();
            format!("link {link} {channel} {header} to {parent} of {origin:?}")
        }
        other => format!("{other:?}"),
    }
}
