//! Schemas and values that are made to cost much: at most 64 KiB and 128 KiB of JSON.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Bytes of a schema.
pub(crate) const MAX_SCHEMA: usize = 64 << 10;
/// Bytes of a value.
pub(crate) const MAX_VALUE: usize = 128 << 10;

/// A schema and a value with at most the bytes that they may have.
pub(crate) fn pair() -> impl Strategy<Value = (Value, Value)> {
    (document(), value()).prop_filter("the sizes of a schema and a value", |(document, value)| {
        document.to_string().len() <= MAX_SCHEMA && value.to_string().len() <= MAX_VALUE
    })
}

/// The same pair as the schema and the arguments of a tool, which are an object.
pub(crate) fn of_tool(mut document: Value, value: Value) -> (Value, Value) {
    let defs = document.as_object_mut().and_then(|words| words.remove("$defs"));
    let mut schema = json!({"properties": {"value": document}});
    if let Some(defs) = defs {
        schema["$defs"] = defs;
    }
    match value {
        Value::Object(_) => {
            // Names that the schema does not know are looked for, too.
            schema["properties"] = schema["properties"]["value"]["properties"].take();
            if schema["properties"].is_null() {
                schema["properties"] = json!({});
            }
            (schema, value)
        }
        other => (schema, json!({"value": other})),
    }
}

/// Pairs that each exhaust one bound.
pub(crate) fn worst() -> Vec<(&'static str, Value, Value)> {
    let long_list = json!((0..22_000).collect::<Vec<_>>());
    let zeros = json!(vec![0; 60_000]);
    let name = "n".repeat(30_000);
    let letters = "é".repeat(60_000);
    let random: String = (0_u32..120_000)
        .map(|at| char::from(b'a' + u8::from(at.wrapping_mul(2_654_435_761) >> 31 == 0)))
        .collect();
    let many = |prefix: &str, count: usize| -> Map<String, Value> {
        (0..count)
            .map(|at| (format!("{prefix}{at:04}"), json!(0)))
            .collect()
    };
    let repeated = |count: usize, one: &Value| json!({"allOf": vec![one; count]});
    let of_words = |word: &str, count: usize| vec![word; count].join("_");
    vec![
        ("equal items", json!({"uniqueItems": true}), long_list.clone()),
        (
            "equal items, often",
            repeated(3000, &json!({"uniqueItems": true})),
            long_list.clone(),
        ),
        (
            "items seen in alternatives",
            nested("anyOf", 60, &json!({"contains": true, "unevaluatedItems": false})),
            zeros.clone(),
        ),
        (
            "members seen in alternatives",
            nested(
                "anyOf",
                60,
                &json!({"additionalProperties": true, "unevaluatedProperties": false}),
            ),
            Value::Object((0..12_000).map(|at| (at.to_string(), json!(0))).collect()),
        ),
        ("one item after another", json!({"items": {"items": {}}}), zeros),
        (
            "names as texts",
            repeated(2700, &json!({"propertyNames": true})),
            json!({"x".repeat(120_000): 0}),
        ),
        (
            "long names that are known",
            json!({"$defs": {"a": {"properties": {&name: {}}}}, "items": repeated(1500, &json!({"$ref": "#/$defs/a"}))}),
            json!([{&name: 0}, {&name: 0}, {&name: 0}, {&name: 0}]),
        ),
        (
            "long names that are required",
            json!({"$defs": {"a": {"required": [&name]}}, "items": repeated(1500, &json!({"$ref": "#/$defs/a"}))}),
            json!([{&name: 0}, {&name: 0}, {&name: 0}, {&name: 0}]),
        ),
        (
            "names that are alike",
            json!({"properties": many(&"a".repeat(60), 800), "additionalProperties": false}),
            Value::Object(many(&format!("b{}", "a".repeat(59)), 1000)),
        ),
        (
            "names of many words",
            json!({"properties": {of_words("q", 30_000): {}}, "additionalProperties": false}),
            json!({of_words("z", 60_000): 0}),
        ),
        (
            "values that are listed",
            json!({"enum": (0..12_000).collect::<Vec<_>>()}),
            json!(5),
        ),
        (
            "small parts",
            json!({"prefixItems": vec![json!({"minItems": 1}); 4000]}),
            long_list,
        ),
        (
            "empty parts",
            json!({"prefixItems": vec![json!({}); 20_000]}),
            json!([]),
        ),
        (
            "names of parts",
            json!({"$defs": (0..2500).map(|at| (at.to_string(), json!({"$anchor": format!("a{at}")}))).collect::<Map<_, _>>()}),
            json!(0),
        ),
        (
            "classes of letters",
            patterns(16, &r"\p{L}".repeat(600)),
            json!(letters),
        ),
        (
            "classes in one pattern",
            patterns(1, &r"\p{L}".repeat(800)),
            json!(letters),
        ),
        (
            "classes of classes",
            patterns(16, &format!("[{}]", r"\P{L}\p{N}".repeat(300))),
            json!(letters),
        ),
        (
            "classes that are written out",
            patterns(16, &r"\S".repeat(1300)),
            json!(letters),
        ),
        ("repeated letters", patterns(64, r"\p{L}{3}"), json!(letters)),
        (
            "repeated words",
            patterns(64, r"(\w{1,60} ?){1,40}$"),
            json!(letters),
        ),
        (
            "repetitions in repetitions",
            patterns(64, "((((a?){9}){9}){9}){3}b"),
            json!(random),
        ),
        (
            "alternatives that are empty",
            patterns(32, &format!("({}a){{9}}b", "|".repeat(100))),
            json!(random),
        ),
        (
            "states that double",
            patterns(64, "(a|b)*a[ab]{300}c"),
            json!(random),
        ),
        ("few states that double", patterns(64, "a[ab]{9}c"), json!(random)),
        (
            "patterns of members",
            json!({"patternProperties": (0..64).map(|at| (format!("a[ab]{{{}}}c", at + 9), json!(true))).collect::<Map<_, _>>()}),
            json!(
                (0..20)
                    .map(|at| (format!("{at}{}", &random[at * 100..at * 100 + 5000]), json!(0)))
                    .collect::<Map<_, _>>()
            ),
        ),
    ]
}

