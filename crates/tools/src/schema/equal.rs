//! Values that JSON Schema takes for the same have the same text.

use serde::Serialize;
use serde_json::{Number, Value};

use super::steps::{Steps, StepsSpent};

const BYTES_OF_A_STEP: usize = 16;

/// A text that equal values share: `1` and `1.0` are equal, and the order of members is not a part of an object.
pub(super) fn canonical(value: &Value, steps: &mut Steps) -> Result<Vec<u8>, StepsSpent> {
    let mut text = Vec::new();
    write(value, &mut text, steps)?;
    Ok(text)
}

fn write(value: &Value, to: &mut Vec<u8>, steps: &mut Steps) -> Result<(), StepsSpent> {
    steps.take(1)?;
    match value {
        Value::Null => to.extend_from_slice(b"null"),
        Value::Bool(one) => json(one, to),
        Value::Number(number) => of_number(number, to),
        Value::String(text) => {
            steps.take(text.len() / BYTES_OF_A_STEP)?;
            json(text, to);
        }
        Value::Array(items) => {
            to.push(b'[');
            for item in items {
                write(item, to, steps)?;
                to.push(b',');
            }
            to.push(b']');
        }
        // Members are in the order of their names.
        Value::Object(members) => {
            to.push(b'{');
            for (name, value) in members {
                steps.take(name.len() / BYTES_OF_A_STEP)?;
                json(name, to);
                to.push(b':');
                write(value, to, steps)?;
                to.push(b',');
            }
            to.push(b'}');
        }
    }
    Ok(())
}

/// JSON is written into memory, which takes all of it.
fn json(one: &(impl Serialize + ?Sized), to: &mut Vec<u8>) {
    let _ = serde_json::to_writer(to, one);
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "it is a whole number within the bounds"
)]
fn of_number(number: &Number, to: &mut Vec<u8>) {
    // Whole numbers up to this one have no other form.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() <= EXACT => {
            json(&(float as i64), to);
        }
        _ => json(number, to),
    }
}
