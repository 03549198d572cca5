"""Generate, run, reflect, retry: an agent whose code calls tools, over the native API: `reflect.py URL TOKEN TEMPLATE`.

The template needs tools of a server `orders` ([docs/how-to/tools.md](../docs/how-to/tools.md)). The model here is a script that reads nothing but the
errors: a wrong name is answered with names that are like it, wrong arguments with each path and rule. Put a real model into `model`.
"""

import json
import re
import sys
import urllib.request

URL, TOKEN, TEMPLATE = sys.argv[1].rstrip("/"), sys.argv[2], sys.argv[3]
ATTEMPTS = 4
TASK = "How many orders are there, of the first three?"
FIRST = 'import himalia\nfound = await himalia.call("orders.list_order", limit="three")\nlen(found["orders"])'


def call(method, path, body=None):
    headers = {"Authorization": f"token {TOKEN}", "Content-Type": "application/json"}
    data = json.dumps(body).encode() if body is not None else None
    with urllib.request.urlopen(urllib.request.Request(URL + path, data, headers, method=method), timeout=120) as reply:
        return json.loads(reply.read() or b"null")


def model(task, attempts):
    """The next code for a task, after the attempts so far: pairs of code and error."""
    if not attempts:
        return FIRST
    code, error = attempts[-1]
    if better := re.search(r"like it: (\S+?)[,.;]?(\s|$)", error):
        return re.sub(r'"orders\.\w+"', f'"{better[1]}"', code)
    if re.search(r"/limit: .*integer", error):
        return code.replace('"three"', "3")
    raise SystemExit(f"this script has no answer to: {error}")


session = call("POST", "/v1/sessions", {"template": TEMPLATE})["id"]
attempts = []
while len(attempts) < ATTEMPTS:
    code = model(TASK, attempts)
    result = call("POST", f"/v1/sessions/{session}/executions?wait_s=60", {"code": code})
    if result["error"] is None:
        print(f"attempt {len(attempts) + 1}: {result['outputs'][-1]['data']['text/plain']} orders")
        break
    attempts.append((code, result["error"]["value"]))
    print(f"attempt {len(attempts)}: {result['error']['name']}: {result['error']['value']}")
call("DELETE", f"/v1/sessions/{session}")
