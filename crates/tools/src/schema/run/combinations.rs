//! Rules that apply other nodes to the same value.

use serde_json::Value;

use super::{Fits, Path, Run, SeenMembers};
use crate::schema::node::{Id, Rule};
use crate::schema::text::json;

impl<'r> Run<'r> {
    pub(super) fn combination<'v>(
        &mut self,
        rule: &'r Rule,
        value: &'v Value,
        path: &Path<'_>,
        mut seen: Option<&mut SeenMembers<'v>>,
    ) -> Fits {
        match rule {
            Rule::AllOf(all) => {
                let mut fits = true;
                for one in all {
                    fits &= self.check(*one, value, path, seen.as_deref_mut())?;
                    if !fits && self.is_enough() {
                        break;
                    }
                }
                Ok(fits)
            }
            Rule::AnyOf(all) => {
                let enough = if seen.is_some() { usize::MAX } else { 1 };
                let fitting = self.how_many(all, value, path, seen, enough)?;
                self.demand(fitting > 0, path, "anyOf", || {
                    format!(
                        "{} is not valid under any of the schemas listed in the 'anyOf' keyword",
                        json(value)
                    )
                })
            }
            Rule::OneOf(all) => {
                let fitting = self.how_many(all, value, path, seen, 2)?;
                self.demand(fitting == 1, path, "oneOf", || {
                    let many = if fitting == 0 {
                        "not valid under any"
                    } else {
                        "valid under more than one"
                    };
                    format!(
                        "{} is {many} of the schemas listed in the 'oneOf' keyword",
                        json(value)
                    )
                })
            }
            Rule::Not(one) => {
                let mut forgotten = seen.is_some().then(SeenMembers::default);
                let fits = self.quietly(*one, value, path, forgotten.as_mut())?;
                self.demand(!fits, path, "not", || {
                    format!("{} is what the schema in 'not' describes", json(value))
                })
            }
            Rule::If {
                test,
                then,
                otherwise,
            } => {
                let mut of_test = seen.is_some().then(SeenMembers::default);
                let fits = self.quietly(*test, value, path, of_test.as_mut())?;
                if let (true, Some(of_test), Some(seen)) = (fits, of_test, seen.as_deref_mut()) {
                    seen.add(of_test, self.steps)?;
                }
                match if fits { then } else { otherwise } {
                    Some(next) => self.check(*next, value, path, seen),
                    None => Ok(true),
                }
            }
            _ => Ok(true),
        }
    }

    /// Number of these schemas that a value fits. No more than `enough` are looked for.
    fn how_many<'v>(
        &mut self,
        all: &[Id],
        value: &'v Value,
        path: &Path<'_>,
        mut seen: Option<&mut SeenMembers<'v>>,
        enough: usize,
    ) -> Result<usize, super::StepsSpent> {
        let mut fitting = 0;
        for one in all {
            let mut of_one = seen.is_some().then(SeenMembers::default);
            if !self.quietly(*one, value, path, of_one.as_mut())? {
                continue;
            }
            fitting += 1;
            if let (Some(of_one), Some(seen)) = (of_one, seen.as_deref_mut()) {
                seen.add(of_one, self.steps)?;
            }
            if fitting >= enough {
                break;
            }
        }
        Ok(fitting)
    }
}
