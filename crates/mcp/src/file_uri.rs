//! Files of sessions as resources: `himalia://sessions/{id}/files/{path}`, the path percent-encoded (RFC 3986).

use std::fmt::Write as _;

use himalia_engine::KernelId;

const BEGIN: &str = "himalia://sessions/";
const MIDDLE: &str = "/files/";

/// The name of a file.
pub(crate) fn of(session: KernelId, path: &str) -> String {
    let mut uri = format!("{BEGIN}{session}{MIDDLE}");
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

/// Session and path of a name; `None` if it is not one of a file.
pub(crate) fn read(uri: &str) -> Option<(KernelId, String)> {
    let (session, encoded) = uri.strip_prefix(BEGIN)?.split_once(MIDDLE)?;
    let (mut path, mut rest) = (Vec::new(), encoded.as_bytes());
    while let Some((byte, more)) = rest.split_first() {
        rest = more;
        if *byte != b'%' {
            path.push(*byte);
            continue;
        }
        let (digits, more) = more.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok()?;
        path.push(u8::from_str_radix(digits, 16).ok()?);
        rest = more;
    }
    Some((session.parse().ok()?, String::from_utf8(path).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_path_comes_back() {
        let session: KernelId = "3f0c1111-2222-3333-4444-555555555555".parse().unwrap();
        for path in ["a/b.csv", "año %41?#x.txt", ""] {
            let uri = of(session, path);
            assert!(uri.is_ascii() && !uri.contains([' ', '?', '#']), "{uri}");
            assert_eq!(read(&uri), Some((session, path.to_owned())));
        }
        let other = of(session, "x");
        for wrong in [
            other.replace("3f0c", "zzzz"),
            format!("{other}%4"),
            format!("{other}%FF"),
            "himalia://artifacts/x".into(),
        ] {
            assert_eq!(read(&wrong), None, "{wrong}");
        }
    }
}
