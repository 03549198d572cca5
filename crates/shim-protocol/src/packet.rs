use bytes::{Bytes, BytesMut};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{
    Command, Event, Frame, Gap, Heartbeat, Hello, HelloDenied, Kind, Lane, Origin, ProtocolError, Stats,
    VersionRange, Welcome, encode_frame,
};

/// A frame for the gateway, body understood.
#[derive(Clone, Debug, PartialEq)]
pub enum ToGateway {
    /// Opens a connection.
    Hello(Box<Hello>),
    /// A message of a kernel.
    Message {
        /// Number of the kernel on this link.
        kernel: u16,
        /// Link number in the lane.
        link: u64,
        /// Incarnation and the request it answers.
        origin: Origin,
        /// The v1 frame, not yet validated.
        frame: Bytes,
    },
    /// A lifecycle event.
    Event {
        /// Number of the kernel on this link.
        kernel: u16,
        /// Link number in the now lane.
        link: u64,
        /// Content of the event.
        event: Event,
    },
    /// Messages that are missing in this lane.
    Gap {
        /// Number of the kernel on this link.
        kernel: u16,
        /// Range of missing messages, and the reason.
        gap: Gap,
    },
    /// All requests of this lane up to this number were accepted.
    Accepted {
        /// Number of the kernel on this link.
        kernel: u16,
        /// Highest number.
        number: u64,
    },
    /// Resource use.
    Stats {
        /// Number of the kernel on this link.
        kernel: u16,
        /// The figures.
        stats: Stats,
    },
    /// The heartbeat changed.
    Heartbeat {
        /// Number of the kernel on this link.
        kernel: u16,
        /// To what.
        heartbeat: Heartbeat,
    },
}

/// A frame for the shim, body understood.
#[derive(Clone, Debug, PartialEq)]
pub enum ToShim {
    /// Accepts a connection.
    Welcome(Welcome),
    /// Refuses a connection.
    Denied(HelloDenied),
    /// An order.
    Command {
        /// For which kernel; 0 is the shim.
        kernel: u16,
        /// Request number.
        number: u64,
        /// The order.
        command: Command,
    },
    /// A message for a kernel.
    Message {
        /// Number of the kernel on this link.
        kernel: u16,
        /// Request number.
        number: u64,
        /// The v1 frame, validated by the gateway.
        frame: Bytes,
    },
    /// All links of `lane` up to `link` are stored.
    Ack {
        /// Number of the kernel on this link.
        kernel: u16,
        /// Lane of the acknowledged messages.
        lane: Lane,
        /// Up to this one.
        link: u64,
    },
}

impl ToGateway {
    /// Understands a frame that a shim sent.
    ///
    /// # Errors
    /// [`ProtocolError::Body`] or [`ProtocolError::Direction`].
    pub fn parse(frame: Frame) -> Result<Self, ProtocolError> {
        let Frame {
            kind,
            kernel,
            number,
            body,
        } = frame;
        let event = |event| Self::Event {
            kernel,
            link: number,
            event,
        };
        Ok(match kind {
            Kind::Hello => Self::Hello(Box::new(hello(&body)?)),
            Kind::Message => {
                let (origin, frame) = Origin::split(body)?;
                Self::Message {
                    kernel,
                    link: number,
                    origin,
                    frame,
                }
            }
            Kind::Started => event(Event::Started(from_json(kind, &body)?)),
            Kind::StartFailed => event(Event::StartFailed(from_json(kind, &body)?)),
            Kind::Exited => event(Event::Exited(from_json(kind, &body)?)),
            Kind::Stopped => event(Event::Stopped(from_json(kind, &body)?)),
            Kind::Refused => event(Event::Refused(from_json(kind, &body)?)),
            Kind::Bound => event(Event::Bound(from_json(kind, &body)?)),
            Kind::Forked => event(Event::Forked(from_json(kind, &body)?)),
            Kind::ForkFailed => event(Event::ForkFailed(from_json(kind, &body)?)),
            Kind::LinkAdded => event(Event::LinkAdded(from_json(kind, &body)?)),
            Kind::Gap => Self::Gap {
                kernel,
                gap: parse_gap(&body, number)?,
            },
            Kind::Accepted => Self::Accepted { kernel, number },
            Kind::Stats => Self::Stats {
                kernel,
                stats: from_json(kind, &body)?,
            },
            Kind::Heartbeat => Self::Heartbeat {
                kernel,
                heartbeat: from_json(kind, &body)?,
            },
            _ => return Err(ProtocolError::Direction { kind: kind.as_str() }),
        })
    }

