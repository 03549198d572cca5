"""The examples that need nothing but Python, as a user runs them."""

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_a_staged_analysis_corrects_itself_and_goes_on_when_it_is_run_again(gateway, tmp_path):
    def run():
        # -S: no installed package is there.
        command = [sys.executable, "-I", "-S", EXAMPLES / "staged.py", gateway.url, gateway.token]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        return done.stdout

    first = run()
    for line in (
        "kernel process 1",
        "load: ok",
        "count                       20000  20000.0",
        "hint: sales: did you mean 'region'?",
        "aggregate again: ok",
        "a plot of ",
        "wrote sales.png",
        "sales (DataFrame), total (Series)",
    ):
        assert line in first, first
    assert (tmp_path / "sales.png").read_bytes().startswith(b"\x89PNG")
    session = first.splitlines()[0]
    assert run().splitlines()[0] == session, "the same session, in the same process"
