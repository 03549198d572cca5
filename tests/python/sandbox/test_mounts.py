"""Directories that the operator shares with sessions: one for all, and one for each caller."""

import json
import os
import secrets
import subprocess
from pathlib import Path

import pytest
from levels import ENGINE, IMAGE, LEVELS, USER, AsOrdinaryUser, AtLevel

pytestmark = pytest.mark.timeout(300)

OWNER = 64_200
CONFIG = """
[mounts.data]
directory = "{place}/data"
path = "/data"
[mounts.home]
directory = "{place}/homes"
subdirectory = "{{tenant}}/{{caller}}"
writable = true
uid = {owner}
[mounts.common]
directory = "{place}/common"
writable = true
[mounts.shelf]
{shelf}
writable = true
uid = {owner}
[templates.mounted]
kernelspec = "python3"
provisioner = "{provisioner}"
isolation = "{isolation}"
{more}
memory = "512MiB"
mounts = ["data", "home", "common", "shelf"]
[tenants.acme.tokens]
ada = "token-of-ada-0123456789"
bob = "token-of-bob-0123456789"
"""

LOOK = """
import json, os, pathlib
def attempt(do):
    try:
        return do()
    except OSError as error:
        return type(error).__name__
print(json.dumps({
    "data": attempt(lambda: pathlib.Path("/data/table.csv").read_text()),
    "secret": attempt(lambda: pathlib.Path("/data/secret").read_text()),
    "write": attempt(lambda: pathlib.Path("/data/x").write_text("x")),
    "home": attempt(lambda: sorted(os.listdir("/mnt/home"))),
    "mine": attempt(lambda: pathlib.Path("/mnt/home/note").write_text("MARK")),
    "common": attempt(lambda: pathlib.Path("/mnt/common/MARK").write_text("x")),
    "shelf": attempt(lambda: pathlib.Path("/mnt/shelf/MARK").write_text("x")),
    "on_shelf": attempt(lambda: sorted(os.listdir("/mnt/shelf"))),
    "owned": os.stat("/mnt/home/note").st_uid == os.getuid(),
    "mode": oct(os.stat("/mnt/home").st_mode & 0o777),
    "up": attempt(lambda: os.listdir("/mnt/home/..")),
}))
"""


def adding(kind, text):
    """A kind of gateway whose configuration has this too."""

    class Adding(kind):
        def start(self):
            file = Path(self.directory) / "himalia.toml"
            if text not in file.read_text():
                file.write_text(file.read_text() + text)
            super().start()

    return Adding


class Mounted:
    """A gateway at a level, with three mounts."""

    def __init__(self, level, place, ordinary_place=None):
        self.place, self.level = place, level
        self.owner = USER if ordinary_place else OWNER
        for name in ("data", "homes", "common", "shelf", "state"):
            (place / name).mkdir()
        (place / "data/table.csv").write_text("a,b")
        (place / "data/secret").write_text("of root")
        (place / "data/secret").chmod(0o600)
        os.chown(place / "common", self.owner, self.owner)
        isolation = level.partition(",")[0]
        more = f'image = "{IMAGE}"\nruntime = "{"runsc" if isolation == "gvisor" else "runc"}"' if ENGINE else ""
        # A volume of the engine, that does not exist yet.
        self.volume = f"himalia-test-{secrets.token_hex(4)}"
        shelf = f'volume = "{self.volume}-{{caller}}"' if ENGINE else f'directory = "{place}/shelf"'
        self.config = CONFIG.format(place=place, shelf=shelf, owner=self.owner, provisioner="docker" if ENGINE else "local", isolation=isolation, more=more)
        os.chown(place / "shelf", self.owner, self.owner)
        if ordinary_place:
            os.chown(place / "homes", USER, USER)
            kind = adding(AsOrdinaryUser, self.config)
            self.gateway = kind(place / "state", level, ordinary_place, env={"HOME": str(place / "state")})
        else:
            self.gateway = adding(AtLevel, self.config)(place / "state", level)

    def run(self, code, token=None):
        """What code printed in a session of a caller of its own; the session is ended."""
        headers = {"authorization": f"Bearer {token}"} if token else {}
        http = self.gateway.http
        made = http.post("v1/sessions", json={"template": "mounted"}, headers=headers)
        assert made.status_code == 201, made.text
        session = made.json()["id"]
        try:
            reply = http.post(f"v1/sessions/{session}/executions", json={"code": code, "wait_s": 60}, headers=headers).json()
            assert reply["status"] == "ok", reply
            return reply["text"]
        finally:
            assert http.delete(f"v1/sessions/{session}", headers=headers).status_code == 204


