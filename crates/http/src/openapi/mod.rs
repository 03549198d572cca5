//! The description of everything under `/v1` (`OpenAPI` 3.1), made from the code: the routes from their table, parameters and
//! bodies from the types that parse them, answers from the types that are serialised.

pub(crate) mod codes;
mod describe;
mod document;
mod error_codes;
mod operation;
mod schemas;

pub(crate) use describe::{Answer, Part, describe};
pub use document::openapi;
pub(crate) use operation::Operation;
pub(crate) use schemas::Schemas;
