//! Login shells, which clients run every command and every terminal in.

use super::messages::Config;

/// Reads the files of a login that are the session's own.
const FILES: &str = "for file in ~/.bash_profile ~/.bash_login ~/.profile; do \
    if [ -r \"$file\" ]; then . \"$file\"; break; fi; done; unset file; ";
/// Runs the command.
const COMMAND: &str = "command=$1; shift; eval \"$command\"";
/// Becomes the shell that reads commands.
const TERMINAL: &str = "exec \"$0\" \"$@\"";

/// The command line of a process. `bash -l` begins with `/etc/profile`, which in Debian, in images made from it and on
/// most hosts sets `PATH` without a look at what it was: the programs of the kernel's environment would not be found. So such a
/// shell begins with the session's files instead.
pub(super) fn command_line(config: &Config) -> Vec<String> {
    let mut argv = vec![config.cmd.clone()];
    match Login::of(config) {
        Some(Login::Command {
            options,
            command,
            rest,
        }) => {
            argv.extend(options);
            argv.extend(["-c".to_owned(), format!("{FILES}{COMMAND}")]);
            // What bash takes for the name of the script, then for its arguments.
            argv.push(rest.first().unwrap_or(&config.cmd).clone());
            argv.push(command.clone());
            argv.extend(rest.iter().skip(1).cloned());
        }
        Some(Login::Terminal { options }) => {
            argv.extend(["-c".to_owned(), format!("{FILES}{TERMINAL}"), config.cmd.clone()]);
            argv.extend(options);
        }
        None => argv.extend(config.args.iter().cloned()),
    }
    argv
}

/// A login shell. `options`: those but for `-l` and `-c`.
enum Login<'a> {
    Command {
        options: Option<String>,
        command: &'a String,
        rest: &'a [String],
    },
    /// It reads commands from its input.
    Terminal { options: Option<String> },
}

impl<'a> Login<'a> {
    /// Only of options that clients use: `-l`, `-i` and `-c`, together or apart.
    fn of(config: &'a Config) -> Option<Self> {
        let letters = |word: &'a String| {
            let letters = word.strip_prefix('-')?;
            let is_known = |letter| matches!(letter, 'l' | 'i' | 'c');
            (!letters.is_empty() && letters.chars().all(is_known)).then_some(letters)
        };
        let found: Vec<&str> = config.args.iter().map_while(letters).collect();
        let (options, rest) = (found.concat(), config.args.get(found.len()..)?);
        if !is_bash(&config.cmd) || !options.contains('l') {
            return None;
        }
        let is_interactive = options.contains('i').then(|| "-i".to_owned());
        match (options.contains('c'), rest) {
            (true, [command, rest @ ..]) => Some(Self::Command {
                options: is_interactive,
                command,
                rest,
            }),
            (false, []) => Some(Self::Terminal {
                options: is_interactive,
            }),
            _ => None,
        }
    }
}

fn is_bash(program: &str) -> bool {
    program.rsplit('/').next() == Some("bash")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(cmd: &str, args: &[&str]) -> Vec<String> {
        let config = serde_json::json!({"cmd": cmd, "args": args});
        command_line(&serde_json::from_value(config).unwrap())
    }

    #[test]
    fn the_path_of_the_session_outlives_a_login() {
        let path = "/env/bin:/usr/bin:/bin";
        let run = |args: &[&str]| {
            let argv = argv("/bin/bash", args);
            let mut command = std::process::Command::new(&argv[0]);
            command
                .args(&argv[1..])
                .env_clear()
                .env("PATH", path)
                .env("HOME", "/nonexistent");
            let output = command.output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        assert_eq!(run(&["-l", "-c", "echo $PATH"]), format!("{path}\n"));
        assert_eq!(
            run(&["-l", "-c", "echo \"$0 $# $*\"", "me", "a", "b c"]),
            "me 2 a b c\n"
        );
        assert_eq!(run(&["-lc", "echo $PATH $1", "me", "a"]), format!("{path} a\n"));
        assert_eq!(run(&["-c", "echo $0"]), "/bin/bash\n");
    }

    #[test]
    fn the_path_of_the_session_outlives_the_login_of_a_terminal() {
        use std::io::Write as _;

        for args in [&["-i", "-l"][..], &["-l"], &["-il"]] {
            let argv = argv("/bin/bash", args);
            let mut command = std::process::Command::new(&argv[0]);
            command
                .args(&argv[1..])
                .env_clear()
                .env("PATH", "/env/bin:/usr/bin:/bin")
                .env("HOME", "/nonexistent")
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::null());
            let mut shell = command.spawn().unwrap();
            let mut input = shell.stdin.take().unwrap();
            input
                .write_all(b"echo $PATH; case $- in *i*) echo asks;; esac\n")
                .unwrap();
            drop(input);
            let output = String::from_utf8(shell.wait_with_output().unwrap().stdout).unwrap();
            let asks = if args.concat().contains('i') { "asks\n" } else { "" };
            assert_eq!(output, format!("/env/bin:/usr/bin:/bin\n{asks}"));
        }
    }

    #[test]
    fn other_command_lines_are_as_they_came() {
        assert_eq!(argv("sh", &["-l", "-c", "x"]), ["sh", "-l", "-c", "x"]);
        assert_eq!(argv("/bin/bash", &["-i"]), ["/bin/bash", "-i"]);
        assert_eq!(argv("bash", &["-l", "a.sh"]), ["bash", "-l", "a.sh"]);
        assert_eq!(argv("bash", &["-l", "-c"]), ["bash", "-l", "-c"]);
    }
}
