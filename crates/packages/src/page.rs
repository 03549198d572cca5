//! The page of one project: which files there are (PEP 503, PEP 691), and where.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::OnceLock;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::NAME;
use crate::html::{self, Anchor};

/// Most files of a project; more are left out.
const FILES_MAX: usize = 50_000;
/// Characters of the name of a file.
const NAME_CHARS: usize = 255;

/// A file of a project, as the index describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) name: String,
    /// URL of the file at the index.
    pub(crate) url: Url,
    /// By algorithm, lower case.
    hashes: BTreeMap<String, String>,
    requires_python: Option<String>,
    /// Reason if the file is yanked.
    yanked: Option<String>,
    /// Digest of the file with its metadata, which is beside it.
    pub(crate) metadata: Option<String>,
    size: Option<u64>,
    upload_time: Option<String>,
}

/// All files of a project.
#[derive(Debug, Default)]
pub(crate) struct Page {
    project: String,
    files: Vec<File>,
    /// Positions of files by name.
    by_name: HashMap<String, usize>,
    /// As it is written; some pages have megabytes.
    json: OnceLock<Bytes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Html,
}

impl Form {
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/vnd.pypi.simple.v1+json",
            Self::Html => "text/html; charset=utf-8",
        }
    }
}

impl File {
    /// SHA-256 in hexadecimal digits: the key of the file in the cache.
    pub(crate) fn sha256(&self) -> Option<&str> {
        self.hashes.get("sha256").map(String::as_str)
    }

    /// URL of the file for sessions.
    fn own_url(&self, project: &str) -> String {
        let digest = self.sha256().unwrap_or(NO_DIGEST);
        format!("http://{NAME}/files/{project}/{digest}/{}", self.name)
    }
}

/// In the place of the digest of a file that has none.
pub(crate) const NO_DIGEST: &str = "-";

impl Page {
    /// Reads what the index sent for a project from this URL.
    ///
    /// # Errors
    /// When it cannot be understood.
    pub(crate) fn read(project: &str, base: &Url, form: Form, body: &[u8]) -> Result<Self, String> {
        let files: Vec<File> = match form {
            Form::Json => {
                let page: JsonPage = serde_json::from_slice(body).map_err(|error| error.to_string())?;
                page.files
                    .into_iter()
                    .filter_map(|file| file.read(base))
                    .collect()
            }
            Form::Html => {
                let text = String::from_utf8_lossy(body);
                html::anchors(&text)
                    .filter_map(|anchor| of_anchor(&anchor, base))
                    .take(FILES_MAX)
                    .collect()
            }
        };
        let mut page = Self {
            project: project.to_owned(),
            ..Self::default()
        };
        for file in files.into_iter().take(FILES_MAX) {
            // One name has one meaning.
            if page.by_name.insert(file.name.clone(), page.files.len()).is_none() {
                page.files.push(file);
            } else {
                return Err(format!("has the file {} twice", file.name));
            }
        }
        Ok(page)
    }

    /// A file by its name, if it has this digest, or none and [`NO_DIGEST`] is said.
    pub(crate) fn file(&self, name: &str, digest: &str) -> Option<&File> {
        let file = self.by_name.get(name).and_then(|at| self.files.get(*at))?;
        (file.sha256().unwrap_or(NO_DIGEST) == digest).then_some(file)
    }

    /// Approximate memory of the page, in bytes.
    pub(crate) fn weight(&self) -> usize {
        // Its own memory, and its part of the text.
        let of = |file: &File| 900 + 4 * file.name.len() + file.url.as_str().len();
        self.files.iter().map(of).sum::<usize>() + 1000
    }

    /// As sessions get it: all URLs are of this gateway.
    pub(crate) fn write(&self, form: Form) -> Bytes {
        match form {
            Form::Json => self.json.get_or_init(|| self.to_json()).clone(),
            Form::Html => self.html(),
        }
    }

    fn to_json(&self) -> Bytes {
        let files: Vec<Value> = self
            .files
            .iter()
            .map(|file| {
                let mut one = json!({ "filename": file.name, "url": file.own_url(&self.project), "hashes": file.hashes });
                let mut add = |name: &str, value: Value| drop(one.as_object_mut().map(|one| one.insert(name.to_owned(), value)));
                if let Some(requires) = &file.requires_python {
                    add("requires-python", json!(requires));
                }
                if let Some(reason) = &file.yanked {
                    add("yanked", if reason.is_empty() { json!(true) } else { json!(reason) });
                }
                if let Some(digest) = &file.metadata {
                    for name in ["core-metadata", "data-dist-info-metadata"] {
                        add(name, json!({ "sha256": digest }));
                    }
                }
                if let Some(size) = file.size {
                    add("size", json!(size));
                }
                if let Some(time) = &file.upload_time {
                    add("upload-time", json!(time));
                }
                one
            })
            .collect();
        let page = json!({ "meta": { "api-version": "1.0" }, "name": self.project, "files": files });
        serde_json::to_vec(&page).unwrap_or_default().into()
    }

