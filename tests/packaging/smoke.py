"""Tries an installed Twigcast: smoke.py [EXTRA]. Run by check.py with the Python of an environment of its own.

It imports nothing of this repository, and needs nothing but what the extra installs.
"""

import importlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import twigcast
from twigcast import SubscriptionSet
from twigcast.errors import MissingExtra

MESSAGE = "<alert><event>Flood</event><area>Lower town</area></alert>"
QUERIES = {
    "floods": "/alert[event = 'Flood']",
    "words": '//area contains text "lower"',
    "areas": "for $a in /alert return <where>{ $a/area/text() }</where>",
}
COMMAND = [str(Path(sys.executable).with_name("twigcast"))]


def run(*arguments: str) -> str:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{arguments}: {done.stderr}"
    return done.stdout


def the_library() -> None:
    subscriptions = SubscriptionSet(QUERIES)
    assert subscriptions.match(MESSAGE).keys == ["floods", "words", "areas"]
    assert subscriptions.deliver(MESSAGE)[2].payload == b"<where>Lower town</where>"
    # Long enough for the kernels that handle many bytes at a time.
    long = f"<r>{MESSAGE * 2000}</r>"
    assert len(SubscriptionSet({"all": "//alert[event = 'Flood']"}).nodes(long, "all")) == 2000


def the_command_line() -> None:
    assert run("--version").strip() == f"twigcast {twigcast.__version__}"
    Path("alert.xml").write_text(MESSAGE)
    Path("s.jsonl").write_text('{"key": "floods", "query": "/alert[event = \'Flood\']"}\n')
    assert run("match", "-s", "s.jsonl", "alert.xml") == '{"message": "alert.xml", "key": "floods"}\n'


def what_is_missing_is_named() -> None:
    said = ""
    try:
        importlib.import_module("twigcast.client")
    except MissingExtra as error:
        said = str(error)
    assert "pip install" in said, said
    assert "[broker]" in said, said


def arrow() -> None:
    assert SubscriptionSet(QUERIES).match_batch([MESSAGE]).column("keys").to_pylist() == [["floods", "words", "areas"]]


def spark() -> None:
    if not shutil.which("java") and "JAVA_HOME" not in os.environ:
        print("spark: NOT TRIED: there is no Java")
        return
    the_command_line()
    shown = run("pipeline", "--messages", "alert.xml", "--subscriptions", "s.jsonl", "--output", "out")
    assert "matches        1" in shown, shown


def broker() -> None:
    token = Path("token")
    command = [*COMMAND, "serve", "--port", "0", "--token-file", str(token)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[3]
        with urllib.request.urlopen(f"{url}/ready", timeout=20) as answer:
            assert answer.status == 200
        at = ["--url", url, "--token-file", str(token)]
        run("subscribe", "floods", QUERIES["floods"], *at)
        assert "1 match" in run("publish", "alert.xml", *at)
        assert "Lower town" in run("pull", "floods", *at)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def overlay() -> None:
    importlib.import_module("twigcast.overlay.codd.engine")
    importlib.import_module("twigcast.peers.driver")


def xquery() -> None:
    sums = SubscriptionSet({"sum": "for $a in /alert order by $a/event return upper-case($a/area)"}, dialect="xquery")
    assert sums.deliver(MESSAGE)[0].payload == b"LOWER TOWN"


def lab() -> None:
    from twigcast.schema import read_dtd

    assert "alert" in read_dtd(b"<!ELEMENT alert EMPTY>").elements


TRIALS = {"arrow": arrow, "broker": broker, "lab": lab, "overlay": overlay, "spark": spark, "xquery": xquery}


def main() -> None:
    extra = sys.argv[1] if len(sys.argv) > 1 else ""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        the_library()
        if extra == "library":
            # As much as an emulated processor does in a reasonable time.
            return
        the_command_line()
        if extra:
            TRIALS[extra]()
        else:
            what_is_missing_is_named()
        os.chdir("/")
    print(f"{extra or 'no extra'}: works, Python {sys.version.split()[0]}")


main()
