//! Upstream servers of tools, as the operator configures them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use url::Url;

use crate::credential::{UrlScheme, check_credential_name};
use crate::network::Host;
use crate::principal::{MAX_PRINCIPAL_CHARS, OPERATOR};
use crate::tool_call::ToolCaller;
use crate::tool_policy::{MAX_TOOL_PATTERNS, glob};

/// Most characters of the name of a server.
const MAX_NAME: usize = 64;
/// Most bytes of a description of one.
const MAX_DESCRIPTION: usize = 2048;
/// Most words of the command of a program, most of its own variables, and most bytes of both together.
const MAX_COMMAND: usize = 256;
const MAX_VARIABLES: usize = 128;
const MAX_COMMAND_BYTES: usize = 64 * 1024;
/// Default and upper bound of the duration of a call.
const CALL_TIME: Duration = Duration::from_mins(1);
const MAX_CALL_TIME: Duration = Duration::from_hours(1);
/// Bytes of a reply by default, at least and at most.
const REPLY_BYTES: usize = 16 << 20;
const REPLY_RANGE: std::ops::RangeInclusive<usize> = 1024..=256 << 20;

/// An upstream server of tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolServerConfig {
    /// Name of the server: `[a-z][a-z0-9_]{0,63}`.
    pub name: String,
    /// Protocol and address.
    pub kind: ToolServerKind,
    /// Purpose, for a model.
    pub description: String,
    /// The name of the credential that is added to its requests.
    pub credential: Option<String>,
    /// Tenant whose sessions may use the server, or `operator` for all.
    pub owner: String,
    /// Allowed callers of its tools.
    pub callers: AllowedCallers,
    /// Longest wait for a call.
    pub call_time: Duration,
    /// Most bytes of a reply.
    pub reply_bytes: usize,
}

/// Allowed callers of each tool of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedCallers {
    /// Patterns of tools' names, those with the most letters first, and who may call what they stand for.
    rules: Vec<(String, Vec<ToolCaller>)>,
}

impl AllowedCallers {
    /// Allowed callers of a tool: of the longest pattern that matches it, or both kinds if none does.
    pub fn of(&self, tool: &str) -> &[ToolCaller] {
        let mut rules = self.rules.iter();
        let found = rules.find(|(pattern, _)| glob(pattern, tool));
        found.map_or(&[ToolCaller::Model, ToolCaller::Code], |(_, callers)| callers)
    }

    fn new(said: CallersField) -> Result<Self, String> {
        let said = match said {
            CallersField::All(callers) => BTreeMap::from([("*".to_owned(), callers)]),
            CallersField::ByTool(rules) => rules,
        };
        if said.len() > MAX_TOOL_PATTERNS {
            return Err(format!("has more than {MAX_TOOL_PATTERNS} patterns"));
        }
        let mut rules = Vec::new();
        for (pattern, mut callers) in said {
            if callers.is_empty() {
                return Err(format!(
                    "no caller may call {pattern:?}; leave it out of the tools of templates instead"
                ));
            }
            callers.sort_unstable();
            callers.dedup();
            rules.push((pattern, callers));
        }
        let letters = |pattern: &str| pattern.chars().filter(|one| *one != '*').count();
        rules.sort_by_key(|(pattern, _)| std::cmp::Reverse((letters(pattern), !pattern.contains('*'))));
        Ok(Self { rules })
    }
}

/// `allowed_callers` as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum CallersField {
    /// One list for all tools.
    All(Vec<ToolCaller>),
    /// By patterns of their names.
    ByTool(BTreeMap<String, Vec<ToolCaller>>),
}

/// Protocol and address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolServerKind {
    /// The Model Context Protocol, over streamable HTTP.
    Mcp {
        /// URL of the endpoint.
        url: HttpUrl,
    },
    /// The Model Context Protocol, over the standard input and output of a program that runs in a sandbox of its own.
    Program(ProgramConfig),
    /// HTTP, as an OpenAPI description says. Each operation is a tool.
    OpenApi {
        /// Source of the description.
        description: DescriptionSource,
        /// Below which the operations are. `None`: the first server of the description says it.
        base_url: Option<HttpUrl>,
    },
}

