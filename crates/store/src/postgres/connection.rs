//! One connection to the database, with its prepared statements.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row, Statement};

use super::tls::Tls;
use super::url::PostgresUrl;
use crate::StoreError;
use crate::failure::Failure;
use crate::sql::statement::{Dialect, ProcessValue, expand};

/// The time that a connection, or a job on it, may take before it is given up.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Opens connections to a database.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) url: PostgresUrl,
    tls: Option<Tls>,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.url.fmt(f)
    }
}

impl Connector {
    /// Reads certificates, if there are any to read. Blocks on the disk.
    pub(super) fn new(url: PostgresUrl) -> Result<Self, StoreError> {
        let tls = url
            .is_encrypted()
            .then(|| Tls::new(url.root_cert.as_deref()))
            .transpose()?;
        Ok(Self { url, tls })
    }

    /// Makes a connection, within [`PATIENCE`].
    pub(super) async fn connect(&self) -> Result<Client, Failure> {
        let connecting = async {
            match &self.tls {
                None => {
                    let (client, connection) = self.url.config.connect(NoTls).await?;
                    drive(connection);
                    Ok(client)
                }
                Some(tls) => {
                    let (client, connection) = self.url.config.connect(tls.clone()).await?;
                    drive(connection);
                    Ok(client)
                }
            }
        };
        match tokio::time::timeout(PATIENCE, connecting).await {
            Ok(done) => done,
            Err(_) => Err(no_answer()),
        }
    }
}

/// The database did not answer in time.
pub(super) fn no_answer() -> Failure {
    Failure::Store(StoreError::Database {
        reason: format!("no answer within {} s", PATIENCE.as_secs()),
    })
}

/// Runs until the client is dropped or the connection breaks, which the client then reports.
fn drive<S, T>(connection: tokio_postgres::Connection<S, T>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to the database broke");
        }
    });
}

/// A connection that prepares each statement once.
pub(super) struct Link {
    pub(super) client: Client,
    prepared: Mutex<HashMap<&'static str, Arc<PreparedStatement>>>,
}

pub(super) struct PreparedStatement {
    pub(super) statement: Statement,
    /// The parameters that follow those of the caller.
    pub(super) values: Vec<ProcessValue>,
}

pub(super) type Param<'a> = &'a (dyn ToSql + Sync);

impl Link {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            prepared: Mutex::default(),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Prepares a statement, if this is its first time on this connection.
    pub(super) async fn prepare(&self, sql: &'static str) -> Result<Arc<PreparedStatement>, Failure> {
        let known = self.prepared.lock().get(sql).cloned();
        if let Some(prepared) = known {
            return Ok(prepared);
        }
        let expanded = expand(sql, Dialect::Postgres);
        let text = expanded.steps.first().map_or("", |step| &*step.text);
        let prepared = Arc::new(PreparedStatement {
            statement: self.client.prepare(text).await?,
            values: expanded.values,
        });
        self.prepared.lock().insert(sql, Arc::clone(&prepared));
        Ok(prepared)
    }

    /// Runs a statement without values of the process; gives back how many rows were changed.
    pub(super) async fn execute(&self, sql: &'static str, params: &[Param<'_>]) -> Result<u64, Failure> {
        let prepared = self.prepare(sql).await?;
        Ok(self.client.execute(&prepared.statement, params).await?)
    }

    pub(super) async fn query(&self, sql: &'static str, params: &[Param<'_>]) -> Result<Vec<Row>, Failure> {
        let prepared = self.prepare(sql).await?;
        Ok(self.client.query(&prepared.statement, params).await?)
    }

    pub(super) async fn query_opt(
        &self,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Option<Row>, Failure> {
        let prepared = self.prepare(sql).await?;
        Ok(self.client.query_opt(&prepared.statement, params).await?)
    }
}
