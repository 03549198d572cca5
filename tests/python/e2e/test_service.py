"""A gateway as a service: it tells the manager when it can be used, and when it ends."""

import socket

from servers import Himalia


def said(manager):
    manager.settimeout(60)
    return manager.recv(4096).decode()


def test_the_service_manager_is_notified(tmp_path, kernel_python):
    for name, address in (("file", str(tmp_path / "notify")), ("abstract", f"\0himalia-test-{tmp_path.name}")):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(address)
            variable = "@" + address[1:] if name == "abstract" else address
            gateway = Himalia(tmp_path / name, env={"NOTIFY_SOCKET": variable})
            try:
                assert said(manager) == "READY=1"
                assert gateway.http.get("readyz").status_code == 200
            finally:
                gateway.stop()
            assert said(manager) == "STOPPING=1"


def test_a_manager_that_is_gone_stops_nothing(tmp_path, kernel_python):
    gateway = Himalia(tmp_path / "gateway", env={"NOTIFY_SOCKET": str(tmp_path / "nothing")})
    try:
        assert gateway.http.get("readyz").status_code == 200
        assert "the service manager was not notified" in gateway.log.read_text()
    finally:
        gateway.stop()