/// A program that is a server of tools.
#[derive(Clone, PartialEq, Eq)]
pub struct ProgramConfig {
    /// Program and arguments, as its sandbox finds them.
    pub command: Vec<String>,
    /// Environment variables; they override the variables of the sandbox.
    pub env: BTreeMap<String, String>,
    /// The template of its sandbox. `None`: what a session without a template has.
    pub template: Option<String>,
}

/// Without arguments and values, which may be secret.
impl fmt::Debug for ProgramConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgramConfig")
            .field("program", &self.program())
            .field("env", &self.env.keys())
            .field("template", &self.template)
            .finish_non_exhaustive()
    }
}

impl ProgramConfig {
    /// The program without its arguments.
    pub fn program(&self) -> &str {
        self.command.first().map_or("", String::as_str)
    }

    fn new(
        command: Vec<String>,
        env: BTreeMap<String, String>,
        template: Option<String>,
    ) -> Result<Self, String> {
        if command.first().is_none_or(String::is_empty) {
            return Err("command: names no program".to_owned());
        }
        if command.len() > MAX_COMMAND {
            return Err(format!("command: has more than {MAX_COMMAND} words"));
        }
        if command.iter().any(|word| word.contains('\0')) {
            return Err("command: has a NUL character".to_owned());
        }
        if env.len() > MAX_VARIABLES {
            return Err(format!("env: has more than {MAX_VARIABLES} variables"));
        }
        let variables = env.iter().map(|(name, value)| name.len() + value.len());
        let bytes: usize = command.iter().map(String::len).chain(variables).sum();
        if bytes > MAX_COMMAND_BYTES {
            return Err(format!(
                "command: has more than {MAX_COMMAND_BYTES} bytes, with env"
            ));
        }
        Ok(Self {
            command,
            env,
            template,
        })
    }
}

/// Source of an OpenAPI description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DescriptionSource {
    /// In a file.
    File(PathBuf),
    /// At a URL.
    Url(HttpUrl),
}

/// A URL of `http` or `https` with a host, without a user and a fragment.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpUrl {
    url: Url,
    scheme: UrlScheme,
    host: Host,
    port: u16,
}

impl HttpUrl {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::parse_secret(text).map_err(|reason| format!("{text:?} {reason}"))
    }

    /// Reads one whose path or query may be secret: what is wrong with it does not repeat it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse_secret(text: &str) -> Result<Self, String> {
        let url = Url::parse(text).map_err(|error| format!("is not a URL: {error}"))?;
        Self::try_from(url)
    }

    /// The URL that a reference from this one leads to, such as a path.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn join(&self, reference: &str) -> Result<Self, String> {
        let url = self.url.join(reference);
        let url = url.map_err(|error| format!("{reference:?} is not a URL: {error}"))?;
        Self::try_from(url).map_err(|reason| format!("{reference:?} {reason}"))
    }

    /// Returns true if scheme, host and port are equal.
    pub fn has_origin_of(&self, other: &Self) -> bool {
        (self.scheme, &self.host, self.port) == (other.scheme, &other.host, other.port)
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        self.url.as_str()
    }

    /// Scheme, host and port, and an ellipsis in place of the path and the query, which may be secret.
    pub fn without_path(&self) -> String {
        let rest = if self.url.path() == "/" && self.url.query().is_none() {
            ""
        } else {
            "…"
        };
        format!("{}/{rest}", self.url.origin().ascii_serialization())
    }

    /// Scheme of the URL.
    pub fn scheme(&self) -> UrlScheme {
        self.scheme
    }

    /// The host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl TryFrom<Url> for HttpUrl {
    type Error = String;

    fn try_from(url: Url) -> Result<Self, String> {
        let scheme = match url.scheme() {
            "https" => UrlScheme::Https,
            "http" => UrlScheme::Http,
            _ => return Err("is neither https:// nor http://".to_owned()),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err("has a user; name a credential instead".to_owned());
        }
        if url.fragment().is_some() {
            return Err("has a fragment (#)".to_owned());
        }
        let host = Host::parse(url.host_str().unwrap_or_default())?;
        let port = url.port().unwrap_or(scheme.port());
        Ok(Self {
            url,
            scheme,
            host,
            port,
        })
    }
}

