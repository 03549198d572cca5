"""The demos, as `make demo`, `make crash-demo`, `make fork-demo` and `make tools-demo` run them."""

import os
import subprocess
from pathlib import Path

DEMOS = Path(__file__).parents[3] / "examples" / "demo"


def shown(kernel_python, tmp_path, demo, *options):
    """What a demo prints; nothing of its gateway may be left."""
    done = subprocess.run(
        [kernel_python, DEMOS / demo, "--himalia", os.environ["HIMALIA_BIN"], *options],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=110,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert not list(tmp_path.glob("himalia-demo-*")), "the demo removes its data"
    return done.stdout


def test_a_staged_analysis(kernel_python, tmp_path):
    printed = shown(kernel_python, tmp_path, "demo.py", "--out", str(tmp_path / "out"))
    for text in ("2284 weeks, Mar 1958 to Dec 2001", "526 months, 5 of them interpolated", "Time of each stage", "--gateway-url=http://127.0.0.1:"):
        assert text in printed, printed
    assert (tmp_path / "out" / "mauna-loa-co2.png").read_bytes().startswith(b"\x89PNG")
    assert printed.rstrip().endswith("done")


def test_a_gateway_killed_in_mid_cell(kernel_python, tmp_path):
    printed = shown(kernel_python, tmp_path, "crash_demo.py")
    assert "✓ 40 of 40 lines, each once, in order" in printed, printed
    assert "✓ the kernel says the cell ran 1 time; its variables are alive" in printed, printed
    assert printed.rstrip().endswith("nothing lost, nothing ran twice")


def test_a_session_forked_three_ways(kernel_python, tmp_path):
    printed = shown(kernel_python, tmp_path, "fork_demo.py")
    assert "3 branches in " in printed and "the session they came from has a model: False" in printed, printed
    assert printed.count(" kept") == 1 and printed.count(" ended") == 2, printed


def test_charges_against_the_ledger(kernel_python, tmp_path):
    printed = shown(kernel_python, tmp_path, "tools_demo.py", "--out", str(tmp_path / "out"))
    for text in ("payments.list_charges(month, page?)", "the run waits for a person: 21 differences", "21 differences", "ticket T-1: Reconciliation of "):
        assert text in printed, printed
    assert printed.count("succeeded") == 5, printed
    assert (tmp_path / "out" / "differences.png").read_bytes().startswith(b"\x89PNG")
    assert printed.rstrip().endswith("done")
