"""The files of a release, each used as a stranger would: from the file alone. HIMALIA_RELEASE_FILES names their directory."""

import hashlib
import json
import os
import re
import subprocess
import tarfile
import tomllib
import venv
import zipfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from waiting import eventually

ROOT = Path(__file__).resolve().parents[3]
FILES = Path(os.environ.get("HIMALIA_RELEASE_FILES", ROOT / "target" / "release-files"))
VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
PROGRAMS = ("himalia", "himalia-shim", "himalia-jail")


def one(pattern):
    """The only file with this name."""
    found = sorted(FILES.glob(pattern))
    assert len(found) == 1, f"{pattern}: {found}"
    return found[0]


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, **options)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@contextmanager
def gateway(program, tmp_path):
    """`himalia up` of a program, with the kernels' environment of this user; the environment of its clients."""
    log = tmp_path / "log"
    env = {"HOME": os.environ["HOME"], "PATH": "/usr/bin:/bin", "HIMALIA_DATA_DIR": str(tmp_path / "data")}
    with log.open("wb") as file:
        process = subprocess.Popen([program, "up", "--listen", "127.0.0.1:0"], env=env, stdout=file, stderr=file, start_new_session=True)
    try:
        eventually(lambda: "is ready at" in log.read_text(), lambda: log.read_text(), 200)
        yield env
    finally:
        process.send_signal(2)
        process.wait(60)


@pytest.fixture
def unpacked(tmp_path):
    """The archive of programs, unpacked."""
    with tarfile.open(one("himalia-*-linux-x86_64.tar.gz")) as archive:
        archive.extractall(tmp_path / "archive", filter="data")
    [directory] = (tmp_path / "archive").iterdir()
    return directory


def test_every_file_has_the_version_and_its_checksum():
    sums = dict(reversed(line.split("  ")) for line in (FILES / "SHA256SUMS").read_text().splitlines())
    files = {path.name: path for path in FILES.iterdir() if path.name != "SHA256SUMS"}
    assert sums.keys() == files.keys()
    for name, path in files.items():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == sums[name], name
        assert f"-{VERSION}" in name or f"_{VERSION}" in name or name in ("server.json", "himalia.cdx.json"), name


def test_the_archive_has_the_programs(unpacked):
    for program in PROGRAMS:
        assert run(unpacked / program, "-V") == f"{program} {VERSION}\n"
    lines = run(unpacked / "himalia", "--version").splitlines()
    assert lines[0] == f"himalia {VERSION}"
    if len(lines) > 1:
        assert lines[1].startswith("commit: ") and lines[2].startswith("features: ")
    assert (unpacked / "LICENSE").is_file() and (unpacked / "himalia.service").is_file()