impl fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.url.as_str(), f)
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.url.as_str())
    }
}

/// The members of a server, as they are written in the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ToolServerFields {
    /// The endpoint of an MCP server.
    pub url: Option<String>,
    /// Program and arguments of an MCP server that runs in a sandbox of its own. Instead of `url`.
    pub command: Option<Vec<String>>,
    /// For `command`: environment variables.
    pub env: BTreeMap<String, String>,
    /// For `command`: template of the sandbox.
    pub template: Option<String>,
    /// A URL or a path of an OpenAPI description, in JSON or YAML. Instead of `url`.
    pub openapi: Option<String>,
    /// For `openapi`: base URL of the operations. Default: the first server of the description.
    pub base_url: Option<String>,
    /// Purpose, for a model.
    pub description: Option<String>,
    /// The name of a credential.
    pub credential: Option<String>,
    /// Allowed callers of the tools: `["code"]`, or patterns with such lists. Default: both.
    pub allowed_callers: Option<CallersField>,
    /// The tenant whose sessions may use it. Default: all may.
    pub tenant: Option<String>,
    /// Seconds that a call may take. Default: 60.
    pub call_time: Option<u64>,
    /// Bytes that a reply may have. Default: 16 MiB.
    pub reply_bytes: Option<usize>,
}

impl ToolServerConfig {
    /// Checks the members of a server.
    ///
    /// # Errors
    /// What is wrong, beginning with the name of the member.
    pub fn new(name: &str, fields: ToolServerFields) -> Result<Self, String> {
        check_name(name).map_err(|reason| format!("name: {reason}"))?;
        let url =
            |member: &str, text: &str| HttpUrl::parse(text).map_err(|reason| format!("{member}: {reason}"));
        let is_program = fields.command.is_some();
        let kind = match (&fields.url, &fields.openapi, fields.command) {
            (Some(_), Some(_), _) => return Err("openapi: cannot be combined with url".to_owned()),
            (Some(_), _, Some(_)) | (_, Some(_), Some(_)) => {
                return Err("command: cannot be combined with url or openapi".to_owned());
            }
            (None, None, None) => {
                return Err(
                    "url: is needed, or command, or openapi: the endpoint of an MCP server, its program, or an OpenAPI description"
                        .to_owned(),
                );
            }
            (None, None, Some(command)) => {
                if fields.credential.is_some() {
                    return Err(
                        "credential: is for url and openapi; a program has the credentials of its template"
                            .to_owned(),
                    );
                }
                ToolServerKind::Program(ProgramConfig::new(
                    command,
                    fields.env.clone(),
                    fields.template.clone(),
                )?)
            }
            (Some(text), None, None) => ToolServerKind::Mcp {
                url: url("url", text)?,
            },
            (None, Some(text), None) => ToolServerKind::OpenApi {
                description: match text.split_once("://") {
                    Some(_) => DescriptionSource::Url(url("openapi", text)?),
                    None if text.is_empty() => return Err("openapi: is empty".to_owned()),
                    None => DescriptionSource::File(text.into()),
                },
                base_url: fields.base_url.as_deref().map(base).transpose()?,
            },
        };
        if fields.base_url.is_some() && fields.openapi.is_none() {
            return Err("base_url: is for openapi alone".to_owned());
        }
        if !is_program && !fields.env.is_empty() {
            return Err("env: is for command alone".to_owned());
        }
        if !is_program && fields.template.is_some() {
            return Err("template: is for command alone".to_owned());
        }
        if let Some(credential) = &fields.credential {
            check_credential_name(credential).map_err(|reason| format!("credential: {reason}"))?;
        }
        let description = fields.description.unwrap_or_default();
        if description.len() > MAX_DESCRIPTION {
            return Err(format!("description: has more than {MAX_DESCRIPTION} bytes"));
        }
        let owner = fields.tenant.unwrap_or_else(|| OPERATOR.to_owned());
        if owner.is_empty() || owner.chars().count() > MAX_PRINCIPAL_CHARS {
            return Err(format!("tenant: has not 1 to {MAX_PRINCIPAL_CHARS} characters"));
        }
        let callers = fields.allowed_callers.map(AllowedCallers::new).transpose();
        let callers = callers.map_err(|reason| format!("allowed_callers: {reason}"))?;
        let call_time = fields.call_time.map_or(CALL_TIME, Duration::from_secs);
        if call_time.is_zero() || call_time > MAX_CALL_TIME {
            return Err(format!(
                "call_time: is not 1 to {} seconds",
                MAX_CALL_TIME.as_secs()
            ));
        }
        let reply_bytes = fields.reply_bytes.unwrap_or(REPLY_BYTES);
        if !REPLY_RANGE.contains(&reply_bytes) {
            return Err(format!(
                "reply_bytes: is not {} to {}",
                REPLY_RANGE.start(),
                REPLY_RANGE.end()
            ));
        }
        Ok(Self {
            name: name.to_owned(),
            kind,
            description,
            credential: fields.credential,
            owner,
            callers: callers.unwrap_or_default(),
            call_time,
            reply_bytes,
        })
    }
}

