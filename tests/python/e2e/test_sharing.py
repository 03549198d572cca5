"""Several clients of one kernel, and clients that come back."""

import events
import pytest
from channels import SLOW, SLOW_LINES, Channels, is_idle_of, lines
from websockets.exceptions import ConnectionClosed


def test_both_clients_see_all_output_and_only_the_asker_gets_replies(shared, kernel_id):
    with Channels(shared, kernel_id) as asker, Channels(shared, kernel_id, "legacy") as watcher:
        msg_id = asker.submit("print('shared'); 5")
        mine = asker.outcome(msg_id)
        theirs = watcher.until(lambda m: is_idle_of(m, msg_id))
        watched = [m for m in theirs if m["parent_header"].get("msg_id") == msg_id]
        assert [m["msg_type"] for m in watched] == [m["msg_type"] for m in mine.iopub]
        assert [m["content"] for m in watched] == [m["content"] for m in mine.iopub]
        assert not [m for m in theirs if m["channel"] != "iopub"]
        # And nothing of that reply comes later: the next thing on its shell channel is its own.
        own = watcher.submit("1")
        replies = [m for m in watcher.until(lambda m: is_idle_of(m, own)) if m["channel"] == "shell"]
        replies = replies or [m for m in watcher.until(lambda m: m["channel"] == "shell")]
        assert all(m["parent_header"]["msg_id"] == own for m in replies if m["channel"] == "shell")


def test_two_clients_with_the_same_message_id_get_their_own_replies(shared, kernel_id):
    with Channels(shared, kernel_id) as one, Channels(shared, kernel_id) as two:
        content = {"silent": False, "store_history": False, "allow_stdin": False, "user_expressions": {}}
        one.send("execute_request", {**content, "code": "1", "user_expressions": {"who": "'one'"}}, msg_id="same")
        two.send("execute_request", {**content, "code": "2", "user_expressions": {"who": "'two'"}}, msg_id="same")
        for client, name in ((one, "'one'"), (two, "'two'")):
            reply = client.until(lambda m: m["channel"] == "shell")[-1]
            assert reply["content"]["user_expressions"]["who"]["data"]["text/plain"] == name


def test_input_is_asked_of_the_client_whose_cell_runs(shared, kernel_id):
    with Channels(shared, kernel_id) as asker, Channels(shared, kernel_id) as watcher:
        msg_id = asker.submit("print('got', input('> '))", allow_stdin=True)
        request = asker.until(lambda m: m["channel"] == "stdin")[-1]
        assert request["content"]["prompt"] == "> "
        asker.send("input_reply", {"value": "forty-two"}, "stdin", parent=request["header"])
        assert asker.outcome(msg_id).text() == "got forty-two\n"
        assert not [m for m in watcher.until(lambda m: is_idle_of(m, msg_id)) if m["channel"] == "stdin"]


@pytest.mark.parametrize("framing", ["v1", "legacy"])
@pytest.mark.parametrize("ending", ["closed", "dropped"])
def test_a_client_that_returns_with_its_session_id_misses_nothing(shared, kernel_id, framing, ending):
    client = Channels(shared, kernel_id, framing)
    msg_id = client.submit(SLOW)
    first = client.until(lambda m: m["msg_type"] == "stream")
    # The program may be later than its socket: what is in its queue was received, and does not come again.
    first += client.cut() if ending == "dropped" else client.close()
    with Channels(shared, kernel_id, framing, session=client.session) as again:
        rest, idle, reply = [], False, None
        while not idle or reply is None:
            rest.append(again.receive())
            idle = idle or is_idle_of(rest[-1], msg_id)
            if rest[-1]["channel"] == "shell":
                reply = rest[-1]
    assert reply["content"]["status"] == "ok"
    seen, after = lines(first, msg_id) + lines(rest, msg_id), lines(rest, msg_id)
    if ending == "closed":
        assert seen == SLOW_LINES
    else:
        # What was on its way may come again, in order; nothing is missing.
        assert set(seen) == set(SLOW_LINES) and after == SLOW_LINES[-len(after) :]


def test_a_client_that_returns_after_the_cell_has_ended_gets_its_reply(shared, kernel_id):
    client = Channels(shared, kernel_id)
    msg_id = client.submit("import time; time.sleep(0.3); print('while away'); 7")
    client.until(lambda m: m["msg_type"] == "execute_input")
    client.socket.close()
    with Channels(shared, kernel_id) as other:
        other.run("0")  # runs after it
    with Channels(shared, kernel_id, session=client.session) as again:
        done = again.outcome(msg_id)
    assert done.text() == "while away\n"
    assert done.of("execute_result")[0]["content"]["data"]["text/plain"] == "7"


def test_a_new_client_gets_no_old_output(shared, kernel_id):
    with Channels(shared, kernel_id) as first:
        old = first.run("print('old')").msg_id
    with Channels(shared, kernel_id) as second:
        new = second.submit("print('new')")
        seen = second.until(lambda m: is_idle_of(m, new))
        assert not [m for m in seen if m["parent_header"].get("msg_id") == old]


def test_a_second_connection_with_the_same_session_id_replaces_the_first(shared, kernel_id):
    first = Channels(shared, kernel_id)
    with Channels(shared, kernel_id, session=first.session) as second:
        with pytest.raises(ConnectionClosed) as closed:
            first.until(lambda m: False, timeout=10)
        assert closed.value.rcvd.code not in (1000, 1001)
        assert second.run("1 + 1").content["status"] == "ok"


def test_events_give_everything_once_from_any_position(shared, kernel_id, client):
    done = client.run("for n in range(20): print(n, flush=True)")

    def is_end(event):
        if event["event"] != "message" or event["header"]["msg_type"] != "status":
            return False
        parent = event["parent_header"] or {}
        return event["content"]["execution_state"] == "idle" and parent.get("msg_id") == done.msg_id

    log = events.follow(shared, kernel_id, 0, is_end)
    numbers = [event["seq"] for event in log]
    assert numbers == list(range(1, len(log) + 1))
    assert events.text(events.of_request(log, done.msg_id)).split() == [str(n) for n in range(20)]
    middle = numbers[len(numbers) // 2]
    assert events.follow(shared, kernel_id, middle, is_end) == [event for event in log if event["seq"] > middle]
