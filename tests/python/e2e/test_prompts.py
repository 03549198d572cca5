"""Prompts: what a person is asked while code runs, `input()` too, over REST and MCP. Answered once, also across the end of a gateway."""

import threading

import pytest
from agents import agent, run, text
from mcp.types import ElicitResult
from servers import Himalia
from waiting import eventually

CODE = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.02)\nprint('continued')"
OPTIONS = ["once", "deny"]


@pytest.fixture
def gateway(tmp_path, kernel_python):
    own = Himalia(tmp_path / "gateway")
    yield own
    own.stop()


@pytest.fixture
def session(gateway):
    return gateway.start_session()


def start(gateway, session, **more):
    """The id of an execution that runs until the file `go` is there."""
    asked = {"code": CODE, "background": True, **more}
    execution = gateway.http.post(f"v1/sessions/{session}/executions", json=asked).json()["id"]
    eventually(lambda: state(gateway, execution)["status"] == "running", "it runs", 60)
    return execution


def state(gateway, execution, **query):
    return gateway.http.get(f"v1/executions/{execution}", params=query).json()


def ask(gateway, session, **more):
    reply = gateway.http.post(f"v1/sessions/{session}/prompts", json={"text": "May it?", "options": OPTIONS, **more})
    assert reply.status_code == 201, reply.text
    return reply.json()


def answer(gateway, prompt, value):
    return gateway.http.post(f"v1/prompts/{prompt['id']}/answer", json={"value": value})


def go(gateway, session):
    gateway.http.put(f"v1/sessions/{session}/files/go", content=b"").raise_for_status()


def test_an_execution_shows_what_is_asked_and_one_answer_counts(gateway, session):
    execution = start(gateway, session)
    prompt = ask(gateway, session)
    assert (prompt["execution"], prompt["state"], prompt["kind"]) == (execution, "open", "question")
    # A wait for the execution ends at once: it waits for a person.
    shown = state(gateway, execution, wait_s=60)
    assert [one["id"] for one in shown["prompts"]] == [prompt["id"]]
    assert answer(gateway, prompt, "perhaps").json()["detail"].startswith("value: the answer is not one of once, deny")
    waited = []
    waits = threading.Thread(
        target=lambda: waited.append(gateway.http.get(f"v1/prompts/{prompt['id']}", params={"wait_s": 60}).json())
    )
    waits.start()
    replies = []
    both = [threading.Thread(target=lambda v=value: replies.append(answer(gateway, prompt, v))) for value in OPTIONS]
    for one in both:
        one.start()
    for one in [*both, waits]:
        one.join()
    assert sorted(reply.status_code for reply in replies) == [200, 409]
    counted = next(reply.json() for reply in replies if reply.status_code == 200)
    assert waited == [counted] and (counted["state"], counted["answered_by"]) == ("answered", "operator")
    assert "prompts" not in state(gateway, execution)
    go(gateway, session)
    assert "continued" in eventually(lambda: state(gateway, execution, wait_s=60).get("text"), "it ends", 60)
    listed = gateway.http.get(f"v1/sessions/{session}/prompts").json()["prompts"]
    assert [one["answer"] for one in listed] == [counted["answer"]]


def test_what_waits_survives_the_gateway(gateway, session):
    execution = start(gateway, session)
    prompt = ask(gateway, session, key="k")
    gateway.kill()
    gateway.start()
    eventually(lambda: state(gateway, execution)["status"] == "running", "the kernel is adopted", 60)
    assert [one["id"] for one in state(gateway, execution)["prompts"]] == [prompt["id"]]
    assert ask(gateway, session, key="k")["id"] == prompt["id"]
    assert answer(gateway, prompt, "once").status_code == 200
    gateway.kill()
    gateway.start()
    eventually(lambda: state(gateway, execution)["status"] == "running", "the kernel is adopted", 60)
    assert answer(gateway, prompt, "deny").status_code == 409
    assert gateway.http.get(f"v1/prompts/{prompt['id']}").json()["answer"] == "once"


def waiting(gateway, kind):
    """The prompts of all sessions that wait, of this kind."""
    return [one for one in gateway.http.get("v1/prompts").json()["prompts"] if one["kind"] == kind]


def start_input(gateway, session, code="print('hello', input('Who?\\x1b[2J '), input('Sure? '))"):
    """The id of an execution that asks for input, and its prompt."""
    asked = {"code": code, "background": True, "allow_stdin": True}
    execution = gateway.http.post(f"v1/sessions/{session}/executions", json=asked).json()["id"]
    return execution, eventually(lambda: waiting(gateway, "input"), "it asks", 60)[0]


