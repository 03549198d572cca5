"""`make bench-context`: what a model has to read after a cell.

Characters of JSON that come back for typical cells: all outputs, as a plain Jupyter client keeps them in a notebook, and
the result of an execution under `/v1` with its default budget. Both run the same kernel's environment. Nothing here
depends on the machine's speed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from jupyter_client import KernelManager
from nbformat.v4 import output_from_msg
from targets import Himalia

# Of what a plain client has to read, in the median.
GOAL = 0.1
SETUP = """
import sys, time
import numpy as np, pandas as pd, matplotlib.pyplot as plt, seaborn as sns
%matplotlib inline
rng = np.random.default_rng(1)
wide = pd.DataFrame(rng.normal(size=(1000, 60)), columns=[f"measure_{i}" for i in range(60)])
sales = pd.DataFrame({"region": rng.choice(["north", "south"], 5000), "price": rng.gamma(2, 20, 5000), "count": rng.integers(1, 9, 5000)})
"""
CELLS = {
    "scatter plot": 'plt.scatter(sales["price"], sales["count"], s=4); plt.show()',
    "four plots in one": "sales.assign(total=sales.price * sales['count']).hist(bins=40, figsize=(10, 7)); plt.show()",
    "heat map": "sns.heatmap(wide.iloc[:, :20].corr()); plt.show()",
    "wide DataFrame": "pd.set_option('display.max_columns', 100)\nwide.head(40)",
    "long DataFrame": "pd.set_option('display.max_rows', 500)\nsales.head(400)",
    "grouped DataFrame": "sales.groupby(['region', 'count']).price.describe()",
    "long traceback": "def revenue(frame):\n    return frame['prise'] * frame['count']\nrevenue(sales)",
    "endless recursion": "def walk(n):\n    return walk(n + 1)\nwalk(0)",
    "progress bar": (
        "for i in range(2000):\n"
        "    sys.stderr.write(f'\\r{i / 20:5.1f}%|{\"#\" * (i // 50):40}| {i}/2000 [00:{i // 100:02}<00:01, 99.7it/s]')\n"
        "    sys.stderr.flush()\n"
        "    if i % 100 == 0: time.sleep(0.01)"
    ),
    "huge print": "for i in range(20_000): print('row', i, rng.integers(0, 100, 8))",
}
# What must still be there of a cell that fails.
FAILING_LINES = {"long traceback": "return frame['prise'] * frame['count']", "endless recursion": "return walk(n + 1)"}


class Sessions(Himalia):
    """A gateway with the user's kernels, as plain processes."""

    def start(self, binary=None):
        # The kernels' environment is the user's own, built once.
        self.env["HOME"] = os.environ["HOME"]
        super().start(binary)

    def first_client(self):
        """None: the API is asked directly."""


def plain(python, folder):
    """Outputs of every cell by jupyter_client, as nbformat has them."""
    manager = KernelManager(transport="ipc", ip=f"{folder}/kernel")
    # The kernelspec's command, with the interpreter of the kernels' environment.
    manager.kernel_spec.argv = [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        client.execute_interactive(SETUP, timeout=120, output_hook=lambda _: None)
        found = {}
        for name, code in CELLS.items():
            outputs = []

            def keep(message, outputs=outputs):
                if message["header"]["msg_type"] in ("stream", "display_data", "execute_result", "error"):
                    outputs.append(output_from_msg(message))

            client.execute_interactive(code, timeout=120, output_hook=keep)
            found[name] = merged(outputs)
        return found
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def merged(outputs):
    """Neighbouring texts of one stream are one output, as clients keep them."""
    kept = []
    for output in outputs:
        if kept and output["output_type"] == "stream" == kept[-1]["output_type"] and output["name"] == kept[-1]["name"]:
            kept[-1]["text"] += output["text"]
        else:
            kept.append(output)
    return kept


def ours():
    """Results of every cell under `/v1`."""
    with Sessions() as gateway:
        session = gateway.call("POST", "/v1/sessions", {"template": "python3"})["id"]
        path = f"/v1/sessions/{session}/executions"
        assert gateway.call("POST", path, {"code": SETUP})["status"] == "ok"
        found = {name: gateway.call("POST", path, {"code": code}) for name, code in CELLS.items()}
        gateway.call("DELETE", f"/v1/sessions/{session}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    options = parser.parse_args()
    himalia = os.environ.get("HIMALIA_BIN", "target/release/himalia")
    prefix = subprocess.run([himalia, "env", "path"], check=True, capture_output=True, text=True).stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["IPYTHONDIR"] = folder
        before = {name: len(json.dumps(outputs)) for name, outputs in plain(f"{prefix}/bin/python", folder).items()}
    results = ours()
    for name, line in FAILING_LINES.items():
        assert results[name]["error"]["frame"]["source"] == line, (name, results[name]["error"])
    after = {name: len(json.dumps(result)) for name, result in results.items()}
    ratios = {name: after[name] / before[name] for name in CELLS}
    print(f"{'characters returned':20}{'plain Jupyter client':>22}{'/v1':>10}{'ratio':>9}")
    for name in CELLS:
        print(f"{name:20}{before[name]:>22,}{after[name]:>10,}{ratios[name]:>9.3f}")
    # A plot's picture is no part of the result: a caller that needs it requests it.
    without = [ratio for name, ratio in ratios.items() if "plt." not in CELLS[name]]
    median, median_without = statistics.median(ratios.values()), statistics.median(without)
    print(f"{'median':20}{'':22}{'':10}{median:>9.3f}   (goal {GOAL})")
    print(f"{'median without plots':20}{'':22}{'':10}{median_without:>9.3f}")
    if options.out:
        options.out.write_text(json.dumps({"plain": before, "v1": after}, indent=1))
    return 1 if median > GOAL else 0


if __name__ == "__main__":
    sys.exit(main())
