"""The calls of vscode-jupyter's `JupyterKernelSessionFactory` for an existing server: its lists, its session, its socket, its reconnection."""

import json
import os
import uuid

import requests
import websocket

URL, TOKEN = os.environ["HIMALIA_URL"], os.environ["HIMALIA_TOKEN"]
http = requests.Session()
http.headers["Authorization"] = f"token {TOKEN}"


def call(method, path, **options):
    answer = http.request(method, f"{URL}/api/{path}", **options)
    answer.raise_for_status()
    return answer.json() if answer.content else None


def run(kernel, code):
    """Open the socket, which has the token in its address, run code and return the texts of its results."""
    identity = str(uuid.uuid4())
    socket = websocket.create_connection(
        f"{URL.replace('http', 'ws', 1)}/api/kernels/{kernel}/channels?session_id={identity}&token={TOKEN}"
    )
    found = []
    for kind, content in (
        ("kernel_info_request", {}),
        ("execute_request", {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": True, "stop_on_error": True}),
    ):
        header = {"msg_id": str(uuid.uuid4()), "msg_type": kind, "session": identity, "username": "", "version": "5.2", "date": ""}
        message = {"channel": "shell", "header": header, "parent_header": {}, "metadata": {}, "content": content, "buffers": []}
        socket.send(json.dumps(message))
        missing = {"reply", "idle"}
        while missing:
            answer = json.loads(socket.recv())
            if answer["parent_header"].get("msg_id") != header["msg_id"]:
                continue
            if answer["msg_type"] == "execute_result":
                found.append(answer["content"]["data"]["text/plain"])
            missing -= {"reply"} if answer["msg_type"].endswith("_reply") else set()
            missing -= {"idle"} if answer["content"].get("execution_state") == "idle" else set()
    socket.close()
    return found


call("GET", "kernels")
default = call("GET", "kernelspecs")["default"]
body = {"path": f"{uuid.uuid4()}.ipynb", "name": f"analysis-{uuid.uuid4()}.ipynb", "type": "notebook", "kernel": {"name": default}}
session = call("POST", "sessions", json=body)
kernel = session["kernel"]["id"]
assert run(kernel, "x = 42\nx") == ["42"]
# Another window lists what runs, and connects to the live kernel.
assert kernel in [one["kernel"]["id"] for one in call("GET", "sessions")]
assert run(kernel, "x") == ["42"]
call("POST", f"kernels/{kernel}/interrupt")
call("POST", f"kernels/{kernel}/restart")
assert run(kernel, "'x' in dir()") == ["False"]
call("DELETE", f"sessions/{session['id']}")
assert kernel not in [one["id"] for one in call("GET", "kernels")]
