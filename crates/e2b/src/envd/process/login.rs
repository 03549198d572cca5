//! Login shells, which clients run every command in.

use super::messages::Config;

/// Reads the files of a login that are the session's own, and runs the command.
const SCRIPT: &str = "for file in ~/.bash_profile ~/.bash_login ~/.profile; do \
    if [ -r \"$file\" ]; then . \"$file\"; break; fi; done; unset file; command=$1; shift; eval \"$command\"";

/// The command line of a process. `bash -l -c COMMAND` begins with `/etc/profile`, which in Debian, in images made from it and on
/// most hosts sets `PATH` without a look at what it was: the programs of the kernel's environment would not be found. So such a
/// shell begins with the session's files instead.
pub(super) fn command_line(config: &Config) -> Vec<String> {
    let mut argv = vec![config.cmd.clone()];
    match config.args.as_slice() {
        [login, option, command, rest @ ..] if is_bash(&config.cmd) && login == "-l" && option == "-c" => {
            argv.extend(["-c", SCRIPT].map(str::to_owned));
            // What bash takes for the name of the script, then for its arguments.
            argv.push(rest.first().unwrap_or(&config.cmd).clone());
            argv.push(command.clone());
            argv.extend(rest.iter().skip(1).cloned());
        }
        args => argv.extend(args.iter().cloned()),
    }
    argv
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
        assert_eq!(run(&["-c", "echo $0"]), "/bin/bash\n");
    }

    #[test]
    fn other_command_lines_are_as_they_came() {
        assert_eq!(argv("sh", &["-l", "-c", "x"]), ["sh", "-l", "-c", "x"]);
        assert_eq!(argv("/bin/bash", &["-i", "-l"]), ["/bin/bash", "-i", "-l"]);
    }
}
