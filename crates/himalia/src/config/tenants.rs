//! Tenants of the configuration file, checked.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use himalia_engine::{DayLimits, Principal, Share, Spend, TenantLimits};

use super::ConfigError;
use super::sandboxes::Docker;
use crate::paths;
use crate::settings::{Scope, Secret, TenantTable, TokenSetting};
use crate::token;

/// Most tenants.
const MAX_TENANTS: usize = 1000;
/// Most callers of one tenant.
const MAX_CALLERS: usize = 1000;
/// The largest number of connections, of clients, or of anything a second.
const MAX_RATE: u32 = 1_000_000;
/// The largest number of seconds of processor time in a day: of 100,000 processors.
const MAX_CPU_SECONDS: u64 = 100_000 * 86_400;
/// The largest amount of what is counted by the day.
const MAX_A_DAY: u64 = 1_000_000_000_000_000;
/// Prefix of a token's digest.
const DIGEST: &str = "sha256:";
/// SHA-256 of nothing.
const OF_NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#[derive(Clone, Debug, Default)]
pub(crate) struct Tenants {
    pub(crate) limits: BTreeMap<String, TenantLimits>,
    pub(crate) callers: Vec<TenantCaller>,
}

/// One that may call, and by what it is known.
#[derive(Clone, Debug)]
pub(crate) struct TenantCaller {
    /// `tenants.NAME.tokens.CALLER`.
    pub(crate) key: String,
    pub(crate) principal: Principal,
    pub(crate) token: TenantToken,
}

/// Token of a tenant, before files are read.
#[derive(Clone, Debug)]
pub(crate) enum TenantToken {
    Text(Secret),
    /// SHA-256 of the token.
    Digest([u8; 32]),
    /// It is the first line of this file.
    File(PathBuf),
}

