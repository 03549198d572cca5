//! The command lines of the commands that have more parts than one, as clap reads them.

pub mod connect;
pub mod exec;
pub mod gateway;
pub mod mcp;
