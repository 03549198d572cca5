"""A session's log as server-sent events."""

import json


def follow(server, session, after, until, timeout=60.0):
    """Read events after a position until `until(event)`; returns them, each with its `seq`."""
    seen = []
    headers = {"Last-Event-ID": str(after)}
    with server.http.stream("GET", f"v1/sessions/{session}/events", headers=headers, timeout=timeout) as response:
        assert response.status_code == 200, response.read()
        position, data = None, ""
        for line in response.iter_lines():
            if line.startswith("id:"):
                position = int(line[3:])
            elif line.startswith("data:"):
                data = line[5:].strip()
            elif not line and data:
                event = json.loads(data)
                if position is not None:
                    assert event["seq"] == position
                    seen.append(event)
                    if until(event):
                        return seen
                position, data = None, ""
    raise AssertionError(f"the stream ended after {len(seen)} events")


def of_request(events, msg_id):
    """Those messages among events that answer one request."""
    return [e for e in events if e["event"] == "message" and (e["parent_header"] or {}).get("msg_id") == msg_id]


def text(events):
    """The text of the stream messages among events."""
    return "".join(e["content"]["text"] for e in events if e["header"]["msg_type"] == "stream")
