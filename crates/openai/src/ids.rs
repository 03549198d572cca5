//! Ids of containers and of files: they name what they are of, so that nothing has to be remembered.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use himalia_engine::SessionId;

/// Prefix of a container's id, in front of the id of its session.
const CONTAINER: &str = "cntr_";

pub(crate) fn container(session: SessionId) -> String {
    format!("{CONTAINER}{session}")
}

pub(crate) fn session(container: &str) -> Option<SessionId> {
    container.strip_prefix(CONTAINER)?.parse().ok()
}

/// The id of a file: its path below the work directory.
pub(crate) fn file(path: &str) -> String {
    format!("cfile_{}", BASE64_URL_SAFE_NO_PAD.encode(path))
}

pub(crate) fn path(file: &str) -> Option<String> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(file.strip_prefix("cfile_")?).ok()?;
    String::from_utf8(bytes).ok().filter(|path| !path.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_lead_back() {
        let id: SessionId = "3f0c1111-2222-4333-8444-555555555555".parse().unwrap();
        assert_eq!(container(id), "cntr_3f0c1111-2222-4333-8444-555555555555");
        assert_eq!(session(&container(id)), Some(id));
        for wrong in ["3f0c1111-2222-4333-8444-555555555555", "cntr_3f0c", "cntr_x", ""] {
            assert_eq!(session(wrong), None, "{wrong}");
        }
        assert_eq!(path(&file("a b/ä.txt")).as_deref(), Some("a b/ä.txt"));
        for wrong in ["cfile_", "cfile_!", "x", "cfile__w"] {
            assert_eq!(path(wrong), None, "{wrong}");
        }
    }
}
