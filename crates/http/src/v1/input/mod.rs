//! The input of requests, as types that parse themselves, refuse unknown members, and describe themselves.

mod bounds;
mod explain;
mod headers;
mod ids;
mod members;
mod paging;
mod parameters;
mod raw;

pub(crate) use bounds::{HyphenatedId, Seconds, Text, Wait, Whole, seconds};
pub(crate) use headers::{Client, Key, LastEventId, key_of};
pub(crate) use ids::by_id;
#[cfg(test)]
pub(crate) use members::parse as members;
pub(crate) use members::{Members, or_empty};
pub(crate) use paging::{Cursor, Limit, ListQuery, PAGE_MOST, limit, page};
pub(crate) use parameters::parse as parameters;
pub(crate) use parameters::{NoParameters, Parameters};
pub(crate) use raw::{Archive, File};
