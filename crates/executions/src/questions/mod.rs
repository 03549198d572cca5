//! Questions to a kernel on behalf of a caller, and its replies. The kernel is not trusted: a reply of another shape is an error, never a panic.

mod code;
mod refusal;
mod variables;

pub use code::{COMPLETE, INSPECT, code_of, completion, inspection};
pub use code::{Completion, Inspection, MAX_CURSOR_CODE_BYTES};
pub use refusal::content_of;
pub use variables::{VARIABLES, list_request, listed, paged};
pub use variables::{
    VariableFilter, VariableInfo, VariablePage, VariableQuery, VariableSort, VariablesReply,
};
