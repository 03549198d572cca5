//! Bytes as hexadecimal digits.

/// Two lower-case digits per byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value & 15)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)])
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn digits_are_in_order() {
        assert_eq!(super::hex(&[0, 0x1f, 0xa5]), "001fa5");
    }
}
