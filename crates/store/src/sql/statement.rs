//! The text of statements.
//!
//! A statement is written once. Each driver expands it when it prepares it. Tables are named with the schema, `himalia.`, which `SQLite`
//! does not have. `$1` is the first parameter. Braces mark what depends on the process or on the database:
//!
//! | in the text | `SQLite` | Postgres |
//! |---|---|---|
//! | `{replica}`, `{epoch}`, `{claimant}` | a value of the [`Process`] | the same |
//! | `{member}` | `true` | the fence: the replica still has the epoch of this process |
//! | `{sqlite …}`, `{postgres …}` | one of the two | the other one |
//! | `step; step` | the steps one after the other, in one transaction | one statement, see below |
//! | `{before}` | `true` | the step before has changed a row |
//!
//! On Postgres all steps but the last are common table expressions, so that they commit together without waiting for this process. They
//! see the rows as they were before the first step. A step with `{before}` does nothing unless the step before it has changed a row.

use std::fmt::Write as _;

use super::{Param, Process};

const MEMBER: &str = "EXISTS (SELECT 1 FROM himalia.replicas WHERE name = {replica} AND epoch = {epoch})";

/// The databases that statements are expanded for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

/// A value of the process, which follows the parameters of the caller.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ProcessValue {
    Replica,
    Epoch,
    Claimant,
}

impl ProcessValue {
    /// The value as a parameter.
    pub(crate) fn of(self, process: &Process) -> Param<'_> {
        match self {
            Self::Replica => Param::Text(Some(&process.name)),
            Self::Epoch => Param::Number(Some(process.epoch)),
            Self::Claimant => Param::Text(Some(&process.claimant)),
        }
    }
}

/// A statement as a database takes it.
#[derive(Debug)]
pub(crate) struct ExpandedStatement {
    /// The steps; one on Postgres.
    pub(crate) steps: Vec<Step>,
    /// The parameters that follow those of the caller.
    pub(crate) values: Vec<ProcessValue>,
}

#[derive(Debug, Default)]
pub(crate) struct Step {
    pub(crate) text: String,
    /// The step is left out if the one before has changed nothing.
    pub(crate) follows: bool,
}

pub(crate) fn expand(statement: &str, dialect: Dialect) -> ExpandedStatement {
    let mut expansion = Expansion {
        dialect,
        params: highest(statement),
        values: Vec::new(),
    };
    let mut steps: Vec<Step> = Vec::new();
    for (number, step) in statement.split(';').enumerate() {
        steps.push(expansion.step(number, step));
    }
    if dialect == Dialect::Postgres {
        steps = vec![joined(steps)];
    }
    ExpandedStatement {
        steps,
        values: expansion.values,
    }
}

/// The steps as one statement.
fn joined(mut steps: Vec<Step>) -> Step {
    let last = steps.pop().unwrap_or_default();
    let mut text = String::new();
    for (number, step) in steps.iter().enumerate() {
        let before = if number == 0 { "WITH" } else { "," };
        let _ = write!(text, "{before} step_{number} AS ({} RETURNING 1)", step.text);
    }
    text.push_str(&last.text);
    Step { text, follows: false }
}

/// The number of the last parameter.
fn highest(statement: &str) -> usize {
    let numbers = statement.split('$').skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest.get(..end)?.parse().ok()
    });
    numbers.max().unwrap_or(0)
}

struct Expansion {
    dialect: Dialect,
    params: usize,
    values: Vec<ProcessValue>,
}

impl Expansion {
    fn step(&mut self, number: usize, statement: &str) -> Step {
        let mut step = Step::default();
        // For each brace that is open, whether the text is for this database.
        let mut open = Vec::new();
        let mut marker = false;
        for token in statement.split_inclusive(['{', '}']) {
            let kept = open.iter().all(|kept| *kept);
            let text = token.trim_end_matches(['{', '}']);
            let closes = token.ends_with('}');
            let opens = token.ends_with('{');
            if marker && closes {
                if kept {
                    self.marker(number, text, &mut step);
                }
            } else {
                let block = [("sqlite ", Dialect::Sqlite), ("postgres ", Dialect::Postgres)]
                    .into_iter()
                    .find_map(|(name, dialect)| Some((text.strip_prefix(name)?, dialect)))
                    .filter(|_| marker);
                let (text, kept) = match block {
                    Some((text, dialect)) => {
                        open.push(dialect == self.dialect);
                        (text, kept && dialect == self.dialect)
                    }
                    None => (text, kept),
                };
                if kept {
                    self.push(text, &mut step);
                }
                if closes {
                    open.pop();
                }
            }
            marker = opens;
        }
        step
    }

