use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Map, json};

use super::steps::LEAST;
use super::*;

mod hostile;
mod same;

fn found(schema: &Value, value: &Value) -> Vec<(String, String)> {
    let found = Schema::new(schema).unwrap().violations(value);
    found.into_iter().map(|one| (one.path, one.rule)).collect()
}

fn pair(path: &str, rule: &str) -> (String, String) {
    (path.to_owned(), rule.to_owned())
}

#[test]
fn a_violation_names_its_place_and_its_rule() {
    let schema = json!({"type": "object", "required": ["limit"], "additionalProperties": false, "properties": {
        "limit": {"type": "integer", "maximum": 100},
        "filter": {"type": "object", "properties": {"state": {"enum": ["paid", "open"]}}},
    }});
    assert_eq!(found(&schema, &json!({"limit": 5})), []);
    assert_eq!(found(&schema, &json!({})), [pair("", "required")]);
    assert_eq!(found(&schema, &json!({"limit": "5"})), [pair("/limit", "type")]);
    assert_eq!(
        found(&schema, &json!({"limit": 500})),
        [pair("/limit", "maximum")]
    );
    assert_eq!(
        found(&schema, &json!({"limit": 1, "filter": {"state": "x"}})),
        [pair("/filter/state", "enum")]
    );
    let wrong = Schema::new(&schema)
        .unwrap()
        .violations(&json!({"limit": 1, "limmit": 2}));
    assert_eq!(
        pair(&wrong[0].path, &wrong[0].rule),
        pair("", "additionalProperties")
    );
    assert_eq!(
        wrong[0].text,
        "Additional properties are not allowed ('limmit' was unexpected); did you mean limit?"
    );
}

#[test]
fn violations_and_their_texts_are_bounded() {
    let schema = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    let many: Map<_, _> = (0..50)
        .map(|number| (number.to_string(), json!("é".repeat(5000))))
        .collect();
    let found = Schema::new(&schema).unwrap().violations(&Value::Object(many));
    assert_eq!(found.len(), 8);
    assert!(
        found
            .iter()
            .all(|one| one.text.chars().count() <= text::MAX_TEXT + 1)
    );
    // The first eight of very many, with a text that is cut in time.
    let schema = json!({"items": {"enum": ["x".repeat(60_000)]}});
    let value: Value = (0..40_000).collect::<Vec<_>>().into();
    let (schema, mut steps) = (Schema::new(&schema).unwrap(), Steps::of(&value));
    let most = steps.left();
    let found = run::violations(&schema.0, schema.0.root, &value, &mut steps);
    assert_eq!(found.len(), 8);
    assert!(most - steps.left() < 1000, "the rest is not looked at");
}

#[test]
fn a_schema_that_needs_another_document_or_is_none_is_refused() {
    for (schema, wanted) in [
        (
            json!({"$ref": "https://example.org/schema.json"}),
            "to another document",
        ),
        (json!({"$ref": "file:///etc/passwd"}), "to another document"),
        (json!({"$ref": "other.json"}), "to another document"),
        (json!({"$ref": "#/$defs/nothing"}), "leads nowhere"),
        (json!({"$ref": "#nothing"}), "leads nowhere"),
        (json!({"$ref": "#"}), "leads back to itself"),
        (
            json!({"type": 5}),
            "has type: 5, expected one or several of array",
        ),
        (json!({"type": "objekt"}), "has type: \"objekt\""),
        (
            json!({"properties": []}),
            "has properties: [], expected an object of schemas",
        ),
        (json!({"anyOf": {}}), "has anyOf: {}, expected a list of schemas"),
        (json!({"items": 5}), "has 5 where a schema is expected"),
        (
            json!({"minLength": -1}),
            "has minLength: -1, expected a whole number",
        ),
        (
            json!({"multipleOf": 0}),
            "has multipleOf: 0, expected a number above 0",
        ),
        (
            json!({"required": [1]}),
            "has required: [1], expected a list of names",
        ),
        (json!({"pattern": "("}), "must be a regular expression"),
        (json!({"$defs": {"unused": {"type": "objekt"}}}), "has type"),
        (json!(5), "has 5 where a schema is expected"),
    ] {
        let wrong = Schema::new(&schema).unwrap_err();
        assert!(wrong.contains(wanted), "{schema}: {wrong}");
    }
}