    fn html(&self) -> Bytes {
        let mut out = String::from(
            "<!DOCTYPE html><html><head><meta name=\"pypi:repository-version\" content=\"1.0\"></head><body>\n",
        );
        for file in &self.files {
            let first = file
                .hashes
                .get_key_value("sha256")
                .or_else(|| file.hashes.iter().next());
            let fragment = first
                .map(|(name, digest)| format!("#{name}={digest}"))
                .unwrap_or_default();
            let mut attributes = vec![("href", file.own_url(&self.project) + &fragment)];
            attributes.extend(
                file.requires_python
                    .clone()
                    .map(|it| ("data-requires-python", it)),
            );
            attributes.extend(file.yanked.clone().map(|it| ("data-yanked", it)));
            if let Some(digest) = &file.metadata {
                attributes.push(("data-core-metadata", format!("sha256={digest}")));
            }
            // Writing to a string does not fail.
            out.push_str("<a");
            for (name, value) in &attributes {
                let _ = write!(out, " {name}=\"{}\"", html::escape(value));
            }
            let _ = writeln!(out, ">{}</a><br>", html::escape(&file.name));
        }
        out.push_str("</body></html>\n");
        out.into()
    }
}

/// Names that need no encoding in a URL, as those of wheels and source archives do.
fn is_file_name(name: &str) -> bool {
    (1..=NAME_CHARS).contains(&name.len())
        && !name.starts_with('.')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._+!-".contains(&byte))
}

/// A digest as it is written, if it is one.
pub(crate) fn digest(text: &str) -> Option<String> {
    (text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| text.to_ascii_lowercase())
}

