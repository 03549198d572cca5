"""`himalia exec` as a person sees it: in a terminal, and beside it in pipes."""

import os
import signal
import subprocess
import time

import pytest
from terminal import Terminal, command

# What `himalia exec` says before each question of the code, and the end of that line with its colours.
LABEL = "\x1b[2mhimalia: the code in session terminal asks:"
NEW_LINE = "\x1b[0m\r\n"
PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"


@pytest.fixture(scope="module")
def session(shared):
    """A session for all tests here."""
    reply = shared.http.put("v1/sessions/terminal", json={"template": "python3"})
    assert reply.status_code == 201, reply.text
    yield "terminal"
    shared.http.delete("v1/sessions/terminal")


def piped(gateway, *arguments, cwd=None, **more):
    """The same in pipes: (exit code, standard output, standard error)."""
    done = subprocess.run(command(gateway, *arguments), capture_output=True, text=True, timeout=100, cwd=cwd, **more)
    return done.returncode, done.stdout, done.stderr


def test_questions_are_answered_and_a_password_does_not_show(shared, session, tmp_path):
    code = "import getpass\nname = input('Name? ')\nword = getpass.getpass('Word? ')\nagain = input('Again? ')\nprint([name, len(word), again])"
    terminal = Terminal(command(shared, "exec", session, code), tmp_path)
    assert terminal.until(LABEL) == ""
    terminal.until("Name? ")
    terminal.type("Ada\n")
    assert "Ada" in terminal.until(LABEL) and terminal.until("Word? ") == NEW_LINE
    assert not terminal.shows_what_is_typed()
    terminal.type("s3cret-word\n")
    shown = terminal.until(LABEL)
    assert "s3cret" not in shown and shown == "\r\n" and terminal.until("Again? ") == NEW_LINE
    assert terminal.shows_what_is_typed()
    terminal.type("x\n")
    ended, rest = terminal.end()
    assert (ended, rest.splitlines()) == (0, ["x", "['Ada', 11, 'x']"])


def test_the_end_of_the_input_and_ctrl_c_reach_the_code(shared, session, tmp_path):
    terminal = Terminal(command(shared, "exec", session, "input('Continue? ')"), tmp_path)
    terminal.until("Continue? ")
    terminal.type("\x04")
    ended, rest = terminal.end()
    assert ended == 1 and "EOFError" in rest, rest
    terminal = Terminal(command(shared, "exec", session, "import getpass\ngetpass.getpass('Word? ')"), tmp_path)
    terminal.until("Word? ")
    terminal.type("\x03")
    ended, rest = terminal.end()
    assert ended == 130 and "KeyboardInterrupt" in rest, rest


def test_an_error_is_coloured_on_a_screen_and_plain_in_a_pipe(shared, session, tmp_path):
    code = "table = {'price': 1}\ntable['prcie']"
    ended, rest = Terminal(command(shared, "exec", session, code), tmp_path).end()
    assert ended == 1 and "\x1b[1;31mKeyError: 'prcie'\x1b[0m" in rest, rest
    assert "hint: table: did you mean 'price'?" in rest
    ended, rest = Terminal(command(shared, "exec", session, code), tmp_path, NO_COLOR="1").end()
    assert ended == 1 and "\x1b" not in rest and "KeyError: 'prcie'" in rest
    ended, out, err = piped(shared, "exec", session, code)
    assert (ended, out) == (1, "") and "\x1b" not in err
    assert "KeyError: 'prcie'\nhimalia: hint: table: did you mean 'price'?\n" in err


def test_a_line_that_is_not_ended_stands_alone_on_a_screen(shared, session, tmp_path):
    code = "print('50 %', end='')"
    assert Terminal(command(shared, "exec", session, code), tmp_path).end() == (0, "50 %\r\n")
    assert piped(shared, "exec", session, code) == (0, "50 %", "")


