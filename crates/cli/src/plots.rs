//! Plots of an execution: shown if the terminal supports it, else saved as files.

use std::fs::OpenOptions;
use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::http::Client;

/// Kinds of images in the order in which one of a display is taken, and how their files end.
const KINDS: &[(&str, &str)] = &[
    ("image/png", "png"),
    ("image/jpeg", "jpg"),
    ("image/gif", "gif"),
    ("image/webp", "webp"),
    ("image/svg+xml", "svg"),
];
/// Bytes of base64 in one escape sequence of the Kitty protocol.
const KITTY_CHUNK: usize = 4096;
/// Files with names that are taken, before it is given up.
const ATTEMPTS: u32 = 10_000;

/// Protocol of a terminal for pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// <https://sw.kovidgoyal.net/kitty/graphics-protocol/>
    Kitty,
    /// <https://iterm2.com/documentation-images.html>
    Iterm,
}

/// Destination of plots.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PlotTarget {
    Shown(Protocol),
    Saved(PathBuf),
    /// A line says that there is one.
    Mentioned,
}

/// The plots of one execution.
#[derive(Debug)]
pub(super) struct Plots {
    way: PlotTarget,
    count: u32,
    /// The file of the latest one, which an update replaces.
    latest: Option<PathBuf>,
}

impl Plots {
    /// `directory` is what the caller wants; without one they are shown where the terminal can, saved into the working
    /// directory in another terminal, and only mentioned if the output is no terminal or only the result is wanted
    /// (`quiet`).
    pub(super) fn new(directory: Option<PathBuf>, quiet: bool) -> anyhow::Result<Self> {
        if let Some(directory) = &directory {
            let made = std::fs::create_dir_all(directory);
            made.with_context(|| format!("--plots {}", directory.display()))?;
        }
        let terminal = !quiet && std::io::stdout().is_terminal();
        let way = way(directory, terminal, |name| std::env::var(name).ok());
        Ok(Self {
            way,
            count: 0,
            latest: None,
        })
    }

    /// Returns true if plots are saved even if only the result is shown.
    pub(super) fn are_saved(&self) -> bool {
        matches!(self.way, PlotTarget::Saved(_))
    }

    /// Shows or saves the image of an output (`data` by kind), if it has one; a line that says what became of it.
    /// `execution` is the last part of the execution's id; `update` says that it takes the place of the one before.
    pub(super) async fn take(
        &mut self,
        client: &Client,
        data: &Value,
        execution: &str,
        update: bool,
    ) -> anyhow::Result<Option<String>> {
        let found = KINDS.iter().find(|(kind, _)| !data[*kind].is_null());
        let Some((kind, ending)) = found else {
            return Ok(None);
        };
        let value = &data[*kind];
        if self.way == PlotTarget::Mentioned {
            let path = address(value).unwrap_or_default();
            return Ok(Some(format!("a plot ({kind}): --plots DIR saves it {path}")));
        }
        let bytes = content(client, value).await?;
        let directory = match &self.way {
            PlotTarget::Shown(protocol) => match escape(*protocol, kind, &bytes) {
                Some(text) => {
                    let mut out = std::io::stdout();
                    out.write_all(text.as_bytes())?;
                    out.flush()?;
                    return Ok(None);
                }
                None => PathBuf::from("."),
            },
            PlotTarget::Saved(directory) => directory.clone(),
            PlotTarget::Mentioned => return Ok(None),
        };
        let file = match self.latest.take().filter(|_| update) {
            Some(file) => {
                std::fs::write(&file, &bytes).with_context(|| file.display().to_string())?;
                file
            }
            None => self.save(&directory, execution, ending, &bytes)?,
        };
        let whole = std::path::absolute(&file).unwrap_or_else(|_| file.clone());
        let text = format!("plot saved: {}", whole.display());
        self.latest = Some(file);
        Ok(Some(text))
    }

    /// Under a name that no file has.
    fn save(
        &mut self,
        directory: &Path,
        execution: &str,
        ending: &str,
        bytes: &[u8],
    ) -> anyhow::Result<PathBuf> {
        for _ in 0..ATTEMPTS {
            self.count += 1;
            let file = directory.join(format!("plot-{execution}-{}.{ending}", self.count));
            match OpenOptions::new().write(true).create_new(true).open(&file) {
                Ok(mut opened) => {
                    opened
                        .write_all(bytes)
                        .with_context(|| file.display().to_string())?;
                    return Ok(file);
                }
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).with_context(|| file.display().to_string()),
            }
        }
        bail!("{}: too many plots", directory.display())
    }
}

fn way(directory: Option<PathBuf>, terminal: bool, variable: impl Fn(&str) -> Option<String>) -> PlotTarget {
    match directory {
        Some(directory) => PlotTarget::Saved(directory),
        None if !terminal => PlotTarget::Mentioned,
        None => protocol(variable).map_or_else(|| PlotTarget::Saved(PathBuf::from(".")), PlotTarget::Shown),
    }
}

