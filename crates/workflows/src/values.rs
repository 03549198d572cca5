//! The inputs of a step and the result of a run. Sizes are added up before a value is copied, so that a value that is too large takes no
//! memory.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::definition::InputValue;
use crate::wire::{Root, Wire};

/// Values of a run, by wire.
pub(crate) struct Values<'a, F> {
    pub inputs: &'a Value,
    /// The outputs of a step that has succeeded.
    pub outputs: F,
    pub item: Option<&'a Value>,
}

/// The value that a wire carries, where it is.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum WireValue<'a> {
    One(&'a Value),
    /// The outputs of a step with `map`, which are a list.
    List(Vec<&'a Value>),
}

/// There is more than there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

impl<'a> WireValue<'a> {
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::One(value) => (*value).clone(),
            Self::List(values) => Value::Array(values.iter().map(|value| (*value).clone()).collect()),
        }
    }

    /// The number of items; `None`: the value is no list.
    pub(crate) fn len(&self) -> Option<usize> {
        match self {
            Self::One(value) => value.as_array().map(Vec::len),
            Self::List(values) => Some(values.len()),
        }
    }

    pub(crate) fn item(&self, at: usize) -> Option<&'a Value> {
        match self {
            Self::One(value) => value.get(at),
            Self::List(values) => values.get(at).copied(),
        }
    }

    fn member(&self, name: &str) -> Option<&'a Value> {
        match self {
            Self::One(value) => value.get(name),
            Self::List(_) => None,
        }
    }
}

impl<'a, F: Fn(&str) -> Option<WireValue<'a>>> Values<'a, F> {
    /// Value of a wire; `None`: it does not exist.
    pub(crate) fn wire(&self, wire: &Wire) -> Option<WireValue<'a>> {
        let mut at = match &wire.root {
            Root::Inputs => WireValue::One(self.inputs),
            Root::Item => WireValue::One(self.item?),
            Root::Step(id) => (self.outputs)(id)?,
        };
        for name in &wire.path {
            at = WireValue::One(at.member(name)?);
        }
        Some(at)
    }

    pub(crate) fn given<'b>(&self, given: &'b InputValue) -> Option<WireValue<'b>>
    where
        'a: 'b,
    {
        match given {
            InputValue::From(wire) => self.wire(wire),
            InputValue::Value(value) => Some(WireValue::One(value)),
        }
    }

    /// All that is there: what is not there is left out, and its schema says whether it may be. At most so many bytes of JSON together.
    pub(crate) fn all(
        &self,
        given: &BTreeMap<String, InputValue>,
        most: usize,
    ) -> Result<Map<String, Value>, TooLarge> {
        let there: BTreeMap<&str, WireValue<'_>> = given
            .iter()
            .filter_map(|(name, given)| Some((name.as_str(), self.given(given)?)))
            .collect();
        bytes_within(&there, most).ok_or(TooLarge)?;
        let copied = there
            .into_iter()
            .map(|(name, carried)| (name.to_owned(), carried.to_value()));
        Ok(copied.collect())
    }
}

/// Bytes of a value as JSON; `None`: more than `most`. It is not written, and no more of it is looked at.
pub(crate) fn bytes_within<T: Serialize + ?Sized>(value: &T, most: usize) -> Option<usize> {
    struct Counter {
        bytes: usize,
        most: usize,
    }
    impl Write for Counter {
        fn write(&mut self, part: &[u8]) -> io::Result<usize> {
            self.bytes = self.bytes.saturating_add(part.len());
            if self.bytes > self.most {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            Ok(part.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter { bytes: 0, most };
    serde_json::to_writer(&mut counter, value).ok()?;
    Some(counter.bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_counted_is_what_would_be_written() {
        for value in [
            json!(null),
            json!({ "a": [1, "ü\n", { "b": -2.5 }] }),
            json!("x".repeat(100)),
        ] {
            let bytes = value.to_string().len();
            assert_eq!(bytes_within(&value, bytes), Some(bytes));
            assert_eq!(bytes_within(&value, bytes - 1), None);
        }
        let (one, two) = (json!(1), json!([2]));
        let list = WireValue::List(vec![&one, &two]);
        assert_eq!(bytes_within(&list, 7), Some("[1,[2]]".len()));
        assert_eq!(
            (list.to_value(), list.len(), list.item(1)),
            (json!([1, [2]]), Some(2), Some(&two))
        );
    }

    #[test]
    fn the_same_wire_many_times_is_refused_before_it_is_copied() {
        let inputs = json!({ "x": "y".repeat(1000) });
        let values = Values {
            inputs: &inputs,
            outputs: |_: &str| None,
            item: None,
        };
        let wires = |count: usize| -> BTreeMap<String, InputValue> {
            let wire: Wire = "inputs.x".parse().unwrap();
            (0..count)
                .map(|n| (format!("n{n:02}"), InputValue::From(wire.clone())))
                .collect()
        };
        let made = values.all(&wires(9), 10_000).unwrap();
        assert_eq!((made.len(), &made["n08"]), (9, &inputs["x"]));
        assert_eq!(values.all(&wires(10), 10_000), Err(TooLarge));
    }
}