def test_what_has_no_text_is_shown_by_its_summary(shared, session):
    code = "import plotly.express as px\npx.bar(x=[1], y=[2], title='Sales')"
    ended, out, _ = piped(shared, "exec", session, code)
    assert ended == 0 and "[plotly figure 'Sales'" in out, out
    ended, out, _ = piped(shared, "exec", session, "from IPython.display import Markdown\nMarkdown('# Title')")
    assert (ended, out) == (0, "# Title\n"), out


def test_a_plot_is_shown_or_saved(shared, session, tmp_path):
    exec_plot = command(shared, "exec", session, PLOT)
    ended, rest = Terminal(exec_plot, tmp_path).end()
    (saved,) = tmp_path.glob("plot-*-1.png")
    assert ended == 0 and f"plot saved: {saved.resolve()}" in rest and saved.read_bytes().startswith(b"\x89PNG")
    shown, where = tmp_path / "shown", tmp_path / "new" / "plots"
    shown.mkdir()
    ended, rest = Terminal(exec_plot, shown, TERM="xterm-kitty").end()
    assert ended == 0 and "\x1b_Ga=T,f=100,m=" in rest and list(shown.iterdir()) == []
    ended, rest = Terminal(exec_plot, shown, TERM_PROGRAM="iTerm.app").end()
    assert "\x1b]1337;File=inline=1;size=" in rest and list(shown.iterdir()) == []
    ended, out, err = piped(shared, "exec", session, PLOT, cwd=shown)
    assert (ended, list(shown.iterdir())) == (0, []) and "--plots DIR saves it" in err and "\x1b" not in out + err
    for more in ([], ["--json"]):
        ended, _, _ = piped(shared, "exec", session, "--plots", str(where), *more, PLOT, cwd=shown)
        assert ended == 0
    assert len(list(where.glob("plot-*.png"))) == 2 and list(shown.iterdir()) == []


def test_a_caller_that_cannot_answer_is_told_in_the_cell(shared, session):
    ended, _, err = piped(shared, "exec", session, "input('Name? ')", stdin=subprocess.DEVNULL)
    assert ended == 1 and "StdinNotImplementedError" in err
    assert "hint: the caller of this code answers no prompts" in err


def test_a_death_names_what_was_lost(shared, tmp_path):
    assert shared.http.put("v1/sessions/mortal", json={"template": "python3"}).status_code == 201
    try:
        assert piped(shared, "exec", "mortal", "prices = [1]\nzone = 'a'")[0] == 0
        ended, _, err = piped(shared, "exec", "mortal", "import os; os._exit(3)")
        assert ended == 3 and "the kernel has ended (exit(3)), its variables are gone: prices, zone" in err, err
        ended, out, err = piped(shared, "exec", "mortal", "print('prices' in globals())")
        assert (ended, out) == (0, "False\n")
        assert "a new process, its variables are gone: prices, zone (exit(3))" in err, err
    finally:
        shared.http.delete("v1/sessions/mortal")


def test_help_and_mistakes_are_for_newcomers(shared, session, tmp_path):
    helped = subprocess.run([*shared.command(), "exec", "--help"], capture_output=True, text=True, timeout=30)
    assert helped.returncode == 0 and "\x1b" not in helped.stdout
    for part in ("himalia exec eda 'df = 6 * 7'", "--plots <DIR>", "  124  the code timed out"):
        assert part in helped.stdout, helped.stdout
    ended, out, err = piped(shared, "exec", "--no-create", "nosuch", "1")
    assert (ended, out) == (1, "") and "`himalia session new NAME` starts one" in err
    ended, _, err = piped(shared, "session", "new", "Bad_Name")
    assert ended == 1 and "lower-case" in err, err
    # A branch of a session that is named by the beginning of its id, and its end.
    whole = shared.http.get(f"v1/sessions/{session}").json()["id"]
    ended, out, err = piped(shared, "session", "fork", whole[:13], "--files", "share", "--policy", "report")
    assert ended == 0, err
    branch = out.splitlines()[1].split()[1]
    assert piped(shared, "session", "rm", branch)[0] == 0


