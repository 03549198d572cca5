//! Parts that the facades of other products' APIs share, over one [`Engine`](himalia_engine::Engine).
//!
//! * [`Answer`] is what an error of the engine is over HTTP. A facade adds the body that its clients read.
//! * [`Failure`] is such an error with a word, a text and a field, for facades whose errors are one JSON object ([`Shape`]).
//! * [`Caller`] is who sent a request; [`whole`] and [`message`] read its body, [`in_time`] one part of it.
//! * [`attachment`] sends a file, [`write_part`] writes one of a form.
//! * [`hold_back`] makes a tenant wait that met a limit; [`not_offered`] is the text for routes that are not there.

mod answer;
mod body;
mod caller;
mod failure;
mod files;
mod service;

pub use answer::{Answer, IsLimit};
pub use body::{BodyError, in_time, message, whole};
pub use caller::Caller;
pub use failure::{Failure, Shape};
pub use files::{attachment, in_work_dir, write_part};
pub use service::{hold_back, not_offered, shown};
