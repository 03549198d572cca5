//! Memory that schemas of others take: at most 16 MiB to compile one of 64 KiB and to check a value of 128 KiB against it.
#![allow(clippy::unwrap_used, reason = "a test ends by panicking")]

mod hostile;
mod peak;

use std::sync::Arc;

use himalia_tools::{Schema, ServerTools, ToolDefinition};
use proptest::prelude::*;
use serde_json::Value;

/// Bytes at the same time.
const MOST: usize = 16 << 20;

/// Compiles a schema of a skill, and checks a value. The larger number of bytes of that and of the same by a tool.
fn peak(document: &Value, value: &Value) -> usize {
    let of_author = peak::of(|| Schema::new(document).map(|schema| schema.violations(value)));
    let (input_schema, arguments) = hostile::of_tool(document.clone(), value.clone());
    let definition = ToolDefinition {
        name: "tool".to_owned(),
        input_schema,
        ..ToolDefinition::default()
    };
    let (tools, _) = ServerTools::new("server", "", [definition]);
    let of_server = tools.get("tool").map(|tool| peak::of(|| tool.check(&arguments)));
    of_author.max(of_server.unwrap_or(0))
}

#[test]
fn the_worst_schemas_on_the_worst_values_take_a_bounded_memory() {
    let worst = hostile::worst();
    let taken = worst.iter().map(|(name, document, value)| {
        assert!(
            document.to_string().len() <= hostile::MAX_SCHEMA
                && value.to_string().len() <= hostile::MAX_VALUE,
            "{name}"
        );
        (*name, peak(document, value))
    });
    let over: Vec<_> = taken.filter(|(_, bytes)| *bytes > MOST).collect();
    assert!(over.is_empty(), "more than {MOST} bytes: {over:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn any_schema_on_any_value_takes_a_bounded_memory((document, value) in hostile::pair()) {
        let bytes = peak(&document, &value);
        prop_assert!(bytes <= MOST, "{bytes} bytes");
    }
}

/// The counter counts.
#[test]
fn memory_that_is_freed_counts_too() {
    let kept = Arc::new(());
    let bytes = peak::of(|| {
        drop(vec![0_u8; 1 << 20]);
        Arc::clone(&kept)
    });
    assert!((1 << 20..2 << 20).contains(&bytes), "{bytes}");
}
