"""A cell that prints a gigabyte: bounded memory everywhere, all of it can be read up to the quota, then a marker."""


import pytest
from files import beneath
from processes import memory_mb, parent
from servers import Himalia

pytestmark = pytest.mark.long

GIGABYTE = 1_000_000_000
LINE = 1000
# Peak resident memory, MB.
GATEWAY, SHIM, KERNEL = 256, 96, 120
CODE = f"""
import os
line = "{{:09d}}" + "x" * {LINE - 10}
for n in range({GIGABYTE // LINE}):
    print(line.format(n))
print(os.getpid())
"""
CONFIG = """
[templates.small]
kernelspec = "python3"
isolation = "none"
output = "64MiB"
"""


@pytest.fixture
def gateway(tmp_path, kernel_python):
    """One that has a template with a small log, too."""
    config = tmp_path / "himalia.toml"
    config.write_text(CONFIG)
    own = Himalia(tmp_path / "gateway", "--config", str(config))
    yield own
    own.stop()


def print_a_gigabyte(gateway, template):
    """The result, whose memory was bounded while it came."""
    session = gateway.http.post("v1/sessions", json={"template": template}).json()["id"]
    reply = gateway.http.post(f"v1/sessions/{session}/executions", json={"code": CODE}, timeout=200)
    result = reply.json()
    assert result["status"] == "ok" and len(reply.content) < 40_000, result
    kernel = int(result["text"].splitlines()[-1])
    assert memory_mb(kernel, "VmHWM") < KERNEL and memory_mb(parent(kernel), "VmHWM") < SHIM
    assert gateway.memory_mb() < GATEWAY
    return result


def page(gateway, result, offset):
    """A page of the text."""
    reply = gateway.http.get(f"v1/executions/{result['id']}/output?cursor={offset}&limit=1048576", timeout=100)
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.timeout(400)
def test_below_the_quota_all_of_it_can_be_read(gateway):
    result = print_a_gigabyte(gateway, "python3")
    total = result["truncated"]["bytes_total"]
    assert GIGABYTE < total < GIGABYTE + 20 and "quota" not in result and "gaps" not in result
    # Three places of it, by their offsets; a page costs no more memory for being far behind.
    for offset in (0, GIGABYTE // 2, GIGABYTE - 1_048_576):
        found = page(gateway, result, offset)
        assert found["bytes_total"] == total and found["next"] == offset + 1_048_576
        wanted = "".join(f"{n:09d}{'x' * (LINE - 10)}\n" for n in range(offset // LINE, (offset + 1_048_576) // LINE + 1))
        begin = offset % LINE
        assert found["text"] == wanted[begin : begin + 1_048_576]
    assert gateway.memory_mb() < GATEWAY


@pytest.mark.timeout(300)
def test_above_the_quota_a_marker_says_what_is_gone(gateway):
    result = print_a_gigabyte(gateway, "small")
    for told in (result, gateway.http.get(f"v1/executions/{result['id']}").json()):
        assert told["text"].splitlines()[-2].startswith(f"{GIGABYTE // LINE - 1:09d}x"), "its end is there"
    # Read from what is kept: the beginning is the marker, and the number of what went.
    assert told["quota"]["records_removed"] > 0 and told["gaps"] > 0
    assert told["text"].startswith("[himalia: records ") and "has reached its quota]\n" in told["text"], told["text"][:300]
    found = page(gateway, result, 0)
    assert found["text"].startswith("[himalia: records ") and found["bytes_total"] < 100 << 20
    log = sum(path.stat().st_size for path in beneath(gateway.directory / "data") if path.is_file())
    assert log < 200 << 20
    listed = gateway.http.get(f"v1/sessions/{result['session']}/executions").json()["executions"]
    assert listed[0]["id"] == result["id"]
    again = gateway.http.post(f"v1/sessions/{result['session']}/executions", json={"code": "1 + 1"})
    assert again.json()["outputs"][0]["data"]["text/plain"] == "2"