def test_the_wheel_and_the_client_alone(tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    binaries = tmp_path / "venv" / "bin"
    run(binaries / "pip", "install", "--quiet", one(f"himalia-{VERSION}-py3-none-manylinux_*_x86_64.whl"))
    code = (
        "from himalia import Gateway\n"
        "with Gateway() as gateway, gateway.session() as session:\n"
        "    result = session.execute('import matplotlib.pyplot as plt; plt.plot([1, 4, 9]); plt.show()', check=True)\n"
        "    result.images[0].save('plot.png')\n"
    )
    with gateway(binaries / "himalia", tmp_path) as env:
        run(binaries / "python", "-c", code, env=env, cwd=tmp_path)
        assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
        # What pip takes on macOS and Windows, and the sources: the client without programs.
        for file in (one(f"himalia-{VERSION}-py3-none-any.whl"), one(f"himalia-{VERSION}.tar.gz")):
            other = tmp_path / file.name.replace(".", "-")
            venv.create(other, with_pip=True)
            run(other / "bin" / "pip", "install", "--quiet", file)
            assert not (other / "bin" / "himalia").exists()
            assert run(other / "bin" / "python", "-c", code + "print('plotted')", env=env, cwd=tmp_path) == "plotted\n"


def test_the_package_of_debian(tmp_path):
    package = one("himalia_*_amd64.deb")
    root = tmp_path / "root"
    run("dpkg-deb", "--extract", package, root)
    fields = run("dpkg-deb", "--field", package, "Package", "Version", "Architecture", "Depends")
    assert f"Package: himalia\nVersion: {VERSION}\nArchitecture: amd64\n" in fields
    unit = (root / "usr/lib/systemd/system/himalia.service").read_text()
    named = re.findall(r"(?<=[ =])/(?:usr|etc)/[\w./-]+", unit)
    assert len(named) >= 2
    for path in named:
        assert (root / path.lstrip("/")).exists(), path
    for program in PROGRAMS:
        assert run(root / "usr/bin" / program, "-V") == f"{program} {VERSION}\n"
    # The settings of the package start a gateway here as they do there.
    settings = root / "etc/himalia/himalia.toml"
    checked = subprocess.run(
        [root / "usr/bin/himalia", "doctor", "--config", settings, "--data-dir", tmp_path / "data"], capture_output=True, text=True, timeout=100
    )
    assert checked.returncode in (0, 1) and "himalia-shim" in checked.stdout, checked.stderr
    scripts = tmp_path / "control"
    run("dpkg-deb", "--control", package, scripts)
    for script in ("postinst", "prerm", "postrm"):
        run("sh", "-n", scripts / script)
    if os.geteuid() == 0:
        listing = run("dpkg-deb", "--contents", package)
        assert all(line.split()[1] == "root/root" for line in listing.splitlines())


def test_the_npm_package(unpacked, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "package.json").write_text('{"type": "module", "private": true}')
    run("npm", "install", "--silent", "--no-audit", "--no-fund", "--offline", one(f"himalia-{VERSION}.tgz"), cwd=project)
    assert (project / "node_modules/himalia/README.md").is_file() and (project / "node_modules/himalia/LICENSE").is_file()
    manifest = json.loads((project / "node_modules/himalia/package.json").read_text())
    for entry in manifest["exports"].values():
        for path in entry.values():
            assert (project / "node_modules/himalia" / path).is_file(), path
    (project / "program.js").write_text(
        "import { resultText } from 'himalia';\nimport { connect } from 'himalia/node';\n"
        "const gateway = await connect();\nconst session = await gateway.session('npm');\n"
        "console.log(resultText(await session.execute('6 * 7', {}, { check: true })));\nawait session.end();\n"
    )
    with gateway(unpacked / "himalia", tmp_path) as env:
        assert run("node", "program.js", env={**env, "PATH": os.environ["PATH"]}, cwd=project) == "42\n"


def test_the_bundle_speaks_on_standard_input_and_output(unpacked, tmp_path):
    with zipfile.ZipFile(one("himalia-*.mcpb")) as archive:
        archive.extractall(tmp_path / "bundle")
    manifest = json.loads((tmp_path / "bundle/manifest.json").read_text())
    configuration = manifest["server"]["mcp_config"]
    assert (tmp_path / "bundle" / manifest["server"]["entry_point"]).is_file()
    options = re.findall(r"\$\{user_config\.(\w+)\}", json.dumps(configuration))
    assert sorted(options) == sorted(manifest["user_config"])
    command = [configuration["command"], *(argument.replace("${__dirname}", str(tmp_path / "bundle")) for argument in configuration["args"])]
    with gateway(unpacked / "himalia", tmp_path) as env:
        address = json.loads((tmp_path / "data/gateway.json").read_text())
        given = {"url": address["url"], "token": Path(address["token_file"]).read_text().strip()}
        variables = {name: re.sub(r"\$\{user_config\.(\w+)\}", lambda found: given[found[1]], value) for name, value in configuration["env"].items()}
        server = subprocess.Popen(command, env={"PATH": os.environ["PATH"], **variables}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def ask(number, method, params):
            server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n")
            server.stdin.flush()
            while (answer := json.loads(server.stdout.readline())).get("id") != number:
                pass
            return answer

        try:
            host = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
            assert ask(1, "initialize", host)["result"]["serverInfo"]
            server.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
            assert "execute" in [tool["name"] for tool in ask(2, "tools/list", {})["result"]["tools"]]
            created = ask(5, "tools/call", {"name": "session", "arguments": {"op": "create", "name": "bundle"}})
            assert not created["result"].get("isError"), created
            called = ask(3, "tools/call", {"name": "execute", "arguments": {"session": "bundle", "code": "6 * 7"}})
            assert "42" in called["result"]["content"][0]["text"]
            assert ask(4, "no/such", {})["error"]
        finally:
            server.stdin.close()
            assert server.wait(30) == 0
    silent = subprocess.run(command, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=30)
    assert silent.returncode == 2 and "HIMALIA_URL" in silent.stderr


def test_the_plugin_has_its_skill_and_its_server(tmp_path):
    with zipfile.ZipFile(one("himalia-*-claude-code.zip")) as archive:
        names = set(archive.namelist())
        assert {".claude-plugin/plugin.json", ".mcp.json", "skills/himalia/SKILL.md"} <= names
        assert json.loads(archive.read(".claude-plugin/plugin.json"))["version"] == VERSION


def test_the_entry_of_the_registry_names_the_bundle():
    entry = json.loads((FILES / "server.json").read_text())
    bundle = one("himalia-*.mcpb")
    assert re.fullmatch(r"io\.github\.[A-Za-z0-9-]+/himalia", entry["name"]) and len(entry["description"]) <= 100
    assert entry["version"] == VERSION
    [package] = entry["packages"]
    assert package["fileSha256"] == hashlib.sha256(bundle.read_bytes()).hexdigest()
    assert package["identifier"].endswith(f"/releases/download/v{VERSION}/{bundle.name}") and "mcp" in package["identifier"]
    assert package["transport"] == {"type": "stdio"}


def test_the_chart_is_that_of_the_sources():
    with tarfile.open(one("himalia-chart-*.tgz")) as archive:
        packed = {entry.name.removeprefix("himalia/"): archive.extractfile(entry).read() for entry in archive}
    chart = ROOT / "packaging" / "chart" / "himalia"
    assert packed == {str(path.relative_to(chart)): path.read_bytes() for path in chart.rglob("*") if path.is_file()}


def test_the_list_of_contents_is_that_of_the_lock_file():
    listed = json.loads((FILES / "himalia.cdx.json").read_text())
    assert listed["bomFormat"] == "CycloneDX" and listed["metadata"]["component"]["version"] == VERSION
    locked = {(package["name"], package["version"]) for package in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]}
    found = {(component["name"], component["version"]) for component in listed["components"]}
    assert len(found) > 300 and found <= locked, sorted(found - locked)[:5]
    assert ("tokio", next(version for name, version in found if name == "tokio")) in locked