    /// Appends the frame.
    ///
    /// # Errors
    /// [`ProtocolError::Length`] when the body is too large for its kind.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), ProtocolError> {
        match self {
            Self::Hello(hello) => encode_json(out, Kind::Hello, 0, 0, hello),
            Self::Message {
                kernel,
                link,
                origin,
                frame,
            } => {
                let mut body = BytesMut::with_capacity(crate::ORIGIN_BYTES + frame.len());
                origin.encode(&mut body);
                body.extend_from_slice(frame);
                encode_frame(out, Kind::Message, *kernel, *link, &body)
            }
            Self::Event { kernel, link, event } => {
                encode_frame(out, event.kind(), *kernel, *link, &event_body(event)?)
            }
            Self::Gap { kernel, gap } => encode_json(out, Kind::Gap, *kernel, gap.to, gap),
            Self::Accepted { kernel, number } => encode_frame(out, Kind::Accepted, *kernel, *number, &[]),
            Self::Stats { kernel, stats } => encode_json(out, Kind::Stats, *kernel, 0, stats),
            Self::Heartbeat { kernel, heartbeat } => encode_json(out, Kind::Heartbeat, *kernel, 0, heartbeat),
        }
    }
}

impl ToShim {
    /// Understands a frame that a gateway sent.
    ///
    /// # Errors
    /// [`ProtocolError::Body`] or [`ProtocolError::Direction`].
    pub fn parse(frame: Frame) -> Result<Self, ProtocolError> {
        let Frame {
            kind,
            kernel,
            number,
            body,
        } = frame;
        let command = |command| Self::Command {
            kernel,
            number,
            command,
        };
        Ok(match kind {
            Kind::Welcome => Self::Welcome(from_json(kind, &body)?),
            Kind::Denied => Self::Denied(from_json(kind, &body)?),
            Kind::Start => command(Command::Start(Box::new(from_json(kind, &body)?))),
            Kind::Stop => command(Command::Stop(from_json(kind, &body)?)),
            Kind::Restart => command(Command::Restart(from_json(kind, &body)?)),
            Kind::Shutdown => command(Command::Shutdown(from_json(kind, &body)?)),
            Kind::Close => command(Command::Close(from_json(kind, &body)?)),
            Kind::Interrupt => command(Command::Interrupt),
            Kind::Bind => command(Command::Bind(Box::new(from_json(kind, &body)?))),
            Kind::Fork => command(Command::Fork(Box::new(from_json(kind, &body)?))),
            Kind::Open => command(Command::Open(Box::new(from_json(kind, &body)?))),
            Kind::AddLink => command(Command::AddLink(from_json(kind, &body)?)),
            Kind::Message => Self::Message {
                kernel,
                number,
                frame: body,
            },
            Kind::Ack => {
                let lane = body.first().copied().and_then(Lane::from_byte);
                let Some(lane) = lane else {
                    return Err(ProtocolError::Body {
                        kind: kind.as_str(),
                        reason: "no lane".into(),
                    });
                };
                Self::Ack {
                    kernel,
                    lane,
                    link: number,
                }
            }
            _ => return Err(ProtocolError::Direction { kind: kind.as_str() }),
        })
    }

