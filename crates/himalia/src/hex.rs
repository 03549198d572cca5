//! Bytes as hexadecimal digits, and back.

/// Two lower-case digits per byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value & 15)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)])
        .collect()
}

/// The 32 bytes that 64 digits say.
pub(crate) fn digest(text: &str) -> Option<[u8; 32]> {
    let mut out = [0; 32];
    let digits = text.as_bytes();
    if digits.len() != 2 * out.len() {
        return None;
    }
    let value = |digit: u8| {
        char::from(digit)
            .to_digit(16)
            .and_then(|value| u8::try_from(value).ok())
    };
    for (byte, pair) in out.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    #[test]
    fn digits_are_in_order() {
        assert_eq!(super::hex(&[0, 0x1f, 0xa5]), "001fa5");
    }

    #[test]
    fn digests_come_back() {
        let digest: [u8; 32] = std::array::from_fn(|at| u8::try_from(at * 8 + 7).unwrap());
        let text = super::hex(&digest);
        assert_eq!(super::digest(&text), Some(digest));
        assert_eq!(super::digest(&text.to_uppercase()), Some(digest));
        for bad in ["", &text[1..], &format!("{text}0"), &text.replace("07", "+7")] {
            assert_eq!(super::digest(bad), None, "{bad}");
        }
    }
}
