//! Secrets in texts and streams.

use base64::Engine as _;
use base64::engine::general_purpose::GeneralPurpose;
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::SecretText;
use crate::credential::tests::credential;

fn mask(secret: &str) -> Mask {
    let one = credential(json!({"kind": "bearer", "hosts": ["a"]}), secret);
    Mask::new([&one])
}

fn stars(masked: &[u8]) -> usize {
    String::from_utf8_lossy(masked).matches(char::from(MASK)).count()
}

fn streamed(mask: &Mask, parts: &[&[u8]]) -> Vec<u8> {
    let mut stream = MaskStream::default();
    let mut passed = Vec::new();
    for part in parts {
        passed.extend_from_slice(&stream.next(mask, Bytes::copy_from_slice(part)));
    }
    passed.extend_from_slice(&stream.finish());
    passed
}

#[test]
fn the_usual_encodings_are_found() {
    let secret = "s3cr/et+\"with\\ more&<>";
    let mask = mask(secret);
    let base64 = |engine: &GeneralPurpose, text: &str| engine.encode(text);
    let (standard, url) = (
        base64::engine::general_purpose::STANDARD,
        base64::engine::general_purpose::URL_SAFE_NO_PAD,
    );
    for text in [
        secret.to_owned(),
        serde_json::to_string(secret).unwrap(),
        serde_json::to_string(secret).unwrap().replace('/', "\\/"),
        percent_encoded(secret, "-_.~"),
        percent_encoded(secret, "-_.~/").replace("%20", "+"),
        hex::encode(secret),
        base64(&standard, secret),
        base64(&standard, &format!("user:{secret}")),
        base64(&url, &format!("users:{secret}@x")),
        base64(&standard, &format!("us:{secret}:")),
    ] {
        let masked = mask
            .text(text.as_bytes())
            .map(|masked| String::from_utf8(masked).unwrap());
        let masked = masked.unwrap_or(text.clone());
        let stars = stars(masked.as_bytes());
        assert!(stars + 12 >= text.len() && stars >= 20, "{text}: {masked}");
        assert_eq!(masked.len(), text.len());
    }
    assert_eq!(mask.text(b"nothing of this"), None);
    assert!(mask.is_in_any_case(&format!("x-{secret}").to_ascii_uppercase()));
}

#[test]
fn nothing_is_held_back_that_begins_no_secret() {
    let mask = mask("s3cret-s3cret");
    let mut stream = MaskStream::default();
    assert_eq!(
        stream.next(&mask, Bytes::from_static(b"data: 1\n\n")),
        "data: 1\n\n"
    );
    assert_eq!(stream.next(&mask, Bytes::from_static(b"data: s3c")), "data: ");
    assert_eq!(stream.held(), 3);
    assert_eq!(
        stream.next(&mask, Bytes::from_static(b"s")),
        "s3cs"[..3].to_owned()
    );
    assert_eq!(stream.finish(), "s");
}

#[test]
fn secrets_that_overlap_are_masked_whole() {
    let mask = mask("abababab");
    for cut in 0..=12 {
        let text = b"xabababababx";
        let (a, b) = text.split_at(cut);
        assert_eq!(streamed(&mask, &[a, b]), b"x**********x", "{cut}");
    }
}

#[test]
fn a_live_mask_follows_its_credential() {
    let one = credential(
        json!({"kind": "oauth2", "hosts": ["a"], "grant": "client_credentials", "issuer": "https://i", "client_id": "c"}),
        "first-access-token",
    );
    let known = one.known.clone();
    let mut mask = LiveMask::new(vec![one]);
    let mut stream = MaskStream::default();
    let mut passed = Vec::new();
    let mut pass = |mask: &Mask, part: &'static str| {
        passed.extend_from_slice(&stream.next(mask, Bytes::from_static(part.as_bytes())));
    };
    pass(mask.current(), "first-access-token second-access-token sec");
    known.add([SecretText::new("second-access-token".to_owned())]);
    pass(mask.current(), "ond-access-token second-access-token ");
    pass(mask.current(), "first-access-token.");
    let text = String::from_utf8(passed).unwrap();
    let stars = "*".repeat(19);
    // What was passed on before the token was got cannot be masked.
    assert_eq!(
        text,
        format!(
            "{} second-access-token second-access-token {stars} {}.",
            &stars[1..],
            &stars[1..]
        )
    );
}

