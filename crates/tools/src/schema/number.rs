//! Numbers: whole ones exactly, others as binary fractions.

use std::cmp::Ordering;

use serde_json::Number;

/// The order of two numbers.
pub(super) fn order(one: &Number, other: &Number) -> Ordering {
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => one.cmp(&other),
        _ => float(one).total_cmp(&float(other)),
    }
}

/// True if a number has no fraction.
pub(super) fn is_whole(number: &Number) -> bool {
    whole(number).is_some() || float(number).fract() == 0.0
}

/// True if a number is a multiple of a positive one, as far as binary fractions represent decimal ones.
pub(super) fn is_multiple(number: &Number, of: &Number) -> bool {
    // The nearest binary fractions of two decimal ones, and their quotient, are off by so much of it.
    const NEAR: f64 = 4.0 * f64::EPSILON;
    if let (Some(number), Some(of)) = (whole(number), whole(of)) {
        return of != 0 && number % of == 0;
    }
    let parts = float(number) / float(of);
    parts.is_finite() && (parts - parts.round()).abs() <= NEAR * parts.abs()
}

fn whole(number: &Number) -> Option<i128> {
    let signed = number.as_i64().map(i128::from);
    signed.or_else(|| number.as_u64().map(i128::from))
}

fn float(number: &Number) -> f64 {
    // `-0.0` and `0.0` are the same number.
    number.as_f64().unwrap_or(f64::NAN) + 0.0
}
