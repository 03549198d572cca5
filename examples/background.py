"""A script over 1,000 items, written once and run as one background execution: `background.py URL TOKEN SESSION`.

It shows the progress. Kill the gateway and start it again in between: nothing is lost, and no item is done twice.
"""

import json
import sys
import time
import urllib.request

URL, TOKEN, SESSION = sys.argv[1:]
SCRIPT = """
import time
results = globals().get("results", [])
for item in range(1000):
    time.sleep(0.01)                      # the work on one item
    results.append(item * item)
    if item % 50 == 49: print(f"{item + 1} of 1000", flush=True)
"""


def call(path, body=None, accept="application/json"):
    headers = {"Authorization": f"token {TOKEN}", "Accept": accept}
    data = body and json.dumps(body).encode()
    return urllib.request.urlopen(urllib.request.Request(URL + path, data, headers), timeout=60)


def events(path, seen=0):
    while True:
        try:
            for line in call(f"{path}/events?after={seen}", accept="application/x-ndjson"):
                event = json.loads(line)
                seen = event.get("seq", seen)  # from here, whichever gateway answers next
                yield event
                if event["event"] == "done":
                    return
        except (OSError, ValueError):
            time.sleep(0.5)  # the gateway is away; the script continues


asked = {"code": SCRIPT, "background": True, "idempotency_key": "squares"}
execution = json.load(call(f"/v1/sessions/{SESSION}/executions", asked))["id"]
for event in events(f"/v1/executions/{execution}"):
    if event["event"] == "stdout":
        print(event["text"], end="", flush=True)
print(event["result"]["status"])
