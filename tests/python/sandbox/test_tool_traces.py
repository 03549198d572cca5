"""The span of a call of a tool from code."""

from servers import Himalia
from shop import open_shop
from waiting import eventually

CONFIG = """
private_addresses = ["127.0.0.1"]
[tool_servers.shop]
url = "{url}"
[templates.tools]
kernelspec = "python3"
isolation = "namespaces"
memory = "512MiB"
tools = ["shop"]
tools_write = ["shop.*"]
"""
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class InSandboxes(Himalia):
    """A gateway whose kernels have the door to tools."""

    isolation = ()


def test_a_call_from_code_is_below_the_span_of_the_code(tmp_path):
    config = tmp_path / "himalia.toml"
    with open_shop() as shop:
        config.write_text(CONFIG.format(url=f"http://127.0.0.1:{shop.server_port}/mcp"))
        gateway = InSandboxes(tmp_path / "gateway", "--config", str(config), "--otlp-endpoint", "http://127.0.0.1:9")
        try:
            session = f"v1/sessions/{gateway.http.post('v1/sessions', json={'template': 'tools'}).json()['id']}"
            servers = f"{session}/tools/servers"
            eventually(lambda: gateway.http.get(servers).json()["servers"][0]["ready"], "the server is ready", 60)
            body = {"code": "import himalia\nawait himalia.call('shop.picture')", "wait_s": 60}
            ran = gateway.http.post(f"{session}/executions", json=body, headers={"traceparent": TRACE}, timeout=90).json()
        finally:
            gateway.stop()
    assert ran["status"] == "ok", ran["error"]
    (meta,) = shop.metas
    version, trace, span, flags = meta["traceparent"].split("-")
    assert (version, trace, flags) == ("00", TRACE.split("-")[1], "01") and span != TRACE.split("-")[2]