@pytest.fixture(scope="module", params=LEVELS)
def mounted(request, tmp_path_factory):
    if "ordinary" in request.param:
        ordinary = request.getfixturevalue("ordinary_place")
        (ordinary / "mounts").mkdir()
        own = Mounted(request.param, ordinary / "mounts", ordinary)
    else:
        request.getfixturevalue("kernel_python")
        own = Mounted(request.param, tmp_path_factory.mktemp("mounts"))
    yield own
    own.gateway.stop()
    if ENGINE:
        volumes = [f"{own.volume}-{caller}" for caller in ("ada", "bob", "operator")]
        subprocess.run(["docker", "--host", ENGINE, "volume", "rm", *volumes], check=True, stdout=subprocess.DEVNULL, timeout=60)


def look(mounted, name, token=None):
    return json.loads(mounted.run(LOOK.replace("MARK", name), token))


def test_each_caller_has_a_home_and_all_have_the_data(mounted):
    """What a session wrote is there for the next one of the same caller, whatever user its sandbox has, and for no other caller."""
    first = look(mounted, "ada", "token-of-ada-0123456789")
    assert first["data"] == "a,b" and first["secret"] == "PermissionError", first
    assert first["write"] in ("OSError", "PermissionError"), first
    assert first["home"] == [] and first["mine"] == 3 and first["owned"] and first["mode"] == "0o700", first
    second = look(mounted, "ada2", "token-of-ada-0123456789")
    assert second["home"] == ["note"] and second["mine"] == 4 and second["common"] == 1, second
    assert second["shelf"] == 1 and second["on_shelf"] == ["ada", "ada2"], second
    other = look(mounted, "bob", "token-of-bob-0123456789")
    assert other["home"] == [] and other["mine"] == 3, other
    assert look(mounted, "op")["home"] == []
    # On the host, all of it belongs to the owner that the operator named.
    homes = mounted.place / "homes"
    for file in ("acme/ada/note", "acme/bob/note", "operator/operator/note"):
        assert homes.joinpath(file).stat().st_uid == mounted.owner, file
    assert (homes / "acme/ada/note").read_text() == "ada2"
    common = {file.name: file.stat().st_uid for file in (mounted.place / "common").iterdir()}
    assert common == dict.fromkeys(("ada", "ada2", "bob", "op"), mounted.owner)


def test_callers_see_places_and_no_paths_of_the_host(mounted):
    listed = mounted.gateway.http.get("v1/templates").json()["templates"]
    (template,) = [one for one in listed if one["name"] == "mounted"]
    assert {(one["name"], one["path"], one["writable"], one["personal"]) for one in template["mounts"]} == {
        ("data", "/data", False, False),
        ("home", "/mnt/home", True, True),
        ("common", "/mnt/common", True, False),
        ("shelf", "/mnt/shelf", True, bool(ENGINE)),
    }
    assert str(mounted.place) not in json.dumps(template)


def test_a_link_on_the_way_to_a_home_leads_nowhere(mounted):
    """Also one that was put there from outside."""
    homes = mounted.place / "homes"
    (homes / "operator").mkdir(exist_ok=True)
    link = homes / "operator/operator"
    kept = link.rename(homes / "moved") if link.exists() else None
    outside = mounted.place / "outside"
    outside.mkdir()
    link.symlink_to(outside)
    try:
        refused = mounted.gateway.http.post("v1/sessions", json={"template": "mounted"})
        assert refused.status_code == 400 and "home:" in refused.text, refused.text
        assert list(outside.iterdir()) == []
    finally:
        link.unlink()
        if kept:
            kept.rename(link)


@pytest.mark.usefixtures("kernel_python")
def test_mounts_that_cannot_work_stop_the_start(tmp_path):
    """Each names the mount, and what is wrong with it."""
    for name in ("data", "common/part"):
        (tmp_path / name).mkdir(parents=True)
    os.chown(tmp_path / "common", OWNER, OWNER)
    common = f'[mounts.common]\ndirectory = "{tmp_path}/common"\nwritable = true\n'
    cases = {
        f'directory = "{tmp_path}/missing"': "mounts.bad.directory",
        'directory = "/etc/ssl"': "mounts.bad.directory",
        f'directory = "{tmp_path}/3/data"': "mounts.bad.directory",
        f'directory = "{tmp_path}/common/part"': "common can be written to",
        f'directory = "{tmp_path}/data"\nwritable = true': "belongs to root",
        f'directory = "{tmp_path}/data"\nsubdirectory = "{{user}}"': "mounts.bad.subdirectory",
        f'directory = "{tmp_path}/data"\npath = "/usr/data"': "mounts.bad.path",
        'claim = "c"': "no provisioner of this gateway mounts a claim",
    }
    for number, (table, expected) in enumerate(cases.items(), 1):
        with pytest.raises(AssertionError) as failed:
            adding(AtLevel, f"{common}[mounts.bad]\n{table}\n")(tmp_path / str(number), LEVELS[0])
        assert expected in str(failed.value), table
