"""An interrupt ends a cell, whatever it does and however its kernel was started."""

import os
import signal

import pytest
from branching import Branch
from rawkernel import RawKernel
from zygotes import HostZygote, Sandbox

# Both say that a cell has begun: the second one when it awaits.
NOW = "print('begun', flush=True)"
AWAITING = "asyncio.get_running_loop().call_soon(print, 'begun')"
# None of these ends by itself, and no timer wakes the event loop: what is not interrupted is a reply that never comes.
CELLS = {
    "await-sleep": f"{AWAITING}; await asyncio.sleep(1000)",
    "await-nothing": f"{AWAITING}; await asyncio.Event().wait()",
    "await-thread": f"{AWAITING}; await asyncio.to_thread(forever.wait)",
    "await-then-block": f"await asyncio.sleep(0); {NOW}; time.sleep(1000)",
    "await-or-compute": f"{AWAITING}; await asyncio.sleep(0)\nwhile True: matrix @ matrix",
    "sleep": f"{NOW}; time.sleep(1000)",
    # As a signal that comes in the moment before the sleep: no system call of the main thread is cut short.
    "sleep-unaware": f"signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n{NOW}\n"
    "try: time.sleep(1000)\nfinally: signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])",
    "lock-unaware": f"signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n{NOW}\n"
    "try: locked.acquire()\nfinally: signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])",
    "numpy-loop": f"{NOW}\nwhile True: matrix @ matrix",
}


@pytest.fixture(scope="module", params=["cold", "zygote", "fork of a cold one", "fork of a zygote's"])
def kernel(request, kernel_python):
    """A kernel of each kind, with its `pid`."""
    closing = []
    if "cold" in request.param:
        kernel = RawKernel(kernel_python)
        kernel.pid = kernel.process.pid
        closing.append(kernel.close)
    else:
        zygote = HostZygote(kernel_python)
        sandbox = Sandbox(zygote)
        kernel = sandbox.kernel()
        kernel.directory = type("Directory", (), {"name": str(sandbox.path)})
        closing += [zygote.close, sandbox.end, lambda: os.kill(kernel.pid, signal.SIGKILL), kernel.disconnect]
    if "fork" in request.param:
        kernel = Branch(kernel)
        closing.append(kernel.close)
    setup = "import asyncio, os, signal, threading, time, numpy as np; matrix = np.ones((50, 50)); forever = threading.Event()"
    setup += "; locked = threading.Lock(); locked.acquire()"
    assert kernel.run(setup)[0]["status"] == "ok"
    yield kernel
    for close in reversed(closing):
        close()


def begin(kernel, code):
    """Run code; returns its msg_id when it has begun."""
    cell = kernel.execute(code)
    for message in kernel.outputs(cell):
        if message["msg_type"] == "stream":
            return cell
    raise AssertionError("it ended")


def interrupt(kernel, by="signal"):
    """SIGINT to the process group, as the shim sends it, or the request."""
    if by == "signal":
        os.killpg(kernel.pid, signal.SIGINT)
    else:
        assert kernel.request("interrupt_request", {}, "control")["status"] == "ok"


def ended(kernel, cell):
    """The error that a cell ended with. The kernel continues."""
    name = kernel.reply(cell, timeout=60).get("ename")
    list(kernel.outputs(cell))
    assert kernel.run("await asyncio.sleep(0); print(6 * 7)")[1] == "42\n"
    return name


@pytest.mark.parametrize("by", ["signal", "message"])
@pytest.mark.parametrize("name", CELLS)
def test_a_cell_ends(kernel, name, by):
    cell = begin(kernel, CELLS[name])
    interrupt(kernel, by)
    expected = "CancelledError" if AWAITING in CELLS[name] else "KeyboardInterrupt"
    assert ended(kernel, cell) in (expected, "KeyboardInterrupt" if name == "await-or-compute" else expected)
    kernel.run("forever.set(); forever = threading.Event()")


def test_a_cell_that_asks_for_input_ends(kernel):
    cell = kernel.execute("input('name? ')", allow_stdin=True)
    assert kernel.receive("stdin")["content"]["prompt"] == "name? "
    interrupt(kernel)
    assert ended(kernel, cell) == "KeyboardInterrupt"


@pytest.mark.parametrize("code", ["while True: pass", "await asyncio.sleep(1000)"])
def test_a_cell_that_has_hardly_begun_ends_with_a_reply(kernel, code):
    for _ in range(20):
        cell = kernel.execute(code)
        for message in kernel.outputs(cell):
            if message["msg_type"] == "execute_input":
                break
        interrupt(kernel)
        assert ended(kernel, cell) in ("CancelledError", "KeyboardInterrupt")


def test_a_cell_that_cleans_up_awaiting_ends_at_the_second_interrupt(kernel):
    code = f"{AWAITING}\ntry: await asyncio.sleep(1000)\nfinally:\n    {AWAITING}\n    await asyncio.sleep(1000)"
    cell = begin(kernel, code)
    interrupt(kernel)
    for message in kernel.outputs(cell):
        if message["msg_type"] == "stream":
            break
    interrupt(kernel)
    assert ended(kernel, cell) == "CancelledError"


def test_a_task_beside_the_cell_goes_on(kernel):
    code = """
async def tick():
    global ticks
    ticks = 0
    while True:
        ticks += 1
        await asyncio.sleep(0)
beside = asyncio.get_running_loop().create_task(tick())
"""
    cell = begin(kernel, code + CELLS["await-sleep"])
    interrupt(kernel)
    assert ended(kernel, cell) == "CancelledError"
    assert kernel.run("before = ticks\nwhile ticks == before: await asyncio.sleep(0)\nprint(beside.done())")[1] == "False\n"
    assert kernel.run("beside.cancel()")[0]["status"] == "ok"


def test_a_signal_handler_of_the_users_loop_is_still_called_after_the_cell(kernel):
    code = "seen = asyncio.Event(); loop = asyncio.get_running_loop(); loop.add_signal_handler(signal.SIGUSR1, seen.set)\n"
    assert kernel.run(code + "await asyncio.sleep(0)")[0]["status"] == "ok"
    os.kill(kernel.pid, signal.SIGUSR1)
    assert kernel.run("await seen.wait(); loop.remove_signal_handler(signal.SIGUSR1); print('seen')")[1] == "seen\n"


def test_a_wakeup_descriptor_of_the_users_stays(kernel):
    code = "import socket; told, tell = socket.socketpair(); tell.setblocking(False); signal.set_wakeup_fd(tell.fileno())"
    assert kernel.run(code)[0]["status"] == "ok"
    assert kernel.run("await asyncio.sleep(0); print(signal.set_wakeup_fd(-1) == tell.fileno())")[1] == "True\n"
