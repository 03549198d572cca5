//! Statements on a connection to the file.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::{Future, ready};
use std::rc::Rc;

use rusqlite::{CachedStatement, Connection};
use uuid::Uuid;

use crate::failure::Failure;
use crate::sql::statement::{Dialect, ExpandedStatement, Step, expand};
use crate::sql::{FromRow, Param, Process, Row, Sql};

thread_local! {
    /// The statements of this thread, which has one connection.
    static EXPANDED: RefCell<HashMap<&'static str, Rc<ExpandedStatement>>> = RefCell::default();
}

/// The connection of a job. Each statement is complete when it returns.
pub(crate) struct SqliteSql<'a> {
    pub(super) connection: &'a Connection,
    pub(super) process: &'a Process,
    /// The claims that change with the commit.
    pub(super) claimed: RefCell<Vec<(Uuid, Option<u64>)>>,
}

impl<'a> SqliteSql<'a> {
    pub(super) fn new(connection: &'a Connection, process: &'a Process) -> Self {
        Self {
            connection,
            process,
            claimed: RefCell::default(),
        }
    }

    fn prepare(
        &self,
        step: &Step,
        expanded: &ExpandedStatement,
        params: &[Param<'_>],
    ) -> Result<CachedStatement<'_>, Failure> {
        let mut prepared = self.connection.prepare_cached(&step.text)?;
        let values = expanded.values.iter().map(|value| value.of(self.process));
        let used = prepared.parameter_count();
        for (number, param) in (1..=used).zip(params.iter().copied().chain(values)) {
            prepared.raw_bind_parameter(number, param)?;
        }
        Ok(prepared)
    }

    fn change(&self, statement: &'static str, params: &[Param<'_>]) -> Result<u64, Failure> {
        let expanded = expanded(statement);
        let mut changed = 0;
        for (number, step) in expanded.steps.iter().enumerate() {
            if step.follows && number > 0 && changed == 0 {
                return Ok(0);
            }
            changed = self.prepare(step, &expanded, params)?.raw_execute()?;
        }
        Ok(u64::try_from(changed).unwrap_or(u64::MAX))
    }

    /// At most `most` rows.
    fn rows<T: FromRow>(
        &self,
        statement: &'static str,
        params: &[Param<'_>],
        most: usize,
    ) -> Result<Vec<T>, Failure> {
        let expanded = expanded(statement);
        let mut found = Vec::new();
        for step in &expanded.steps {
            let mut prepared = self.prepare(step, &expanded, params)?;
            let mut rows = prepared.raw_query();
            while found.len() < most
                && let Some(row) = rows.next()?
            {
                found.push(Row::from_sqlite(row)?);
            }
        }
        Ok(found)
    }
}

impl Sql for SqliteSql<'_> {
    const DIALECT: Dialect = Dialect::Sqlite;

    fn claim(&self, kernel: Uuid, epoch: Option<u64>) {
        self.claimed.borrow_mut().push((kernel, epoch));
    }

    fn process(&self) -> &Process {
        self.process
    }

    fn execute(
        &self,
        statement: &'static str,
        params: &[Param<'_>],
    ) -> impl Future<Output = Result<u64, Failure>> + Send {
        ready(self.change(statement, params))
    }

    fn list<T: FromRow>(
        &self,
        statement: &'static str,
        params: &[Param<'_>],
    ) -> impl Future<Output = Result<Vec<T>, Failure>> + Send {
        ready(self.rows(statement, params, usize::MAX))
    }

    fn one<T: FromRow>(
        &self,
        statement: &'static str,
        params: &[Param<'_>],
    ) -> impl Future<Output = Result<Option<T>, Failure>> + Send {
        ready(self.rows(statement, params, 1).map(|mut rows| rows.pop()))
    }
}

fn expanded(statement: &'static str) -> Rc<ExpandedStatement> {
    EXPANDED.with_borrow_mut(|known| {
        let expanded = known
            .entry(statement)
            .or_insert_with(|| Rc::new(expand(statement, Dialect::Sqlite)));
        Rc::clone(expanded)
    })
}