def test_input_is_a_prompt_among_the_others(gateway, session):
    other = ask(gateway, gateway.start_session())
    execution, prompt = start_input(gateway, session)
    assert (prompt["text"], prompt["execution"], prompt["session"], prompt["state"]) == ("Who?[2J ", execution, session, "open")
    assert "expires" not in prompt and prompt["options"] == []
    listed = gateway.http.get("v1/prompts").json()["prompts"]
    assert [one["id"] for one in listed] == [other["id"], prompt["id"]]
    of_session = gateway.http.get(f"v1/sessions/{session}/prompts", params={"open": True}).json()["prompts"]
    assert of_session == [prompt]
    assert state(gateway, execution)["input"]["id"] == prompt["id"]
    replies = []
    both = [threading.Thread(target=lambda v=value: replies.append(answer(gateway, prompt, v))) for value in ["Ada", "Eve"]]
    for one in both:
        one.start()
    for one in both:
        one.join()
    assert sorted(reply.status_code for reply in replies) == [200, 409]
    counted = next(reply.json() for reply in replies if reply.status_code == 200)
    refused = next(reply.json() for reply in replies if reply.status_code == 409)
    assert (counted["state"], counted["answered_by"]) == ("answered", "operator")
    assert refused["code"] == "conflict" and "the prompt has ended" in refused["detail"]
    # What was answered does not answer what is asked next, and the way of an execution ends its prompt, too.
    following = eventually(lambda: [one for one in waiting(gateway, "input") if one["text"] == "Sure? "], "it asks again", 60)[0]
    assert answer(gateway, prompt, "yes").status_code == 409
    assert gateway.http.post(f"v1/executions/{execution}/input", json={"value": "yes"}).status_code == 202
    assert answer(gateway, following, "no").status_code == 409
    done = state(gateway, execution, wait_s=60)
    assert done["text"] == f"hello {counted['answer']} yes\n", done
    assert waiting(gateway, "input") == []


def test_input_waits_across_the_end_of_the_gateway_and_is_answered_once(gateway, session):
    execution, prompt = start_input(gateway, session)
    gateway.kill()
    gateway.start()
    again = eventually(lambda: waiting(gateway, "input"), "it waits still", 60)
    assert [one["id"] for one in again] == [prompt["id"]]
    assert answer(gateway, prompt, "Ada").status_code == 200
    gateway.kill()
    gateway.start()
    following = eventually(lambda: [one for one in waiting(gateway, "input") if one["text"] == "Sure? "], "it asks again", 60)[0]
    assert answer(gateway, prompt, "Eve").status_code == 409
    assert gateway.http.get(f"v1/prompts/{prompt['id']}").json()["answer"] == "Ada"
    assert answer(gateway, following, "yes").status_code == 200
    assert state(gateway, execution, wait_s=60)["text"] == "hello Ada yes\n"


def test_an_interrupt_withdraws_input(gateway, session):
    execution, prompt = start_input(gateway, session)
    gateway.http.post(f"v1/executions/{execution}/interrupt").raise_for_status()
    ended = gateway.http.get(f"v1/prompts/{prompt['id']}", params={"wait_s": 60}).json()
    assert (ended["state"], ended["reason"]) == ("withdrawn", "the code does not wait for it any more")
    assert answer(gateway, prompt, "Ada").status_code == 409


def test_the_end_of_the_execution_withdraws_it(gateway, session):
    execution = start(gateway, session)
    prompt = ask(gateway, session)
    gateway.http.post(f"v1/executions/{execution}/interrupt").raise_for_status()
    ended = gateway.http.get(f"v1/prompts/{prompt['id']}", params={"wait_s": 60}).json()
    assert (ended["state"], ended["reason"]) == ("withdrawn", "the execution that asked has ended")


def test_bad_prompts_name_the_field(gateway, session):
    for member, value in [("text", ""), ("options", ["a\nb"]), ("timeout_s", 0), ("key", "")]:
        body = {"text": "?", member: value}
        refused = gateway.http.post(f"v1/sessions/{session}/prompts", json=body)
        assert refused.status_code == 400 and refused.json()["field"] == member, refused.text
    missing = gateway.http.get(f"v1/prompts/prm_{session.replace('-', '')}_999999")
    assert (missing.status_code, missing.json()["code"]) == (404, "prompt_not_found")


def test_over_mcp_the_client_asks_its_user_or_answers_later(gateway, session):
    asked = []

    async def user(_, parameters):
        asked.append(parameters.message)
        return ElicitResult(action="accept", content={"value": "deny"})

    def prompts():
        """Asks as soon as the code runs, which ends after the answer."""
        running = f"v1/sessions/{session}/executions"
        eventually(
            lambda: any(one["status"] == "running" for one in gateway.http.get(running).json()["executions"]), "runs", 60
        )
        prompt = ask(gateway, session)
        eventually(lambda: gateway.http.get(f"v1/prompts/{prompt['id']}").json().get("answer"), "an answer", 60)
        go(gateway, session)

    async def elicited():
        async with agent(gateway, elicitation_callback=user) as client:
            helper = threading.Thread(target=prompts)
            helper.start()
            result = await client.call_tool("execute", {"session": session, "code": CODE})
            helper.join()
            assert "continued" in text(result)

    run(elicited)
    assert asked == [f"The code in session {session} asks: May it?"]
    gateway.http.delete(f"v1/sessions/{session}/files/go").raise_for_status()

    async def later():
        async with agent(gateway) as client:
            helper = threading.Thread(target=prompts)
            helper.start()
            waits = await client.call_tool("execute", {"session": session, "code": CODE})
            prompt = waits.structured_content["prompts"][0]
            assert prompt["id"] in text(waits) and "once | deny" in text(waits)
            done = await client.call_tool("execute", {"session": session, "code": "once", "input_for": prompt["id"]})
            helper.join()
            assert "continued" in text(done)

    run(later)
    listed = gateway.http.get(f"v1/sessions/{session}/prompts").json()["prompts"]
    assert [one["answer"] for one in listed] == ["deny", "once"]