fn hashes(all: impl IntoIterator<Item = (String, String)>) -> BTreeMap<String, String> {
    let sound = |(name, value): (String, String)| {
        let name = name.to_ascii_lowercase();
        if name == "sha256" {
            return Some((name, digest(&value)?));
        }
        let plain = |text: &str| {
            !text.is_empty() && text.len() <= 256 && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        (plain(&name) && plain(&value)).then_some((name, value))
    };
    all.into_iter().filter_map(sound).collect()
}

#[derive(Debug, Deserialize)]
struct JsonPage {
    files: Vec<JsonFile>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct JsonFile {
    filename: String,
    url: String,
    #[serde(default)]
    hashes: HashMap<String, String>,
    #[serde(default)]
    requires_python: Option<String>,
    #[serde(default)]
    yanked: Value,
    #[serde(default)]
    core_metadata: Value,
    #[serde(default)]
    data_dist_info_metadata: Value,
    #[serde(default)]
    size: Option<u64>,
    #[serde(default)]
    upload_time: Option<String>,
}

impl JsonFile {
    fn read(self, base: &Url) -> Option<File> {
        let metadata = [&self.core_metadata, &self.data_dist_info_metadata];
        let metadata = metadata
            .into_iter()
            .find_map(|value| digest(value.get("sha256")?.as_str()?));
        Some(File {
            url: file_url(base, &self.url)?,
            name: Some(self.filename).filter(|name| is_file_name(name))?,
            hashes: hashes(self.hashes),
            requires_python: self.requires_python,
            yanked: match self.yanked {
                Value::String(reason) => Some(reason),
                Value::Bool(true) => Some(String::new()),
                _ => None,
            },
            metadata,
            size: self.size,
            upload_time: self.upload_time,
        })
    }
}

fn of_anchor(anchor: &Anchor, base: &Url) -> Option<File> {
    let mut url = file_url(base, anchor.attribute("href")?)?;
    let fragment = url.fragment().map(str::to_owned);
    url.set_fragment(None);
    let hash = fragment.as_deref().and_then(|it| it.split_once('='));
    let metadata = ["data-core-metadata", "data-dist-info-metadata"];
    let metadata = metadata
        .into_iter()
        .find_map(|name| digest(anchor.attribute(name)?.strip_prefix("sha256=")?));
    Some(File {
        url,
        name: Some(anchor.text.trim().to_owned()).filter(|name| is_file_name(name))?,
        hashes: hashes(hash.map(|(name, value)| (name.to_owned(), value.to_owned()))),
        requires_python: anchor.attribute("data-requires-python").map(str::to_owned),
        yanked: anchor.attribute("data-yanked").map(str::to_owned),
        metadata,
        size: None,
        upload_time: None,
    })
}

/// A URL that can be fetched.
fn file_url(base: &Url, text: &str) -> Option<Url> {
    let url = base.join(text).ok()?;
    matches!(url.scheme(), "http" | "https").then_some(url)
}

/// The name of a project in its one spelling (PEP 503).
pub(crate) fn normalized(name: &str) -> Option<String> {
    let sound = (1..=100).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if !sound {
        return None;
    }
    let parts: Vec<&str> = name
        .split(['.', '_', '-'])
        .filter(|part| !part.is_empty())
        .collect();
    (!parts.is_empty()).then(|| parts.join("-").to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    fn base() -> Url {
        Url::parse("https://index.test/simple/a-b/").unwrap()
    }

    fn page(form: Form, text: &str) -> Result<Page, String> {
        Page::read("a-b", &base(), form, text.as_bytes())
    }

    #[test]
    fn both_forms_say_the_same_and_lead_to_the_gateway() {
        let json = format!(
            r#"{{"meta":{{"api-version":"1.1"}},"name":"a-b","files":[
            {{"filename":"a_b-1.0.whl","url":"../../f/a_b-1.0.whl","hashes":{{"sha256":"{SHA}"}},"requires-python":">=3.8","core-metadata":{{"sha256":"{SHA}"}},"yanked":"bad"}},
            {{"filename":"a_b-0.9.tar.gz","url":"https://files.test/x","hashes":{{}},"core-metadata":true,"yanked":false}}]}}"#
        );
        let html = format!(
            "<a href=\"../../f/a_b-1.0.whl#sha256={SHA}\" data-requires-python=\"&gt;=3.8\" data-core-metadata=\"sha256={SHA}\" data-yanked=\"bad\">a_b-1.0.whl</a>\
             <a href=\"https://files.test/x\">a_b-0.9.tar.gz</a>"
        );
        let (json, html) = (page(Form::Json, &json).unwrap(), page(Form::Html, &html).unwrap());
        assert_eq!(json.files, html.files);
        let file = json.file("a_b-1.0.whl", SHA).unwrap();
        assert_eq!(
            (file.url.as_str(), file.metadata.as_deref()),
            ("https://index.test/f/a_b-1.0.whl", Some(SHA))
        );
        assert!(
            json.file("a_b-0.9.tar.gz", NO_DIGEST).is_some() && json.file("a_b-0.9.tar.gz", SHA).is_none()
        );
        assert!(
            json.file("a_b-1.0.whl", NO_DIGEST).is_none(),
            "its digest is known"
        );
        for form in [Form::Json, Form::Html] {
            let written = String::from_utf8(json.write(form).to_vec()).unwrap();
            assert!(
                written.contains(&format!("http://packages.internal/files/a-b/{SHA}/a_b-1.0.whl")),
                "{written}"
            );
            assert!(
                written.contains("/files/a-b/-/a_b-0.9.tar.gz") && !written.contains("files.test"),
                "{written}"
            );
            // What a session is given is a page too.
            let again = Page::read("a-b", &base(), form, written.as_bytes()).unwrap();
            assert_eq!(
                again
                    .files
                    .iter()
                    .map(|file| (&file.name, &file.hashes))
                    .collect::<Vec<_>>(),
                json.files
                    .iter()
                    .map(|file| (&file.name, &file.hashes))
                    .collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn what_is_no_file_is_left_out_and_what_is_no_page_is_an_error() {
        let odd = page(
            Form::Html,
            "<a href=\"ftp://a/b\">b.whl</a><a href=\"x\">../x</a><a href=\"y\">a/b</a><a>c.whl</a>",
        )
        .unwrap();
        assert!(odd.files.is_empty());
        assert!(page(Form::Json, "{}").is_err());
        assert!(
            page(Form::Html, "<a href=\"a\">a.whl</a><a href=\"b\">a.whl</a>")
                .unwrap_err()
                .contains("twice")
        );
        let bad = format!(
            r#"{{"files":[{{"filename":"a.whl","url":"a.whl","hashes":{{"sha256":"{}"}}}}]}}"#,
            &SHA[1..]
        );
        assert_eq!(page(Form::Json, &bad).unwrap().files[0].sha256(), None);
    }

    #[test]
    fn a_project_has_one_name() {
        for name in ["A_b", "a.b", "a-B", "a--b", "a._-b"] {
            assert_eq!(normalized(name).as_deref(), Some("a-b"), "{name}");
        }
        for name in ["", "..", "a/b", "a b", "%2e", &"a".repeat(101)] {
            assert_eq!(normalized(name), None, "{name}");
        }
    }
}
