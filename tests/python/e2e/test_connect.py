"""`himalia connect`: Jupyter's own clients on a session of a gateway."""

import asyncio
import json
import os
import re
import signal
import socket
import ssl
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pexpect
import pytest
from connecting import Client, Connect, texts
from processes import memory_mb
from terminal import command
from waiting import eventually


@pytest.fixture(scope="module")
def session(shared):
    """A session for all tests here."""
    reply = shared.http.put("v1/sessions/connected", json={"template": "python3"})
    assert reply.status_code == 201, reply.text
    yield "connected"
    shared.http.delete("v1/sessions/connected")


@pytest.fixture
def connect(shared, session, tmp_path):
    """`himalia connect` on it."""
    with Connect(shared, session, tmp_path / "runtime") as running:
        yield running


def test_a_private_file_leads_to_the_session_and_goes_with_the_command(shared, session, tmp_path):
    with Connect(shared, session, tmp_path / "runtime") as running:
        assert running.file.parent == tmp_path / "runtime" and running.file.match("kernel-*.json")
        assert stat.S_IMODE(running.file.stat().st_mode) == 0o600
        described = json.loads(running.file.read_text())
        assert (described["ip"], described["transport"], described["kernel_name"]) == ("127.0.0.1", "tcp", "python3")
        with Client(running.file) as client:
            assert client.run("kept = 6 * 7")[0]["status"] == "ok"
        assert running.stop() == 0 and not running.file.exists()
    again = shared.http.post("v1/sessions/connected/executions", json={"code": "print(kept)", "wait_s": 60})
    assert again.json()["text"] == "42\n", again.text


