//! Schemas and values that are made to cost much.

use super::*;

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({})),
        Just(json!({"type": "null"})),
        Just(json!({"pattern": "(a|b)+[ab]{40}c"})),
        Just(json!({"pattern": "\\p{L}+$"})),
        Just(json!({"uniqueItems": true})),
        Just(json!({"unevaluatedProperties": false, "unevaluatedItems": false})),
        (0_usize..6).prop_map(|at| json!({"$ref": format!("#/$defs/a{at}")})),
        (1_usize..400).prop_map(|count| json!({"enum": (0..count).map(|at| format!("{at}{}", "x".repeat(100))).collect::<Vec<_>>()})),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(6, 200, 8, |inner| {
        let several = prop::collection::vec(inner.clone(), 1..8);
        prop_oneof![
            (prop_oneof![Just("allOf"), Just("anyOf"), Just("oneOf")], several)
                .prop_map(|(word, all)| json!({word: all})),
            (
                prop_oneof![
                    Just("not"),
                    Just("items"),
                    Just("contains"),
                    Just("additionalProperties"),
                    Just("propertyNames")
                ],
                inner.clone()
            )
                .prop_map(|(word, one)| json!({word: one})),
            (inner.clone(), inner.clone())
                .prop_map(|(one, other)| json!({"if": one, "then": other, "else": other})),
            (inner.clone(), inner)
                .prop_map(|(one, other)| json!({"properties": {"a": one, "b": other}, "items": other})),
        ]
    })
}

fn document() -> impl Strategy<Value = Value> {
    prop::collection::vec(schema(), 7).prop_map(|mut parts| {
        let mut root = parts.pop().unwrap();
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
        (0_usize..100).prop_map(|deep| (0..deep).fold(json!("ab"), |inner, _| {
            json!({"a": inner, "b": [inner]}).as_object().unwrap()["b"].clone()
        })),
        (0_usize..100).prop_map(|deep| (0..deep).fold(json!({}), |inner, _| json!({"a": inner}))),
        (0_usize..40_000).prop_map(|count| json!((0..count).map(|at| at % 7).collect::<Vec<_>>())),
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// Of at most 64 KiB and 128 KiB. The steps and the bytes are those of 50 ms and 16 MiB.
    #[test]
    fn any_schema_on_any_value_takes_a_bounded_number_of_steps(document in document(), value in value()) {
        prop_assume!(document.to_string().len() <= 64 << 10 && value.to_string().len() <= 128 << 10);
        let begun = Instant::now();
        for made in [Schema::new(&document), Schema::of_server(&document)] {
            let Ok(schema) = made else { continue };
            prop_assert!(schema.weight() <= 16 << 20);
            let mut steps = Steps::of(&value);
            let most = steps.left();
            prop_assert!(most <= LEAST + LEAST / 10);
            let found = run::violations(&schema.0, schema.0.root, &value, &mut steps);
            prop_assert!(found.len() <= 8 && steps.left() <= most);
            let told: usize = found.iter().map(|one| one.path.len() + one.text.len()).sum();
            prop_assert!(told <= 8 * (4 * text::MAX_TEXT + 4 * 400 * 100));
        }
        // Far more than it takes, for machines that do much else.
        prop_assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}
