//! Statements on a connection to the database.

use std::sync::Arc;

use uuid::Uuid;

use super::connection::{self, Link, PreparedStatement};
use crate::claims::Claims;
use crate::failure::Failure;
use crate::sql::statement::{Dialect, ProcessValue};
use crate::sql::{FromRow, Param, Process, Row, Sql};

/// The connection of a job, on which each statement commits by itself.
pub(crate) struct PostgresSql {
    pub(super) link: Arc<Link>,
    pub(super) process: Process,
    pub(super) claims: Arc<Claims>,
}

impl PostgresSql {
    async fn rows(
        &self,
        statement: &'static str,
        params: &[Param<'_>],
    ) -> Result<Vec<tokio_postgres::Row>, Failure> {
        let prepared = self.link.prepare(statement).await?;
        let values = self.values(&prepared);
        let params = all(params, &values);
        Ok(self.link.client.query(&prepared.statement, &params).await?)
    }

    /// The values of the process that follow the parameters.
    fn values(&self, prepared: &PreparedStatement) -> Vec<Param<'_>> {
        let values = prepared.values.iter();
        values.map(|value| value.of(&self.process)).collect()
    }
}

impl Sql for PostgresSql {
    const DIALECT: Dialect = Dialect::Postgres;

    fn claim(&self, kernel: Uuid, epoch: Option<u64>) {
        self.claims.set(kernel, epoch);
    }

    fn process(&self) -> &Process {
        &self.process
    }

    async fn execute(&self, statement: &'static str, params: &[Param<'_>]) -> Result<u64, Failure> {
        let prepared = self.link.prepare(statement).await?;
        debug_assert!(
            prepared.values.contains(&ProcessValue::Epoch),
            "a write without a fence: {statement}"
        );
        let values = self.values(&prepared);
        let params = all(params, &values);
        Ok(self.link.client.execute(&prepared.statement, &params).await?)
    }

    async fn list<T: FromRow>(
        &self,
        statement: &'static str,
        params: &[Param<'_>],
    ) -> Result<Vec<T>, Failure> {
        let rows = self.rows(statement, params).await?;
        rows.iter().map(Row::from_postgres).collect()
    }

    async fn one<T: FromRow>(
        &self,
        statement: &'static str,
        params: &[Param<'_>],
    ) -> Result<Option<T>, Failure> {
        let rows = self.rows(statement, params).await?;
        rows.first().map(Row::from_postgres).transpose()
    }
}

fn all<'a>(params: &'a [Param<'_>], values: &'a [Param<'_>]) -> Vec<connection::Param<'a>> {
    params.iter().chain(values).map(Param::for_postgres).collect()
}
