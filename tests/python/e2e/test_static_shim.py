"""The shim is static: it runs in a root that holds nothing else."""

import os
import shutil
import subprocess
from pathlib import Path


def test_the_shim_runs_in_an_empty_root(tmp_path):
    shutil.copy(Path(os.environ["HIMALIA_BIN"]).with_name("himalia-shim"), tmp_path)
    answer = subprocess.run(
        ["unshare", "--user", "--map-root-user", "chroot", str(tmp_path), "/himalia-shim", "--version"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith("himalia-shim ")
