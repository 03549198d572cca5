//! Bounds the work of a check.

use serde_json::Value;

/// Steps of a check of a small value: about 50 ms at most.
pub(super) const LEAST: u64 = 250_000;
/// Steps for each part of a large value.
const FOR_EACH_PART: u64 = 4;
/// Bytes of a name that are a step.
const BYTES_OF_A_NAME: usize = 64;

/// Steps that are left for checks. A step is a rule of a schema at a place of a value; long texts are several.
#[derive(Debug)]
pub struct Steps(u64);

/// All steps are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StepsSpent;

impl Steps {
    /// So many.
    pub fn new(steps: u64) -> Self {
        Self(steps)
    }

    /// Steps for a check of a value: a large one may take more, as it took more to send.
    pub(crate) fn of(value: &Value) -> Self {
        Self(LEAST.max(parts(value).saturating_mul(FOR_EACH_PART)))
    }

    /// True if no step is left.
    pub fn are_spent(&self) -> bool {
        self.0 == 0
    }

    #[cfg(test)]
    pub(super) fn left(&self) -> u64 {
        self.0
    }

    /// For a name that is looked up.
    pub(super) fn take_name(&mut self, name: &str) -> Result<(), StepsSpent> {
        self.take(1 + name.len() / BYTES_OF_A_NAME)
    }

    pub(super) fn take(&mut self, steps: usize) -> Result<(), StepsSpent> {
        match self.0.checked_sub(u64::try_from(steps).unwrap_or(u64::MAX)) {
            Some(left) if left > 0 => {
                self.0 = left;
                Ok(())
            }
            _ => {
                self.0 = 0;
                Err(StepsSpent)
            }
        }
    }
}

/// Scalars, lists and objects of a value.
fn parts(value: &Value) -> u64 {
    let mut count = 0;
    let mut open = vec![value];
    while let Some(one) = open.pop() {
        count += 1;
        match one {
            Value::Array(items) => open.extend(items),
            Value::Object(members) => open.extend(members.values()),
            _ => {}
        }
    }
    count
}
