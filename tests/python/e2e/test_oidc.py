"""Sign-in of people with a real OpenID Connect provider: what signs in, what is refused, and what the log says of it."""

import json
import os
import socket
import subprocess
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import jwt
import pytest
from identity import CLIENT, SECRET, Provider
from postgres import Postgres
from replicas import Replica
from servers import Himalia
from waiting import eventually
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

GRANTS = """
[tenants.acme]
[tenants.other]
[[oidc.grants]]
value = "operators"
scope = "admin"
[[oidc.grants]]
value = "analysts"
tenant = "acme"
scope = "execute"
[[oidc.grants]]
value = "readers"
tenant = "acme"
scope = "read"
"""


def free_port():
    """A port that no process listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def settings(directory, provider, url, **more):
    """The options of a gateway that this provider's people sign in to; `url` is where browsers reach it."""
    secret = directory / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    table = {
        "issuer": provider.url,
        "name": "Example",
        "client_id": CLIENT,
        "client_secret_file": str(secret),
        "redirect_url": f"{url}viewer/oidc/callback",
        **more,
    }
    config = directory / "himalia.toml"
    config.write_text("[oidc]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items()) + GRANTS)
    return "--config", str(config)


class Known:
    """A gateway on a port that is known before its start."""

    def start(self):
        self.listen = self.address
        super().start()


class Gateway(Known, Himalia):
    """The only one."""

    def __init__(self, directory, provider, **more):
        directory.mkdir()
        self.address = f"127.0.0.1:{free_port()}"
        super().__init__(directory, *settings(directory, provider, f"http://{self.address}/", **more))


class KnownReplica(Known, Replica):
    """One of several."""


class Browser:
    """Cookies, and requests as a browser makes them."""

    def __init__(self, gateway):
        self.gateway = gateway
        self.http = httpx.Client(trust_env=False, timeout=60, headers={"Accept": "text/html,*/*"})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.http.close()

    def begin(self):
        """To the provider's page and back; the address that the browser is sent back to."""
        begun = self.http.get(self.gateway.url + "viewer/oidc")
        assert begun.status_code == 303, begun.text
        return self.http.get(begun.headers["location"]).headers["location"]

    def sign_in(self):
        """All of it; the last answer."""
        return self.http.get(self.begin())

    def me(self, gateway=None):
        """Whom a page of the gateway acts for, and the status."""
        answer = self.http.get((gateway or self.gateway).url + "api/me", headers={"Sec-Fetch-Site": "same-origin"})
        return answer.json()["identity"]["username"] if answer.status_code == 200 else answer.status_code

    def cookie(self):
        """The header that sends the cookie of the sign-in, as a socket needs it."""
        return "; ".join(f"{cookie.name}={cookie.value}" for cookie in self.http.cookies.jar if cookie.path == "/")


@pytest.fixture
def provider():
    """A provider of its own for each test."""
    started = Provider()
    yield started
    started.stop()


@pytest.fixture
def gateway(tmp_path, provider, kernel_python):
    """A gateway that knows it."""
    own = Gateway(tmp_path / "gateway", provider)
    yield own
    own.stop()


def audited(gateway):
    """The lines of the audit log in the gateway's log."""
    return [line for line in gateway.log.read_text().splitlines() if "himalia::audit" in line]


def test_a_person_signs_in_runs_code_and_signs_out(gateway, provider):
    assert httpx.get(gateway.url + "viewer/sign-in", trust_env=False).json() == {"oidc": {"name": "Example"}}
    with Browser(gateway) as browser:
        assert browser.me() == 401
        done = browser.sign_in()
        assert (done.status_code, done.headers["location"]) == (303, "/")
        cookies = done.headers.get_list("set-cookie")
        assert len(cookies) == 2 and all("HttpOnly" in cookie for cookie in cookies), cookies
        assert "Max-Age=0" in cookies[0] and "SameSite=Strict" in cookies[1], cookies
        assert browser.me() == "acme/ada"
        own = {"Origin": gateway.url.rstrip("/")}
        session = browser.http.post(gateway.url + "v1/sessions", json={}, headers=own).json()["id"]
        ran = browser.http.post(gateway.url + f"v1/sessions/{session}/executions", json={"code": "6 * 7"}, headers=own).json()
        assert (ran["status"], ran["caller"]) == ("ok", "acme/ada")
        # The cookie is for the gateway's own pages.
        foreign = {"Origin": "http://127.0.0.1:1"}
        assert browser.http.post(gateway.url + "v1/sessions", json={}, headers=foreign).status_code == 404
        assert browser.http.post(gateway.url + "v1/sessions", json={}).status_code == 403

        listed = gateway.http.get("v1/tokens").json()["tokens"]
        assert [(one["owner"], one["caller"], one["scope"], one["created_by"]) for one in listed] == [("acme", "ada", "execute", "oidc")]
        assert listed[0]["expires"] and "subject-1" in listed[0]["description"]
        assert browser.http.post(gateway.url + f"v1/sessions/{session}/executions", json={"code": "1"}, headers={**own, "Authorization": "token x"}).status_code == 401
        noted = [line for line in audited(gateway) if 'command="sign_in"' in line]
        assert len(noted) == 1 and 'principal="acme/ada"' in noted[0] and 'subject="subject-1"' in noted[0], noted
        assert f'credential="token:{listed[0]["id"]}"' in noted[0] and 'outcome="ok"' in noted[0], noted

        url = gateway.websocket_url(f"api/kernels/{session}/channels")
        with connect(url, proxy=None, origin=own["Origin"], additional_headers={"Cookie": browser.cookie()}) as open_socket:
            kept = browser.cookie()
            assert browser.http.post(gateway.url + "viewer/sign-out", headers=own).status_code == 204
            with pytest.raises(ConnectionClosed):
                while True:
                    open_socket.recv(timeout=60)
        assert browser.me() == 401
        assert httpx.get(gateway.url + "v1/sessions", headers={"Cookie": kept}, trust_env=False).status_code == 401
        gateway.delete_session(session)
    secrets_of_it = [SECRET, *(cookie.split("=", 1)[1].split(";")[0] for cookie in cookies if "Max-Age=0" not in cookie)]
    text = gateway.log.read_text()
    assert not any(secret in text for secret in secrets_of_it)


def test_groups_decide_what_a_person_may_do(gateway, provider):
    for groups, username, may_write, may_list in [
        (["x", "operators"], "operator/ada", 201, 200),
        ("readers", "acme/ada", 403, 403),
    ]:
        provider.claims["groups"] = groups
        with Browser(gateway) as browser:
            assert browser.sign_in().status_code == 303
            assert browser.me() == username
            own = {"Origin": gateway.url.rstrip("/")}
            made = browser.http.post(gateway.url + "v1/sessions", json={}, headers=own)
            assert made.status_code == may_write, made.text
            assert browser.http.get(gateway.url + "v1/tokens").status_code == may_list
            if made.status_code == 201:
                gateway.delete_session(made.json()["id"])
    provider.claims.update(groups=["strangers"], sub="subject-2")
    with Browser(gateway) as browser:
        refused = browser.sign_in()
        assert refused.status_code == 403 and "Ask the operator" in refused.text, refused.text
        assert refused.headers["content-type"].startswith("text/html") and browser.me() == 401
    assert 'subject="subject-2"' in gateway.log.read_text()
    # Names that cannot be those of callers stay apart.
    provider.claims.update(groups="readers", preferred_username="ada@example.org")
    with Browser(gateway) as browser:
        browser.sign_in()
        assert browser.me().startswith("acme/ada_example.org-")


@pytest.mark.parametrize("algorithm", ["ES256", "PS256", "EdDSA", "ES384"])
def test_other_signatures_are_accepted_when_they_are_allowed(tmp_path, kernel_python, algorithm):
    provider = Provider(algorithm)
    gateway = Gateway(tmp_path / "gateway", provider, algorithms=[algorithm])
    try:
        with Browser(gateway) as browser:
            assert browser.sign_in().status_code == 303
        provider.rotate("RS256")
        with Browser(gateway) as browser:
            assert browser.sign_in().status_code == 403
        assert "accepts " + algorithm in gateway.log.read_text()
    finally:
        gateway.stop()
        provider.stop()


def test_keys_are_read_again_when_they_change(gateway, provider):
    for _ in range(3):
        with Browser(gateway) as browser:
            assert browser.sign_in().status_code == 303
        with Browser(gateway) as browser:
            assert browser.sign_in().status_code == 303
        provider.rotate()
    assert provider.paths.count("/keys") == 3 and provider.paths.count("/.well-known/openid-configuration") == 1


def refused(gateway, provider, status, check):
    """A sign-in that is refused for this reason: with a page for the person, a check in the log, and no cookie."""
    before = len(gateway.log.read_text())
    with Browser(gateway) as browser:
        answer = browser.sign_in()
        assert answer.status_code == status, answer.text
        assert "Sign-in failed" in answer.text and "Sign in again" in answer.text or "Try again" in answer.text, answer.text
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert browser.cookie() == "" and browser.me() == 401
    line = next(line for line in gateway.log.read_text()[before:].splitlines() if "a sign-in failed" in line)
    assert f'check="{check}"' in line and answer.headers["x-request-id"] in line and answer.headers["x-request-id"] in answer.text
    noted = [line for line in gateway.log.read_text()[before:].splitlines() if 'command="sign_in"' in line]
    assert len(noted) == 1 and 'outcome="denied"' in noted[0], noted


def test_id_tokens_that_are_wrong_are_refused(gateway, provider):
    good = dict(provider.claims)
    for claims, check in [
        ({"nonce": "another"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"aud": "another client"}, "audience"),
        ({"aud": [CLIENT, "another"]}, "audience"),
        ({"iss": "http://127.0.0.1:1"}, "issuer"),
        ({"exp": 1_700_000_000}, "expiry"),
        ({"exp": None}, "expiry"),
        ({"iat": 4_000_000_000}, "expiry"),
        ({"sub": ""}, "subject"),
    ]:
        provider.claims = {**good, **claims}
        refused(gateway, provider, 403, check)
    provider.claims = good
    sign = provider.token
    claims_of = lambda token: jwt.decode(token, options={"verify_signature": False})
    other = Provider()
    provider.token = lambda nonce: jwt.encode(claims_of(sign(nonce)), other.private, "RS256", headers={"kid": provider.key_id})
    refused(gateway, provider, 403, "signature")
    other.stop()
    provider.token = lambda nonce: jwt.encode(claims_of(sign(nonce)), None, "none")
    refused(gateway, provider, 403, "algorithm")
    # The public key as the secret of an HMAC: the well-known confusion of the two.
    provider.token = lambda nonce: jwt.encode(claims_of(sign(nonce)), provider.keys[0]["n"], "HS256", headers={"kid": provider.key_id})
    refused(gateway, provider, 403, "algorithm")
    provider.token = lambda nonce: sign(nonce)[:-4] + "AAAA"
    refused(gateway, provider, 403, "signature")
    provider.token = lambda nonce: "no token"
    refused(gateway, provider, 403, "format")
    provider.token = sign
    provider.header = {"kid": "unknown"}
    refused(gateway, provider, 403, "key")
    provider.header = {}
    with Browser(gateway) as browser:
        assert browser.sign_in().status_code == 303


def test_answers_that_belong_to_no_sign_in_are_refused(gateway, provider):
    def check(answer):
        assert answer.status_code == 400 and "not started in this browser" in answer.text, answer.text

    with Browser(gateway) as browser, Browser(gateway) as other:
        back = browser.begin()
        query = {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()}
        callback = gateway.url + "viewer/oidc/callback?"
        # Another browser has no cookie, or one of its own sign-in.
        check(other.http.get(back))
        other.begin()
        check(other.http.get(back))
        flow = list(browser.http.cookies.jar)
        for change in [{"state": "x" * 43}, {"state": None}, {"iss": "http://127.0.0.1:1"}, {"iss": None}]:
            for cookie in flow:
                browser.http.cookies.jar.set_cookie(cookie)
            changed = {name: value for name, value in {**query, **change}.items() if value}
            check(browser.http.get(callback + urlencode(changed)))
        # The address again, after it was used: the cookie has gone, and with the cookie the code has.
        for cookie in flow:
            browser.http.cookies.jar.set_cookie(cookie)
        assert browser.http.get(back).status_code == 303 and browser.me() == "acme/ada"
        check(browser.http.get(back))
        for cookie in flow:
            browser.http.cookies.jar.set_cookie(cookie)
        replayed = browser.http.get(back)
        assert replayed.status_code == 403 and "did not confirm" in replayed.text, replayed.text
        # For a program it is JSON.
        problem = httpx.get(back, trust_env=False)
        assert (problem.status_code, problem.json()["code"]) == (400, "sign_in_state"), problem.text
        # A cookie that was not sealed here.
        name = next(cookie.name for cookie in flow)
        forged = httpx.get(back, headers={"Cookie": f"{name}={'A' * 300}", "Accept": "text/html"}, trust_env=False)
        check(forged)


def test_a_provider_that_refuses_or_is_down_is_told_apart(gateway, provider):
    provider.refusal = "access_denied"
    refused(gateway, provider, 403, "provider_refused")
    provider.refusal = None
    for answer, status, check in [
        ((500, {}), 503, "provider_unreachable"),
        ((200, b"<html>"), 502, "provider_answer"),
        ((200, {"access_token": "x"}), 502, "provider_answer"),
        ((200, b"[" * 300_000), 502, "provider_answer"),
    ]:
        provider.answer = answer
        refused(gateway, provider, status, check)
    provider.answer = None
    with Browser(gateway) as browser:
        back = browser.begin()
        provider.stop()
        answer = browser.http.get(back)
        assert answer.status_code == 503 and "cannot be reached" in answer.text and answer.headers["retry-after"], answer.text
    assert 'check="provider_unreachable"' in gateway.log.read_text()
    # The token of the operator does not need it.
    assert gateway.http.get("api/me").status_code == 200


def test_a_provider_that_is_down_or_another_one_at_the_start_is_said(tmp_path, provider, kernel_python):
    provider.metadata = {"issuer": "http://127.0.0.1:1"}
    gateway = Gateway(tmp_path / "gateway", provider)
    try:
        with Browser(gateway) as browser:
            answer = browser.http.get(gateway.url + "viewer/oidc")
            assert answer.status_code == 502 and "tell the operator" in answer.text, answer.text
            assert "in the settings of this gateway" in gateway.log.read_text()
            provider.metadata = {}
            assert browser.sign_in().status_code == 303, "a failure is not kept"
    finally:
        gateway.stop()


def test_a_sign_in_ends_by_revocation_and_by_too_many(tmp_path, provider, kernel_python):
    gateway = Gateway(tmp_path / "gateway", provider, lifetime="1h")
    try:
        browsers = [Browser(gateway) for _ in range(11)]
        for browser in browsers:
            assert browser.sign_in().status_code == 303
        assert [browser.me() for browser in browsers] == [401] + ["acme/ada"] * 10
        listed = gateway.http.get("v1/tokens").json()["tokens"]
        assert len(listed) == 10 and all(one["expires"] for one in listed)
        command = [os.environ["HIMALIA_BIN"], "token", "revoke", listed[0]["id"], "--url", gateway.url, "--token-file", str(gateway.token_file)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        assert [browser.me() for browser in browsers[:3]] == [401, 401, "acme/ada"]
        # It outlives the gateway's process.
        gateway.kill()
        gateway.start()
        assert browsers[2].me() == "acme/ada"
    finally:
        for browser in browsers:
            browser.http.close()
        gateway.stop()


def test_any_replica_finishes_a_sign_in_that_another_one_began(tmp_path, provider, kernel_python):
    postgres = Postgres()
    url = postgres.database()
    balancer = f"http://127.0.0.1:{free_port()}/"
    key = tmp_path / "cookie-key"
    key.write_text("c0ffee" * 12)
    key.chmod(0o600)
    gateways = []
    try:
        for name in ("r0", "r1"):
            directory = tmp_path / name
            directory.mkdir()
            options = settings(directory, provider, balancer, cookie_key_file=str(key))
            replica = KnownReplica.__new__(KnownReplica)
            replica.address = f"127.0.0.1:{free_port()}"
            replica.__init__(directory, url, name, *options)
            gateways.append(replica)
        first, second = gateways
        host = urlsplit(balancer).netloc
        with httpx.Client(trust_env=False, timeout=60, headers={"Host": host, "Accept": "text/html"}) as http:
            begun = http.get(first.url + "viewer/oidc")
            flow = begun.headers["set-cookie"].split(";")[0]
            back = httpx.get(begun.headers["location"], trust_env=False).headers["location"]
            done = http.get(second.url + back.removeprefix(balancer), headers={"Cookie": flow})
            assert done.status_code == 303, done.text
            cookie = done.headers.get_list("set-cookie")[1].split(";")[0]
            # At once, at the replica that did not make it.
            at = [http.get(gateway.url + "api/me", headers={"Cookie": cookie}).status_code for gateway in (first, second)]
            assert at == [200, 200]
            origin = f"http://{host}"
            assert http.post(first.url + "viewer/sign-out", headers={"Cookie": cookie, "Origin": origin}).status_code == 204
            gone = lambda gateway: http.get(gateway.url + "api/me", headers={"Cookie": cookie}).status_code == 401
            assert gone(first)
            eventually(lambda: gone(second), lambda: "the other replica still knows the sign-in", 30)
    finally:
        for gateway in gateways:
            gateway.stop()
        postgres.stop()


def test_settings_that_cannot_be_used_are_named(tmp_path, provider):
    for more, said in [
        ({"issuer": "http://id.example"}, "oidc.issuer"),
        ({"redirect_url": "http://gw.example/viewer/oidc/callback"}, "oidc.redirect_url"),
        ({"algorithms": ["none"]}, "oidc.algorithms"),
        ({"client_secret_file": str(tmp_path / "absent")}, "oidc.client_secret_file"),
    ]:
        options = settings(tmp_path, provider, "http://127.0.0.1:1/", **more)
        command = [os.environ["HIMALIA_BIN"], "serve", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data"), *options]
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode != 0 and said in ended.stderr, ended.stderr
        assert SECRET not in ended.stderr
