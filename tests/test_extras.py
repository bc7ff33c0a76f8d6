"""Library and command line work without the optional packages, and say what is missing when it is needed."""

import subprocess
import sys
from pathlib import Path

import pytest

from twigcast.installing import install_line

# None in place of a module makes it look as if it were not installed.
BLOCK = """
import sys
sys.modules.update(dict.fromkeys(["lxml", "matplotlib", "numpy", "pandas", "pyarrow", "pyroaring", "pyspark",
    "fastapi", "httpx2", "orjson", "prometheus_client", "uvicorn", "uvloop"]))
"""


def run_without_extras(program: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", BLOCK + program], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_library_needs_no_extras(tmp_path: Path) -> None:
    program = """
from twigcast import SubscriptionSet
print(SubscriptionSet([("k", "//a[b = 1]")]).match("<a><b>1</b></a>").keys)
"""
    assert run_without_extras(program, tmp_path) == "['k']\n"


def test_the_command_line_needs_no_extras(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text('{"key": "k", "query": "/a"}\n')
    (tmp_path / "a.xml").write_text("<a/>")
    program = """
import sys
from twigcast.cli import main
sys.argv = ["twigcast", "match", "-s", "s.jsonl", "a.xml"]
main()
"""
    assert run_without_extras(program, tmp_path) == '{"message": "a.xml", "key": "k"}\n'


@pytest.mark.parametrize(
    ("statement", "extra"),
    [
        ("SubscriptionSet().match_batch(['<a/>'])", "arrow"),
        ("list(read_subscriptions('s.parquet'))", "arrow"),
        ("import twigcast.spark", "spark"),
        ("import twigcast.client", "broker"),
        ("broker_commands._run({}, None, None)", "broker"),
        ("read_dtd(b'<!ELEMENT a EMPTY>')", "lab"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, statement: str, extra: str) -> None:
    program = f"""
from twigcast import SubscriptionSet
from twigcast.broker import commands as broker_commands
from twigcast.errors import MissingExtra
from twigcast.schema import read_dtd
from twigcast.subscription_files import read_subscriptions
try:
    {statement}
except MissingExtra as error:
    print(error)
"""
    shown = run_without_extras(program, tmp_path)
    assert "this needs the package " in shown
    assert install_line(extra) in shown