#[test]
fn references_lead_into_the_document() {
    let by = |reference: &str| {
        json!({"$id": "https://example.org/root", "$defs": {"an id": {"type": "string", "$anchor": "name"},
            "own": {"$id": "own", "$defs": {"x": {"type": "null"}}, "type": "array", "items": {"$ref": "#/$defs/x"}}},
            "properties": {"id": {"$ref": reference}}})
    };
    for reference in [
        "#/$defs/an id",
        "#/$defs/an%20id",
        "#name",
        "https://example.org/root#/$defs/an%20id",
    ] {
        assert_eq!(
            found(&by(reference), &json!({"id": 1})),
            [pair("/id", "type")],
            "{reference}"
        );
        assert_eq!(found(&by(reference), &json!({"id": "x"})), [], "{reference}");
    }
    assert_eq!(found(&by("own"), &json!({"id": [1]})), [pair("/id/0", "type")]);
    let list = json!({"type": "object", "properties": {"value": {"type": "integer"}, "next": {"$ref": "#"}}});
    assert_eq!(
        found(&list, &json!({"next": {"next": {"value": "x"}}})),
        [pair("/next/next/value", "type")]
    );
    let beside =
        |draft: &str| json!({"$schema": draft, "$defs": {"x": {}}, "$ref": "#/$defs/x", "type": "string"});
    assert_eq!(
        found(&beside("http://json-schema.org/draft-07/schema#"), &json!(1)),
        []
    );
    assert_eq!(
        found(&beside("https://json-schema.org/draft/2020-12/schema"), &json!(1)),
        [pair("", "type")]
    );
}

/// `$defs` of which each one has the one before twice.
fn doubling(depth: usize, leaf: &Value) -> Value {
    let mut defs = Map::from_iter([("a0".to_owned(), leaf.clone())]);
    for at in 1..=depth {
        let one = json!({"$ref": format!("#/$defs/a{}", at - 1)});
        defs.insert(format!("a{at}"), json!({"allOf": [one, one]}));
    }
    json!({"type": "object", "$defs": defs, "properties": {"x": {"$ref": format!("#/$defs/a{depth}")}}})
}

#[test]
fn references_that_double_at_each_level_are_refused_with_their_number() {
    for depth in [18, 20, 23, 26] {
        for leaf in [json!({"type": "string"}), json!({})] {
            let schema = doubling(depth, &leaf);
            for wrong in [Schema::new(&schema), Schema::of_server(&schema)] {
                let wrong = wrong.unwrap_err();
                let number = wrong.split(' ').find_map(|word| word.parse::<u64>().ok());
                assert!(
                    number.unwrap() > 10_000 && wrong.ends_with("at most 10000 are allowed"),
                    "{wrong}"
                );
            }
        }
    }
    let few = doubling(8, &json!({"type": "string"}));
    assert_eq!(found(&few, &json!({"x": 1})).len(), 8);
    let deep = json!({"$defs": (0..100).map(|at| (format!("a{}", at + 1), json!({"$ref": format!("#/$defs/a{at}")})))
        .chain([("a0".to_owned(), json!({}))]).collect::<Map<_, _>>(), "$ref": "#/$defs/a100"});
    assert!(
        Schema::new(&deep)
            .unwrap_err()
            .contains("nested more than 64 deep")
    );
}

#[test]
fn a_schema_that_doubles_below_members_is_given_up_at_a_number_of_steps() {
    // Each level of the value doubles the work.
    let twice = json!({"properties": {"c": {"$ref": "#"}}});
    let schema =
        Schema::new(&json!({"type": "object", "allOf": [twice, {"properties": {"c": {"$ref": "#"}}}]}))
            .unwrap();
    let deep = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"c": inner}));
    assert_eq!(schema.violations(&deep(8)), []);
    let found = schema.violations(&deep(60));
    assert_eq!(pair(&found[0].path, &found[0].rule), pair("", "steps"));
    assert!(
        found[0].text.starts_with("there is too much to check"),
        "{found:?}"
    );
    let mut steps = Steps::of(&deep(60));
    let _ = run::violations(&schema.0, schema.0.root, &deep(60), &mut steps);
    assert_eq!(steps.left(), 0);
    // Nothing is valid because the check of an alternative was given up.
    let not = Schema::new(&json!({"not": {"$ref": "#/$defs/a"}, "$defs": {"a": {"allOf": [{"properties": {"c": {"$ref": "#/$defs/a"}}}, {"properties": {"c": {"$ref": "#/$defs/a"}}}]}}})).unwrap();
    assert_eq!(not.violations(&deep(60))[0].rule, "steps");
}

