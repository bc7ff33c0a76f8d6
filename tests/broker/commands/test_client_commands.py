"""``twigcast publish|subscribe|pull|tail|subscriptions|tenants``: real commands, and a real broker."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.broker.api.running import until
from tests.broker.commands.conftest import BrokerProcess, Shell

pytestmark = pytest.mark.slow

FLOOD = "<alert><event>Flood</event></alert>"
FIRE = "<alert><event>Fire</event></alert>"


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


# --- publish, subscribe, pull -----------------------------------------------------------------------------------------


def test_a_message_goes_from_publish_to_pull(user: Shell) -> None:
    assert user.out("subscribe", "floods", "//alert[event = 'Flood']") == "floods: active, subscriber floods\n"
    (user.folder / "flood.xml").write_text(FLOOD)
    shown = user.out("publish", "flood.xml")
    assert re.fullmatch(r"flood\.xml is message \d+: 1 match\n", shown)
    assert user.out("pull", "floods") == FLOOD + "\n"
    assert user.out("pull", "floods", status=4) == ""


def test_publishing_many(user: Shell) -> None:
    user.out("subscribe", "all", "//alert")
    feed = "<feed>" + "".join(f"<alert><id>a{n}</id><event>Flood</event></alert>" for n in range(1_200)) + "</feed>"
    (user.folder / "feed.xml").write_text(feed)
    arguments = ["publish", "--json", "--source", "weather", "--record", "alert", "--record-id", "id", "feed.xml"]
    first = rows(user.out(*arguments))
    assert [row["id"] for row in first] == [f"a{n}" for n in range(1_200)]
    assert {(row["matches"], row["duplicate"]) for row in first} == {(1, False)}
    again = rows(user.out(*arguments))
    assert [(row["seq"], row["duplicate"]) for row in again] == [(row["seq"], True) for row in first]
    pulled = rows(user.out("pull", "all", "--json"))
    assert [row["message"] for row in pulled] == [row["id"] for row in first]
    assert {row["source"] for row in pulled} == {"weather"}


def test_what_is_urgent_goes_first(user: Shell) -> None:
    declared = "--priority", "2", "--deadline", "1 h", "--overdue", "drop"
    user.out("subscribe", "desk", "//alert", "--shared", "--order", "urgency", *declared)
    (exported,) = rows(user.out("subscriptions", "export"))
    assert exported["urgency"] == {"priority": 2, "deadline": "1 h", "overdue": "drop"}
    assert exported["delivery"]["order"] == "urgency"
    user.out("publish", "-", stdin=FLOOD)
    user.out("publish", "--priority", "9", "--deadline", "5 min", "--documents", "-", stdin=FIRE * 2)
    got = rows(user.out("pull", "desk", "--json"))
    assert [(row["xml"], row["priority"]) for row in got] == [(FIRE, 9), (FIRE, 9), (FLOOD, None)]
    assert "--shared" in user.run("subscribe", "bad", "//alert", "--order", "urgency", status=2).stderr
    assert "deadline" in user.run("publish", "--deadline", "soon", "-", stdin=FLOOD, status=2).stderr


def test_documents_on_standard_input_and_a_rejected_one(user: Shell) -> None:
    user.out("subscribe", "all", "//alert")
    done = user.run("publish", "--documents", "-", status=3, stdin=f"{FLOOD}\n{FIRE}\n<alert>")
    assert done.stdout.count("1 match\n") == 2
    assert "rejected -#3: " in done.stderr
    assert user.out("pull", "all") == f"{FLOOD}\n{FIRE}\n"


def test_what_the_broker_rejects(user: Shell) -> None:
    (user.folder / "bad.xml").write_text("<a><b></a>")
    done = user.run("publish", "bad.xml", "--errors", "json", status=3)
    assert done.stdout == ""
    assert rows(done.stderr)[0]["line"] == 1
    (user.folder / "worse.xml").write_text("<a><c></a>")
    (user.folder / "good.xml").write_text("<a/>")
    done = user.run("publish", "bad.xml", "good.xml", "worse.xml", status=3)
    assert done.stdout.count("\n") == 1
    assert done.stderr.count("rejected") == 2
    huge = f"<a>{'x' * (40 << 20)}</a>"
    (user.folder / "huge.xml").write_text(huge)
    done = user.run("publish", "huge.xml", "good.xml", status=3)
    assert "rejected huge.xml" in done.stderr
    assert "good.xml is message" in done.stdout


def test_an_id_of_ones_own(user: Shell) -> None:
    (user.folder / "a.xml").write_text(FLOOD)
    assert rows(user.out("publish", "--id", "mine", "--json", "a.xml"))[0]["id"] == "mine"
    assert "is there already as message" in user.out("publish", "--id", "mine", "a.xml")
    (user.folder / "b.xml").write_text(FIRE)
    assert "another body under the id 'mine'" in user.run("publish", "--id", "mine", "b.xml", status=3).stderr
    assert "--record-id" in user.run("publish", "--id", "mine", "a.xml", "a.xml", status=2).stderr


def test_a_message_is_sent_while_the_next_one_is_awaited(user: Shell) -> None:
    user.out("subscribe", "all", "//alert")
    publishing = user.begin("publish", "--documents", "-")
    try:
        assert publishing.stdin is not None
        publishing.stdin.write(FLOOD + FIRE)
        publishing.stdin.flush()
        assert user.out("pull", "all", "--wait", "20", "--limit", "1") == FLOOD + "\n"
    finally:
        publishing.kill()
        publishing.communicate()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (
            "s.jsonl",
            '{"key": "a", "query": "//alert", "params": {}}\n'
            '{"key": "b", "query": "//p:x", "namespaces": {"p": "urn:p"}}\n',
        ),
        ("s.csv", "key,query,namespaces\na,//alert,\nb,//p:x,p=urn:p\n"),
        ("s.txt", "//alert\n//p:x\n"),
    ],
)
def test_a_file_of_subscriptions(operator: Shell, name: str, content: str) -> None:
    tenant = f"file {name}"
    operator.out("tenants", "add", tenant)
    token = operator.out("tenants", "tokens", "add", "all", "-s", "admin", "-t", tenant).strip()
    user = Shell(operator.folder, {**operator.environment, "TWIGCAST_TOKEN": token})
    (user.folder / name).write_text(content)
    extra = ["-n", "p=urn:p"] if name == "s.txt" else []
    assert user.out("subscribe", "-s", name, *extra, "--subscriber", "desk") == "2 added, 0 replaced, 0 refused\n"
    done = user.run("subscribe", "-s", name, *extra, "--subscriber", "desk", status=2)
    assert done.stdout == "0 added, 0 replaced, 2 refused\n"
    assert done.stderr.count("there is a subscription") == 2
    counts = rows(user.out("subscribe", "-s", name, *extra, "--replace", "--json"))[0]
    assert counts == {"lines": 2, "added": 0, "replaced": 2, "refused": 0}
    listed = rows(user.out("subscriptions", "list", "--json"))
    assert [row["subscriber"] for row in listed] == ["desk", "desk"]
    assert {"p": "urn:p"} in [row["namespaces"] for row in listed]


def test_nothing_is_sent_of_a_file_with_a_mistake(user: Shell) -> None:
    (user.folder / "s.jsonl").write_text('{"key": "a", "query": "//alert"}\n{"key": "b"}\n')
    assert "s.jsonl:2" in user.run("subscribe", "-s", "s.jsonl", status=2).stderr
    assert user.out("subscriptions", "list") == ""
    done = user.run("subscribe", "-s", "s.jsonl", "--on-bad-subscription", "skip")
    assert "left out: s.jsonl:2" in done.stderr
    assert done.stdout == "1 added, 0 replaced, 0 refused\n"


def test_all_options_of_a_subscription_arrive(user: Shell) -> None:
    (user.folder / "key").write_text("hush\n")
    added = rows(
        user.out(
            *("subscribe", "hook", "//p:alert[@n = $n][. = $t]", "-n", "p=urn:p", "--dialect", "doubles"),
            *("--param", "n:=5", "--param", "t=5", "--overflow", "drop_oldest"),
            *("--webhook", "http://127.0.0.1:9/in", "--secret-file", "key", "--json"),
        )
    )[0]
    expected = {
        "namespaces": {"p": "urn:p"},
        "dialect": "doubles",
        "params": {"n": 5, "t": "5"},
        "overflow": "drop_oldest",
        "kind": "webhook",
        "url": "http://127.0.0.1:9/in",
    }
    assert {name: added[name] for name in expected} == expected
    assert added["delivery"]["signed"] is True
    assert "hush" not in json.dumps(added)


def test_numbers_may_have_exponents(user: Shell) -> None:
    heavy, planet = "//planet[@mass > 1000000]", "<planet mass='5.97e24'/>"
    (user.folder / "s.jsonl").write_text(
        json.dumps({"key": "filed", "query": heavy, "numbers": "xs:double"})
        + "\n"
        + json.dumps({"key": "plain", "query": heavy})
        + "\n"
    )
    user.out("subscribe", "heavy", heavy, "--numbers", "xs:double")
    user.out("subscribe", "-s", "s.jsonl")
    dialects = {row["key"]: row["dialect"] for row in rows(user.out("subscriptions", "list", "--json"))}
    assert dialects == {"heavy": "doubles", "filed": "doubles", "plain": "xpath"}
    user.out("subscribe", "-s", "s.jsonl", "--replace", "--numbers", "xs:double")
    (user.folder / "a.xml").write_text(planet)
    assert rows(user.out("publish", "--json", "a.xml"))[0]["matches"] == 3
    wrong = user.run("subscribe", "x", heavy, "--numbers", "xs:double", "--dialect", "legacy", status=2)
    assert "numbers='xs:double' is for the dialect 'xpath'" in wrong.stderr


def test_a_subscription_that_begins_in_the_past(user: Shell) -> None:
    (user.folder / "a.xml").write_text(FLOOD)
    published = rows(user.out("publish", "--json", "a.xml"))[0]
    for key, start in (("c", "0"), ("i", published["id"]), ("t", "2020-01-01T00:00:00Z")):
        user.out("subscribe", key, "//alert", "--from", start)
        assert user.out("pull", key, "--wait", "20") == FLOOD + "\n"
    assert "write 2020-01-01Z" in user.run("subscribe", "x", "//alert", "--from", "2020-01-01", status=2).stderr


def test_pull_without_acknowledging_changes_nothing(user: Shell) -> None:
    user.out("subscribe", "all", "//alert")
    user.out("publish", "--documents", "-", stdin=FLOOD + FIRE)
    assert user.out("pull", "all", "--no-ack") == f"{FLOOD}\n{FIRE}\n"
    assert user.out("pull", "all", "--no-ack", "--limit", "1") == f"{FLOOD}\n"
    assert user.out("pull", "all", "--limit", "1") == f"{FLOOD}\n"
    assert user.out("pull", "all") == f"{FIRE}\n"


def test_pull_goes_on_while_it_follows(user: Shell) -> None:
    user.out("subscribe", "all", "//alert")
    pulling = user.begin("pull", "all", "--follow")
    try:
        assert pulling.stdout is not None
        for message in (FLOOD, FIRE):
            user.out("publish", "-", stdin=message)
            assert pulling.stdout.readline() == message + "\n"
        pulling.send_signal(signal.SIGINT)
        assert pulling.wait(timeout=20) == 130
    finally:
        pulling.kill()
        pulling.communicate()
    assert user.out("pull", "all", status=4) == ""


def test_a_reader_that_goes_away_leaves_the_rest(user: Shell) -> None:
    user.out("subscribe", "all", "//alert")
    user.out("publish", "--documents", "-", stdin=FLOOD * 90)
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m twigcast pull all | head -1; exit ${{PIPESTATUS[0]}}"],
        cwd=user.folder,
        env=user.variables(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == FLOOD + "\n", done.stderr
    assert "Traceback" not in done.stderr
    # What fitted into the pipe may count as printed; nothing behind it does.
    left = user.run("pull", "all", status=0 if done.returncode == 141 else 4)
    assert left.stdout.count("\n") <= 89


# --- tail -------------------------------------------------------------------------------------------------------------


def test_tail_survives_a_kill_of_the_broker(own_process: BrokerProcess, tmp_path: Path) -> None:
    token = own_process.token_file.read_text().strip()
    user = Shell(tmp_path, {"TWIGCAST_URL": own_process.url, "TWIGCAST_TOKEN": token})
    user.out("subscribe", "all", "//n")
    tailing = user.begin("tail", "all")
    try:
        assert tailing.stdout is not None
        for number in range(4):
            user.out("publish", "-", stdin=f"<n>{number}</n>")
            assert tailing.stdout.readline() == f"<n>{number}</n>\n"
            if number % 2:
                own_process.stop()
            else:
                own_process.kill()
            own_process.start()
        until(lambda: '"pending": 0,' in user.out("subscriptions", "show", "all", "--json"), 30)
        tailing.send_signal(signal.SIGINT)
        out, err = tailing.communicate(timeout=20)
        assert (tailing.returncode, out) == (130, "")
    finally:
        tailing.kill()
        tailing.communicate()
    assert err.count("connecting again") == 4, err
    assert user.out("pull", "all", status=4) == ""


def test_tail_without_acknowledging(user: Shell) -> None:
    user.out("subscribe", "all", "//alert")
    user.out("publish", "--documents", "-", stdin=FLOOD + FIRE)
    first = rows(user.out("tail", "all", "--no-ack", "--limit", "2", "--json"))
    assert [row["xml"] for row in first] == [FLOOD, FIRE]
    after = rows(user.out("tail", "all", "--last", first[0]["id"], "--limit", "1", "--json"))
    assert [row["id"] for row in after] == [first[1]["id"]]
    assert user.out("pull", "all", status=4) == ""


# --- subscriptions and tenants ----------------------------------------------------------------------------------------


def test_subscriptions_are_managed(user: Shell) -> None:
    user.out("subscribe", "a", "//alert")
    user.out("subscribe", "b", "//alert", "--overflow", "refuse", "--subscriber", "desk")
    table = user.out("subscriptions", "list")
    assert re.search(r"^b +active +desk +pull +refuse +//alert$", table, re.MULTILINE)
    assert user.out("subscriptions", "list", "--subscriber", "desk").count("\n") == 2
    assert user.out("subscriptions", "pause", "a", "b") == "a: paused\nb: paused\n"
    user.out("publish", "-", stdin=FLOOD)
    assert user.out("subscriptions", "resume", "a") == "a: active\n"
    assert "state  paused" in user.out("subscriptions", "show", "b")
    user.out("subscriptions", "seek", "a", "0")
    assert user.out("pull", "a", "--wait", "20") == FLOOD + "\n"
    user.out("subscriptions", "export", "-o", "all.jsonl")
    assert "twigcast subscriptions import" in user.complaint("subscribe", "-s", "all.jsonl")
    assert user.out("subscriptions", "delete", "a", "b") == "a: deleted\nb: deleted\n"
    assert user.out("subscriptions", "import", "all.jsonl") == "2 added, 0 replaced, 0 refused\n"
    restored = rows(user.out("subscriptions", "list", "--json"))
    assert [(row["key"], row["subscriber"], row["overflow"]) for row in restored] == [
        ("a", "a", "suspend"),
        ("b", "desk", "refuse"),
    ]
    assert "there is no subscription" in user.complaint("subscriptions", "delete", "nothing")


def test_tenants_and_tokens(operator: Shell) -> None:
    operator.out("tenants", "add", "press", "--limit", "subscriptions_max=1")
    assert re.search(r"^press +subscriptions_max=1$", operator.out("tenants", "list"), re.MULTILINE)
    assert "there is a tenant" in operator.complaint("tenants", "add", "press")
    secret = operator.out(
        "tenants", "tokens", "add", "feeds", "-s", "publish", "-s", "subscribe", "-t", "press"
    ).strip()
    press = Shell(operator.folder, {**operator.environment, "TWIGCAST_TOKEN": secret})
    press.out("subscribe", "a", "//a")
    assert "subscriptions_max = 1" in press.complaint("subscribe", "b", "//a")
    token = rows(operator.out("tenants", "tokens", "list", "-t", "press", "--json"))[0]
    assert (token["name"], token["scopes"]) == ("feeds", ["publish", "subscribe"])
    assert "does not permit this" in press.complaint("tenants", "list")
    operator.out("tenants", "tokens", "delete", str(token["id"]))
    assert "does not know the token in TWIGCAST_TOKEN" in press.complaint("pull", "a")
    assert "for good" in operator.run("tenants", "erase", "press", status=2).stderr
    assert operator.out("tenants", "erase", "press", "--yes").strip() == "press: erased"
    assert "press" not in operator.out("tenants", "list")


def test_the_clock_is_shown_and_confirmed(operator: Shell, user: Shell) -> None:
    assert rows(operator.out("tenants", "clock", "--json"))[0]["is_confirmed"] is True
    assert rows(operator.out("tenants", "clock", "--confirm", "--json"))[0]["is_confirmed"] is True


# --- errors and profiles ----------------------------------------------------------------------------------------------


class _NoBroker(BaseHTTPRequestHandler):
    """A web server that is no broker: finds nothing, or redirects, or shows a page."""

    def do_GET(self) -> None:
        if self.path.startswith("/moved"):
            self.send_response(301)
            self.send_header("Location", "https://example.org/")
            self.end_headers()
            return
        self.send_response(200 if self.path.startswith("/page") else 404)
        self.end_headers()
        self.wfile.write(b"<html>Hello</html>")

    def log_message(self, *_: object) -> None:
        """Stays silent."""


def test_errors_say_what_to_do(anybody: Shell, operator: Shell) -> None:
    assert "needs a token: give one by --token-file" in anybody.complaint("pull", "x")
    anybody.environment["TWIGCAST_TOKEN"] = "tc_wrong"
    assert "does not know the token in TWIGCAST_TOKEN" in anybody.complaint("pull", "x")
    (anybody.folder / "none").write_text("")
    assert "none: there is no token in it" in anybody.complaint("pull", "x", "--token-file", "none")
    assert "missing: the token cannot be read" in anybody.complaint("pull", "x", "--token-file", "missing")
    assert "there is no subscriber 'x'" in operator.complaint("pull", "x")
    operator.out("subscribe", "taken", "//a")
    assert "--replace puts this one in its place" in operator.complaint("subscribe", "taken", "//a")
    url = operator.environment["TWIGCAST_URL"]
    assert "http://" in operator.complaint("pull", "x", "--url", url.removeprefix("http://"))
    assert "seldom has a path" in operator.complaint("pull", "x", "--url", f"{url}/api")
    assert "is it http:// instead of https://" in operator.complaint("pull", "x", "--url", url.replace("http", "https"))
    assert "no host of the name" in operator.complaint("pull", "x", "--url", "http://no-such-host.invalid")
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    refused = operator.complaint("pull", "x", "--url", f"http://127.0.0.1:{port}")
    assert "nothing listens at" in refused
    assert "twigcast serve" in refused
    server = HTTPServer(("127.0.0.1", 0), _NoBroker)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        elsewhere = f"http://127.0.0.1:{server.server_port}"
        for path, what in (("", "404"), ("/page", "is no JSON"), ("/moved", "leads to https://example.org/")):
            shown = operator.complaint("pull", "x", "--url", elsewhere + path)
            assert "is no Twigcast broker" in shown
            assert what in shown
    finally:
        server.shutdown()
        server.server_close()


def test_consumers_are_looked_after(user: Shell) -> None:
    user.out("subscribe", "a", "//alert")
    user.out("subscribe", "b", "//none")
    user.out("publish", "--documents", "-", stdin=FLOOD * 3)
    table = user.out("consumers", "list")
    assert re.search(r"^a +pull +3 +[0-9]+ s +0 +0 +- +0 +-$", table, re.MULTILINE), table
    assert re.search(r"^b +pull +0 +- +0", table, re.MULTILINE), table
    assert user.out("consumers", "skip", "a", "--count", "2") == "a: 2 skipped\n"
    assert user.out("consumers", "redrive", "a") == "a: 2 redriven\n"
    assert user.out("consumers", "skip", "a", "--drop") == "a: 1 skipped\n"
    assert user.out("consumers", "purge", "a") == "a: 2 purged\n"
    rows = [json.loads(line) for line in user.out("consumers", "list", "--json").splitlines()]
    assert [(row["subscriber"], row["pending"]) for row in rows] == [("a", 0), ("b", 0)]
    # This list is a few seconds old.
    user.out("consumers", "list", "--behind", "--json")
    assert "there is no subscriber 'c'" in user.complaint("consumers", "purge", "c")


def test_a_certificate_that_is_not_trusted(operator: Shell, operator_broker: BrokerProcess) -> None:
    import ssl

    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost"),
        ],
        cwd=operator.folder,
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(operator.folder / "cert.pem", operator.folder / "key.pem")
    server = HTTPServer(("127.0.0.1", 0), _NoBroker)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"https://localhost:{server.server_port}"
        assert "name its authority with --ca FILE" in operator.complaint("pull", "x", "--url", url)
        assert "is no Twigcast broker" in operator.complaint("pull", "x", "--url", url, "--ca", "cert.pem")
        assert "authorities cannot be read" in operator.complaint("pull", "x", "--url", url, "--ca", "missing.pem")
    finally:
        server.shutdown()
        server.server_close()


def test_profiles(operator: Shell) -> None:
    url, token = operator.environment["TWIGCAST_URL"], operator.environment["TWIGCAST_TOKEN"]
    user = Shell(operator.folder)
    (user.profiles.parent / "token").write_text(token + "\n")
    user.profiles.write_text(
        f'[default]\nurl = "{url}"\ntoken = "{token}"\n\n[file]\nurl = "{url}"\ntoken_file = "token"\n\n'
        '[wrong]\nurl = "http://127.0.0.1:1"\ntoken = "tc_wrong"\n'
    )
    user.profiles.chmod(0o600)
    assert user.run("tenants", "list").stderr == ""
    user.out("tenants", "list", "--profile", "file")
    assert "127.0.0.1:1" in user.complaint("tenants", "list", "--profile", "wrong")
    assert "those that there are: default, file, wrong" in user.complaint("tenants", "list", "--profile", "none")
    # A token is not sent to an address that it does not belong to.
    assert "needs a token" in user.complaint("tenants", "list", "--profile", "wrong", "--url", url)
    user.environment = {"TWIGCAST_PROFILE": "wrong", "TWIGCAST_URL": url}
    assert "needs a token" in user.complaint("tenants", "list")
    user.environment["TWIGCAST_TOKEN"] = token
    user.out("tenants", "list")
    user.out("tenants", "list", "--profile", "file")
    user.environment = {}
    user.profiles.chmod(0o644)
    assert "chmod 600" in user.run("tenants", "list").stderr
    user.profiles.write_text('[default]\nurl = "http://127.0.0.1:1"\npassword = "x"\n')
    assert "'password' cannot be in a profile" in user.complaint("tenants", "list")
    user.profiles.write_text("[default\n")
    assert "it is no TOML" in user.complaint("tenants", "list")


def test_no_command_takes_a_token_on_the_command_line(anybody: Shell) -> None:
    for command in ("publish", "subscribe", "pull", "tail", "subscriptions list", "tenants list"):
        shown = anybody.out(*command.split(), "--help")
        assert "--token-file" in shown
        assert not re.search(r"--token\s", shown)


@pytest.mark.parametrize("days", ["99999999", "1e308", "0", "nan"])
def test_days_that_no_calendar_has_are_refused(tmp_path: Path, days: str) -> None:
    nobody = Shell(tmp_path, {"TWIGCAST_URL": "http://127.0.0.1:1", "TWIGCAST_TOKEN": "tc_x"})
    told = nobody.run("tenants", "tokens", "add", "feeder", "-s", "publish", "--days", days, status=2).stderr
    assert "--days" in told
    assert "Traceback" not in told
