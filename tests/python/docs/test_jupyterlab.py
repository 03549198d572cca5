"""JupyterLab in gateway mode does what docs/how-to/jupyterlab.md says: which kernels it lists, deletes and leaves, and what a page receives."""

import importlib.metadata
import os
import re
import secrets
import signal
import subprocess
import sys
from urllib.parse import urlsplit

import pytest
from channels import Channels
from pages import ROOT
from servers import Himalia, Server, _address
from slow_link import SlowLink
from waiting import eventually

PAGE = ROOT / "docs" / "how-to" / "jupyterlab.md"


class Lab(Server):
    """JupyterLab whose kernels are those of a gateway."""

    def __init__(self, directory, gateway, url=None):
        directory.mkdir()
        self.token = secrets.token_hex(16)
        runtime = directory / "runtime"
        own = {f"JUPYTER_{name}_DIR": str(directory / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
        with (directory / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0"),
                    *(f"--IdentityProvider.token={self.token}", f"--ServerApp.root_dir={directory}"),
                    *(f"--gateway-url={url or gateway.url}", "--LabApp.news_url=", "--LabApp.extension_manager=readonly"),
                    "--ServerApp.answer_yes=True",
                ],
                env={**os.environ, **own, "JUPYTER_GATEWAY_AUTH_TOKEN": gateway.token, "JUPYTER_NO_CONFIG": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        info = runtime / f"jpserver-{self.process.pid}.json"
        self.url = eventually(lambda: info.exists() and _address(info), (directory / "log").read_text, 60)
        self._open()

    def kernels(self):
        """The ids that its list of kernels has."""
        return {kernel["id"] for kernel in self.http.get("api/kernels").json()}

    def stop(self, how=signal.SIGTERM):
        """End it, and wait."""
        self.http.close()
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(60)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, kernel_python):
    own = Himalia(tmp_path_factory.mktemp("gateway"))
    yield own
    own.stop()


def alive(gateway):
    return {kernel["id"] for kernel in gateway.http.get("api/kernels").json()}


def test_it_lists_and_deletes_its_own_kernels_only(gateway, tmp_path):
    agents = gateway.start_session()
    first, second = Lab(tmp_path / "first", gateway), Lab(tmp_path / "second", gateway)
    try:
        own, killed = first.start_kernel(), second.start_kernel()
        assert (first.kernels(), second.kernels()) == ({own}, {killed})
        # A client that has the id can open the session of the agent. It is not deleted with the others.
        attached = first.http.post("api/sessions", json={"path": "a", "name": "a", "type": "notebook", "kernel": {"id": agents}})
        assert attached.status_code == 201 and first.kernels() == {own, agents}
        first.stop()
        assert alive(gateway) == {agents, killed}
        second.stop(signal.SIGKILL)
        third = Lab(tmp_path / "third", gateway)
        assert third.kernels() == set()
        third.stop()
        assert alive(gateway) == {agents, killed}
        gateway.delete_kernel(killed)
        gateway.delete_session(agents)
    finally:
        for lab in (first, second):
            lab.stop(signal.SIGKILL)


def test_a_page_that_reconnects_receives_what_it_missed_and_a_reloaded_one_does_not(gateway, tmp_path):
    lab = Lab(tmp_path / "lab", gateway)
    try:
        kernel = lab.start_kernel()
        for same in (True, False):
            gate = tmp_path / f"gate-{same}"
            with Channels(lab, kernel, "legacy") as page:
                page.run("import pathlib, time")
                code = f"print('begun')\nwhile not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.01)\nprint('missed')"
                request = page.submit(code)
                page.until(lambda message: message["content"].get("text") == "begun\n")
            idle = lambda: gateway.http.get(f"api/kernels/{kernel}").json()["connections"] == 0  # noqa: E731
            eventually(idle, "the page has gone")
            gate.touch()
            eventually(lambda: gateway.http.get(f"api/kernels/{kernel}").json()["execution_state"] == "idle", "the cell has ended")
            with Channels(lab, kernel, "legacy", session=page.session if same else None) as again:
                after = again.submit("1")
                seen = again.until(lambda m: m["msg_type"] == "execute_reply" and m["parent_header"].get("msg_id") == after)
                got = [m["content"]["text"] for m in seen if m["msg_type"] == "stream" and m["parent_header"]["msg_id"] == request]
                assert got == (["missed\n"] if same else [])
    finally:
        lab.stop()


def test_a_page_misses_no_line_when_the_gateway_is_killed_during_a_cell(tmp_path, kernel_python):
    # As docs/tutorials/jupyterlab.md does it.
    own = Himalia(tmp_path / "own")
    lab = Lab(tmp_path / "lab", own)
    try:
        kernel, gate = lab.start_kernel(), tmp_path / "gate"
        with Channels(lab, kernel, "legacy") as page:
            page.run("import pathlib, time")
            code = f"print(0, flush=True)\nwhile not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.01)\nfor n in range(1, 30): print(n, flush=True)"
            request = page.submit(code)
            seen = page.until(lambda message: message["content"].get("text") == "0\n")
            own.kill()
            gate.touch()
            own.start()
            seen += page.until(lambda m: m["msg_type"] == "execute_reply" and m["parent_header"].get("msg_id") == request)
            text = "".join(message["content"]["text"] for message in seen if message["msg_type"] == "stream")
            # The line that was delivered just before the kill may come again.
            assert text.removeprefix("0\n0\n").removeprefix("0\n").split() == [str(n) for n in range(1, 30)]
    finally:
        lab.stop()
        own.stop()


def test_a_page_receives_what_was_printed_while_jupyterlab_had_lost_the_gateway(gateway, tmp_path):
    link = SlowLink(urlsplit(gateway.url).port)
    lab = Lab(tmp_path / "lab", gateway, url=f"http://127.0.0.1:{link.port}/")
    try:
        kernel, gate = lab.start_kernel(), tmp_path / "gate"
        with Channels(lab, kernel, "legacy") as page:
            page.run("import pathlib, time")
            code = f"print('begun')\nwhile not pathlib.Path({str(gate)!r}).exists(): time.sleep(0.01)\nprint('missed')"
            request = page.submit(code)
            page.until(lambda message: message["content"].get("text") == "begun\n")
            # JupyterLab connects again after a second or more.
            link.cut()
            eventually(lambda: gateway.http.get(f"api/kernels/{kernel}").json()["connections"] == 0, "JupyterLab has gone")
            gate.touch()
            seen = page.until(lambda m: m["msg_type"] == "execute_reply" and m["parent_header"].get("msg_id") == request)
            assert "missed\n" in [message["content"].get("text") for message in seen]
    finally:
        lab.stop()
        link.close()


def test_a_widget_without_binary_data_is_moved_and_moves(gateway, tmp_path):
    lab = Lab(tmp_path / "lab", gateway)
    try:
        with Channels(lab, lab.start_kernel(), "legacy") as page:
            shown = page.run("import ipywidgets\nslider = ipywidgets.IntSlider(value=7)\nslider")
            models = {opened["content"]["comm_id"]: opened["content"]["data"]["state"] for opened in shown.of("comm_open")}
            view = shown.of("execute_result")[0]["content"]["data"]["application/vnd.jupyter.widget-view+json"]["model_id"]
            assert models[view]["value"] == 7
            page.send("comm_msg", {"comm_id": view, "data": {"method": "update", "state": {"value": 9}, "buffer_paths": []}})
            assert page.run("print(slider.value)").text() == "9\n"
            updates = page.run("slider.value = 11").of("comm_msg")
            assert [message["content"]["data"]["state"] for message in updates if message["content"]["comm_id"] == view] == [{"value": 11}]
    finally:
        lab.stop()


def test_the_page_names_the_versions_that_are_tested():
    named = re.search(r"<!-- jupyterlab -->(\S+) and jupyter_server (\S+)<!-- end -->", PAGE.read_text())
    assert named.groups() == (importlib.metadata.version("jupyterlab"), importlib.metadata.version("jupyter_server"))
