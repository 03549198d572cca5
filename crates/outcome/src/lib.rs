//! The result of an execution: the messages that a kernel sent for it, folded into one value of bounded size.
//!
//! Sans-IO and for one execution at a time. The caller reads the messages in their order, hands each to [`Fold::message`],
//! keeps the [`Artifact`]s that come back, and asks for the [`Outcome`] when it wants one: also in the middle.
//! Message types and fields are those of the Jupyter protocol
//! ([messaging](https://jupyter-client.readthedocs.io/en/stable/messaging.html)).
//!
//! | what | how it is folded |
//! |---|---|
//! | `stream` | one text, as a terminal shows it: [`Screen`]; head and tail within the budget: [`Excerpt`] |
//! | `display_data`, `execute_result`, `update_display_data`, `clear_output` | a list of outputs; large values and images become artifacts |
//! | `error` | name, value, traceback without colours, the failing line |
//! | `execute_reply` | status, count, and what `himalia_kernel` adds in its metadata |
//! | `himalia_artifact`, of `himalia_kernel` | a file that is kept: its buffer becomes an artifact |
//! | `input_request` | what is being asked |
//!
//! Everything comes from a kernel and is taken for hostile: what cannot be read is counted, nothing panics, and memory
//! is bounded by the budget, by [`MAX_OUTPUTS`] and by the largest message.

mod bundle;
mod cell;
mod described;
mod display_id;
mod excerpt;
mod failure;
mod fold;
mod kept;
mod mark;
mod outputs;
mod page;
mod prompt;
mod reference;
mod reply;
mod rows;
mod screen;
mod unseen;

pub use bundle::Artifact;
pub use cell::{CELL_OUTPUT_BYTES, CELL_STREAM_CHARS, Cell, MAX_CELL_OUTPUTS};
pub use display_id::MAX_DISPLAY_ID;
pub use excerpt::{Excerpt, ExcerptText};
pub use failure::{Failure, Frame};
pub use fold::{Fold, Input, Outcome, UNREADABLE};
pub use kept::{ArtifactFile, MAX_ARTIFACT_FILES, OmittedArtifact, OmittedArtifacts};
pub use mark::Mark;
pub use outputs::{MAX_OUTPUTS, Output, TruncatedText};
pub use page::Page;
pub use prompt::{MAX_PROMPT_CHARS, shown as shown_prompt};
pub use reference::{ArtifactReference, IMAGE_KINDS, exceeds, image_of};
pub use reply::{KernelUsage, Notes, ReplyStatus, VariableChanges, WrittenFiles};
pub use screen::{Screen, Sink};
pub use unseen::{Sight, escape_unseen, is_unseen};
