"""`make demo`: a staged analysis of a public data set in one live kernel behind a gateway.

Run with the kernels' Python: `examples/demo/demo.py --himalia target/quick/himalia`.
"""

import argparse
import base64
import os
import sys
import time
from pathlib import Path

from gateway import Gateway, GatewayError
from kernel import Kernel
from stages import STAGES
from terminal import Indented, bad, bold, dim, good, heading, say

ROOT = Path(__file__).resolve().parents[2]


def main():
    """Run the demo; returns the exit status."""
    parser = argparse.ArgumentParser(description="A staged exploratory analysis in one live kernel.")
    parser.add_argument("--himalia", type=Path, default=ROOT / "target/quick/himalia", help="the gateway's program")
    parser.add_argument("--out", type=Path, default=ROOT / "target/demo", help="directory for the plot")
    parser.add_argument("--keep", action="store_true", help="leave the gateway running until Ctrl-C")
    options = parser.parse_args()
    try:
        with Gateway(options.himalia) as gateway:
            return show(gateway, options)
    except GatewayError as error:
        say(bad(f"demo: {error}"))
        return 1
    except KeyboardInterrupt:
        say()
        return 130


def show(gateway, options):
    """Run all stages and say how long each took."""
    say(f"gateway     {gateway.url}")
    started = time.monotonic()
    kernel_id = gateway.start_kernel()
    times = []
    with Kernel(gateway, kernel_id) as kernel:
        kernel.execute("pass", lambda *_: None)
        say(f"kernel      {kernel_id}, ready after {time.monotonic() - started:.2f} s")
        for number, (name, code) in enumerate(STAGES, 1):
            heading(f"{number}. {name}")
            for line in code.strip().splitlines():
                say(dim(f"  {line}"))
            status, seconds = run(kernel, code, options.out)
            times.append((name, seconds))
            if status != "ok":
                say(bad(f"  stage {name} failed"))
                return 1
            say(dim(f"  └ {seconds:.2f} s"))
    heading("Time of each stage")
    for name, seconds in times:
        say(f"  {name:<11} {seconds:6.2f} s  {'▪' * max(1, round(seconds * 10))}")
    how_to_attach(gateway, kernel_id, options.keep)
    return 0


def run(kernel, code, out):
    """Run one stage, showing its outputs as they come."""
    margin = Indented()

    def on_output(kind, content):
        if kind == "stream":
            margin.write(content["text"])
        elif kind in ("execute_result", "display_data"):
            data = content["data"]
            if "image/png" in data:
                plot = save(out, data["image/png"])
                margin.write(f"plot saved as {os.path.relpath(plot)}\n")
            else:
                margin.end()
                margin.write(data.get("text/plain", "") + "\n")
        elif kind == "error":
            margin.end()
            margin.write("\n".join(content["traceback"]) + "\n")

    status, seconds = kernel.execute(code.strip(), on_output)
    margin.end()
    return status, seconds


def save(directory, png):
    """Save the plot; returns its path."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "mauna-loa-co2.png"
    path.write_bytes(base64.b64decode(png))
    return path


def how_to_attach(gateway, kernel_id, keep):
    """Say how JupyterLab attaches to a gateway, and wait on a terminal."""
    heading("Attach JupyterLab")
    say(f"  JUPYTER_GATEWAY_AUTH_TOKEN={gateway.token} jupyter lab --gateway-url={gateway.url}")
    if not keep and sys.stdin.isatty() and sys.stdout.isatty():
        say(dim(f"\nThe kernel {kernel_id} is still alive. Enter ends the demo."))
        input()
    elif keep:
        say(dim(f"\nThe kernel {kernel_id} is still alive. Ctrl-C ends the demo."))
        gateway.process.wait()
    else:
        say(dim("  (this gateway ends now; `make demo` in a terminal waits, `himalia up` starts one that stays)"))
    say(good(bold("done")))


if __name__ == "__main__":
    sys.exit(main())