/// Protocol that the terminal's variables announce. Multiplexers do not forward pictures.
fn protocol(variable: impl Fn(&str) -> Option<String>) -> Option<Protocol> {
    let is =
        |name: &str, values: &[&str]| variable(name).is_some_and(|value| values.contains(&value.as_str()));
    if variable("TMUX").is_some() || variable("STY").is_some() {
        return None;
    }
    if variable("KITTY_WINDOW_ID").is_some()
        || is("TERM", &["xterm-kitty", "xterm-ghostty"])
        || is("TERM_PROGRAM", &["ghostty"])
    {
        return Some(Protocol::Kitty);
    }
    let iterm = is("TERM_PROGRAM", &["iTerm.app", "WezTerm"]) || is("LC_TERMINAL", &["iTerm2"]);
    iterm.then_some(Protocol::Iterm)
}

/// Escape sequence for a picture; `None` for a kind that the terminal cannot show.
fn escape(protocol: Protocol, kind: &str, bytes: &[u8]) -> Option<String> {
    let encoded = STANDARD.encode(bytes);
    match (protocol, kind) {
        (Protocol::Kitty, "image/png") => {
            let mut text = String::with_capacity(encoded.len() + encoded.len() / 128);
            let mut control = "a=T,f=100,";
            let mut rest = encoded.as_str();
            loop {
                let (part, more) = rest.split_at(rest.len().min(KITTY_CHUNK));
                text.push_str("\u{1b}_G");
                text.push_str(control);
                text.push_str(if more.is_empty() { "m=0;" } else { "m=1;" });
                text.push_str(part);
                text.push_str("\u{1b}\\");
                if more.is_empty() {
                    break;
                }
                (control, rest) = ("", more);
            }
            text.push('\n');
            Some(text)
        }
        (Protocol::Iterm, "image/png" | "image/jpeg" | "image/gif") => {
            let size = bytes.len();
            Some(format!("\u{1b}]1337;File=inline=1;size={size}:{encoded}\u{7}\n"))
        }
        _ => None,
    }
}

/// The path of an artifact.
fn address(value: &Value) -> Option<String> {
    let digest = value["artifact"].as_str()?.strip_prefix("sha256:")?;
    let plain = digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| format!("/v1/artifacts/{digest}"))
}

/// The bytes of an image, which small ones of text have in the output itself.
async fn content(client: &Client, value: &Value) -> anyhow::Result<Vec<u8>> {
    if let Some(text) = value.as_str() {
        return Ok(text.as_bytes().to_owned());
    }
    let path = address(value).context("an image without an artifact")?;
    let reply = client.get(&path).await?;
    if reply.status != 200 {
        bail!("the plot: {}", reply.problem());
    }
    Ok(reply.bytes().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(directory: Option<&str>, terminal: bool, variables: &[(&str, &str)]) -> PlotTarget {
        way(directory.map(PathBuf::from), terminal, |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn a_directory_counts_before_the_terminal_and_a_pipe_gets_no_pictures() {
        let kitty = ("KITTY_WINDOW_ID", "1");
        assert_eq!(chosen(Some("a"), true, &[kitty]), PlotTarget::Saved("a".into()));
        assert_eq!(chosen(None, false, &[kitty]), PlotTarget::Mentioned);
        assert_eq!(chosen(None, true, &[kitty]), PlotTarget::Shown(Protocol::Kitty));
        assert_eq!(
            chosen(None, true, &[("TERM_PROGRAM", "WezTerm")]),
            PlotTarget::Shown(Protocol::Iterm)
        );
        assert_eq!(
            chosen(None, true, &[kitty, ("TMUX", "x")]),
            PlotTarget::Saved(".".into())
        );
        assert_eq!(
            chosen(None, true, &[("TERM", "xterm-256color")]),
            PlotTarget::Saved(".".into())
        );
    }

    #[test]
    fn long_pictures_go_in_parts() {
        let shown = escape(Protocol::Kitty, "image/png", &[7; 7000]).unwrap();
        let parts: Vec<&str> = shown.trim_end().split_terminator("\u{1b}\\").collect();
        assert_eq!(parts.len(), 3);
        assert!(parts[0].starts_with("\u{1b}_Ga=T,f=100,m=1;") && parts[1].starts_with("\u{1b}_Gm=1;"));
        assert!(parts[2].starts_with("\u{1b}_Gm=0;"));
        let sent: String = parts.iter().map(|part| part.split_once(';').unwrap().1).collect();
        assert_eq!(STANDARD.decode(sent).unwrap(), [7; 7000]);
        assert_eq!(escape(Protocol::Kitty, "image/svg+xml", b"<svg/>"), None);
        let shown = escape(Protocol::Iterm, "image/png", b"abc").unwrap();
        assert_eq!(shown, "\u{1b}]1337;File=inline=1;size=3:YWJj\u{7}\n");
    }

    #[test]
    fn no_file_is_written_over() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("plot-7-1.png"), "mine").unwrap();
        let mut plots = Plots::new(Some(directory.path().to_owned()), false).unwrap();
        let saved = plots.save(directory.path(), "7", "png", b"new").unwrap();
        assert_eq!(saved, directory.path().join("plot-7-2.png"));
        assert_eq!(
            std::fs::read(directory.path().join("plot-7-1.png")).unwrap(),
            b"mine"
        );
    }

    #[test]
    fn only_digests_become_addresses() {
        let of = |artifact: &str| address(&serde_json::json!({ "artifact": artifact }));
        assert_eq!(of("sha256:00ff").as_deref(), Some("/v1/artifacts/00ff"));
        assert_eq!(of("sha256:../x"), None);
    }
}
