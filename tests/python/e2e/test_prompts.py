"""Prompts: what a person is asked while code runs, `input()` too, over REST and MCP. Answered once, also across the end of a gateway."""

import json
import subprocess
import threading

import pytest
from agents import agent, run, text, whole
from mcp.types import ElicitResult
from servers import Himalia
from terminal import Terminal, command
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
    # The other one of the operator waited before it.
    assert of_session == [{name: value for name, value in prompt.items() if name != "turn"}] and prompt["turn"] == 1
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


def cli(gateway, *arguments, code=0, **more):
    """`himalia prompts`: what it prints."""
    done = subprocess.run(command(gateway, "prompts", *arguments), capture_output=True, text=True, timeout=60, **more)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout + done.stderr


def test_the_command_lists_shows_and_answers(gateway, session):
    assert cli(gateway) == cli(gateway, "ls") == "nothing waits for an answer\n"
    prompt = ask(gateway, session, text="May it?\nkind         approval\n" + "x" * 200)
    head, line = cli(gateway).splitlines()
    assert head.split() == ["ID", "KIND", "FROM", "ASKED", "BY", "AGE", "ANSWERS", "TEXT"]
    assert line.split()[:4] == [prompt["id"], "question", session[:8], "code"] and "once, deny" in line and "May it? kind" in line
    shown = cli(gateway, "show", prompt["id"]).splitlines()
    assert [one for one in shown if one.startswith("kind")] == ["kind         question"]
    assert shown[-3:] == ["  May it?", "  kind         approval", "  " + "x" * 200] and shown[-4] == "code asks:"
    assert json.loads(cli(gateway, "--json"))["prompts"] == [prompt]
    assert json.loads(cli(gateway, "show", prompt["id"], "--json")) == prompt
    assert "not one of once, deny" in cli(gateway, "answer", prompt["id"], "perhaps", code=1)
    assert cli(gateway, "answer", prompt["id"], "deny") == f"{prompt['id']} was answered by operator: deny\n"
    assert "the prompt has ended" in cli(gateway, "answer", prompt["id"], "once", code=1)
    assert "was answered by operator: deny" in cli(gateway, "answer", prompt["id"], code=1, input="once\n")
    assert cli(gateway) == "nothing waits for an answer\n"
    # In a pipe the answer is a line, and nothing is asked.
    piped = ask(gateway, session)["id"]
    assert "no answer was given" in cli(gateway, "answer", piped, code=1, stdin=subprocess.DEVNULL)
    assert cli(gateway, "answer", piped, input="once\nx\n") == f"{piped} was answered by operator: once\n"
    assert "prompt_not_found" in cli(gateway, "show", f"prm_{session.replace('-', '')}_999999", code=1)


def test_the_command_asks_on_a_terminal(gateway, session, tmp_path):
    prompt = ask(gateway, session)
    terminal = Terminal(command(gateway, "prompts", "answer", prompt["id"]), tmp_path)
    terminal.until("code asks:\r\n  May it?\r\n")
    assert terminal.until("Answer: ") == "\r\n  1. once\r\n  2. deny\r\n"
    terminal.type("perhaps\n")
    terminal.until("one of the options")
    terminal.until("Answer: ")
    terminal.type("2\n")
    assert terminal.end() == (0, f"2\r\n{prompt['id']} was answered by operator: deny\r\n")
    assert gateway.http.get(f"v1/prompts/{prompt['id']}").json()["answer"] == "deny"
    # The question ends when another person has answered, and leaves the prompt open without an answer.
    prompt = ask(gateway, session)
    terminal = Terminal(command(gateway, "prompts", "answer", prompt["id"]), tmp_path)
    terminal.until("Answer: ")
    assert answer(gateway, prompt, "once").status_code == 200
    code, rest = terminal.end()
    assert code == 1 and f"{prompt['id']} was answered by operator: once" in rest, rest
    prompt = ask(gateway, session)
    for key in ["\x03", "\x04"]:
        terminal = Terminal(command(gateway, "prompts", "answer", prompt["id"]), tmp_path)
        terminal.until("Answer: ")
        terminal.type(key)
        code, rest = terminal.end()
        assert code == 1 and "no answer was given; the prompt is still open" in rest, rest
    assert gateway.http.get(f"v1/prompts/{prompt['id']}").json()["state"] == "open"


def test_the_command_does_not_show_a_password(gateway, session, tmp_path):
    execution, prompt = start_input(gateway, session, "import getpass; print(len(getpass.getpass('Word? ')))")
    assert "a password" in cli(gateway, "ls")
    terminal = Terminal(command(gateway, "prompts", "answer", prompt["id"]), tmp_path)
    terminal.until("Answer: ")
    eventually(lambda: not terminal.shows_what_is_typed(), "what is typed is hidden")
    terminal.type("s3cret-word\n")
    assert terminal.end() == (0, f"\r\n{prompt['id']} was answered by operator\r\n")
    assert state(gateway, execution, wait_s=60)["text"] == "11\n"


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
            prompt = whole(waits)["prompts"][0]
            assert prompt["id"] in text(waits) and "once | deny" in text(waits)
            done = await client.call_tool("execute", {"session": session, "code": "once", "input_for": prompt["id"]})
            helper.join()
            assert "continued" in text(done)

    run(later)
    listed = gateway.http.get(f"v1/sessions/{session}/prompts").json()["prompts"]
    assert [one["answer"] for one in listed] == ["deny", "once"]
