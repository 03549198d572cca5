"""Packages through the gateway's index and its cache: `%pip install` without any option."""

import hashlib
import io
import zipfile
from pathlib import Path

import pytest
from channels import Channels
from events import follow
from hosts import Host, Names
from levels import LEVELS, place
from test_network import FETCH, Privileged
from test_packages import NAME, wheel

pytestmark = pytest.mark.timeout(300)

TEMPLATES = """
[templates.install]
kernelspec = "python3"
{place}memory = "512MiB"
network = "allow"
allow = ["index.test:{port}"]

[templates.elsewhere]
kernelspec = "python3"
{place}memory = "512MiB"
network = "allow"
allow = ["other.test:{port}"]
"""

FILE = f"{NAME}-1.0-py3-none-any.whl"
PROJECT = NAME.replace("_", "-")


def other_wheel(name):
    """A wheel of another name."""
    out, info = io.BytesIO(), f"{name}-1.0.dist-info"
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(f"{name}.py", "ANSWER = 7\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return out.getvalue()


class Index:
    """An index of packages on loopback, and a gateway that uses it."""

    def __init__(self, directory, level):
        self.wheel = wheel()
        self.digest = hashlib.sha256(self.wheel).hexdigest()
        link = lambda name, digest: f'<a href="/f/{name}{digest}">{name}</a>'.encode()
        self.wrong = hashlib.sha256(b"something else").hexdigest()
        self.host = Host("0.0.0.0", pages={
            f"/simple/{PROJECT}/": link(FILE, f"#sha256={self.digest}"),
            f"/f/{FILE}": self.wheel,
            "/simple/wrong/": link("wrong-1.0-py3-none-any.whl", f"#sha256={self.wrong}"),
            "/f/wrong-1.0-py3-none-any.whl": other_wheel("wrong"),
            "/simple/plain/": link("plain-1.0-py3-none-any.whl", ""),
            "/f/plain-1.0-py3-none-any.whl": other_wheel("plain"),
        })
        names = Names(directory)
        names["index.test"] = names["other.test"] = ["127.0.0.2"]
        port = self.host.port
        options = (f"--private-address=127.0.0.2:{port}", f"--package-index=http://index.test:{port}/simple/")
        self.gateway = Privileged.having(names, TEMPLATES.format(place=place(level), port=port))(directory / "gateway", level, *options)

    def fetched(self, path):
        """How often the index was asked for a path."""
        return sum(asked == path for _, asked, _ in self.host.requests)

    def kept(self):
        """The names of the files in the cache."""
        return sorted(file.name for file in (Path(self.gateway.directory) / "data" / "packages").iterdir())


@pytest.fixture(scope="module", params=LEVELS[:1])
def index(request, tmp_path_factory, kernel_python):
    """One for the tests of this file."""
    made = Index(tmp_path_factory.mktemp("index"), request.param)
    yield made
    made.gateway.stop()
    made.host.close()


def client_of(index, template="install"):
    """A session and a client of it."""
    session = index.gateway.session(template)["id"]
    return session, Channels(index.gateway, session)


def test_a_package_is_installed_by_its_name_and_fetched_once_for_all_sessions(index):
    for _ in range(2):
        session, channels = client_of(index)
        with channels as client:
            done = client.run(f"%pip install {PROJECT}", 120)
            assert "Successfully installed" in done.text(), (done.text(), done.text("stderr"))
            assert client.run(f"import {NAME}; print({NAME}.ANSWER)").text().strip() == "42"
        records = follow(index.gateway, session, 0, lambda event: event["event"] == "network")
        assert records[-1]["detail"]["host"] == "packages.internal", records[-1]
        index.gateway.end(session)
    assert (index.fetched(f"/f/{FILE}"), index.kept()) == (1, [index.digest])


def test_a_file_that_is_not_what_the_index_says_is_not_installed_and_not_kept(index):
    session, channels = client_of(index)
    with channels as client:
        done = client.run("%pip install wrong", 120)
        assert "Successfully installed" not in done.text(), done.text()
        assert client.run("import wrong").content["ename"] == "ModuleNotFoundError"
    index.gateway.end(session)
    assert index.wrong not in index.kept() and len(index.kept()) <= 1


def test_a_file_without_a_digest_is_passed_on_and_not_kept(index):
    for _ in range(2):
        session, channels = client_of(index)
        with channels as client:
            done = client.run("%pip install plain", 120)
            assert "Successfully installed" in done.text(), (done.text(), done.text("stderr"))
        index.gateway.end(session)
    assert index.fetched("/f/plain-1.0-py3-none-any.whl") == 2
    assert len(index.kept()) <= 1


def test_a_session_reads_what_the_index_names_and_nothing_else(index):
    session, channels = client_of(index)
    with channels as client:
        ask = lambda code: client.run(f"{FETCH}\nprint({code})", 60).text().strip()
        base = "http://packages.internal"
        assert FILE in ask(f"fetch('{base}/simple/{NAME}/')")
        assert ask(f"fetch('{base}/simple/no-such-project/')").startswith("404 ")
        for path in (f"/files/{PROJECT}/{index.wrong}/{FILE}", f"/files/{PROJECT}/{index.digest}/other.whl", "/files/x/-/http:%2f%2findex.test", "/simple/", "/"):
            assert ask(f"fetch('{base}{path}')").startswith("404 "), path
        assert ask(f"fetch('{base}/simple/{PROJECT}/', b'x')").startswith("405 ")
        # The service is no way around the list, and no tunnel leads to it.
        raw = 'c = http.client.HTTPConnection("127.0.0.1", 3128); c.set_tunnel("packages.internal", 80); c.request("GET", "/")'
        assert "egress_denied: packages.internal" in str(client.run(f"{FETCH}\n{raw}").content)
    index.gateway.end(session)


def test_a_session_whose_list_lacks_the_index_is_refused(index):
    session, channels = client_of(index, "elsewhere")
    with channels as client:
        refusal = f"403 egress_denied: index.test:{index.host.port} is not on this session's list"
        text = client.run(f"{FETCH}\nprint(fetch('http://packages.internal/simple/{PROJECT}/'))", 60).text()
        assert text.startswith(refusal), text
        # pip is not pointed to what it may not use.
        assert client.run("import os; print(os.environ.get('PIP_INDEX_URL'))").text().strip() == "None"
    index.gateway.end(session)


def test_pip_says_why_the_index_gives_nothing(index):
    session, channels = client_of(index)
    with channels as client:
        changed = index.gateway.http.patch(f"v1/sessions/{session}", json={"network": "none"})
        assert changed.status_code == 200, changed.text
        done = client.run(f"%pip install {PROJECT}", 120)
        assert f"[himalia: egress_denied: index.test:{index.host.port} is not on this session's list" in done.text("stderr"), done.text("stderr")
    index.gateway.end(session)