proptest! {
    #[test]
    fn no_cut_lets_a_secret_through(
        secret in "[ab/+ ]{8,12}".prop_filter("no space at an end", |text| text.trim() == text),
        around in proptest::collection::vec("[ab/+ ]{0,9}", 1..6),
        cuts in proptest::collection::vec(0_usize..80, 0..12),
    ) {
        let mask = mask(&secret);
        let text = around.join(&secret).into_bytes();
        let whole = mask.text(&text).unwrap_or_else(|| text.clone());
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < text.len()).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let parts: Vec<&[u8]> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        let passed = streamed(&mask, &parts);
        prop_assert_eq!(&passed, &whole);
        prop_assert!(!String::from_utf8_lossy(&passed).contains(&secret));
    }

    #[test]
    fn every_base64_of_a_text_with_the_secret_is_masked(
        secret in "[!-~]{8,20}", before in "[ -~]{0,7}", after in "[ -~]{0,7}",
    ) {
        let mask = mask(&secret);
        let text = base64::engine::general_purpose::STANDARD.encode(format!("{before}{secret}{after}"));
        let masked = mask.text(text.as_bytes()).unwrap();
        let stars = stars(&masked);
        prop_assert!(stars >= secret.len() * 8 / 6 - 1);
    }
}

#[test]
fn a_credential_without_a_secret_hides_nothing() {
    let empty = mask("");
    assert!(empty.is_empty());
    assert_eq!(empty.text(b"a text"), None);
    assert!(!empty.is_in_any_case("x-name"));
    assert_eq!(streamed(&empty, &[b"a ", b"text"]), b"a text");
}

#[test]
fn encodings_of_single_characters_are_found() {
    let secret = "sk-live+Q7/rT9\"x&zW=4kkP<'>";
    let mask = mask(secret);
    let each = |form: &dyn Fn(u8) -> String| secret.bytes().map(form).collect::<String>();
    let special = |form: &dyn Fn(u8) -> String| {
        each(&|byte| {
            if byte.is_ascii_alphanumeric() {
                char::from(byte).into()
            } else {
                form(byte)
            }
        })
    };
    let standard = base64::engine::general_purpose::STANDARD;
    let lines = |text: &str, length: usize, end: &str| {
        let encoded = standard.encode(text);
        let lines: Vec<&str> = encoded
            .as_bytes()
            .chunks(length)
            .map(|line| std::str::from_utf8(line).unwrap())
            .collect();
        lines.join(end)
    };
    for text in [
        hex::encode(secret),
        hex::encode_upper(secret),
        each(&|byte| format!("\\u{byte:04x}")),
        special(&|byte| format!("\\u{byte:04X}")),
        special(&|byte| format!("\\x{byte:02x}")),
        each(&|byte| format!("&#{byte};")),
        special(&|byte| format!("&#x{byte:x};")),
        special(&|byte| format!("&#X{byte:04X};")),
        special(&|byte| format!("%{byte:02x}")),
        secret
            .replace('&', "&amp;")
            .replace('"', "&quot;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
            .replace('\'', "&#39;"),
        lines(&format!("{}{secret}", "x".repeat(40)), 64, "\r\n"),
        lines(&format!("{}{secret}", "x".repeat(50)), 76, "\n"),
        lines(&format!("{}{secret}", "x".repeat(51)), 76, "\\r\\n"),
        lines(secret, 1, "\n"),
        percent_encoded(&standard.encode(secret), ""),
    ] {
        let masked = mask.text(text.as_bytes());
        let masked = masked.unwrap_or_else(|| panic!("not found in {text}"));
        let standing = masked.split(|byte| *byte == MASK).map(<[u8]>::len).max();
        assert!(stars(&masked) >= secret.len(), "{text}");
        assert!(standing.is_none_or(|length| length <= 68), "{text}");
        let parts: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(streamed(&mask, &parts), masked, "{text}");
    }
}

proptest! {
    #[test]
    fn secrets_of_any_length_make_a_mask(secret in "[ -~]{0,40}", text in "[ -~]{0,60}", cut in 0_usize..60) {
        let mask = mask(&secret);
        let text = format!("{text}{secret}").into_bytes();
        let whole = mask.text(&text).unwrap_or_else(|| text.clone());
        prop_assert_eq!(whole.len(), text.len());
        let (one, other) = text.split_at(cut.min(text.len()));
        prop_assert_eq!(streamed(&mask, &[one, other]), whole.clone());
        if secret.len() >= 6 {
            prop_assert!(whole.ends_with("*".repeat(secret.len()).as_bytes()));
        }
    }

    #[test]
    fn each_character_may_have_another_form(
        secret in "[ -~]{8,20}",
        forms in proptest::collection::vec(0_usize..6, 20),
        cuts in proptest::collection::vec(0_usize..100, 0..6),
    ) {
        let mask = mask(&secret);
        let text: String = secret.bytes().zip(forms).map(|(byte, form)| match form {
            0 => format!("%{byte:02X}"),
            1 => format!("\\u{byte:04x}"),
            2 => format!("&#{byte};"),
            3 => format!("&#x{byte:X};"),
            _ => char::from(byte).into(),
        }).collect();
        let text = text.into_bytes();
        let whole = mask.text(&text).unwrap_or_default();
        prop_assert!(whole.len() == text.len() && whole.iter().all(|byte| *byte == MASK));
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|cut| *cut < text.len()).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let parts: Vec<&[u8]> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        prop_assert_eq!(streamed(&mask, &parts), whole);
    }
}