/// References and levels of the value multiply: a check that went down all of them would need more stack than a thread has.
#[test]
fn a_check_goes_down_a_bounded_number_of_levels() {
    let mut defs: Map<_, _> = (1..=50)
        .map(|at| (format!("a{at}"), json!({"$ref": format!("#/$defs/a{}", at - 1)})))
        .collect();
    defs.insert(
        "a0".to_owned(),
        json!({"properties": {"c": {"$ref": "#/$defs/a50"}}}),
    );
    let schema = Schema::new(&json!({"$ref": "#/$defs/a50", "$defs": defs})).unwrap();
    let deep = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"c": inner}));
    assert_eq!(schema.violations(&deep(5)), []);
    assert_eq!(schema.violations(&deep(12))[0].rule, "steps");
}

#[test]
fn a_number_is_a_multiple_as_its_decimal_digits_say() {
    for (number, of, is_multiple) in [
        (json!(19.99), json!(0.01), true),
        (json!(0.3), json!(0.1), true),
        (json!(5_000_000.01), json!(0.01), true),
        (json!(5_000_000.005), json!(0.01), false),
        (json!(10_000_000_000.5), json!(1), false),
        (json!(1e-10), json!(0.5), false),
        (json!(0), json!(0.5), true),
        (json!(1e300), json!(1), true),
    ] {
        let found = found(&json!({"multipleOf": of}), &number);
        assert_eq!(found.is_empty(), is_multiple, "{number} of {of}");
    }
}

#[test]
fn patterns_are_linear_and_few() {
    let many = |count: usize| json!({"allOf": (0..count).map(|at| json!({"pattern": format!("^a{at}")})).collect::<Vec<_>>()});
    assert!(Schema::new(&many(64)).is_ok());
    assert!(
        Schema::new(&many(80))
            .unwrap_err()
            .contains("80 different patterns, at most 64")
    );
    let pattern = |pattern: &str| json!({"pattern": pattern});
    for (bad, wanted) in [
        (r"\p{L}{60}", "takes too much memory"),
        (r"(?=a)b", "looks around"),
        (r"(?i)a", "has flags"),
        (r"(a)\1", "back-references"),
        (&"a".repeat(5000), "more than 4096 bytes"),
    ] {
        let wrong = Schema::new(&pattern(bad)).unwrap_err();
        assert!(wrong.contains(wanted), "{bad}: {wrong}");
        // Its server checks it.
        assert_eq!(
            Schema::of_server(&pattern(bad)).unwrap().violations(&json!("c")),
            []
        );
    }
    for (good, fits, does_not) in [
        (r"^[\p{L}\p{N} _-]+$", "ключ 1", "a!"),
        (r"^\d{4}-\d{2}$", "2026-10", "٢٠٢٦-10"),
        (r"^(?<year>\d+)\/x$", "1/x", "x"),
        (r"\bword\b", "a word", "words"),
        ("^[^@]+@[^@]+\\.[a-z]{2,}$", "ada@example.org", "ada@"),
        (r"^\(?\d{3}\)?-\d+$", "(030)-1", "(030)1"),
        (r"^[(?]x$", "?x", "x"),
        (r"\bword\b", "ein schönes word", "schönwords"),
        (r"\bword\b", "éword", "aword"),
        (r"^[\cj\x20]\cI$", "\n\t", "jI"),
    ] {
        let schema = Schema::new(&pattern(good)).unwrap();
        assert_eq!(schema.violations(&json!(fits)), [], "{good}");
        assert_eq!(schema.violations(&json!(does_not))[0].rule, "pattern", "{good}");
    }
    // Neither states without end nor time that grows faster than a text.
    let schema = Schema::new(&pattern("(a+)+[ab]{100}(x|y)*c$")).unwrap();
    let begun = Instant::now();
    let text: String = (0..128 << 10)
        .map(|at: u32| {
            if at.wrapping_mul(2_654_435_761) >> 31 == 0 {
                'a'
            } else {
                'b'
            }
        })
        .collect();
    assert!(!schema.violations(&json!(text)).is_empty());
    assert!(begun.elapsed() < Duration::from_secs(10));
}

