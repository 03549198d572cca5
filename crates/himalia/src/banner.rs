//! Banner that `serve` prints when it is ready: addresses and instructions to attach, and a link that signs a browser in once. It shows a
//! token only if this process created it; no other output shows a token.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use himalia_provisioner::Isolation;

use crate::settings::OnStop;
use crate::token::{Origin, Token};

/// Contents of the banner.
#[derive(Debug)]
pub(crate) struct Banner<'a> {
    pub(crate) address: SocketAddr,
    pub(crate) base_url: &'a str,
    /// True for `https`.
    pub(crate) tls: bool,
    pub(crate) token: &'a Token,
    /// The code that signs in one browser; `None` where the viewer is not built in.
    pub(crate) sign_in_code: Option<&'a str>,
    pub(crate) data_dir: &'a Path,
    /// Names of kernelspecs, the default one first, each with its problem if it has one.
    pub(crate) kernelspecs: &'a [(String, Option<String>)],
    /// Levels that kernels can have, that of kernels without a template first.
    pub(crate) levels: &'a [Isolation],
    /// Kernels that an earlier gateway left.
    pub(crate) adopted: usize,
    pub(crate) on_interrupt: OnStop,
    pub(crate) on_sigterm: OnStop,
}

impl Banner<'_> {
    /// Writes it, ready to be read by people; the first line is stable and ends in the address.
    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let url = self.url();
        writeln!(out, "Himalia {} is ready at {url}", env!("CARGO_PKG_VERSION"))?;
        match self.sign_in_code {
            Some(code) => writeln!(
                out,
                "  viewer      {url}#sign-in={code}\n              (good for one sign-in within 15 minutes)"
            )?,
            None => writeln!(out, "  viewer      not in this build; make web, then build again")?,
        }
        let secret = &self.token.text.0;
        let variable = match &self.token.origin {
            Origin::Made(path) => {
                writeln!(
                    out,
                    "  with token  {url}#token={secret}\n              (signs a browser in, as often as it is opened)"
                )?;
                writeln!(out, "  token file  {}", path.display())?;
                format!("JUPYTER_GATEWAY_AUTH_TOKEN={secret}")
            }
            Origin::File(path) => {
                writeln!(out, "  token file  {}", path.display())?;
                format!("JUPYTER_GATEWAY_AUTH_TOKEN=\"$(head -n 1 {})\"", quoted(path))
            }
            Origin::Given => {
                writeln!(out, "  token       as given")?;
                "JUPYTER_GATEWAY_AUTH_TOKEN=<the token>".to_owned()
            }
        };
        writeln!(out, "  data        {}", self.data_dir.display())?;
        self.write_kernels(out)?;
        let levels: Vec<_> = self.levels.iter().map(|level| level.as_str()).collect();
        match self.levels {
            [Isolation::None] => writeln!(out, "  isolation   none: kernels may do all that this user may")?,
            _ => writeln!(out, "  isolation   {}", levels.join(", "))?,
        }
        if self.address.ip().is_unspecified() && !self.tls {
            writeln!(
                out,
                "  note        it listens on all addresses of this machine, without TLS"
            )?;
        }
        writeln!(
            out,
            "\nAttach JupyterLab:\n  {variable} jupyter lab --gateway-url={url}"
        )?;
        let fate = |what: OnStop| if what == OnStop::Keep { "continue" } else { "end" };
        writeln!(
            out,
            "\nCtrl-C stops the gateway and kernels {}; with SIGTERM kernels {}.",
            fate(self.on_interrupt),
            fate(self.on_sigterm)
        )?;
        out.flush()
    }

    fn write_kernels(&self, out: &mut impl Write) -> io::Result<()> {
        let shown = |(name, problem): &(String, Option<String>)| {
            if problem.is_some() {
                format!("{name} (broken, see himalia doctor)")
            } else {
                name.clone()
            }
        };
        let names: Vec<_> = self.kernelspecs.iter().map(shown).collect();
        if names.is_empty() {
            writeln!(out, "  kernels     none found; `himalia env build` makes one")?;
        } else {
            writeln!(out, "  kernels     {}", names.join(", "))?;
        }
        match self.adopted {
            0 => Ok(()),
            1 => writeln!(out, "  adopting    1 kernel of an earlier gateway"),
            count => writeln!(out, "  adopting    {count} kernels of an earlier gateway"),
        }
    }

    /// The URL for a client on this machine.
    pub(crate) fn url(&self) -> String {
        let ip = match self.address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        format!(
            "{}://{}{}",
            if self.tls { "https" } else { "http" },
            SocketAddr::new(ip, self.address.port()),
            self.base_url
        )
    }
}

/// `path` as one word for a POSIX shell.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Secret;

    fn banner(address: &str, origin: Origin) -> String {
        let token = Token {
            text: Secret("canary".into()),
            origin,
        };
        let banner = Banner {
            address: address.parse().unwrap(),
            base_url: "/lab/",
            tls: false,
            token: &token,
            sign_in_code: Some("once"),
            data_dir: Path::new("/data"),
            kernelspecs: &[("python3".into(), None), ("r".into(), Some("gone".into()))],
            levels: &[Isolation::Namespaces],
            adopted: 2,
            on_interrupt: OnStop::Stop,
            on_sigterm: OnStop::Keep,
        };
        let mut out = Vec::new();
        banner.write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_made_token_is_in_a_command_that_can_be_pasted() {
        let text = banner("127.0.0.1:4711", Origin::Made("/data/token".into()));
        assert!(
            text.lines()
                .next()
                .unwrap()
                .ends_with(" is ready at http://127.0.0.1:4711/lab/")
        );
        assert!(
            text.contains("  viewer      http://127.0.0.1:4711/lab/#sign-in=once\n"),
            "{text}"
        );
        assert!(text.contains("http://127.0.0.1:4711/lab/#token=canary"));
        assert!(text.contains("  isolation   namespaces\n"), "{text}");
        let command =
            "JUPYTER_GATEWAY_AUTH_TOKEN=canary jupyter lab --gateway-url=http://127.0.0.1:4711/lab/";
        assert!(text.contains(command), "{text}");
    }

    #[test]
    fn a_token_that_the_user_has_is_not_shown() {
        for origin in [Origin::Given, Origin::File("/my secrets/t".into())] {
            assert!(!banner("[::]:1", origin).contains("canary"));
        }
        assert!(banner("[::]:1", Origin::File("/my secrets/t".into())).contains("head -n 1 '/my secrets/t'"));
        assert!(banner("[::]:1", Origin::Given).contains("http://[::1]:1/lab/"));
    }
}