def test_output_plots_errors_and_completion_are_as_on_a_kernel(connect):
    with Client(connect.file) as client:
        reply, messages = client.run("print('hello')\n6 * 7")
        assert reply["status"] == "ok" and texts(messages) == "hello\n"
        [result] = [message for message in messages if message["msg_type"] == "execute_result"]
        assert result["content"]["data"]["text/plain"] == "42"
        _, messages = client.run("%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
        [plot] = [message for message in messages if message["msg_type"] == "display_data"]
        assert plot["content"]["data"]["image/png"].startswith("iVBOR")
        reply, _ = client.run("1 / 0")
        assert (reply["status"], reply["ename"]) == ("error", "ZeroDivisionError")
        client.run("some_long_name = 1")
        assert client.reply_to(client.complete("some_lo"))["matches"] == ["some_long_name"]
        assert "int" in client.reply_to(client.inspect("some_long_name"))["data"]["text/plain"]
        # Buffers of comms are messages of their own frames, both ways.
        _, messages = client.run("from comm import create_comm\nc = create_comm('t', data={}, buffers=[b'abc', b'\\x00' * 1000])")
        [opened] = [message for message in messages if message["msg_type"] == "comm_open"]
        assert [bytes(buffer) for buffer in opened["buffers"]] == [b"abc", bytes(1000)]


def test_questions_go_to_the_client_that_asked(connect):
    with Client(connect.file) as one, Client(connect.file) as other:
        sent = one.execute("name = input('Name? ')\nprint(name)", allow_stdin=True)
        asked = one.get_stdin_msg(timeout=60)
        assert asked["content"]["prompt"] == "Name? "
        assert not other.stdin_channel.msg_ready()
        one.input("Ada")
        assert one.reply_to(sent)["status"] == "ok" and texts(one.published(sent)) == "Ada\n"


def test_an_interrupt_overtakes_running_code(connect):
    with Client(connect.file) as client:
        sent = client.execute("import time\nprint('runs', flush=True)\ntime.sleep(100)")
        while client.get_iopub_msg(timeout=60)["msg_type"] != "stream":
            pass
        request = client.session.msg("interrupt_request", {})
        client.control_channel.send(request)
        assert client.reply_to(request["header"]["msg_id"], "control")["status"] == "ok"
        assert client.reply_to(sent)["ename"] == "KeyboardInterrupt"


def test_two_clients_have_their_own_replies_and_one_output(connect):
    with Client(connect.file) as one, Client(connect.file) as other:
        firsts = [one.execute(f"print('one {at}')") for at in range(20)]
        seconds = [other.execute(f"print('other {at}')") for at in range(20)]
        for sent in firsts:
            assert one.reply_to(sent)["status"] == "ok"
        for sent in seconds:
            assert other.reply_to(sent)["status"] == "ok"
        for client in (one, other):
            seen = [texts(client.published(sent)) for sent in firsts]
            assert seen == [f"one {at}\n" for at in range(20)]
        assert one.is_silent() and other.is_silent()


def test_many_messages_reach_a_reader_that_pauses_whole(shared, session, connect):
    # 80 MB of them: more than may wait for a client, and than sockets hold.
    code = "for at in range(10000):\n    print(f'{at:<8000}', flush=True)"
    with Client(connect.file) as reader, Client(connect.file) as sender:
        sent = sender.execute(code)
        sender.get_iopub_msg(timeout=60)

        def state():
            return shared.http.get("v1/sessions/connected").json()["state"]

        # The kernel does not wait for a reader, and there is none.
        eventually(lambda: state() == "busy", "the code runs")
        eventually(lambda: state() == "idle", "the code ends", 60)
        seen = [None, None]

        def read(at, client):
            seen[at] = [int(number) for number in re.findall(r"\d+", texts(client.published(sent)))]

        threads = [threading.Thread(target=read, args=each) for each in enumerate([reader, sender])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen[0] == list(range(10_000)) and seen[1] == seen[0]
        assert sender.reply_to(sent)["status"] == "ok"
    assert memory_mb(connect.process.pid, "VmHWM") < 250


def test_sockets_of_files_work_the_same(shared, session, tmp_path):
    with Connect(shared, session, tmp_path / "runtime", "--transport", "ipc") as running:
        described = json.loads(running.file.read_text())
        assert described["transport"] == "ipc"
        sockets = Path(described["ip"]).parent
        assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
        with Client(running.file) as client:
            assert texts(client.run("print(1)")[1]) == "1\n"
    assert not sockets.exists() and not running.file.exists()


def test_a_message_with_a_wrong_key_runs_nothing(connect):
    with Client(connect.file) as client:
        client.run("stolen = 0")
        client.session.key = b"guessed"
        client.execute("stolen = 1")
        assert client.is_silent()
        client.session.key = json.loads(connect.file.read_text())["key"].encode()
        assert texts(client.run("print(stolen)")[1]) == "0\n"
    assert "was dropped: signature: does not match" in connect.said


def test_a_frame_without_measure_ends_its_own_connection_alone(connect):
    described = json.loads(connect.file.read_text())
    greeting = bytes([0xFF, 0, 0, 0, 0, 0, 0, 0, 0, 0x7F, 3, 0]) + b"NULL".ljust(20, b"\0") + bytes(32)
    with Client(connect.file) as client:
        for port in ("shell_port", "control_port", "stdin_port", "iopub_port", "hb_port"):
            kind = b"SUB" if port == "iopub_port" else b"DEALER"
            ready = b"\x05READY\x0bSocket-Type" + len(kind).to_bytes(4, "big") + kind
            # A frame of 2^50 bytes, and a message that has no end.
            for hostile in (b"\x02" + (1 << 50).to_bytes(8, "big"), b"\x01\x01x" * 1000):
                with socket.create_connection(("127.0.0.1", described[port]), 60) as raw:
                    raw.sendall(greeting + bytes([4, len(ready)]) + ready)
                    raw.sendall(hostile)
                    with pytest.raises((ConnectionError, EOFError)):
                        while True:
                            if not raw.recv(1000):
                                raise EOFError
        assert texts(client.run("print('fine')")[1]) == "fine\n"
    assert "the connection of a client was closed: a message is longer than" in connect.said
    assert "frames" in connect.said


def test_a_gateway_that_is_restarted_is_found_again_and_nothing_is_lost(gateway, tmp_path):
    gateway.http.put("v1/sessions/mine", json={"template": "python3"})
    with Connect(gateway, "mine", tmp_path / "runtime") as running, Client(running.file) as client:
        release = tmp_path / "go"
        code = (
            "import os, time\nprint('begin', flush=True)\n"
            f"while not os.path.exists({str(release)!r}):\n    time.sleep(0.01)\n"
            "for at in range(100):\n    print(at, flush=True)"
        )
        sent = client.execute(code)
        while client.get_iopub_msg(timeout=60)["msg_type"] != "stream":
            pass
        gateway.kill()
        eventually(lambda: "the connection to the gateway was lost" in running.said, "it is noticed")
        release.touch()
        # It waits until there is a gateway.
        later = client.execute("print('later')")
        gateway.start()
        assert client.reply_to(sent)["status"] == "ok"
        assert texts(client.published(sent)).split() == [str(at) for at in range(100)]
        assert client.reply_to(later)["status"] == "ok" and texts(client.published(later)) == "later\n"
        assert "connected again" in running.said


def test_the_end_of_the_session_ends_it(shared, tmp_path):
    session = shared.start_session()
    with Connect(shared, session, tmp_path / "runtime") as running:
        with Client(running.file) as client:
            client.run("1")
            shared.delete_session(session)
            assert running.ended() == 0
        assert "the session has ended" in running.said and not running.file.exists()


def test_what_cannot_be_connected_is_said(shared, session, tmp_path):
    for arguments, said in [
        (("absent",), "no session has this id"),
        ((session, "--kernel", "nothing"), "no kernel of the session has this id or kernelspec: nothing"),
    ]:
        done = subprocess.run(
            command(shared, "connect", *arguments), capture_output=True, text=True, timeout=60, env={"HOME": str(tmp_path)}
        )
        assert done.returncode == 1 and said in done.stderr and not done.stdout, done


def test_another_kernel_of_the_session_has_variables_of_its_own(shared, session, tmp_path):
    kernel = shared.http.post(f"v1/sessions/{session}/kernels", json={}).json()["id"]
    try:
        with Connect(shared, session, tmp_path / "one") as first, Connect(
            shared, session, tmp_path / "two", "--kernel", kernel[:13]
        ) as second:
            with Client(first.file) as one, Client(second.file) as two:
                one.run("whose = 'first'")
                assert two.run("whose")[0]["ename"] == "NameError"
    finally:
        shared.http.delete(f"v1/sessions/{session}/kernels/{kernel}")


@pytest.fixture
def tls(shared, tmp_path):
    """A TLS server in front of the gateway: (its URL, the file of its CA)."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    _certificate(certificate, key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    host, port = shared.listen.rsplit(":", 1)

    async def pump(reader, writer):
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        except (ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()

    async def serve(reader, writer):
        there = await asyncio.open_connection(host, int(port))
        await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))

    loop, ready = asyncio.new_event_loop(), threading.Event()
    stop, found = asyncio.Event(), []

    async def run():
        async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
            found.append(server.sockets[0].getsockname()[1])
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),))
    thread.start()
    ready.wait(60)
    yield f"https://localhost:{found[0]}/", certificate
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def _certificate(certificate, key):
    """A certificate for localhost that is its own CA's."""
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
            *("-subj", "/CN=test", "-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )


def test_all_of_it_goes_over_tls(shared, session, tls, tmp_path):
    url, ca = tls
    # Files of any size, streams of lines, and one that is refused.
    (tmp_path / "large").write_bytes(bytes(3_000_000))
    at = [os.environ["HIMALIA_BIN"], "exec", session, "--url", url, "--token-file", str(shared.token_file)]
    code = "import os\nprint(os.path.getsize('large'))"
    done = subprocess.run(
        [*at, "--upload", str(tmp_path / "large"), "--ca", str(ca), code], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "3000000\n"), done
    done = subprocess.run([*at, "1"], capture_output=True, text=True, timeout=60, env={"SSL_CERT_FILE": str(ca), "PATH": ""})
    assert done.returncode == 0, done
    done = subprocess.run([*at, "1"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "--ca FILE or HIMALIA_CA names the certificate" in done.stderr, done
    with Connect(shared, session, tmp_path / "runtime", "--ca", str(ca), url=url) as running:
        with Client(running.file) as client:
            assert texts(client.run("print('by TLS')")[1]) == "by TLS\n"


class Console:
    """`jupyter console --existing` in a terminal."""

    def __init__(self, file, directory):
        self.child = pexpect.spawn(
            sys.executable,
            ["-m", "jupyter_console", "--existing", str(file), "--no-confirm-exit"],
            env={**os.environ, "TERM": "xterm", "HOME": str(directory), "PROMPT_TOOLKIT_NO_CPR": "1"},
            encoding="utf-8",
            timeout=60,
            dimensions=(50, 200),
        )

    def prompt(self, number):
        """Wait for the prompt of this number; what was shown before."""
        self.child.expect(rf"In \[(\x1b\[[0-9;]*m)*{number}(\x1b\[[0-9;]*m)*\]: ")
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.child.before)


def test_jupyter_console_attaches_asks_and_leaves(shared, session, connect, tmp_path):
    with Client(connect.file) as client:
        number = client.run("word = 'from elsewhere'")[0]["execution_count"] + 1
    console = Console(connect.file, tmp_path)
    console.prompt(1)
    console.child.send("print(word.upper())\r")
    assert "FROM ELSEWHERE" in console.prompt(number + 1)
    console.child.send("name = input('Your name? ')\r")
    console.child.expect("Your name\\? ")
    console.child.send("Ada\r")
    console.prompt(number + 2)
    console.child.send("len(name) + 39\r")
    console.child.expect("Out\\[")
    assert "42" in console.prompt(number + 3)
    console.child.send("import time; time.sleep(100)\r")
    eventually(lambda: shared.http.get("v1/sessions/connected").json()["state"] == "busy", "the code runs")
    console.child.sendintr()
    # It interrupts no kernel that it did not start; others can.
    console.child.expect("Cannot interrupt kernels we didn't start")
    kernel = shared.http.get("v1/sessions/connected").json()["id"]
    shared.interrupt(kernel)
    assert "KeyboardInterrupt" in console.prompt(number + 4)
    console.child.send("\x04")
    console.child.expect(pexpect.EOF)
    console.child.close()
    assert shared.http.get("v1/sessions/connected").json()["state"] == "idle"
