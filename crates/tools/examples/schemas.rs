//! The time that schemas of 64 KiB take at most, with values of 128 KiB: `cargo run --release -p himalia-tools --example schemas [cases]`.
#![allow(clippy::print_stdout, reason = "the figures are the output")]

#[path = "../tests/schemas/hostile.rs"]
mod hostile;

use std::error::Error;
use std::time::{Duration, Instant};

use himalia_tools::{Schema, ServerTools, ToolDefinition};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use serde_json::Value;

/// Times of the compilation and the check, the shortest of some.
fn times(document: &Value, value: &Value) -> [Duration; 3] {
    let (input_schema, arguments) = hostile::of_tool(document.clone(), value.clone());
    let definition = ToolDefinition {
        name: "tool".to_owned(),
        input_schema,
        ..ToolDefinition::default()
    };
    let mut least = [Duration::MAX; 3];
    for _ in 0..3 {
        let begun = Instant::now();
        let schema = Schema::new(document);
        let compiled = begun.elapsed();
        if let Ok(schema) = schema {
            schema.violations(value);
        }
        let checked = begun.elapsed().saturating_sub(compiled);
        // The first check compiles the patterns of a tool.
        let mut definition = definition.clone();
        definition.input_schema["title"] = format!("{begun:?}").into();
        let (tools, _) = ServerTools::new("server", "", [definition]);
        let begun = Instant::now();
        if let Some(tool) = tools.get("tool") {
            tool.check(&arguments);
        }
        for (least, one) in least.iter_mut().zip([compiled, checked, begun.elapsed()]) {
            *least = one.min(*least);
        }
    }
    least
}

fn print(name: &str, [compiled, checked, tool]: [Duration; 3]) {
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    println!(
        "{name:32}{:10.1}{:10.1}{:10.1}",
        ms(compiled),
        ms(checked),
        ms(tool)
    );
}

fn main() -> Result<(), Box<dyn Error>> {
    let cases = std::env::args().nth(1).map_or(Ok(1000), |cases| cases.parse())?;
    println!("{:32}{:>10}{:>10}{:>10}", "ms", "compile", "check", "tool");
    for (name, document, value) in hostile::worst() {
        print(name, times(&document, &value));
    }
    let mut runner = TestRunner::deterministic();
    let mut most = [Duration::ZERO; 3];
    for _ in 0..cases {
        let document = hostile::pair().new_tree(&mut runner);
        let (document, value) = document.map_err(|reason| reason.to_string())?.current();
        for (most, one) in most.iter_mut().zip(times(&document, &value)) {
            *most = one.max(*most);
        }
    }
    print("most of generated ones", most);
    Ok(())
}
