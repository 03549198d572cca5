use proptest::prelude::*;
use serde_json::json;

use super::*;

fn list(rules: serde_json::Value) -> AllowList {
    serde_json::from_value(rules).unwrap()
}

fn may(list: &AllowList, host: &str, port: u16, access: Access<'_>) -> bool {
    list.permits(&Host::parse(host).unwrap(), port, access)
}

#[test]
fn a_list_allows_what_it_names_and_nothing_else() {
    let rules = list(json!([
        "pypi.org",
        "*.Example.org",
        "db.lab:5432",
        "10.1.2.3:8080",
        { "host": "api.lab", "ports": [80], "methods": ["get"] },
    ]));
    for (host, port) in [
        ("pypi.org", 443),
        ("PYPI.org.", 80),
        ("a.example.org", 443),
        ("a.b.example.org", 443),
        ("db.lab", 5432),
        ("10.1.2.3", 8080),
        ("::ffff:10.1.2.3", 8080),
    ] {
        assert!(may(&rules, host, port, Access::Tunnel), "{host}:{port}");
        assert!(may(&rules, host, port, Access::Request("POST")), "{host}:{port}");
    }
    for (host, port) in [
        ("pypi.org", 22),
        ("example.org", 443),
        ("evilexample.org", 443),
        ("a.example.org.evil.net", 443),
        ("pypi.org.evil.net", 443),
        ("db.lab", 443),
        ("10.1.2.3", 80),
        ("10.1.2.4", 8080),
    ] {
        assert!(!may(&rules, host, port, Access::Tunnel), "{host}:{port}");
        assert!(!may(&rules, host, port, Access::Http), "{host}:{port}");
    }
    assert!(may(&rules, "api.lab", 80, Access::Request("GET")));
    assert!(may(&rules, "api.lab", 80, Access::Http));
    assert!(
        !may(&rules, "api.lab", 80, Access::Request("get")),
        "methods have a case"
    );
    assert!(!may(&rules, "api.lab", 80, Access::Request("POST")));
    assert!(
        !may(&rules, "api.lab", 80, Access::Tunnel),
        "methods cannot be read in it"
    );
}

#[test]
fn every_name_is_no_address() {
    let all = list(json!(["*"]));
    assert!(may(&all, "a.example", 443, Access::Tunnel));
    assert!(!may(&all, "8.8.8.8", 443, Access::Tunnel));
    assert!(!may(&all, "[2001:4860::1]", 443, Access::Tunnel));
    assert!(!may(&AllowList::default(), "a.example", 443, Access::Tunnel));
}

#[test]
fn a_caller_can_only_take_away() {
    let template = list(json!([
        "pypi.org",
        "*.example.org",
        { "host": "api.lab", "ports": [80, 8080], "methods": ["GET", "HEAD"] },
    ]));
    for narrower in [
        json!([]),
        json!(["pypi.org:443", "pypi.org:80"]),
        json!(["*.a.example.org", "b.example.org"]),
        json!([{ "host": "api.lab", "ports": [8080], "methods": ["GET"] }]),
    ] {
        assert_eq!(list(narrower.clone()).exceeds(&template), None, "{narrower}");
    }
    for (wider, named) in [
        (json!(["pypi.org:22"]), "pypi.org:22"),
        (json!(["*"]), "*"),
        (json!(["pypi.org", "*.org"]), "*.org"),
        (json!(["example.org"]), "example.org"),
        (json!(["api.lab:80"]), "api.lab:80"),
        (
            json!([{ "host": "api.lab", "ports": [80], "methods": ["PUT"] }]),
            "PUT api.lab:80",
        ),
        (json!(["10.0.0.1"]), "10.0.0.1"),
    ] {
        assert_eq!(list(wider).exceeds(&template).unwrap().to_string(), named);
    }
    assert_eq!(template.exceeds(&template), None);
}

#[test]
fn what_is_wrong_with_a_rule_is_named() {
    for (rule, reason) in [
        (json!("a b"), "host \"a b\""),
        (json!("*.10.0.0.1"), "host \"*.10.0.0.1\""),
        (json!("a.*.b"), "host"),
        (json!("https://pypi.org"), "port of"),
        (json!("pypi.org:0"), "ports of \"pypi.org\""),
        (json!("pypi.org:99999"), "port of"),
        (
            json!({ "host": "a.b", "methods": ["GET /"] }),
            "methods of \"a.b\"",
        ),
    ] {
        let error = serde_json::from_value::<Rule>(rule.clone())
            .unwrap_err()
            .to_string();
        assert!(error.contains(reason), "{rule}: {error}");
    }
    let many: Vec<_> = (0..=MAX_RULES)
        .map(|number| json!(format!("h{number}.a")))
        .collect();
    assert!(serde_json::from_value::<AllowList>(json!(many)).is_err());
}

#[test]
fn a_message_names_a_few() {
    assert_eq!(list(json!([])).to_string(), "nothing");
    let ten: Vec<_> = (0..10)
        .map(|number| json!(format!("h{number}.a:{}", 8000 + number)))
        .collect();
    let text = list(json!(ten)).to_string();
    assert!(
        text.starts_with("h0.a:8000, ") && text.ends_with(", and 2 more"),
        "{text}"
    );
}

fn rule() -> impl Strategy<Value = Rule> {
    let host = prop_oneof![
        Just("*".to_owned()),
        "(\\*\\.)?[a-c](\\.[a-c]){0,2}",
        Just("10.0.0.1".to_owned()),
        Just("[2001:db8::1]".to_owned()),
    ];
    let ports = proptest::collection::vec(prop_oneof![Just(80), Just(443), Just(22)], 0..3);
    let methods =
        proptest::collection::vec(prop_oneof![Just("GET".to_owned()), Just("PUT".to_owned())], 0..2);
    (host, ports, methods).prop_map(|(host, ports, methods)| Rule::new(&host, &ports, &methods).unwrap())
}

fn rules() -> impl Strategy<Value = AllowList> {
    proptest::collection::vec(rule(), 0..4).prop_map(|rules| AllowList::try_from(rules).unwrap())
}

proptest! {
    /// What does not exceed a list allows nothing that the list does not.
    #[test]
    fn narrower_means_that_nothing_more_is_allowed(
        one in rules(),
        other in rules(),
        host in "[a-c](\\.[a-c]){0,3}|10\\.0\\.0\\.1",
        port in prop_oneof![Just(80), Just(443), Just(22)],
        method in prop_oneof![Just("GET"), Just("PUT"), Just("POST")],
    ) {
        if one.exceeds(&other).is_none() {
            for access in [Access::Tunnel, Access::Request(method), Access::Http] {
                prop_assert!(!may(&one, &host, port, access) || may(&other, &host, port, access));
            }
        }
    }

    #[test]
    fn a_rule_is_read_as_it_is_written(rule in rule()) {
        let text = serde_json::to_string(&rule).unwrap();
        prop_assert_eq!(serde_json::from_str::<Rule>(&text).unwrap(), rule);
    }

    #[test]
    fn no_text_is_too_strange(text in "\\PC{0,80}") {
        if let Ok(rule) = text.parse::<Rule>() {
            prop_assert_eq!(rule.to_string().parse::<Rule>().ok(), Some(rule));
        }
        let _ = Host::parse(&text);
    }
}
