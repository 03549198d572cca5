//! The command line.

#![allow(
    clippy::doc_markdown,
    reason = "the texts of the help are plain, not Markdown"
)]

mod approvals;
mod prompts;
mod schedules;
mod skills;
mod webhooks;
mod workflows;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::settings::{Flags, Seconds, Secret};
pub(crate) use approvals::ApprovalCommand;
pub(crate) use prompts::{PromptsArgs, PromptsCommand};
pub(crate) use schedules::{NewScheduleArgs, OnMissed, ScheduleCommand, TargetArgs};
pub(crate) use skills::{NewKind, SkillCommand, SkillRunArgs};
pub(crate) use webhooks::{NewWebhookArgs, WebhookCommand};
pub(crate) use workflows::{WorkflowCommand, WorkflowRunArgs};

const EXAMPLES: &str = "\
Examples:
  himalia up                          set up Python once, then serve on http://127.0.0.1:8888/
  himalia serve --listen 127.0.0.1:0  serve on a free port; the port is printed
  himalia serve --listen 0.0.0.0:8888 --token-file /run/secrets/himalia
                                      serve other machines; a token of your own is required
  himalia doctor                      what works on this machine, and what does not
  himalia exec eda 'print(6 * 7)'     run code in session eda; start the session if it does not exist
  himalia connect eda                 let jupyter console and other clients attach to it
  himalia session ls                  the sessions of the running gateway

