"""Images that are not ours: any that has ipykernel on its PATH, kernels that are not ours in one; and which image it was."""

import json
import subprocess

import pytest
from channels import Channels
from levels import ENGINE, IMAGE, AtLevel

OTHER = "himalia-test-other"
KERNELS = {
    "xpython": (["python3", "-m", "xpython_launcher", "-f", "{connection_file}"], "python"),
    "bash": (["python3", "-m", "bash_kernel", "-f", "{connection_file}"], "bash"),
}
TEMPLATES = f"""
retention = 0
[docker]
host = "{ENGINE}"
image = "{IMAGE}"
images = ["{OTHER}"]
""" + "".join(
    f"""
[templates.{name}]
kernelspec = "{kernelspec}"
provisioner = "docker"
isolation = "container"
image = "{image}"
memory = "512MiB"
"""
    for name, kernelspec, image in (("ours", "python3", IMAGE), ("plain", "python3", OTHER), ("xpython", "xpython", OTHER), ("bash", "bash", OTHER))
)


class WithOther(AtLevel):
    """A gateway with templates of both images."""

    def __init__(self, directory):
        for name, (argv, language) in KERNELS.items():
            spec = directory / "kernels" / name
            spec.mkdir(parents=True)
            spec.joinpath("kernel.json").write_text(json.dumps({"argv": argv, "display_name": name, "language": language, "env": {"PS1": "$"}}))
        self.file = directory / "templates.toml"
        self.file.write_text(TEMPLATES)
        super().__init__(directory, "container", "--kernelspec-dir", str(directory / "kernels"))

    def command(self):
        """With our configuration instead of the level's."""
        self.options = tuple(str(self.file) if option.endswith("himalia.toml") else option for option in self.options)
        return super().command()


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """The gateway."""
    made = WithOther(tmp_path_factory.mktemp("images"))
    yield made
    made.stop()


def run(gateway, session, code):
    """An execution's result, with where it comes from."""
    reply = gateway.http.post(f"v1/sessions/{session}/executions", json={"code": code}, timeout=120)
    assert reply.status_code == 200, reply.text
    result = reply.json()
    assert result["status"] == "ok", result
    return gateway.http.get(f"v1/executions/{result['id']}").json()


def test_any_image_with_ipykernel_works(own):
    session = own.session("plain")["id"]
    code = "import sys, importlib.util as u; kept = 1; print(sys.prefix, u.find_spec('pandas'), u.find_spec('himalia_kernel').origin)"
    assert run(own, session, code)["text"] == "/opt/other None /himalia/kernel/himalia_kernel/__init__.py\n"
    forked = own.http.post(f"v1/sessions/{session}/fork", json={"count": 1, "policy": "report"})
    branch = forked.json()["branches"][0]["session"]["id"]
    assert run(own, branch, "print(kept + 1)")["text"] == "2\n"
    own.end(branch)
    own.end(session)


@pytest.mark.parametrize(
    ("name", "code", "printed"),
    [("xpython", "import os; kept = 5; print(6 * 7, os.getcwd())", "42 /session\n"), ("bash", "kept=5; echo $((6 * 7)) $PWD", "42 /session\n")],
)
def test_kernels_that_are_not_ours_run_in_a_container(own, name, code, printed):
    session = own.session(name)["id"]
    with Channels(own, session) as client:
        assert client.run(code, 120).text() == printed
        assert client.run("print(kept)" if name == "xpython" else "echo $kept").text() == "5\n"
    own.end(session)


@pytest.mark.parametrize(("template", "image"), [("ours", IMAGE), ("plain", OTHER)])
def test_an_execution_says_from_which_image_it_comes(own, template, image):
    session = own.session(template)["id"]
    provenance = run(own, session, "1")["provenance"]
    digest = subprocess.run(["docker", "--host", ENGINE, "image", "inspect", "--format", "{{.Id}}", image], check=True, capture_output=True, text=True)
    assert (provenance["image"], provenance["image_digest"]) == (image, digest.stdout.strip())
    assert provenance["image_digest"].startswith("sha256:")
    own.end(session)
