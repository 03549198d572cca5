"""Floods of output: memory stays bounded, nothing is lost, interrupts get through."""

import hashlib
import time

import pytest
from rawkernel import text_of

FLOOD = """
import hashlib
digest = hashlib.sha256()
for n in range({count}):
    line = f"{{n:08d}}" + "x" * {size} + "\\n"
    digest.update(line.encode())
    print(line, end=""{flush})
digest.hexdigest()
"""


def streamed(kernel, msg_id, pause_each=None):
    """Digest, length and count of the stdout of a request, and its result; reads without keeping it."""
    digest, length, messages, result, longest = hashlib.sha256(), 0, 0, None, 0
    for message in kernel.outputs(msg_id):
        if message["msg_type"] == "stream":
            text = message["content"]["text"].encode()
            digest.update(text)
            length += len(text)
            longest = max(longest, len(text))
            messages += 1
        elif message["msg_type"] == "execute_result":
            result = message["content"]["data"]["text/plain"].strip("'")
    return digest.hexdigest(), length, messages, longest, result


@pytest.mark.parametrize("flush", ["", ", flush=True"], ids=["buffered", "flushed"])
def test_a_flood_of_large_prints_is_delivered_in_bounded_memory(kernel, flush):
    before = kernel.rss_mb()
    msg_id = kernel.execute(FLOOD.format(count=1000, size=100_000, flush=flush))
    digest, length, _, longest, result = streamed(kernel, msg_id)
    assert length == 1000 * 100_009
    assert digest == result
    assert longest <= 256 * 1024
    assert kernel.peak_rss_mb() < before + 45
    assert kernel.peak_rss_mb() < 100


def test_one_print_of_100_mb_costs_its_own_text_and_little_more(kernel):
    msg_id = kernel.execute("print('y' * 100_000_000)")
    _, length, _, _, _ = streamed(kernel, msg_id)
    assert length == 100_000_001
    assert kernel.peak_rss_mb() < 100 + 2 * 96


@pytest.mark.parametrize("flush", ["", ", flush=True"], ids=["buffered", "flushed"])
def test_small_prints_are_all_delivered(kernel, flush):
    count = 200_000 if not flush else 5_000
    msg_id = kernel.execute(FLOOD.format(count=count, size=5, flush=flush))
    digest, _, _, _, result = streamed(kernel, msg_id)
    assert digest == result


def wait_until_stuck(kernel, path):
    """Wait until the counter that the code writes to a file stands still."""
    last, since = None, time.monotonic()
    while True:
        now = path.read_text() if path.exists() else ""
        if now and now != last:
            last, since = now, time.monotonic()
        if last is not None and time.monotonic() - since > 0.7:
            return int(last)
        assert time.monotonic() - since < 20, "the flood did not start"


STUCK = """
from pathlib import Path
counter = Path({path!r})
temporary = counter.with_suffix(".new")
try:
    for n in range(100_000):
        print(f"{{n:08d}}" + "x" * 100_000{flush})
        temporary.write_text(str(n)); temporary.rename(counter)
finally:
    done = n
"""


@pytest.mark.parametrize("flush", ["", ", flush=True"], ids=["buffered", "flushed"])
def test_with_a_reader_that_stops_the_kernel_waits_answers_and_can_be_interrupted(kernel, tmp_path, flush):
    counter = tmp_path / "counter"
    msg_id = kernel.execute(STUCK.format(path=str(counter), flush=flush))
    stuck_at = wait_until_stuck(kernel, counter)
    assert stuck_at < 500, "output was not held back"
    assert kernel.peak_rss_mb() < 100

    # Control answers while output is stuck.
    started = time.monotonic()
    assert kernel.request("kernel_info_request", {}, "control", timeout=5)["status"] == "ok"
    assert time.monotonic() - started < 1

    # An interrupt ends the blocked write.
    started = time.monotonic()
    kernel.interrupt()
    reply = kernel.reply(msg_id, timeout=5)
    assert time.monotonic() - started < 1
    assert (reply["status"], reply["ename"]) == ("error", "KeyboardInterrupt")

    # And what was printed before is still all there when a client reads.
    messages = list(kernel.outputs(msg_id))
    numbers = [int(line[:8]) for line in text_of(messages).splitlines() if line]
    assert numbers[: stuck_at + 1] == list(range(stuck_at + 1))
    assert numbers == list(range(len(numbers)))
    assert [m["content"]["ename"] for m in messages if m["msg_type"] == "error"] == ["KeyboardInterrupt"]
    assert kernel.run("print(done)")[1].strip().isdigit()


def test_a_flood_of_displays_is_bounded_too(kernel, tmp_path):
    counter = tmp_path / "counter"
    code = STUCK.format(path=str(counter), flush="").replace("print(", "display(")
    msg_id = kernel.execute(code)
    wait_until_stuck(kernel, counter)
    assert kernel.peak_rss_mb() < 120
    kernel.interrupt()
    assert kernel.reply(msg_id, timeout=5)["ename"] == "KeyboardInterrupt"
    shown = [m for m in kernel.outputs(msg_id) if m["msg_type"] == "display_data"]
    assert [int(m["content"]["data"]["text/plain"][1:9]) for m in shown] == list(range(len(shown)))


def test_interrupts_at_any_moment_lose_no_text_and_leave_no_lock_held(kernel):
    """Interrupts that fall at random points inside `write` and `flush`."""
    for _ in range(15):
        msg_id = kernel.execute(
            "n = -1\nwhile True:\n    n += 1\n    print(n)\n    sys_flush()\n".replace(
                "sys_flush()", "__import__('sys').stdout.flush() if n % 7 == 0 else None"
            )
        )
        for message in kernel.outputs(msg_id):
            if message["msg_type"] == "stream":
                break
        kernel.interrupt()
        text = [message["content"]["text"]]
        text += [m["content"]["text"] for m in kernel.outputs(msg_id) if m["msg_type"] == "stream"]
        assert kernel.reply(msg_id, timeout=5)["ename"] == "KeyboardInterrupt"
        numbers = "".join(text).split()
        assert numbers == [str(n) for n in range(len(numbers))]
        last = int(kernel.run("print(n)")[1])
        assert last - 1 <= int(numbers[-1]) <= last


def test_an_interrupt_at_the_worst_moment_does_not_end_the_publishing_thread_in_name(kernel):
    """Python 3.11's own `Thread.is_alive` takes a thread for ended for ever that an exception strikes here."""
    code = """
import sys
publisher = sys.stdout.pub_thread.thread
def strike(frame, event, argument):
    if event == "c_call" and frame.f_code.co_name == "_wait_for_tstate_lock":
        sys.setprofile(None)
        raise KeyboardInterrupt
sys.setprofile(strike)
try: publisher.is_alive()
except KeyboardInterrupt: pass
finally: sys.setprofile(None)
print(publisher.is_alive())
"""
    assert kernel.run(code)[1] == "True\n"
