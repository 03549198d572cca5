//! Counts the connections of a session, and bounds them.

use std::time::Duration;

use himalia_model::OPERATOR;

/// A place for a connection, until it is dropped.
pub type ConnectionPermit = Box<dyn Send + Sync>;

/// Bounds the connections of a session, together with those of others. It is asked for every piece of bytes, so it must be quick.
pub trait Account: Send + Sync {
    /// Owner of the session: a tenant, or the operator.
    fn owner(&self) -> &str;

    /// A place for one more connection.
    ///
    /// # Errors
    /// Which bound is reached.
    fn connection(&self) -> Result<ConnectionPermit, String>;

    /// So many bytes were carried, from the sandbox and to it.
    ///
    /// # Errors
    /// Which bound is reached: the connection is cut, and others are refused.
    fn carried(&self, sent: u64, received: u64) -> Result<(), String>;

    /// Longest time of one connection.
    fn longest(&self) -> Option<Duration>;
}

/// Without any bound.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnboundedAccount;

impl Account for UnboundedAccount {
    fn owner(&self) -> &'static str {
        OPERATOR
    }

    fn connection(&self) -> Result<ConnectionPermit, String> {
        Ok(Box::new(()))
    }

    fn carried(&self, _: u64, _: u64) -> Result<(), String> {
        Ok(())
    }

    fn longest(&self) -> Option<Duration> {
        None
    }
}