impl Tenants {
    /// Checks the tables; `max_kernels` is the gateway's, and `docker` has what can be granted.
    pub(super) fn check(
        tables: BTreeMap<String, TenantTable>,
        max_kernels: u32,
        docker: &Docker,
    ) -> Result<Self, ConfigError> {
        if tables.len() > MAX_TENANTS {
            let reason = format!("are {}, at most {MAX_TENANTS} are possible", tables.len());
            return Err(ConfigError::new("tenants", reason));
        }
        let mut all = Self::default();
        for (name, table) in tables {
            let bad = |field: &str, reason: String| {
                Err(ConfigError::new(format!("tenants.{name}.{field}"), reason))
            };
            if let Some(most) = table.max_kernels.filter(|most| !(1..=max_kernels).contains(most)) {
                return bad(
                    "max_kernels",
                    format!("{most} is not between 1 and {max_kernels}, the gateway's own"),
                );
            }
            if let Some(seconds) = table
                .cpu_seconds_per_day
                .filter(|seconds| !(1..=MAX_CPU_SECONDS).contains(seconds))
            {
                return bad(
                    "cpu_seconds_per_day",
                    format!("{seconds} is not between 1 and {MAX_CPU_SECONDS}"),
                );
            }
            for (field, said) in [
                ("tool_calls_per_day", table.tool_calls_per_day),
                ("model_tokens_per_day", table.model_tokens_per_day),
                ("returned_chars_per_day", table.returned_chars_per_day),
            ] {
                if let Some(amount) = said.filter(|amount| !(1..=MAX_A_DAY).contains(amount)) {
                    return bad(field, format!("{amount} is not between 1 and {MAX_A_DAY}"));
                }
            }
            let spend = table.model_spend_per_day.map(|units| {
                let spend = Spend::of_units(units).filter(|spend| *spend > Spend::default());
                spend.ok_or_else(|| {
                    ConfigError::new(
                        format!("tenants.{name}.model_spend_per_day"),
                        format!("{units} must be an amount above 0 and up to 1,000,000,000"),
                    )
                })
            });
            let model_spend = spend.transpose()?;
            docker
                .check_grants(&table.networks, &table.images)
                .map_err(|(field, reason)| ConfigError::new(format!("tenants.{name}.{field}"), reason))?;
            // None is right where tokens are made at run time.
            if table.tokens.len() > MAX_CALLERS {
                let many = table.tokens.len();
                return bad(
                    "tokens",
                    format!("are {many}, at most {MAX_CALLERS} are possible"),
                );
            }
            if let Some(caller) = table
                .scopes
                .keys()
                .find(|caller| !table.tokens.contains_key(*caller))
            {
                return bad(
                    &format!("scopes.{caller}"),
                    "there is no such caller among the tokens".into(),
                );
            }
            for (caller, setting) in table.tokens {
                let principal = Principal::of_tenant(&name, &caller).map_err(|error| {
                    ConfigError::new(format!("tenants.{name}.tokens.{caller}"), error.to_string())
                })?;
                let key = format!("tenants.{name}.tokens.{caller}");
                let principal = match table.scopes.get(&caller) {
                    Some(Scope::Read) => principal.read_only(),
                    Some(Scope::Execute) | None => principal,
                    Some(Scope::Admin) => principal.with_scope(himalia_engine::Scope::Admin),
                };
                let token = checked(&key, setting)?;
                all.callers.push(TenantCaller {
                    key,
                    principal,
                    token,
                });
            }
            let base = Share::default();
            for (field, said) in [
                ("connections", table.connections),
                ("streams", table.streams),
                ("network_connections", table.network_connections),
                ("requests_per_second", table.requests_per_second),
                ("starts_per_second", table.starts_per_second),
            ] {
                if let Some(number) = said.filter(|number| !(1..=MAX_RATE).contains(number)) {
                    return bad(field, format!("{number} is not between 1 and {MAX_RATE}"));
                }
            }
            let share = Share {
                memory_bytes: table.memory.map_or(base.memory_bytes, |size| size.0),
                connections: table.connections.unwrap_or(base.connections),
                streams: table.streams.unwrap_or(base.streams),
                network_connections: table.network_connections.unwrap_or(base.network_connections),
                requests_per_second: table.requests_per_second.unwrap_or(base.requests_per_second),
                starts_per_second: table.starts_per_second.unwrap_or(base.starts_per_second),
                disk_bytes: table.disk.map_or(base.disk_bytes, |size| size.0),
            };
            let limits = TenantLimits {
                max_kernels: table.max_kernels,
                cpu_per_day: table.cpu_seconds_per_day.map(Duration::from_secs),
                network_per_day: table.network_per_day.map(|size| size.0),
                day: DayLimits {
                    tool_calls: table.tool_calls_per_day,
                    model_tokens: table.model_tokens_per_day,
                    model_spend,
                    returned_chars: table.returned_chars_per_day,
                },
                sandbox_memory_bytes: table.sandbox_memory.map(|size| size.0),
                networks: table.networks,
                images: table.images,
                share,
            };
            all.limits.insert(name, limits);
        }
        Ok(all)
    }
}

fn checked(key: &str, setting: TokenSetting) -> Result<TenantToken, ConfigError> {
    let text = match setting {
        TokenSetting::File(file) => return paths::absolute("tenants", &file).map(TenantToken::File),
        TokenSetting::Text(text) => text,
    };
    let Some(digits) = text.0.strip_prefix(DIGEST) else {
        let sound = token::check(&text.0).and_then(|()| token::check_strength(&text.0));
        sound.map_err(|reason| ConfigError::new(key, reason))?;
        return Ok(TenantToken::Text(text));
    };
    match digest(digits) {
        Some(_) if digits.eq_ignore_ascii_case(OF_NOTHING) => {
            Err(ConfigError::new(key, "is the digest of an empty token"))
        }
        Some(digest) => Ok(TenantToken::Digest(digest)),
        None => Err(ConfigError::new(
            key,
            "must be a digest: sha256: and 64 hexadecimal digits",
        )),
    }
}

