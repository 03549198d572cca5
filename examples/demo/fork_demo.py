"""`make fork-demo`: load data once, fork the live session three ways, try a model in each, keep the best.

Run with the kernels' Python: `examples/demo/fork_demo.py --himalia target/quick/himalia`.
"""

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gateway import Gateway, GatewayError
from kernel import Kernel
from terminal import bad, dim, good, heading, say

ROOT = Path(__file__).resolve().parents[2]

LOAD = """
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

patients, progression = load_diabetes(return_X_y=True, as_frame=True)
train, test, train_y, test_y = train_test_split(patients, progression, random_state=1)
print(f"{len(train)} patients to learn from, {len(test)} to test with, {patients.shape[1]} measurements each")
"""

MODELS = {
    "linear": "from sklearn.linear_model import RidgeCV; model = RidgeCV()",
    "forest": "from sklearn.ensemble import RandomForestRegressor; model = RandomForestRegressor(200, random_state=1)",
    "boosting": "from sklearn.ensemble import HistGradientBoostingRegressor; model = HistGradientBoostingRegressor(max_iter=60)",
}

# The variables come with the fork: nothing is loaded again.
TRY = """
{choice}
model.fit(train, train_y)
score = model.score(test, test_y)
print(f"{{score:.3f}}")
"""

GO_ON = """
worst = (model.predict(test) - test_y).abs().nlargest(3)
print(f"{type(model).__name__} explains {score:.0%}; its largest errors are at patients {list(worst.index)}")
"""


LOOK = "print('model' in globals())"


def main():
    """Run the example; returns the exit status."""
    parser = argparse.ArgumentParser(description="One loaded session, three branches, the best one continues.")
    parser.add_argument("--himalia", type=Path, default=ROOT / "target/quick/himalia", help="the gateway's program")
    options = parser.parse_args()
    try:
        with Gateway(options.himalia) as gateway:
            return explore(gateway)
    except GatewayError as error:
        say(bad(f"fork-demo: {error}"))
        return 1


def explore(gateway):
    """Load, fork, try, keep the best."""
    session = gateway.start_kernel()
    heading("1. load, once")
    say(f"  {run(gateway, session, LOAD)}")

    heading("2. fork the live session, one branch per model")
    started = time.monotonic()
    answer = gateway.request("POST", f"/v1/sessions/{session}/fork", {"count": len(MODELS), "policy": "report"})
    branches = dict(zip(MODELS, (branch["session"]["id"] for branch in answer["branches"])))
    say(f"  {len(branches)} branches in {time.monotonic() - started:.2f} s")

    heading("3. try a model in each, side by side")
    with ThreadPoolExecutor() as pool:
        tries = {name: pool.submit(run, gateway, branches[name], TRY.format(choice=MODELS[name])) for name in MODELS}
        scores = {name: float(tried.result()) for name, tried in tries.items()}
    best = max(scores, key=scores.get)
    for name, score in scores.items():
        say(f"  {name:<10} {score:.3f}{good('  kept') if name == best else dim('  ended')}")
    for name in scores.keys() - {best}:
        gateway.request("DELETE", f"/v1/sessions/{branches[name]}")

    heading("4. continue in the best branch")
    say(f"  {run(gateway, branches[best], GO_ON)}")
    say(f"  the session they came from has a model: {run(gateway, session, LOOK)}")
    return 0


def run(gateway, session, code):
    """Run code in a session; returns what it printed, and raises if it failed."""
    printed = []

    def on_output(kind, content):
        if kind == "stream" and content["name"] == "stdout":
            printed.append(content["text"])
        elif kind == "error":
            raise GatewayError(f"{content['ename']}: {content['evalue']}")

    with Kernel(gateway, session) as kernel:
        kernel.execute(code.strip(), on_output)
    return "".join(printed).strip()


if __name__ == "__main__":
    sys.exit(main())
