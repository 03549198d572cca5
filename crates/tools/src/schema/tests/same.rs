//! The same schemas and values by another evaluator.

use super::*;

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-4_i64..5).prop_map(Value::from),
        (-8_i32..9).prop_map(|number| json!(f64::from(number) / 2.0)),
        "[abé]{0,4}".prop_map(Value::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..4)
                .prop_map(|all| Value::Object(all.into_iter().collect())),
        ]
    })
}

fn words() -> impl Strategy<Value = Value> {
    let types = prop::sample::select(node::Types::NAMES.to_vec());
    prop_oneof![
        types.clone().prop_map(|one| json!({"type": one})),
        prop::collection::btree_set(types, 1..4).prop_map(|all| json!({"type": all})),
        prop::collection::vec(value(), 1..4).prop_map(|all| json!({"enum": all})),
        value().prop_map(|one| json!({"const": one})),
        (
            prop::sample::select(vec!["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]),
            -3_i64..4
        )
            .prop_map(|(word, bound)| json!({word: bound})),
        (1_i64..4).prop_map(|of| json!({"multipleOf": of})),
        (
            prop::sample::select(vec![
                "minLength",
                "maxLength",
                "minItems",
                "maxItems",
                "minProperties",
                "maxProperties"
            ]),
            0_u64..4
        )
            .prop_map(|(word, count)| json!({word: count})),
        prop::sample::select(vec!["^a", "b$", "^[ab]*$", "\\w", "é", "a{2}"])
            .prop_map(|pattern| json!({"pattern": pattern})),
        prop::collection::btree_set("[abc]", 0..3).prop_map(|names| json!({"required": names})),
        prop::collection::btree_set("[abc]", 1..3)
            .prop_map(|names| json!({"dependentRequired": {"a": names}})),
        Just(json!({"uniqueItems": true})),
        Just(json!({"$ref": "#/$defs/x"})),
    ]
}

fn merged(parts: Vec<Value>) -> Value {
    let parts = parts.into_iter().filter_map(|one| one.as_object().cloned());
    Value::Object(parts.flatten().collect())
}

fn schema() -> impl Strategy<Value = Value> {
    let simple = prop_oneof![6 => prop::collection::vec(words(), 0..3).prop_map(merged), 1 => any::<bool>().prop_map(Value::from)];
    simple.prop_recursive(3, 24, 4, |inner| {
        let several = prop::collection::vec(inner.clone(), 1..4);
        let named = prop::collection::btree_map("[abc]", inner.clone(), 0..3);
        let one = prop_oneof![
            words(),
            (
                prop::sample::select(vec!["allOf", "anyOf", "oneOf", "prefixItems"]),
                several
            )
                .prop_map(|(word, all)| json!({word: all})),
            (
                prop::sample::select(vec![
                    "not",
                    "items",
                    "contains",
                    "additionalProperties",
                    "propertyNames",
                    "unevaluatedProperties",
                    "unevaluatedItems",
                    "if",
                    "then",
                    "else"
                ]),
                inner.clone()
            )
                .prop_map(|(word, one)| json!({word: one})),
            (inner.clone(), 0_u64..3, 0_u64..3).prop_map(
                |(one, least, most)| json!({"contains": one, "minContains": least, "maxContains": most})
            ),
            named.clone().prop_map(|all| json!({"properties": all})),
            named.prop_map(|all| json!({"dependentSchemas": all})),
            inner.prop_map(|one| json!({"patternProperties": {"^[ab]": one}})),
        ];
        prop::collection::vec(one, 1..5).prop_map(merged)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn two_evaluators_say_the_same(mut schema in schema(), x in words(), value in value()) {
        prop_assume!(x.get("$ref").is_none());
        if let Some(words) = schema.as_object_mut() {
            words.insert("$defs".to_owned(), json!({"x": x}));
        }
        let ours = Schema::new(&schema);
        let Ok(theirs) = jsonschema::draft202012::new(&schema) else { return Ok(()) };
        let ours = ours.unwrap();
        prop_assert_eq!(ours.is_valid(&value), theirs.is_valid(&value), "{} {}", schema, value);
    }
}
