//! Lines that a person types as answers to `input()` and `getpass()`.

use std::io::IsTerminal as _;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

/// End of the input for `input()`: ipykernel raises `EOFError`.
pub(super) const END_OF_INPUT: &str = "\u{4}";

/// Standard input, read by a thread from the first question on: a read of a terminal cannot be given up.
#[derive(Debug, Default)]
pub(super) struct Keyboard {
    lines: Option<mpsc::Receiver<Option<String>>>,
    /// Settings of the terminal before a question for a password.
    shown: Option<Termios>,
}

impl Keyboard {
    /// A question is open. What is typed for a password does not show.
    pub(super) fn ask(&mut self, password: bool) {
        self.show();
        if password {
            self.hide();
        }
        if self.lines.is_none() {
            // One line waits here, the others in the terminal.
            let (sender, lines) = mpsc::channel(1);
            std::thread::spawn(move || read(&sender));
            self.lines = Some(lines);
        }
    }

    /// The answer: a line without its end. Cancel-safe.
    pub(super) async fn line(&mut self) -> String {
        let line = match &mut self.lines {
            Some(lines) => lines.recv().await.flatten(),
            None => None,
        };
        line.unwrap_or_else(|| END_OF_INPUT.to_owned())
    }

    /// The question has ended: what is typed shows again. Returns whether it was hidden.
    pub(super) fn show(&mut self) -> bool {
        let Some(shown) = self.shown.take() else {
            return false;
        };
        // Nothing is left to be done if the terminal is gone.
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &shown);
        true
    }

    fn hide(&mut self) {
        let stdin = std::io::stdin();
        let Ok(before) = tcgetattr(&stdin) else {
            return;
        };
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        if tcsetattr(&stdin, OptionalActions::Now, &hidden).is_ok() {
            self.shown = Some(before);
        }
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.show();
    }
}

/// Returns true if a user can answer.
pub(super) fn is_there() -> bool {
    std::io::stdin().is_terminal()
}

/// Sends lines until the receiver is dropped; `None` at the end of the input, after which more may come from a
/// terminal.
fn read(to: &mpsc::Sender<Option<String>>) {
    loop {
        let mut line = String::new();
        let line = match std::io::stdin().read_line(&mut line) {
            Ok(1..) => Some(line.trim_end_matches(['\n', '\r']).to_owned()),
            _ => None,
        };
        if to.blocking_send(line).is_err() {
            return;
        }
    }
}