    /// A marker that ends where it begins.
    fn marker(&mut self, number: usize, name: &str, step: &mut Step) {
        if let Some((block, text)) = name.split_once(' ') {
            let dialect = if block == "sqlite" {
                Dialect::Sqlite
            } else {
                Dialect::Postgres
            };
            if dialect == self.dialect {
                self.push(text, step);
            }
            return;
        }
        let sqlite = self.dialect == Dialect::Sqlite;
        match name {
            "replica" => self.value(ProcessValue::Replica, step),
            "epoch" => self.value(ProcessValue::Epoch, step),
            "claimant" => self.value(ProcessValue::Claimant, step),
            "member" | "before" if sqlite => {
                step.text.push_str("true");
                step.follows |= name == "before";
            }
            "member" => {
                let member = self.step(number, MEMBER);
                step.text.push_str(&member.text);
            }
            "before" => {
                let before = number.saturating_sub(1);
                let _ = write!(step.text, "EXISTS (SELECT 1 FROM step_{before})");
            }
            other => {
                let _ = write!(step.text, "{{{other}}}");
            }
        }
    }

    fn value(&mut self, value: ProcessValue, step: &mut Step) {
        let known = self.values.iter().position(|one| *one == value);
        let position = known.unwrap_or_else(|| {
            let next = self.values.len();
            self.values.push(value);
            next
        });
        self.push(&format!("${}", self.params + position + 1), step);
    }

    fn push(&self, text: &str, step: &mut Step) {
        match self.dialect {
            Dialect::Postgres => step.text.push_str(text),
            Dialect::Sqlite => step
                .text
                .push_str(&text.replace("himalia.", "").replace('$', "?")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(statement: &str, dialect: Dialect) -> Vec<String> {
        let steps = expand(statement, dialect).steps;
        steps.into_iter().map(|step| step.text).collect()
    }

    #[test]
    fn a_fence_is_a_condition_of_postgres_and_its_values_follow_the_parameters() {
        let delete = "DELETE FROM himalia.a WHERE id = $1 AND name = $2 AND {member}";
        let expanded = expand(delete, Dialect::Postgres);
        assert_eq!(expanded.values, [ProcessValue::Replica, ProcessValue::Epoch]);
        assert_eq!(
            texts(delete, Dialect::Postgres),
            ["DELETE FROM himalia.a WHERE id = $1 AND name = $2 AND \
              EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $3 AND epoch = $4)"]
        );
        assert_eq!(
            texts(delete, Dialect::Sqlite),
            ["DELETE FROM a WHERE id = ?1 AND name = ?2 AND true"]
        );
        assert_eq!(expand(delete, Dialect::Sqlite).values, []);
    }

    #[test]
    fn a_block_is_for_one_database_and_may_have_values() {
        let claim = "SELECT {sqlite x <> {claimant} OR}{postgres y AND {member}} z, '{}' FROM t";
        assert_eq!(
            texts(claim, Dialect::Sqlite),
            ["SELECT x <> ?1 OR z, '{}' FROM t"]
        );
        assert_eq!(
            texts(claim, Dialect::Postgres),
            [
                "SELECT y AND EXISTS (SELECT 1 FROM himalia.replicas WHERE name = $1 AND epoch = $2) z, '{}' FROM t"
            ]
        );
    }

    #[test]
    fn steps_are_one_statement_of_postgres() {
        let both = "UPDATE himalia.a SET x = 1; INSERT INTO himalia.b SELECT $1 WHERE {before}";
        assert_eq!(
            texts(both, Dialect::Postgres),
            [
                "WITH step_0 AS (UPDATE himalia.a SET x = 1 RETURNING 1) INSERT INTO himalia.b SELECT $1 \
              WHERE EXISTS (SELECT 1 FROM step_0)"
            ]
        );
        let steps = expand(both, Dialect::Sqlite).steps;
        assert_eq!(
            (steps.len(), steps[0].follows, steps[1].follows),
            (2, false, true)
        );
    }
}
