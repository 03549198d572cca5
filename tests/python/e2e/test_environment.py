"""A kernel sees the environment of its own request, and no other."""

import json
from concurrent.futures import ThreadPoolExecutor

from channels import Channels
from servers import CANARY


def environment_of(server, kernel_id):
    """The environment of a kernel, as its code sees it."""
    with Channels(server, kernel_id) as client:
        return json.loads(client.run("import json, os; print(json.dumps(dict(os.environ)))").text())


def test_the_environment_of_one_start_never_reaches_another_kernel(gateway):
    """Overlapping starts, each with its own secret, then starts with none."""
    with ThreadPoolExecutor(6) as pool:
        starts = [
            pool.submit(gateway.start_kernel, env={"KERNEL_TENANT": f"t{n}", f"KERNEL_SECRET_{n}": f"s{n}"})
            for n in range(4)
        ]
        starts += [pool.submit(gateway.start_kernel) for _ in range(2)]
        ids = [start.result() for start in starts]
        ids += [gateway.start_kernel(), gateway.start_kernel(env={})]
        found = list(pool.map(lambda kernel_id: environment_of(gateway, kernel_id), ids))
    for n, env in enumerate(found):
        tenant = {key: value for key, value in env.items() if key.startswith(("KERNEL_TENANT", "KERNEL_SECRET"))}
        assert tenant == ({"KERNEL_TENANT": f"t{n}", f"KERNEL_SECRET_{n}": f"s{n}"} if n < 4 else {}), n


def test_the_gateways_own_environment_reaches_no_kernel(shared, kernel_id):
    env = environment_of(shared, kernel_id)
    assert CANARY not in env
    assert not [key for key in env if key.startswith(("HIMALIA_TOKEN", "JUPYTER_TOKEN"))]
    assert shared.token not in "\n".join(env.values())
    assert "PATH" in env


def test_an_environment_survives_a_restart_of_its_kernel(shared):
    kernel_id = shared.start_kernel(env={"KERNEL_FLAVOUR": "plum"})
    assert shared.http.post(f"api/kernels/{kernel_id}/restart").status_code == 200
    assert environment_of(shared, kernel_id)["KERNEL_FLAVOUR"] == "plum"
    shared.delete_kernel(kernel_id)
