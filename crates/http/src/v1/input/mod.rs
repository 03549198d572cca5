//! What requests bring, as types that parse themselves, refuse what they do not know, and describe themselves.

mod bounds;
mod explain;
mod headers;
mod members;
mod parameters;
mod raw;

pub(crate) use bounds::{Hyphenated, Text, Wait, Whole};
pub(crate) use headers::{After, Client, Key};
pub(crate) use members::Members;
#[cfg(test)]
pub(crate) use members::parse as members;
#[cfg(test)]
pub(crate) use parameters::parse as parameters;
pub(crate) use parameters::{Nothing, Parameters};
pub(crate) use raw::{Archive, File};
