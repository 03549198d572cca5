//! The body of `POST /api/sessions`, as far as it decides which replica serves the request: `path`, `kernel.id`.

use himalia_engine::{Origin, ResourceRef};
use serde::Deserialize;

use crate::relay::{BodyObjects, BodyReader, Start};

/// The document and the kernel of a new Jupyter session.
pub(crate) const BODY: BodyReader = BodyReader {
    refuses_rebound: false,
    read,
};

#[derive(Deserialize)]
struct JupyterSession {
    path: Option<String>,
    notebook: Option<Notebook>,
    kernel: Option<Kernel>,
}

#[derive(Deserialize)]
struct Notebook {
    path: Option<String>,
}

#[derive(Deserialize)]
struct Kernel {
    id: Option<String>,
    name: Option<String>,
}

/// A Jupyter session is created where its document has one, or at the owner of the kernel that it names.
fn read(bytes: &[u8]) -> BodyObjects {
    let Ok(body) = serde_json::from_slice::<JupyterSession>(bytes) else {
        return BodyObjects::default();
    };
    let path = body.path.or_else(|| body.notebook?.path);
    let (id, name) = body
        .kernel
        .map_or((None, None), |kernel| (kernel.id, kernel.name));
    let start = id.is_none().then_some(Start {
        template: name,
        origin: Origin::Jupyter,
    });
    let kernel = id.and_then(|id| id.parse().ok()).map(ResourceRef::Kernel);
    let path = path.map(ResourceRef::JupyterPath);
    BodyObjects {
        sought: path.into_iter().chain(kernel).collect(),
        start,
        lists: false,
        key: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "11111111-2222-3333-4444-555555555555";

    #[test]
    fn jupyter_sessions_have_a_path_and_perhaps_a_kernel() {
        let body = format!(r#"{{"path": "a.ipynb", "type": "notebook", "kernel": {{"id": "{ID}"}}}}"#);
        let path = ResourceRef::JupyterPath("a.ipynb".into());
        assert_eq!(
            read(body.as_bytes()).sought,
            [path.clone(), ResourceRef::Kernel(ID.parse().unwrap())]
        );
        let body = br#"{"notebook": {"path": "a.ipynb"}, "kernel": {"name": "warm"}}"#;
        let start = Some(Start {
            template: Some("warm".to_owned()),
            origin: Origin::Jupyter,
        });
        let sought = vec![path];
        let lists = false;
        let key = None;
        assert_eq!(
            read(body),
            BodyObjects {
                sought,
                start,
                lists,
                key
            }
        );
        assert_eq!(read(b"[1]"), BodyObjects::default());
    }
}
