"""Output from everywhere: order, threads, child processes, other languages."""

import pytest
from test_flood import STUCK, wait_until_stuck


def test_order_is_that_of_the_program(kernel):
    code = """
import sys
from IPython.display import display
for n in range(200):
    print("out", n)
    if n % 3 == 0: print("err", n, file=sys.stderr)
    if n % 5 == 0: display(n)
    if n % 7 == 0: sys.stdout.flush()
"""
    _, out, messages = kernel.run(code)
    assert out == "".join(f"out {n}\n" for n in range(200))
    seen = []
    for message in messages:
        if message["msg_type"] == "display_data":
            shown = int(message["content"]["data"]["text/plain"])
            # A display comes after all that was printed before it, and before all that was printed after it.
            assert seen[-1] == shown
        elif message["msg_type"] == "stream" and message["content"]["name"] == "stdout":
            seen += [int(line.split()[1]) for line in message["content"]["text"].splitlines()]


def test_background_threads_print_and_wait_too(kernel):
    code = """
import sys, threading
def work(k):
    for n in range(300):
        sys.stdout.write(f"{k} {n} " + "z" * 20_000 + "\\n")
threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
for t in threads: t.start()
for t in threads: t.join()
"""
    _, out, _ = kernel.run(code)
    lines = [line.split(" ", 2) for line in out.splitlines() if line]
    for k in "0123":
        assert [int(n) for who, n, _ in lines if who == k] == list(range(300))
    assert kernel.peak_rss_mb() < 110


def test_output_of_subprocesses_is_captured(kernel):
    code = """
import os, subprocess, sys
subprocess.run(["sh", "-c", "echo from the shell; echo and its errors >&2"])
subprocess.run([sys.executable, "-c", "import sys\\nfor n in range(3000): print(n, 'w' * 1000)"])
os.write(1, b"END\\n")
"""
    msg_id = kernel.execute(code)
    out = ""
    while "END\n" not in out:  # it may come after the cell is idle: the pipe is read by a thread
        message = kernel.receive("iopub")
        if message["msg_type"] == "stream" and message["content"]["name"] == "stdout":
            assert message["parent_header"]["msg_id"] == msg_id
            out += message["content"]["text"]
    assert out.startswith("from the shell\n")
    assert [int(line.split()[0]) for line in out.splitlines() if line.endswith("w")] == list(range(3000))
    assert kernel.peak_rss_mb() < 110


def test_a_forked_child_prints_its_own_lines_and_not_its_parents_again(kernel):
    code = """
import os, sys
print("before the fork")
pid = os.fork()
if pid == 0:
    print("in the child")
    sys.stdout.flush()
    os._exit(7)
print("in the parent", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    _, out, _ = kernel.run(code)
    assert out.count("before the fork") == 1
    assert out.count("in the child") == 1
    assert out.count("in the parent 7") == 1


def test_multiprocessing_pool_prints(kernel):
    code = """
import multiprocessing, sys
def work(n):
    sys.stdout.write(f"worker {n}\\n")
    return n * n
context = multiprocessing.get_context("fork")
with context.Pool(2) as pool: print(sum(pool.map(work, range(10))))
"""
    _, out, _ = kernel.run(code)
    assert "285" in out
    assert sorted(line for line in out.splitlines() if line.startswith("worker")) == [f"worker {n}" for n in range(10)]


def test_a_signal_handler_may_print(kernel):
    code = """
import signal
ticks = 0
def tick(*_):
    global ticks
    ticks += 1
    print("tick")
signal.signal(signal.SIGALRM, tick)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
try:
    n = 0
    while ticks < 300:
        print("line", n); n += 1
finally:
    signal.setitimer(signal.ITIMER_REAL, 0)
print("sum", n, ticks)
"""
    _, out, _ = kernel.run(code)
    lines = out.replace("line", "\nline").replace("tick", "\ntick").split("\n")
    n, ticks = out.splitlines()[-1].split()[1:]
    assert sum(line.startswith("tick") for line in lines) == int(ticks)
    assert sum(line.startswith("line") for line in lines) == int(n)


@pytest.mark.parametrize("code", ["import sys; sys.stdout.write(b'x')", "import sys; sys.stdout.write(1)"])
def test_only_text_can_be_written(kernel, code):
    assert kernel.run(code)[0]["ename"] == "TypeError"


def test_logging_of_the_program_reaches_stderr(kernel):
    _, _, messages = kernel.run("import logging; logging.warning('careful')")
    assert "careful" in "".join(m["content"]["text"] for m in messages if m["msg_type"] == "stream")


def test_the_last_words_before_a_crash_arrive(kernel):
    msg_id = kernel.execute("import os; print('last words', flush=True); os.kill(os.getpid(), 9)")
    for message in kernel.outputs(msg_id):
        if message["msg_type"] == "stream":
            assert message["content"]["text"] == "last words\n"
            return
    raise AssertionError("no output")


# The threads of ZeroMQ's get the processor last: they share one with two processes that never give it up.
STARVED = """
import os, subprocess, sys
from pathlib import Path
one = {min(os.sched_getaffinity(0))}
hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
for hog in hogs: os.sched_setaffinity(hog.pid, one)
for task in Path("/proc/self/task").iterdir():
    if (task / "comm").read_text().startswith("ZMQbg/IO"):
        os.sched_setaffinity(int(task.name), one)
        os.setpriority(os.PRIO_PROCESS, int(task.name), 19)