def test_a_session_is_started_when_there_is_none(shared):
    try:
        ended, out, err = piped(shared, "exec", "--template", "python3", "begun", "x = 6\nprint('first')")
        assert (ended, out) == (0, "first\n") and "himalia: started session begun (python3, isolation " in err, err
        ended, out, err = piped(shared, "exec", "begun", "print(x * 7)")
        assert (ended, out, err) == (0, "42\n", "")
        listed = piped(shared, "session", "ls")[1].splitlines()
        row = next(line for line in listed if line.startswith("begun "))
        assert "idle" in row and ("MiB" in row or "KiB" in row), row
    finally:
        shared.http.delete("v1/sessions/begun")
    # An id that no session has is not taken for a name.
    ended, _, err = piped(shared, "exec", "00000000-0000-4000-8000-000000000000", "1")
    assert ended == 1 and "must not look like an id" in err, err


HOSTILE = "a\\x1b]52;c;ZXZpbA==\\x07b\\x1b[2J\\x1b[1Ac\\x1b]8;;http://evil.example\\x1b\\\\d\\x9b6ne\\u202ef \\x1b[31mred"


def test_a_terminal_gets_colours_and_nothing_that_steers_it(shared, session, tmp_path):
    """Clipboard, links, cursor moves and questions to the terminal are removed, wherever they come from."""
    texts = {
        "stdout": f"print('{HOSTILE}', flush=True)",
        "stderr": f"import sys; print('{HOSTILE}', file=sys.stderr, flush=True)",
        "value": f"class Evil:\n    def __repr__(self): return '{HOSTILE}'\nEvil()",
        "error": f"raise ValueError('{HOSTILE}')",
    }
    for where, code in texts.items():
        _, shown = Terminal(command(shared, "exec", session, code), tmp_path).end()
        # Of values and tracebacks the gateway has removed the colours before.
        red = "abcdef \x1b[31mred" if where.startswith("std") else "abcdef red"
        assert red in shown, (where, shown)
        assert not set("\x07\x9b\u202e") & set(shown), (where, shown)
        kept = {part[: part.index("m") + 1] for part in shown.split("\x1b[")[1:]}
        assert kept <= {"31m", "0m", "2m", "1;31m"} and shown.count("\x1b") == shown.count("\x1b["), (where, shown)
    _, shown = Terminal(command(shared, "exec", "--raw", session, texts["stdout"]), tmp_path).end()
    assert "\x1b]52;c;ZXZpbA==\x07b\x1b[2J" in shown, shown
    ended, out, _ = piped(shared, "exec", session, texts["stdout"])
    assert ended == 0 and "\x1b]52;c;ZXZpbA==\x07b\x1b[2J" in out, out


def test_a_question_cannot_pass_for_another(shared, session, tmp_path):
    code = "input('\\x1b[2J\\x1b]0;t\\x07\\u202eroot password: ' + 'x' * 5000)"
    terminal = Terminal(command(shared, "exec", session, code), tmp_path)
    assert terminal.until(LABEL) == ""
    shown = terminal.until("…")
    assert "root password: xxx" in shown and len(shown) < 2100, shown
    assert not set("\x07\u202e") & set(shown) and "\x1b[2J" not in shown and "\x1b]" not in shown, shown
    terminal.type("\n")
    assert terminal.end()[0] == 0


def test_a_second_ctrl_c_leaves_it_running(shared, session, tmp_path):
    # What is printed can be read before the flush has ended.
    code = "import time\nn = 0\nwhile n < 2:\n    try: print('begun', n, flush=True); time.sleep(600)\n    except KeyboardInterrupt: n += 1"
    terminal = Terminal(command(shared, "exec", session, code), tmp_path)
    terminal.until("begun 0")
    terminal.type("\x03")
    terminal.until("begun 1")
    os.kill(terminal.pid, signal.SIGINT)
    ended, rest = terminal.end()
    assert ended == 1 and "it continues as /v1/executions/exe_" in rest, rest
    execution = rest.split("/v1/executions/")[1].split()[0]
    assert shared.http.post(f"v1/executions/{execution}/interrupt").status_code == 202