/// Different patterns, as many, that begin like this.
fn patterns(count: usize, pattern: &str) -> Value {
    let all = (0..count).map(|at| json!({"pattern": format!("{pattern}{at}")}));
    // Each is checked, whether or not the others fit.
    json!({"allOf": all.map(|one| json!({"not": one})).collect::<Vec<_>>()})
}

/// Alternatives in each other.
fn nested(word: &str, levels: usize, rules: &Value) -> Value {
    (0..levels / 2).fold(rules.clone(), |inner, _| {
        let mut one = rules.clone();
        one[word] = json!([inner]);
        one
    })
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({})),
        Just(json!({"type": "null"})),
        Just(json!({"pattern": "(a|b)+[ab]{40}c"})),
        Just(json!({"pattern": "\\p{L}+$"})),
        Just(json!({"uniqueItems": true})),
        Just(json!({"contains": true})),
        Just(json!({"minLength": 1, "maxLength": 100_000})),
        Just(json!({"unevaluatedProperties": false, "unevaluatedItems": false})),
        (0_usize..6).prop_map(|at| json!({"$ref": format!("#/$defs/a{at}")})),
        (1_usize..400).prop_map(|count| json!({"enum": (0..count).map(|at| format!("{at}{}", "x".repeat(100))).collect::<Vec<_>>()})),
        (1_usize..64, 1_usize..60).prop_map(|(count, times)| patterns(count, &format!("\\p{{L}}{{{times}}}"))),
        (1_usize..64, 1_usize..20).prop_map(|(count, times)| patterns(count, &format!("a[ab]{{{times}}}c"))),
        (1_usize..200, 1_usize..60).prop_map(|(count, long)| {
            let names: Vec<_> = (0..count).map(|at| format!("{}{at}", "a".repeat(long))).collect();
            let named: Map<_, _> = names.iter().map(|name| (name.clone(), json!(true))).collect();
            json!({"required": names, "properties": named, "additionalProperties": false})
        }),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(6, 200, 8, |inner| {
        let several = prop::collection::vec(inner.clone(), 1..8);
        let one_word = prop::sample::select(vec![
            "not",
            "items",
            "contains",
            "additionalProperties",
            "propertyNames",
            "unevaluatedItems",
        ]);
        prop_oneof![
            (
                prop::sample::select(vec!["allOf", "anyOf", "oneOf", "prefixItems"]),
                several
            )
                .prop_map(|(word, all)| json!({word: all})),
            (one_word, inner.clone()).prop_map(|(word, one)| json!({word: one})),
            (inner.clone(), inner.clone())
                .prop_map(|(one, other)| json!({"if": one, "then": other, "else": other})),
            (inner.clone(), inner.clone())
                .prop_map(|(one, other)| json!({"properties": {"a": one, "b": other}, "items": other})),
            (inner.clone(), inner)
                .prop_map(|(one, other)| json!({"patternProperties": {"^[0-4]": one, "a+$": other}})),
        ]
    })
}

fn document() -> impl Strategy<Value = Value> {
    prop::collection::vec(schema(), 7).prop_map(|mut parts| {
        let mut root = parts.pop().unwrap_or_default();
        let defs: Map<_, _> = parts
            .into_iter()
            .enumerate()
            .map(|(at, one)| (format!("a{at}"), one))
            .collect();
        root["$defs"] = Value::Object(defs);
        root
    })
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0_usize..100).prop_map(|deep| (0..deep).fold(json!("ab"), |inner, _| json!([inner]))),
        (0_usize..100).prop_map(|deep| (0..deep).fold(json!({}), |inner, _| json!({"a": inner}))),
        (0_usize..40_000).prop_map(|count| json!((0..count).map(|at| at % 7).collect::<Vec<_>>())),
        (0_usize..20_000).prop_map(|count| json!((0..count).collect::<Vec<_>>())),
        (0_usize..10_000)
            .prop_map(|count| Value::Object((0..count).map(|at| (at.to_string(), json!([]))).collect())),
        (0_usize..120_000).prop_map(|length| json!(
            (0..length)
                .map(|at| if at * at % 3 == 0 { 'a' } else { 'b' })
                .collect::<String>()
        )),
        (0_usize..4).prop_map(|count| json!(vec!["ab".repeat(15_000); count])),
    ]
}