/// The 32 bytes of 64 hexadecimal digits.
fn digest(digits: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    hex::decode_to_slice(digits, &mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "0123456789abcdef-canary";

    fn check(text: &str) -> Result<Tenants, ConfigError> {
        let docker = Docker {
            table: "docker",
            socket: PathBuf::new(),
            images: vec!["plain".to_owned(), "tools".to_owned()],
            networks: vec!["lab".to_owned()],
            runtimes: BTreeMap::new(),
            runtime: "runc".to_owned(),
        };
        Tenants::check(toml::from_str(text).unwrap(), 10, &docker)
    }

    #[test]
    fn a_tenant_is_granted_what_there_is() {
        let granted =
            format!("[acme]\nnetworks = [\"lab\"]\nimages = [\"tools\"]\n[acme.tokens]\nada = \"{LONG}\"");
        let limits = check(&granted).unwrap().limits.remove("acme").unwrap();
        assert_eq!(
            (limits.networks, limits.images),
            (vec!["lab".to_owned()], vec!["tools".to_owned()])
        );
        for (list, name) in [("networks", "host"), ("images", "other")] {
            let text = format!("[acme]\n{list} = [\"{name}\"]\n[acme.tokens]\nada = \"{LONG}\"");
            let said = check(&text).unwrap_err().to_string();
            assert!(
                said.starts_with(&format!("tenants.acme.{list}: {name:?} is n")),
                "{said}"
            );
        }
    }

    #[test]
    fn digests_come_back() {
        let digest: [u8; 32] = std::array::from_fn(|at| u8::try_from(at * 8 + 7).unwrap());
        let text = hex::encode(digest);
        assert_eq!(super::digest(&text), Some(digest));
        assert_eq!(super::digest(&text.to_uppercase()), Some(digest));
        for bad in ["", &text[1..], &format!("{text}0"), &text.replace("07", "+7")] {
            assert_eq!(super::digest(bad), None, "{bad}");
        }
    }

    #[test]
    fn tenants_have_callers_and_limits() {
        let digest = "ab".repeat(32);
        let tenants = check(&format!(
            "[acme]\nmax_kernels = 3\ncpu_seconds_per_day = 60\nsandbox_memory = \"2GiB\"\nnetwork_per_day = \"1GiB\"\nnetwork_connections = 7\ntool_calls_per_day = 5\nmodel_tokens_per_day = 6\nmodel_spend_per_day = 0.5\nreturned_chars_per_day = 8\nmemory = \"8MiB\"\nstreams = 9\n[acme.tokens]\nada = \"{LONG}\"\nbob = \"sha256:{digest}\"\n\
             eve = {{ file = \"/run/eve\" }}\n[acme.scopes]\nbob = \"read\"\neve = \"admin\"\n[other.tokens]\nada = \"another-{LONG}\""
        ))
        .unwrap();
        assert_eq!(tenants.limits["acme"].max_kernels, Some(3));
        let acme = &tenants.limits["acme"];
        let quotas = (acme.cpu_per_day, acme.sandbox_memory_bytes, acme.network_per_day);
        assert_eq!(
            quotas,
            (Some(Duration::from_mins(1)), Some(2 << 30), Some(1 << 30))
        );
        let day = DayLimits {
            tool_calls: Some(5),
            model_tokens: Some(6),
            model_spend: Spend::of_units(0.5),
            returned_chars: Some(8),
        };
        assert_eq!(acme.day, day);
        assert_eq!(tenants.limits["other"], TenantLimits::default());
        let share = Share {
            memory_bytes: 8 << 20,
            streams: 9,
            network_connections: 7,
            ..Share::default()
        };
        assert_eq!(tenants.limits["acme"].share, share);
        let names: Vec<_> = tenants.callers.iter().map(|one| one.principal.name()).collect();
        assert_eq!(names, ["acme/ada", "acme/bob", "acme/eve", "other/ada"]);
        let readers: Vec<_> = tenants
            .callers
            .iter()
            .map(|one| one.principal.is_read_only())
            .collect();
        assert_eq!(readers, [false, true, false, false]);
        let scope = |at: usize| tenants.callers[at].principal.scope();
        assert_eq!(
            (scope(0), scope(2)),
            (himalia_engine::Scope::Execute, himalia_engine::Scope::Admin)
        );
        let text = format!("[acme]\nscopes.a = \"execute\"\ntokens.a = \"{LONG}\"");
        assert_eq!(
            check(&text).unwrap().callers[0].principal.scope().as_str(),
            "execute"
        );
        assert!(
            check("[acme]").unwrap().callers.is_empty(),
            "tokens can be made at run time"
        );
        assert!(matches!(
            tenants.callers[1].token,
            TenantToken::Digest([0xab, ..])
        ));
        assert!(matches!(&tenants.callers[2].token, TenantToken::File(path) if path.ends_with("eve")));
        assert!(!format!("{tenants:?}").contains("canary"));
    }

    #[test]
    fn what_cannot_be_used_names_its_key_and_no_token() {
        let nothing = format!("sha256:{OF_NOTHING}");
        for (text, key) in [
            (
                format!("[acme]\nmax_kernels = 0\ntokens.a = \"{LONG}\""),
                "tenants.acme.max_kernels",
            ),
            (
                format!("[acme]\nmax_kernels = 11\ntokens.a = \"{LONG}\""),
                "tenants.acme.max_kernels",
            ),
            (
                format!("[acme]\ncpu_seconds_per_day = 0\ntokens.a = \"{LONG}\""),
                "tenants.acme.cpu_seconds_per_day",
            ),
            (
                format!("[acme]\ntool_calls_per_day = 0\ntokens.a = \"{LONG}\""),
                "tenants.acme.tool_calls_per_day",
            ),
            (
                format!("[acme]\nmodel_spend_per_day = 0.0\ntokens.a = \"{LONG}\""),
                "tenants.acme.model_spend_per_day",
            ),
            (
                format!("[acme]\nstreams = 0\ntokens.a = \"{LONG}\""),
                "tenants.acme.streams",
            ),
            (
                format!("[acme]\nscopes.b = \"read\"\ntokens.a = \"{LONG}\""),
                "tenants.acme.scopes.b",
            ),
            (
                format!("[operator]\ntokens.a = \"{LONG}\""),
                "tenants.operator.tokens.a",
            ),
            (
                format!("[acme]\ntokens.operator = \"{LONG}\""),
                "tenants.acme.tokens.operator",
            ),
            (
                format!("[\"a/b\"]\ntokens.a = \"{LONG}\""),
                "tenants.a/b.tokens.a",
            ),
            ("[acme]\ntokens.a = \"\"".into(), "tenants.acme.tokens.a"),
            ("[acme]\ntokens.a = \"canary\"".into(), "tenants.acme.tokens.a"),
            (
                "[acme]\ntokens.a = \"aaaaaaaaaaaaaaaaaaaaaaaa\"".into(),
                "tenants.acme.tokens.a",
            ),
            (
                "[acme]\ntokens.a = \"with a space and a canary\"".into(),
                "tenants.acme.tokens.a",
            ),
            (
                "[acme]\ntokens.a = \"sha256:canary\"".into(),
                "tenants.acme.tokens.a",
            ),
            (
                format!("[acme]\ntokens.a = \"{nothing}\""),
                "tenants.acme.tokens.a",
            ),
        ] {
            let said = check(&text).unwrap_err().to_string();
            assert!(said.starts_with(&format!("{key}: ")), "{text}: {said}");
            assert!(!said.contains("canary"), "{said}");
        }
    }
}