Then attach JupyterLab with the command that `serve` prints. Every option of `serve` can also be an
environment variable (HIMALIA_LISTEN) or a line of a TOML file (listen = \"…\", see --config).
Flags take precedence over variables, variables over the file.";

const EXEC_EXAMPLES: &str = "\
Examples:
  himalia exec eda 'df = 6 * 7'       start session eda if it does not exist, and run code in it
  himalia exec eda 'print(df)'        variables stay for later calls
  himalia exec eda --upload sales.csv --file report.py --timeout 10m
  himalia exec eda --bash 'ls -l; nproc'
  echo 'print(1)' | himalia exec eda - --json

Plots are shown in terminals with graphics (Kitty, Ghostty, WezTerm, iTerm2). Other terminals save them to the working
directory; --plots always saves them. The path of each saved plot is printed. On a terminal input() and getpass() ask you;
elsewhere they raise.
Ctrl-C interrupts the code; a second Ctrl-C leaves it running.

Exit codes:
  0    the code completed
  1    the code raised, or was refused
  3    the kernel's process ended
  124  the code timed out
  130  the code was interrupted";

const CONNECT_EXAMPLES: &str = "\
Examples:
  himalia connect eda                 then, elsewhere: jupyter console --existing FILE
  himalia connect eda --transport ipc
  himalia connect eda --url https://gateway.example/ --token-file ~/.himalia-token

The connection file is in Jupyter's runtime directory; its name is printed. Jupyter console, qtconsole, Spyder, Emacs and Vim
attach with it, several at once. Ctrl-C ends this and removes the file; the session and what runs in it continue. A gateway
that is restarted is found again within 5 minutes, and nothing that was printed meanwhile is lost.

With tcp every user of this machine can connect; without the key in the file they cannot run code, but they can
read what the kernel prints. With ipc only you can.";

const MCP_EXAMPLES: &str = "\
Examples:
  claude mcp add himalia -- himalia mcp
  himalia mcp --url http://127.0.0.1:8888/ --token-file ~/.himalia-token

It needs a running gateway and has the tools of that gateway's /mcp.";

const TOKEN_EXAMPLES: &str = "\
Examples:
  himalia token create ci --scope execute --expires 90d > ~/.himalia-token
  himalia token create dashboard --scope read --description 'usage page'
  himalia token create ada --tenant acme --scope admin
  himalia token list
  himalia token revoke 6f9619ff-8b86-4d01-b42d-00cf4fc964ff";

const AUTH_EXAMPLES: &str = "\
Examples:
  himalia auth linear
  himalia auth linear --url https://gateway.example.org

The page can be opened in a browser on any machine. If that is not this one, it cannot come back by itself:
paste the address at which it ends here.";

const CREDENTIAL_EXAMPLES: &str = "\
Examples:
  himalia credential set stripe --kind bearer --host api.stripe.com < stripe-key
  himalia credential set search --kind header --header X-Api-Key --host search.example.org < key
  himalia credential set s3 --kind aws_sigv4 --access-key AKIA… --region eu-central-1 --service s3 \\
                         --host '*.s3.eu-central-1.amazonaws.com' < secret-key
  himalia credential set crm --kind oauth2 --grant client_credentials --issuer https://id.example.org \\
      --client-id himalia --host api.example.org < client-secret
  himalia credential set linear --kind oauth2 --grant authorization_code --resource https://mcp.linear.app/mcp \\
      --host mcp.linear.app < /dev/null
  himalia credential ls
  himalia credential rm stripe

The value is the first line of standard input. It is never shown. With aws_sigv4, a second line is the session token. With oauth2
it is the secret of the client, or with --grant refresh_token the refresh token, and a second line the secret of the client.";

const SERVE_EXAMPLES: &str = "\
Examples:
  himalia serve
  himalia serve --listen 127.0.0.1:0 --data-dir ./himalia-data
  himalia serve --config himalia.toml --max-kernels 20 --cull-idle-timeout 1h
  HIMALIA_TOKEN_FILE=/run/secrets/himalia himalia serve --listen 0.0.0.0:8888

Scripts can wait until `GET /healthz` returns 200.
Stop it with Ctrl-C (kernels end) or SIGTERM (kernels continue and the next gateway adopts them).";

/// A gateway to live Jupyter kernels: JupyterLab, notebooks and agents share kernels that outlive it.
#[derive(Debug, Parser)]
#[command(name = "himalia", version, after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
#[command(max_term_width = 110)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Set up what is missing (the Python environment, once), then serve
    #[command(after_help = SERVE_EXAMPLES)]
    Up {
        #[command(flatten)]
        settings: Flags,
        #[command(flatten)]
        build: BuildArgs,
    },
    /// Start the gateway and print how to attach to it
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(Flags),
    /// The Python environment that the python3 kernel runs in, and the variables of E2B's clients
    #[command(subcommand)]
    Env(EnvCommand),
    /// Sessions of a running gateway
    #[command(subcommand)]
    Session(SessionCommand),
    /// Access tokens of a running gateway
    #[command(subcommand, after_help = TOKEN_EXAMPLES)]
    Token(TokenCommand),
    /// Secrets that a running gateway adds to requests of sessions
    #[command(subcommand, after_help = CREDENTIAL_EXAMPLES)]
    Credential(CredentialCommand),
    /// What waits for a person: approvals of calls and of steps, questions of code, input()
    #[command(after_help = prompts::EXAMPLES)]
    Prompts(PromptsArgs),
    /// Tools that a person has approved for later sessions
    #[command(subcommand)]
    Approval(ApprovalCommand),
    /// Skills: typed, versioned instructions and code that agents share
    #[command(subcommand, after_help = skills::EXAMPLES)]
    Skill(SkillCommand),
    /// Workflows: steps that are skills, wired output to input, and their durable runs
    #[command(subcommand, after_help = workflows::EXAMPLES)]
    Workflow(WorkflowCommand),
    /// Schedules: runs of skills at due times
    #[command(subcommand, after_help = schedules::EXAMPLES)]
    Schedule(ScheduleCommand),
    /// Webhooks: runs of skills that signed messages of other services start
    #[command(subcommand, after_help = webhooks::EXAMPLES)]
    Webhook(WebhookCommand),
    /// Grant a credential of kind oauth2: prints the page where you consent, and waits
    #[command(after_help = AUTH_EXAMPLES)]
    Auth(AuthArgs),
    /// Run code in a session and show what it prints
    #[command(after_help = EXEC_EXAMPLES)]
    Exec(ExecArgs),
    /// Let Jupyter clients of this machine attach to a session: jupyter console, qtconsole, Spyder, Emacs, Vim
    #[command(after_help = CONNECT_EXAMPLES)]
    Connect(ConnectArgs),
    /// What a tenant and its callers use, and their quotas
    Usage {
        /// Tenant of the configuration, for the operator [default: that of the token]
        tenant: Option<String>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Remove data of expired sessions, and data that belongs to no session
    ///
    /// The running gateway also does this every ten minutes, a part each time. When it starts, it removes data that
    /// belongs to no session.
    Gc {
        /// Only print what would be removed
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Copy a data directory into one tar file, while its gateway runs or not
    ///
    /// It has the database, logs, artifacts, kept files, the token that was made, the key of
    /// credentials, and sign-ins. It has no memory of kernels,
    /// no volumes of Docker, and no files from elsewhere that the configuration names.
    Backup {
        /// The new file; it contains secrets, and only you can read it
        #[arg(long, short, value_name = "FILE")]
        output: PathBuf,
        /// The gateway's data directory [default: ~/.local/share/himalia/data]
        #[arg(long, value_name = "DIR", env = "HIMALIA_DATA_DIR")]
        data_dir: Option<PathBuf>,
    },
    /// Make a data directory of a backup, after it was checked completely
    ///
    /// Sessions of /v1 continue with their next use, in a new sandbox; other kernels count as lost.
    Restore {
        /// The file of `himalia backup`
        backup: PathBuf,
        /// The data directory, which must not exist or be empty [default: ~/.local/share/himalia/data]
        #[arg(long, value_name = "DIR", env = "HIMALIA_DATA_DIR")]
        data_dir: Option<PathBuf>,
    },
    /// Serve MCP on standard input and output, for hosts that start their servers themselves
    #[command(after_help = MCP_EXAMPLES)]
    Mcp {
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Check what this machine supports, or diagnose a session; takes the options of `serve`
    Doctor {
        /// Id or name of a session of the gateway that runs on this data directory
        session: Option<String>,
        /// Look at the cluster of [kubernetes] instead: permissions, quota, policies, and whether they are enforced. Starts two pods and deletes them
        #[arg(long, conflicts_with = "session")]
        kubernetes: bool,
        #[command(flatten)]
        settings: Flags,
        /// Print JSON: {"ok", "findings": [{"level", "topic", "text"}]}
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum EnvCommand {
    /// Build it if it does not exist, from the lock file in this program; prints the path of its Python
    Build {
        #[command(flatten)]
        build: BuildArgs,
        /// Directory of environments [default: ~/.local/share/himalia/env]
        #[arg(long = "env-dir", value_name = "DIR", env = "HIMALIA_ENV_DIR")]
        dir: Option<PathBuf>,
    },
    /// Build the Docker image himalia-kernel with the same packages
    Image {
        /// The script docker/build-images.sh of the sources [default: below this directory or the ones above]
        #[arg(long, value_name = "FILE")]
        script: Option<PathBuf>,
    },
    /// Print the variables that point E2B's clients at a running gateway that serves them (--e2b): eval "$(himalia env e2b)"
    E2b {
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Print its directory, whether it exists or not
    Path {
        /// Directory of environments [default: ~/.local/share/himalia/env]
        #[arg(long = "env-dir", value_name = "DIR", env = "HIMALIA_ENV_DIR")]
        dir: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Start a session, or find the one with this name
    New {
        /// Lower-case letters, digits and hyphens
        name: String,
        /// Template or kernelspec [default: the gateway's default kernelspec]
        #[arg(long, value_name = "NAME")]
        template: Option<String>,
        /// A label of a new session; may be given several times
        #[arg(long = "label", value_name = "NAME=VALUE")]
        labels: Vec<String>,
        /// End it after this time without activity: 90, 10m
        #[arg(long, value_name = "TIME")]
        idle_timeout: Option<Seconds>,
        /// End it after this time, even if it is active
        #[arg(long, value_name = "TIME")]
        lifetime: Option<Seconds>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// List them: state, age, time without activity, memory in use
    Ls {
        /// Only sessions with this label, or this label and value; may be given several times
        #[arg(long = "label", value_name = "NAME[=VALUE]")]
        labels: Vec<String>,
        /// Also show full ids, kernelspec, isolation, start path, parent, owner and labels
        #[arg(long)]
        wide: bool,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Fork a session: the new sessions have its variables, and a copy of its files
    Fork {
        /// Its id, a prefix of its id, or its name
        session: String,
        /// Number of branches, at most 16
        #[arg(long, value_name = "NUMBER", default_value_t = 1)]
        count: u32,
        /// strict: refuse if a fork may break something; report: refuse only if it would, and report the rest
        #[arg(long, value_name = "POLICY", default_value = "strict")]
        policy: String,
        /// copy or share
        #[arg(long, value_name = "FILES", default_value = "copy")]
        files: String,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// End sessions with everything in them
    Rm {
        /// Their ids or names
        #[arg(required = true)]
        sessions: Vec<String>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token; it is printed once, and stored as a hash
    Create {
        /// Name of the caller that its holder is, shown in executions and the audit log: letters, digits, '.', '_', '-'
        caller: String,
        /// read: see everything, change nothing; execute: also run code, start and end sessions; admin: also manage tokens
        #[arg(long, value_name = "SCOPE", value_parser = ["read", "execute", "admin"])]
        scope: String,
        /// Tenant of the configuration [default: that of the token that creates it]
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        /// What it is for
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
        /// Time until it expires: 12h, 90d [default: never, or together with the token that creates it]
        #[arg(long, value_name = "TIME")]
        expires: Option<Seconds>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// List tokens that are valid, without their secrets
    List {
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Revoke tokens; connections that use them end
    Revoke {
        /// Their ids
        #[arg(required = true)]
        tokens: Vec<String>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum CredentialCommand {
    /// Set a credential, in the place of the one of its name; the value comes from standard input
    Set(Box<CredentialArgs>),
    /// List credentials, without their values
    #[command(name = "ls")]
    List {
        /// Tenant of the configuration, or operator [default: all for the operator, else that of the token]
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
    /// Delete credentials; the next request with them is refused
    #[command(name = "rm")]
    Remove {
        /// Their names
        #[arg(required = true)]
        names: Vec<String>,
        /// Tenant of the configuration [default: that of the token]
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        #[command(flatten)]
        gateway: GatewayArgs,
    },
}

/// A credential.
#[derive(Debug, Args)]
pub(crate) struct CredentialArgs {
    /// Lower-case letters, digits and hyphens
    pub(crate) name: String,
    /// Where the value goes in a request
    #[arg(long, value_name = "KIND", value_parser = ["header", "query", "bearer", "basic", "aws_sigv4", "oauth2"])]
    pub(crate) kind: String,
    /// Host that it is sent to: api.example.org, *.example.org, api.example.org:8443, http://… for plain text; may be repeated
    #[arg(long = "host", value_name = "HOST", required = true)]
    pub(crate) hosts: Vec<String>,
    /// Host behind http://NAME.credential.internal/ [default: the first --host that is no pattern]
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// header: its name
    #[arg(long, value_name = "NAME")]
    pub(crate) header: Option<String>,
    /// header: what precedes the value, such as 'Token '
    #[arg(long, value_name = "TEXT")]
    pub(crate) prefix: Option<String>,
    /// query: the name of the parameter
    #[arg(long, value_name = "NAME")]
    pub(crate) parameter: Option<String>,
    /// basic: the user
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// aws_sigv4: the id of the key
    #[arg(long, value_name = "ID")]
    pub(crate) access_key: Option<String>,
    /// aws_sigv4: the region [default: that of the request's own signature]
    #[arg(long, value_name = "NAME")]
    pub(crate) region: Option<String>,
    /// aws_sigv4: the service [default: that of the request's own signature]
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Option<String>,
    /// oauth2: how tokens are got
    #[arg(long, value_name = "GRANT", value_parser = ["client_credentials", "authorization_code", "refresh_token"])]
    pub(crate) grant: Option<String>,
    /// oauth2: the authorization server
    #[arg(long, value_name = "URL")]
    pub(crate) issuer: Option<String>,
    /// oauth2: what the tokens are for, such as an MCP server; without --issuer it names the authorization server
    #[arg(long, value_name = "URL")]
    pub(crate) resource: Option<String>,
    /// oauth2: the page where a person consents, for a server that publishes nothing
    #[arg(long, value_name = "URL")]
    pub(crate) authorization_url: Option<String>,
    /// oauth2: where tokens are given, for a server that publishes nothing
    #[arg(long, value_name = "URL")]
    pub(crate) token_url: Option<String>,
    /// oauth2: the id of the gateway with the authorization server [default for authorization_code: it registers itself]
    #[arg(long, value_name = "ID")]
    pub(crate) client_id: Option<String>,
    /// oauth2: the scopes, with spaces between
    #[arg(long, value_name = "SCOPES")]
    pub(crate) scope: Option<String>,
    /// Tenant of the configuration [default: that of the token]
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

/// A grant.
#[derive(Debug, Args)]
pub(crate) struct AuthArgs {
    /// The credential, of kind oauth2 with grant authorization_code
    pub(crate) name: String,
    /// Port of this machine that the browser comes back to, for clients that are registered with one [default: any]
    #[arg(long, value_name = "PORT")]
    pub(crate) port: Option<u16>,
    /// Tenant of the configuration [default: that of the token]
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

/// What to run, and where.
#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    /// A session: its id, a prefix of its id, its name, or its label `name`. A name that does not exist starts a
    /// session
    pub(crate) session: String,
    /// The code; `-`, or nothing, reads it from standard input
    #[arg(conflicts_with = "file")]
    pub(crate) code: Option<String>,
    /// File with the code
    #[arg(long, short, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The code is a Bash script
    #[arg(long)]
    pub(crate) bash: bool,
    /// Upload this file to the session's work directory first; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(crate) upload: Vec<PathBuf>,
    /// Fail if the session does not exist
    #[arg(long, conflicts_with = "template")]
    pub(crate) no_create: bool,
    /// Template or kernelspec of a session that is started [default: the gateway's default kernelspec]
    #[arg(long, value_name = "NAME")]
    pub(crate) template: Option<String>,
    /// Write output to a terminal unchanged; by default a terminal gets only text, colours and line ends, and no
    /// sequences that set the clipboard, create links or move the cursor
    #[arg(long)]
    pub(crate) raw: bool,
    /// Save plots into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) plots: Option<PathBuf>,
    /// Interrupt the code after this run time: 90, 10m. Code that ignores three interrupts continues, and the command ends with 124
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<Seconds>,
    /// Run the code only in this kernel process
    #[arg(long, value_name = "NUMBER")]
    pub(crate) expect_incarnation: Option<u32>,
    /// Refuse the code after this many consecutive failures in the session (1 to 100)
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) max_failures: Option<u32>,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

/// Which session, and how clients reach it.
#[derive(Debug, Args)]
pub(crate) struct ConnectArgs {
    /// A session: its id, the beginning of its id, its name, or its label `name`
    pub(crate) session: String,
    /// Another kernel of the session than its first: its id, the beginning of its id, or its kernelspec
    #[arg(long, value_name = "KERNEL")]
    pub(crate) kernel: Option<String>,
    /// What the sockets are
    #[arg(long, value_name = "TRANSPORT", default_value = "tcp")]
    pub(crate) transport: Sockets,
    #[command(flatten)]
    pub(crate) gateway: GatewayArgs,
}

/// The sockets of `himalia connect`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Sockets {
    /// On 127.0.0.1
    Tcp,
    /// Unix sockets that only you can connect to
    Ipc,
}

/// Address and token of a gateway.
#[derive(Clone, Debug, Args)]
pub(crate) struct GatewayArgs {
    /// URL of the gateway [default: that of the gateway on --data-dir]
    #[arg(long, value_name = "URL", env = "HIMALIA_URL")]
    pub(crate) url: Option<String>,
    /// Token of the gateway; visible in `ps`, so prefer --token-file
    #[arg(long, value_name = "TOKEN", env = "HIMALIA_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<Secret>,
    /// File whose first line is the token
    #[arg(long, value_name = "FILE", env = "HIMALIA_TOKEN_FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// File with certificates (PEM) of the CAs to check an https URL against [default: those that the system trusts]
    #[arg(long, value_name = "FILE", env = "HIMALIA_CA")]
    pub(crate) ca: Option<PathBuf>,
    /// The gateway's data directory, which contains its address [default: ~/.local/share/himalia/data]
    #[arg(long, value_name = "DIR", env = "HIMALIA_DATA_DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Print the response of the gateway as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// How to build the Python environment.
#[derive(Debug, Args)]
pub(crate) struct BuildArgs {
    /// Python 3.11 or newer to build it with
    #[arg(
        long,
        value_name = "PROGRAM",
        env = "HIMALIA_PYTHON",
        default_value = "python3"
    )]
    pub(crate) python: PathBuf,
    /// Build it again even if it exists; running kernels lose their files in it
    #[arg(long)]
    pub(crate) rebuild: bool,
}
