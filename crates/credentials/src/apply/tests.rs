use http::Request;
use http::header::HOST;
use serde_json::{Value, json};
use time::macros::datetime;

use super::*;
use crate::credential::tests::credential;

const NOW: OffsetDateTime = datetime!(2015-08-30 12:36:00 UTC);
const SECRET: &str = "s3cret/s3cret";
const PLACEHOLDER: &str = "himalia-credential-api-placeholder";

#[expect(clippy::needless_pass_by_value, reason = "what a macro has just made")]
fn with(kind: Value) -> Credential {
    let mut definition = json!({"hosts": ["a.test"]});
    definition
        .as_object_mut()
        .unwrap()
        .extend(kind.as_object().unwrap().clone());
    credential(definition, SECRET)
}

fn request(uri: &str, headers: &[(&str, &str)]) -> Parts {
    let mut builder = Request::builder().uri(uri).header(HOST, "a.test");
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(()).unwrap().into_parts().0
}

fn header<'a>(request: &'a Parts, name: &str) -> Vec<&'a str> {
    request
        .headers
        .get_all(name)
        .iter()
        .map(|value| value.to_str().unwrap())
        .collect()
}

#[test]
fn what_a_client_has_put_there_is_replaced() {
    let sent = [
        ("authorization", "Bearer own"),
        ("authorization", "x"),
        ("x-key", "own"),
    ];
    let mut bearer = request("/", &sent);
    assert_eq!(
        with(json!({"kind": "bearer"})).add(&mut bearer, None, NOW),
        Ok(ApplyOutcome::Done)
    );
    assert_eq!(header(&bearer, "authorization"), ["Bearer s3cret/s3cret"]);
    assert!(!format!("{:?}", bearer.headers).contains("s3cret"));
    let mut basic = request("/", &sent);
    with(json!({"kind": "basic", "user": "ada"}))
        .add(&mut basic, None, NOW)
        .unwrap();
    assert_eq!(
        header(&basic, "authorization"),
        [super::basic("ada:s3cret/s3cret")]
    );
    let mut own = request("/", &sent);
    with(json!({"kind": "header", "header": "X-Key", "prefix": "k "}))
        .add(&mut own, None, NOW)
        .unwrap();
    assert_eq!(header(&own, "x-key"), ["k s3cret/s3cret"]);
    assert_eq!(header(&own, "authorization").len(), 2);
    let mut query = request("/p?a=1&ke%79=own&b=2&key=", &[]);
    with(json!({"kind": "query", "parameter": "key"}))
        .add(&mut query, None, NOW)
        .unwrap();
    assert_eq!(query.uri, "/p?a=1&b=2&key=s3cret%2Fs3cret");
}

#[test]
fn a_placeholder_is_replaced_where_its_kind_has_it() {
    let replaced = |kind: Value, mut sent: Parts| {
        let applied = with(kind).replace(&mut sent, None, NOW).unwrap();
        (applied, sent)
    };
    let bearer = format!("Bearer {PLACEHOLDER}");
    let (applied, sent) = replaced(
        json!({"kind": "bearer"}),
        request("/", &[("authorization", &bearer), ("user-agent", PLACEHOLDER)]),
    );
    assert_eq!(applied, ApplyOutcome::Done);
    assert_eq!(header(&sent, "authorization"), ["Bearer s3cret/s3cret"]);
    assert_eq!(header(&sent, "user-agent"), [PLACEHOLDER], "no other header");
    for pair in [format!("ada:{PLACEHOLDER}"), format!("{PLACEHOLDER}:")] {
        for kind in [json!({"kind": "bearer"}), json!({"kind": "basic", "user": "ada"})] {
            let (applied, sent) = replaced(kind, request("/", &[("authorization", &basic(&pair))]));
            assert_eq!(applied, ApplyOutcome::Done);
            assert_eq!(
                header(&sent, "authorization"),
                [basic(&pair.replace(PLACEHOLDER, SECRET))]
            );
        }
    }
    let (applied, sent) = replaced(
        json!({"kind": "query", "parameter": "key"}),
        request(&format!("/?other={PLACEHOLDER}&key={PLACEHOLDER}"), &[]),
    );
    assert_eq!(applied, ApplyOutcome::Done);
    assert_eq!(
        sent.uri,
        format!("/?other={PLACEHOLDER}&key=s3cret%2Fs3cret").as_str()
    );
    for (kind, headers, uri) in [
        (
            json!({"kind": "bearer"}),
            vec![("authorization", "Bearer own")],
            "/",
        ),
        (json!({"kind": "bearer"}), vec![("x-key", bearer.as_str())], "/"),
        (
            json!({"kind": "header", "header": "x-key"}),
            vec![("authorization", bearer.as_str())],
            "/",
        ),
        (
            json!({"kind": "query", "parameter": "key"}),
            vec![("authorization", bearer.as_str())],
            "/?key=own",
        ),
        (
            json!({"kind": "aws_sigv4", "access_key": "AKIA"}),
            vec![("authorization", bearer.as_str())],
            "/",
        ),
    ] {
        let before = request(uri, &headers);
        let (applied, after) = replaced(kind, request(uri, &headers));
        assert_eq!(applied, ApplyOutcome::NoPlaceholder);
        assert_eq!((after.uri, after.headers), (before.uri, before.headers));
    }
}