/// Letters `a` and `b` without an order, for which some patterns need very many states.
fn mixed(length: usize) -> String {
    let mut state = 1_u32;
    let next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        if state & 1 == 0 { 'a' } else { 'b' }
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[test]
fn states_that_are_made_again_are_counted_and_end_a_check() {
    let mut patterns = pattern::Patterns::default();
    let number = patterns.add("(a+)+[ab]{100}(x|y)*c$");
    patterns.build().unwrap();
    let search = |length: usize, steps: &mut Steps| {
        pattern::PatternStates::default().is_match(&patterns, number, &mixed(length), steps)
    };
    // It is given up however many steps there are.
    assert_eq!(
        search(128 << 10, &mut Steps::new(u64::MAX)),
        Err(steps::StepsSpent)
    );
    // A text whose search is not given up takes steps for the states that were made again.
    let took = |length: usize| {
        let mut steps = Steps::new(u64::MAX);
        let found = search(length, &mut steps);
        (found == Ok(false)).then(|| u64::MAX - steps.left())
    };
    let most = (1..=64).filter_map(|part| took(part << 7)).max();
    assert!(most.unwrap() >= 10_000, "{most:?}");
}

#[test]
fn the_patterns_of_a_server_that_are_beyond_the_bound_are_left_to_it() {
    let properties: Map<_, _> = (0..100)
        .map(|at| (format!("p{at:02}"), json!({"pattern": format!("^a{at}$")})))
        .collect();
    let schema = Schema::of_server(&json!({"properties": properties})).unwrap();
    let wrong = |name: &str| schema.violations(&json!({name: "x"})).len();
    assert_eq!(
        (wrong("p00"), wrong("p63"), wrong("p64"), wrong("p99")),
        (1, 1, 0, 0)
    );
}

#[test]
fn a_description_with_a_hundred_patterns_takes_nothing_before_it_is_used() {
    let properties: Map<_, _> = (0..100)
        .map(|at| {
            (
                format!("p{at}"),
                json!({"pattern": format!("\\p{{L}}{{60}}{at}")}),
            )
        })
        .collect();
    let schema = json!({"type": "object", "properties": properties});
    let schema = Schema::of_server(&schema).unwrap();
    let (begun, value) = (Instant::now(), json!({"p1": "x", "p99": "x"}));
    assert_eq!(schema.violations(&value), []);
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert!(schema.weight() < 16 << 20);
}

#[test]
fn arguments_have_names_that_the_schema_knows() {
    let names = |schema: Value, arguments: Value| {
        let found = Schema::of_server(&schema)
            .unwrap()
            .violations_of_arguments(&arguments, &mut Steps::of(&arguments));
        found
            .into_iter()
            .map(|one| format!("{} {} {}", one.path, one.rule, one.text))
            .collect::<Vec<_>>()
    };
    let limit = json!({"limit": {"type": "integer"}, "after": {}});
    let plain = json!({"type": "object", "properties": limit});
    assert_eq!(names(plain.clone(), json!({"limit": 5})), [""; 0]);
    assert_eq!(
        names(plain.clone(), json!({"limt": 5})),
        ["/limt additionalProperties there is no argument \"limt\"; did you mean limit?"]
    );
    assert_eq!(
        names(plain.clone(), json!({"zzz": 5})),
        ["/zzz additionalProperties there is no argument \"zzz\"; the arguments are after, limit"]
    );
    assert_eq!(
        names(json!({"type": "object", "properties": {}}), json!({"x": 1})),
        ["/x additionalProperties there is no argument \"x\"; the tool takes no arguments"]
    );
    // References and combinations at the top add their names.
    let by_reference = json!({"$ref": "#/$defs/a", "$defs": {"a": {"properties": limit}}});
    let combined = json!({"allOf": [{"properties": {"limit": {}}}, {"anyOf": [{"properties": {"by": {}}}, {"required": ["for"]}]}]});
    assert_eq!(names(by_reference.clone(), json!({"limit": 1})), [""; 0]);
    assert_eq!(names(by_reference, json!({"limt": 1})).len(), 1);
    assert_eq!(
        names(combined.clone(), json!({"limit": 1, "by": 1, "for": 1})),
        [""; 0]
    );
    assert_eq!(names(combined, json!({"limt": 1})).len(), 1);
    // What a schema says of other names is so.
    for says in [
        json!({"additionalProperties": true}),
        json!({"additionalProperties": {}}),
        json!({"additionalProperties": {"type": "integer"}}),
        json!({"patternProperties": {"^l": {}}}),
        json!({"unevaluatedProperties": true}),
        json!({"propertyNames": {"minLength": 1}}),
        json!({"allOf": [{"additionalProperties": true}]}),
    ] {
        let mut schema = plain.clone();
        schema
            .as_object_mut()
            .unwrap()
            .extend(says.as_object().unwrap().clone());
        assert_eq!(names(schema, json!({"limt": 5})), [""; 0], "{says}");
    }
    for open in [
        json!({}),
        json!({"type": "object"}),
        json!(true),
        json!({"required": ["a"]}),
    ] {
        assert_eq!(names(open.clone(), json!({"a": 5, "b": 1})), [""; 0], "{open}");
    }
    let mut closed = plain;
    closed["additionalProperties"] = json!(false);
    let told = names(closed, json!({"limt": 5}));
    assert!(
        told.len() == 1 && told[0].contains("did you mean limit?"),
        "{told:?}"
    );
}