"""


def test_the_last_words_arrive_although_zeromq_has_had_no_time(kernel):
    assert kernel.run(STARVED)[0]["status"] == "ok"
    msg_id = kernel.execute("print('last words', flush=True); os.kill(os.getpid(), 9)")
    while True:
        message = kernel.receive("iopub", 30)
        if message["parent_header"].get("msg_id") == msg_id and message["msg_type"] == "stream":
            assert message["content"]["text"] == "last words\n"
            return


def test_a_shutdown_does_not_wait_for_a_process_that_ends_by_itself(kernel):
    """A user of joblib has a resource tracker, which ignores signals: it took 14 s to be killed."""
    assert kernel.run("from multiprocessing import resource_tracker as r; r.ensure_running()")[0]["status"] == "ok"
    assert kernel.request("shutdown_request", {"restart": False}, "control")["status"] == "ok"
    assert kernel.process.wait(10) == 0


def test_shutdown_delivers_what_was_printed(kernel):
    msg_id = kernel.execute("for n in range(2000): print('q' * 1000)")
    request = kernel.send("shutdown_request", {"restart": False}, "control")
    length = 0
    while True:
        message = kernel.receive("iopub")
        if message["msg_type"] == "stream":
            length += len(message["content"]["text"])
        if message["msg_type"] == "status" and message["parent_header"].get("msg_id") == msg_id:
            if message["content"]["execution_state"] == "idle":
                break
    assert length == 2000 * 1001
    assert kernel.reply(request, "control")["status"] == "ok"
    assert kernel.process.wait(10) == 0


def test_a_kernel_whose_output_is_not_read_can_be_shut_down(kernel, tmp_path):
    counter = tmp_path / "counter"
    msg_id = kernel.execute(STUCK.format(path=str(counter), flush=""))
    wait_until_stuck(kernel, counter)
    kernel.interrupt()
    assert kernel.reply(msg_id)["ename"] == "KeyboardInterrupt"
    assert kernel.request("shutdown_request", {"restart": False}, "control", timeout=10)["status"] == "ok"
    assert kernel.process.wait(15) == 0


def shown(kernel, code, end="END\n"):
    """What code prints, until the end of it comes: what is written to a descriptor comes by a thread."""
    msg_id = kernel.execute(code)
    out = ""
    while not out.endswith(end):
        message = kernel.receive("iopub")
        if message["msg_type"] == "stream":
            assert message["parent_header"]["msg_id"] == msg_id
            out += message["content"]["text"]
    assert kernel.reply(msg_id)["status"] == "ok"
    return out.removesuffix(end)


def test_characters_of_several_bytes_are_whole_wherever_their_bytes_are_parted(kernel):
    assert shown(kernel, "import os; os.write(1, ('€' * 200_000).encode() + b'END\\n')") == "€" * 200_000
    script = "import sys; sys.stdout.write('字' * 30_000 + 'END' + chr(10))"
    assert shown(kernel, f"import subprocess, sys; subprocess.run([sys.executable, '-c', {script!r}])") == "字" * 30_000
    # Each byte is read before the next one is there.
    code = "import os, time\nfor byte in '😀'.encode():\n    os.write(1, bytes([byte])); time.sleep(0.05)\nos.write(1, b'END\\n')"
    assert shown(kernel, code) == "😀"
    assert shown(kernel, "os.write(1, b'a\\xe2\\x82b\\xffEND\\n')") == "a\ufffdb\ufffd"


def test_the_end_of_a_cell_takes_what_was_written_and_not_read_yet(kernel):
    """The thread that reads the descriptors finds nothing here, as if it always came too late."""
    code = "import os, threading\nfrom himalia_kernel import stream\nwaiting = stream._waiting\n"
    code += "stream._waiting = lambda pipe: waiting(pipe) if threading.current_thread() is threading.main_thread() else 0"
    assert kernel.run(code)[0]["status"] == "ok"
    for number in range(3):
        reply, out, _ = kernel.run(f"_ = os.write(1, b'written {number}\\n')")
        assert (reply["status"], out) == ("ok", f"written {number}\n")


def test_halves_of_surrogate_pairs_are_replaced_and_nothing_is_lost(kernel):
    reply, out, _ = kernel.run("print('first'); print('n\\udcff'); print('a\\ud800b'); print('\\ud83d\\ude00'); print('last')")
    assert (reply["status"], out) == ("ok", "first\nn\ufffd\na\ufffdb\n😀\nlast\n")
    reply, _, messages = kernel.run("raise ValueError('x\\udcff')")
    assert reply["evalue"] == "x\ufffd" and any("x\ufffd" in line for line in reply["traceback"])
    _, _, messages = kernel.run("from IPython.display import display\ndisplay({'text/plain': 'p\\udcff', 'application/json': {'a': '\\ud800'}}, raw=True)")
    data = next(message["content"]["data"] for message in messages if message["msg_type"] == "display_data")
    assert data == {"text/plain": "p\ufffd", "application/json": {"a": "\ufffd"}}


@pytest.mark.parametrize("command", ["cat", "read x; echo $?", "python3 -c 'input()'", "cat; cat; echo two"])
def test_commands_that_read_see_an_end(kernel, command):
    reply, _, _ = kernel.run(f"!{command}", timeout=30)
    assert reply["status"] == "ok"
    assert kernel.run("!test -t 1 && echo terminal")[1].strip() == "terminal"
    assert kernel.run("name = 'x'\n!echo {name} $name")[1].strip() == "x x"


def test_a_process_that_a_cell_forks_ends_with_the_cell(kernel):
    code = "import os\npid = os.fork()\nprint('parent' if pid else 'child', flush=True)\nif not pid: raise SystemError('of the child')"
    assert kernel.run(code)[0]["status"] == "ok"
    reply, out, _ = kernel.run("print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))")
    assert (reply["status"], out) == ("ok", "1\n")
    reply, out, _ = kernel.run("pid = os.fork()\nx = 1 if pid else 2\nif pid: print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), x)")
    assert (reply["status"], out) == ("ok", "0 1\n")


def test_what_children_have_written_belongs_to_the_cell_that_ran_them(kernel):
    # One write for each line: of two processes that write at once, only whole writes are kept apart.
    code = "import os, subprocess\nfrom joblib import Parallel, delayed\n"
    code += "_ = Parallel(n_jobs=2)(delayed(os.write)(1, f'line {n}\\n'.encode()) for n in range(6))"
    for _ in range(3):
        _, out, _ = kernel.run(code)
        assert sorted(out.split("\n")) == ["", *(f"line {n}" for n in range(6))]
    for n in range(20):
        _, out, messages = kernel.run(f"_ = subprocess.run(['sh', '-c', 'echo out {n}; echo err {n} >&2']); os.write(1, b'last')")
        printed = {}
        for message in messages:
            if message["msg_type"] == "stream":
                printed[message["content"]["name"]] = printed.get(message["content"]["name"], "") + message["content"]["text"]
        assert printed == {"stdout": f"out {n}\nlast", "stderr": f"err {n}\n"}


SLOW_READER = """
import os, sys, threading

class Lock:
    # Knows whether the end of the cell waits for it a second time.
    def __init__(self, lock):
        self.lock, self.waits = lock, []
    def acquire(self, *args, **options):
        if threading.current_thread() is threading.main_thread():
            self.waits.append(1)
            len(self.waits) == 2 and again.set()
        return self.lock.acquire(*args, **options)
    def release(self):
        self.lock.release()
    def __enter__(self):
        self.acquire()
    def __exit__(self, *_):
        self.release()

class Slow:
    def decode(self, data):
        has_read.set()
        again.wait(10)
        sys.stdout._decoder = decoder
        return decoder.decode(data)

has_read, again, decoder = threading.Event(), threading.Event(), sys.stdout._decoder
sys.stdout._taking, sys.stdout._decoder = Lock(sys.stdout._taking), Slow()
os.write(1, b"mine")
assert has_read.wait(10)
"""


def test_what_was_read_when_a_cell_ends_belongs_to_that_cell(kernel):
    """The thread that reads the descriptor has the text, and is slow: the end of the cell waits for it."""
    _, out, _ = kernel.run(SLOW_READER)
    assert out == "mine"
    assert kernel.run("print('next')")[1] == "next\n"