#[test]
fn a_signature_is_made_for_what_the_client_has_signed_for() {
    let client = format!(
        "AWS4-HMAC-SHA256 Credential={PLACEHOLDER}/20150830/eu-north-1/sqs/aws4_request, SignedHeaders=host, Signature=00"
    );
    let one = with(json!({"kind": "aws_sigv4", "access_key": "AKIDEXAMPLE"}));
    let mut sent = request(
        "/q",
        &[("authorization", &client), ("x-amz-security-token", "own")],
    );
    assert_eq!(one.replace(&mut sent, None, NOW), Ok(ApplyOutcome::NeedsHash));
    assert_eq!(header(&sent, "authorization"), [client.as_str()]);
    assert_eq!(one.replace(&mut sent, Some([0; 32]), NOW), Ok(ApplyOutcome::Done));
    let [signed] = header(&sent, "authorization")[..] else {
        panic!()
    };
    assert!(
        signed.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/eu-north-1/sqs/aws4_request, "),
        "{signed}"
    );
    assert!(header(&sent, "x-amz-security-token").is_empty());
    let other = client.replace(PLACEHOLDER, "AKIAOTHER");
    assert_eq!(
        one.replace(&mut request("/", &[("authorization", &other)]), None, NOW),
        Ok(ApplyOutcome::NoPlaceholder)
    );
    assert_eq!(
        one.add(&mut request("/", &[]), None, NOW),
        Err(ApplyError::Scope("region"))
    );
}

#[test]
fn a_body_of_s3_is_signed_as_its_client_says() {
    let s3 = with(json!({"kind": "aws_sigv4", "access_key": "AKIA", "region": "r", "service": "s3"}));
    let mut plain = request("/b/k", &[]);
    assert_eq!(s3.add(&mut plain, None, NOW), Ok(ApplyOutcome::Done));
    assert_eq!(header(&plain, "x-amz-content-sha256"), ["UNSIGNED-PAYLOAD"]);
    for (hash, expected) in [
        ("ab", Ok(ApplyOutcome::Done)),
        ("STREAMING-UNSIGNED-PAYLOAD-TRAILER", Ok(ApplyOutcome::Done)),
        (
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
            Err(ApplyError::SignedChunks),
        ),
    ] {
        let mut sent = request("/b/k", &[("x-amz-content-sha256", hash)]);
        assert_eq!(s3.add(&mut sent, None, NOW), expected, "{hash}");
        assert_eq!(header(&sent, "x-amz-content-sha256"), [hash]);
    }
    let mut url = request(
        &format!("/b/k?X-Amz-Credential={PLACEHOLDER}%2F2015&X-Amz-Signature=0"),
        &[],
    );
    assert_eq!(s3.replace(&mut url, None, NOW), Err(ApplyError::SignedUrl));
    assert_eq!(s3.add(&mut url, None, NOW), Err(ApplyError::SignedUrl));
}