fn base(text: &str) -> Result<HttpUrl, String> {
    let url = HttpUrl::parse(text).map_err(|reason| format!("base_url: {reason}"))?;
    if url.url.query().is_some() {
        return Err(format!("base_url: {text:?} has a query (?)"));
    }
    Ok(url)
}

/// A name is a part of a module's name in Python, and of `server.tool`.
fn check_name(name: &str) -> Result<(), String> {
    let plain = |byte: u8| byte == b'_' || byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    if begins && name.len() <= MAX_NAME && name.bytes().all(plain) {
        return Ok(());
    }
    Err(format!(
        "{:?} has not 1 to {MAX_NAME} lower-case letters, digits and underscores, with a letter first",
        name.chars().take(MAX_NAME).collect::<String>()
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn server(name: &str, fields: Value) -> Result<ToolServerConfig, String> {
        ToolServerConfig::new(name, serde_json::from_value(fields).unwrap())
    }

    #[test]
    fn defaults_are_those_of_the_documentation() {
        let made = server("stripe_api", json!({"url": "https://mcp.example.org/mcp"})).unwrap();
        assert_eq!((made.call_time.as_secs(), made.reply_bytes), (60, 16 << 20));
        assert_eq!((made.owner.as_str(), made.credential), (OPERATOR, None));
        let ToolServerKind::Mcp { url } = made.kind else {
            panic!("{:?}", made.kind)
        };
        assert_eq!((url.as_str(), url.port()), ("https://mcp.example.org/mcp", 443));
    }

    #[test]
    fn a_url_is_shown_without_what_may_be_secret() {
        let shown = |text: &str| HttpUrl::parse_secret(text).unwrap().without_path();
        assert_eq!(
            shown("https://hooks.example/services/T0/B0/SECRET"),
            "https://hooks.example/…"
        );
        assert_eq!(shown("http://[::1]:8080/?key=SECRET"), "http://[::1]:8080/…");
        assert_eq!(shown("https://hooks.example"), "https://hooks.example/");
        for wrong in [
            "ftp://hooks.example/SECRET",
            "https://u:SECRET@hooks.example/SECRET",
            "https:///SECRET#SECRET",
            "hooks/SECRET",
        ] {
            let error = HttpUrl::parse_secret(wrong).unwrap_err();
            assert!(!error.to_lowercase().contains("secret"), "{wrong}: {error}");
            assert!(HttpUrl::parse(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_description_is_a_file_or_at_a_url() {
        let kind = |text: &str| server("a", json!({"openapi": text})).unwrap().kind;
        let source = |text: &str| match kind(text) {
            ToolServerKind::OpenApi { description, .. } => description,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            source("/etc/a.json"),
            DescriptionSource::File("/etc/a.json".into())
        );
        let url = HttpUrl::parse("http://a.test/openapi.json").unwrap();
        assert_eq!(source("http://a.test/openapi.json"), DescriptionSource::Url(url));
    }

    #[test]
    fn a_program_shows_neither_its_arguments_nor_its_variables() {
        let fields = json!({"command": ["run", "--key=s3cret"], "env": {"TOKEN": "s3cret"}, "template": "t"});
        let made = server("a", fields).unwrap();
        let shown = format!("{made:?}");
        assert!(shown.contains("TOKEN") && !shown.contains("s3cret"), "{shown}");
        let ToolServerKind::Program(program) = made.kind else {
            panic!("{shown}")
        };
        assert_eq!(
            (program.program(), program.template.as_deref()),
            ("run", Some("t"))
        );
    }

    #[test]
    fn an_error_names_its_member() {
        let url = "https://a.test/";
        let long = "x".repeat(MAX_DESCRIPTION + 1);
        for (member, fields) in [
            ("url", json!({})),
            ("url", json!({"url": "ftp://a.test"})),
            ("url", json!({"url": "https://user:secret@a.test"})),
            ("url", json!({"url": "https://a.test/#b"})),
            ("url", json!({"url": "a.test"})),
            ("openapi", json!({"url": url, "openapi": "a.json"})),
            ("openapi", json!({"openapi": "ftp://a.test/a.json"})),
            ("openapi", json!({"openapi": ""})),
            ("base_url", json!({"url": url, "base_url": url})),
            ("command", json!({"url": url, "command": ["a"]})),
            ("command", json!({"openapi": "a.json", "command": ["a"]})),
            ("command", json!({"command": []})),
            ("command", json!({"command": [""]})),
            ("command", json!({"command": ["a", "\0"]})),
            ("command", json!({"command": vec!["a"; MAX_COMMAND + 1]})),
            (
                "command",
                json!({"command": ["a"], "env": {"A": "x".repeat(MAX_COMMAND_BYTES)}}),
            ),
            ("credential", json!({"command": ["a"], "credential": "a"})),
            ("env", json!({"url": url, "env": {"A": "1"}})),
            ("template", json!({"url": url, "template": "a"})),
            (
                "base_url",
                json!({"openapi": "a.json", "base_url": "https://a.test/?b"}),
            ),
            ("credential", json!({"url": url, "credential": "A B"})),
            ("description", json!({"url": url, "description": long})),
            ("allowed_callers", json!({"url": url, "allowed_callers": []})),
            (
                "allowed_callers",
                json!({"url": url, "allowed_callers": {"a_*": []}}),
            ),
            ("tenant", json!({"url": url, "tenant": ""})),
            ("call_time", json!({"url": url, "call_time": 0})),
            ("call_time", json!({"url": url, "call_time": 3601})),
            ("reply_bytes", json!({"url": url, "reply_bytes": 10})),
        ] {
            let error = server("a", fields).unwrap_err();
            assert!(error.starts_with(&format!("{member}: ")), "{member}: {error}");
        }
        for name in ["", "A", "1a", "a-b", "a.b", "_a", &"a".repeat(MAX_NAME + 1)] {
            let error = server(name, json!({"url": url})).unwrap_err();
            assert!(error.starts_with("name: "), "{error}");
        }
    }

    #[test]
    fn the_pattern_with_the_most_letters_says_who_may_call() {
        use ToolCaller::{Code, Model};
        let callers = |said: Value| {
            let fields = json!({"url": "https://a.test/", "allowed_callers": said});
            server("a", fields).unwrap().callers
        };
        assert_eq!(AllowedCallers::default().of("any"), [Model, Code]);
        assert_eq!(callers(json!(["code", "code"])).of("any"), [Code]);
        let rules = callers(json!({"*": ["model", "code"], "list_*": ["code"], "list_few": ["model"]}));
        assert_eq!(rules.of("list_all"), [Code]);
        assert_eq!(rules.of("list_few"), [Model]);
        assert_eq!(rules.of("get"), [Model, Code]);
        let wrong = serde_json::from_value::<ToolServerFields>(json!({"allowed_callers": ["robot"]}));
        assert!(wrong.is_err());
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let url = |text: &str| HttpUrl::parse(text).unwrap();
        let one = url("https://API.test/openapi.json");
        for same in ["https://api.test:443/x", "https://api.test?y"] {
            assert!(one.has_origin_of(&url(same)), "{same}");
        }
        for other in [
            "http://api.test/",
            "https://api.test:8443/",
            "https://api.test.evil/",
        ] {
            assert!(!one.has_origin_of(&url(other)), "{other}");
        }
        assert_eq!(one.join("/v1").unwrap().as_str(), "https://api.test/v1");
        assert!(one.join("ftp://x/").is_err());
    }
}
