//! Values that JSON Schema takes for the same have the same text.

use serde_json::{Number, Value};

use super::steps::{Spent, Steps};

/// Bytes that are a step.
const BYTES_OF_A_STEP: usize = 16;

/// A text that equal values share: `1` and `1.0` are equal, and the order of members is not a part of an object.
pub(super) fn canonical(value: &Value, steps: &mut Steps) -> Result<String, Spent> {
    let mut text = String::new();
    write(value, &mut text, steps)?;
    Ok(text)
}

fn write(value: &Value, to: &mut String, steps: &mut Steps) -> Result<(), Spent> {
    steps.take(1)?;
    match value {
        Value::Null => to.push_str("null"),
        Value::Bool(one) => to.push_str(if *one { "true" } else { "false" }),
        Value::Number(number) => to.push_str(&of_number(number)),
        Value::String(text) => {
            steps.take(text.len() / BYTES_OF_A_STEP)?;
            to.push_str(&Value::from(text.as_str()).to_string());
        }
        Value::Array(items) => {
            to.push('[');
            for item in items {
                write(item, to, steps)?;
                to.push(',');
            }
            to.push(']');
        }
        // Members are in the order of their names.
        Value::Object(members) => {
            to.push('{');
            for (name, value) in members {
                steps.take(name.len() / BYTES_OF_A_STEP)?;
                to.push_str(&Value::from(name.as_str()).to_string());
                to.push(':');
                write(value, to, steps)?;
                to.push(',');
            }
            to.push('}');
        }
    }
    Ok(())
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "it is a whole number within the bounds"
)]
fn of_number(number: &Number) -> String {
    // Whole numbers up to this one have no other form.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() <= EXACT => {
            (float as i64).to_string()
        }
        _ => number.to_string(),
    }
}
