"""The API does what its description says: requests made from docs/openapi.json, good ones and bad ones.

A gateway of its own, of few kernels, so that not every session that is asked for is started. The requests are the same in each run. With
HIMALIA_OPENAPI_EXAMPLES there are more of each operation (`make test-openapi`), and more chains of requests that use earlier answers.
"""

import json
import os
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.errors import FlakyStrategyDefinition
from hypothesis.stateful import run_state_machine_as_test
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)
from servers import Himalia

DESCRIPTION = Path(__file__).resolve().parents[3] / "docs" / "openapi.json"
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
EXAMPLES = int(os.environ.get("HIMALIA_OPENAPI_EXAMPLES") or 25)
# Chains of requests that one seed makes.
CHAINS = 5
CONFIG = SchemathesisConfig.from_dict(
    {
        "seed": 1,
        "request-timeout": 60,
        "generation": {"deterministic": True, "max-examples": EXAMPLES, "database": "none"},
        "suppress-health-check": ["all"],
    }
)
# Their answers have no end.
ENDLESS = ["/v1/sessions/{session_id}/events", "/v1/sessions/{session_id}/executions/events"]
# These make or end the session that they name.
OWN_NAMES = {("PUT", "/v1/sessions/{session_id}"), ("DELETE", "/v1/sessions/{session_id}")}

description = schemathesis.openapi.from_path(DESCRIPTION, config=CONFIG).exclude(path=ENDLESS)


@schemathesis.serializer("application/x-tar")
def archive(context, value):
    """Whatever it is, as bytes."""
    return {"data": value if isinstance(value, bytes) else json.dumps(value).encode()}


class DescribedGateway:
    """A gateway with a session that has one of everything."""

    def __init__(self, directory):
        directory.mkdir()
        config = directory / "himalia.toml"
        config.write_text("max_kernels = 3\n")
        # Kernels begin at home, and some of the requests write and remove files there.
        home = directory / "home"
        home.mkdir()
        data = os.environ.get("XDG_DATA_HOME", str(Path.home() / ".local" / "share"))
        env = {"HOME": str(home), "XDG_DATA_HOME": data}
        self.server = Himalia(directory / "gateway", "--config", str(config), env=env)
        http = self.server.http
        session = http.put("v1/sessions/probe", json={})
        assert session.status_code == 201, session.text
        done = http.post("v1/sessions/probe/executions", json={"code": "x = 1\nprint('text')\nx"})
        assert done.json()["status"] == "ok", done.text
        assert http.put("v1/sessions/probe/files/a.txt", content=b"text").status_code == 201
        self.ids = {"session_id": "probe", "execution_id": done.json()["id"], "name": "x", "path": "a.txt"}
        self.headers = {"Authorization": f"token {self.server.token}"}

    def aim(self, case):
        """Let a case that is good as far as it goes be about what there is."""
        if (case.method, case.path) not in OWN_NAMES and not negative(case, ParameterLocation.PATH):
            for name in case.path_parameters or ():
                case.path_parameters[name] = self.ids.get(name, case.path_parameters[name])
        if not negative(case, ParameterLocation.BODY) and isinstance(case.body, dict) and "code" in case.body:
            case.body["code"] = "print('text')"
            if case.body.get("language") is not None:
                case.body |= {"language": "bash", "code": "echo text"}


def negative(case, location):
    """Whether this part of a case was made to be refused."""
    return case.meta is not None and case.meta.is_negative_at(location)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory, kernel_python):
    """The gateway."""
    made = DescribedGateway(tmp_path_factory.mktemp("openapi") / "work")
    yield made
    made.server.stop()


def checks_of(case):
    """The checks of an answer: null is a text like any other in an address, and a stream's schema describes the data of an event, not its frame."""
    null = any(value in (None, "null") for value in (case.query or {}).values())
    left_out = [negative_data_rejection] if null else []
    if case.path.endswith("/events"):
        left_out.append(response_schema_conformance)
    return [check for check in CHECKS if check not in left_out]


@description.parametrize()
def test_answers_are_as_described(case, gateway):
    gateway.aim(case)
    case.call_and_validate(base_url=gateway.server.url, headers=gateway.headers, checks=checks_of(case))


@pytest.mark.timeout(40 * EXAMPLES)
def test_answers_to_requests_that_use_earlier_answers_are_as_described(gateway):
    """Chains: ids in an answer are parameters of the next request."""
    found = []

    class Chains(description.as_state_machine()):
        def before_call(self, case):
            # Without this, a chain would wait for code that never ends.
            if isinstance(case.body, dict) and "code" in case.body and not negative(case, ParameterLocation.BODY):
                case.body |= {"language": None, "code": "print('text')"}

        def get_call_kwargs(self, case):
            return {"base_url": gateway.server.url, "headers": gateway.headers}

        def validate_response(self, response, case, additional_checks=(), **kwargs):
            try:
                case.validate_response(response, checks=checks_of(case))
            except Exception as failure:
                found.append(failure)
                raise

    few = settings(max_examples=CHAINS, stateful_step_count=8, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    for number in range(EXAMPLES // CHAINS):
        # The gateway keeps what earlier chains made, so a chain that is tried again may have other answers.
        with suppress(FlakyStrategyDefinition):
            run_state_machine_as_test(seed(number)(Chains), settings=few)
    assert not found, found


def test_the_description_is_served_as_it_is_committed(gateway):
    served = gateway.server.http.get("v1/openapi.json")
    assert served.status_code == 200 and served.json() == json.loads(DESCRIPTION.read_text())
    assert httpx.get(f"{gateway.server.url}v1/openapi.json", trust_env=False).status_code == 401