    /// Appends the frame.
    ///
    /// # Errors
    /// [`ProtocolError::Length`] when the body is too large for its kind.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), ProtocolError> {
        match self {
            Self::Welcome(welcome) => encode_json(out, Kind::Welcome, 0, 0, welcome),
            Self::Denied(denied) => encode_json(out, Kind::Denied, 0, 0, denied),
            Self::Command {
                kernel,
                number,
                command,
            } => encode_frame(out, command.kind(), *kernel, *number, &command_body(command)?),
            Self::Message {
                kernel,
                number,
                frame,
            } => encode_frame(out, Kind::Message, *kernel, *number, frame),
            Self::Ack { kernel, lane, link } => encode_frame(out, Kind::Ack, *kernel, *link, &[lane.byte()]),
        }
    }
}

/// The JSON of an event.
pub(crate) fn event_body(event: &Event) -> Result<Vec<u8>, ProtocolError> {
    match event {
        Event::Started(body) => to_json(Kind::Started, body),
        Event::StartFailed(body) => to_json(Kind::StartFailed, body),
        Event::Exited(body) => to_json(Kind::Exited, body),
        Event::Stopped(body) => to_json(Kind::Stopped, body),
        Event::Refused(body) => to_json(Kind::Refused, body),
        Event::Bound(body) => to_json(Kind::Bound, body),
        Event::Forked(body) => to_json(Kind::Forked, body),
        Event::ForkFailed(body) => to_json(Kind::ForkFailed, body),
        Event::LinkAdded(body) => to_json(Kind::LinkAdded, body),
    }
}

/// The JSON of a command.
pub(crate) fn command_body(command: &Command) -> Result<Vec<u8>, ProtocolError> {
    match command {
        Command::Start(body) => to_json(Kind::Start, body),
        Command::Stop(body) | Command::Restart(body) | Command::Shutdown(body) | Command::Close(body) => {
            to_json(command.kind(), body)
        }
        Command::Bind(body) => to_json(Kind::Bind, body),
        Command::Fork(body) => to_json(Kind::Fork, body),
        Command::Open(body) => to_json(Kind::Open, body),
        Command::AddLink(body) => to_json(Kind::AddLink, body),
        Command::Interrupt => Ok(b"{}".to_vec()),
    }
}

/// Shims of development builds had their versions in a member of another name, so that theirs cannot be taken for ours.
fn hello(body: &[u8]) -> Result<Hello, ProtocolError> {
    #[derive(Deserialize)]
    struct DevelopmentHello {
        protocol: VersionRange,
    }
    from_json(Kind::Hello, body).map_err(|error| match serde_json::from_slice(body) {
        Ok(DevelopmentHello { protocol }) => ProtocolError::Development {
            min: protocol.min,
            max: protocol.max,
        },
        Err(_) => error,
    })
}

fn parse_gap(body: &[u8], number: u64) -> Result<Gap, ProtocolError> {
    let gap: Gap = from_json(Kind::Gap, body)?;
    if gap.from == 0 || gap.from > gap.to || gap.to != number {
        let reason = format!("from {} to {} under number {number}", gap.from, gap.to);
        return Err(ProtocolError::Body {
            kind: Kind::Gap.as_str(),
            reason,
        });
    }
    Ok(gap)
}

pub(crate) fn to_json<T: Serialize>(kind: Kind, body: &T) -> Result<Vec<u8>, ProtocolError> {
    serde_json::to_vec(body).map_err(|error| ProtocolError::Body {
        kind: kind.as_str(),
        reason: error.to_string(),
    })
}

fn encode_json<T: Serialize>(
    out: &mut BytesMut,
    kind: Kind,
    kernel: u16,
    number: u64,
    body: &T,
) -> Result<(), ProtocolError> {
    encode_frame(out, kind, kernel, number, &to_json(kind, body)?)
}

pub(crate) fn from_json<T: DeserializeOwned>(kind: Kind, body: &[u8]) -> Result<T, ProtocolError> {
    serde_json::from_slice(body).map_err(|error| ProtocolError::Body {
        kind: kind.as_str(),
        reason: error.to_string(),
    })
}
