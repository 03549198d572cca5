"""A staged analysis over the native API, with nothing but Python: `staged.py URL TOKEN`.

Each stage is one call and uses the variables of the stages before; a stage that fails is corrected by its hint. Run it
again: the session is still there, so it continues with the sales that it has. A file goes in, a table and a plot come out.
"""

import json
import random
import sys
import urllib.request

URL, TOKEN = sys.argv[1].rstrip("/"), sys.argv[2]
SESSION = "/v1/sessions/staged-example"


def call(method, path, body=None, data=None):
    headers = {"Authorization": f"token {TOKEN}", "Content-Type": "application/json"}
    data = json.dumps(body).encode() if body is not None else data
    with urllib.request.urlopen(urllib.request.Request(URL + path, data, headers, method=method), timeout=120) as reply:
        return reply.read()


def stage(name, code):
    """Run one stage, show its result, and return it."""
    result = json.loads(call("POST", f"{SESSION}/executions", {"code": code}))
    print(f"\n{name}: {result['status']}, {result['duration_ms']} ms")
    print(result["text"], end="")
    for output in result["outputs"]:
        for kind, value in output["data"].items():
            if kind == "text/plain":
                print(value)
            elif kind == "image/png":
                print(f"a plot of {value['width']} x {value['height']} pixels, {value['bytes']} bytes")
    if result["error"]:
        error = result["error"]
        print(f"{error['name']}: {error['value']} in line {error['frame']['line']}: {error['frame']['source']}")
        print("hint:", error["hint"])
    for file in (result["files"] or {}).get("written", []):
        print("wrote", file)
    return result


session = json.loads(call("PUT", SESSION, {}))
print(f"session {session['id']}, kernel process {session['incarnation']}")
chance = random.Random(1)
rows = [f"2026-{1 + n % 12:02}-01,{chance.choice('NSEW')},{chance.randrange(100, 900)}" for n in range(20_000)]
call("PUT", f"{SESSION}/files/sales.csv", data="\n".join(["month,region,amount", *rows]).encode())

stage("load", "import pandas as pd\nsales = pd.read_csv('sales.csv', parse_dates=['month'])\nsales.describe().round(1)")
wrong = stage("aggregate", "total = sales.groupby('regoin')['amount'].sum()\ntotal")
if wrong["status"] == "error":
    stage("aggregate again", "total = sales.groupby('region')['amount'].sum()\ntotal")
stage("plot", "import matplotlib.pyplot as plt\ntotal.plot.bar(title='Sales by region')\nplt.savefig('sales.png')\nplt.show()")
variables = json.loads(call("GET", f"{SESSION}/variables"))["variables"]
print("\nvariables:", ", ".join(f"{row['name']} ({row['type']})" for row in variables))
with open("sales.png", "wb") as picture:
    picture.write(call("GET", f"{SESSION}/files/sales.png"))
print("sales.png is here;", "end the session with: himalia session rm staged-example")
