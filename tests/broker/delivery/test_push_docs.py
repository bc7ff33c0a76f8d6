"""The pages on webhooks, feeds and polling: their commands run, in order, against a real broker.

Commands stand in ``sh`` fences; a ``text`` fence that follows one is what it prints (``...`` stands for anything). The
ports that the pages name are replaced by free ones.
"""

from __future__ import annotations

import doctest
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
PAGES = ["webhooks", "websub-and-feeds", "poll-feeds"]
FENCE = re.compile(
    r"(?:<!-- file: (?P<file>\S+) -->\n)?^```(?P<language>\w+)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE
)
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def free_port() -> int:
    with socket.socket() as result:
        result.bind(("127.0.0.1", 0))
        return int(result.getsockname()[1])


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A broker, and what a shell has to know to use it; all that was started is ended."""
    port = free_port()
    path = os.pathsep.join([str(REPOSITORY / "python"), os.environ.get("PYTHONPATH", "")])
    existing = {**os.environ, "PYTHONPATH": path, "NO_PROXY": "*", "no_proxy": "*", "PORT": str(port)}
    command = [sys.executable, "-m", "twigcast", "serve", "--store", "store", "--port", str(port)]
    command += ["--token-file", "token", "--set", "allow_private_urls=true"]
    log = tmp_path / "log"
    with log.open("wb") as output:
        broker = subprocess.Popen(command, cwd=tmp_path, env=existing, stdout=output, stderr=output)
        try:
            _wait_for(broker, port, log)
            existing["TOKEN"] = (tmp_path / "token").read_text().strip()
            yield existing
        finally:
            broker.send_signal(signal.SIGTERM)
            broker.wait(20)


def _wait_for(broker: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and broker.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0 and "http://" in log.read_text():
                return
        time.sleep(0.05)
    raise AssertionError(log.read_text())


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_do_what_it_says(page: str, tmp_path: Path, environment: dict[str, str]) -> None:
    text = (REPOSITORY / "docs" / "how-to" / f"{page}.md").read_text(encoding="utf-8")
    for port in ("8080", "9000", "9001"):
        text = text.replace(port, environment["PORT"] if port == "8080" else str(free_port()))
    script = ["set -e", "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT"]
    expected: dict[int, str] = {}
    last = -1
    for fence in FENCE.finditer(text):
        if fence["file"]:
            (tmp_path / fence["file"]).write_text(fence["body"], encoding="utf-8")
        elif fence["language"] == "sh":
            last += 1
            script.append(f"{{ {fence['body']}\n}} > out{last}.txt")
        elif fence["language"] == "text":
            expected[last] = fence["body"]
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert expected
    for number, requested in expected.items():
        result = (tmp_path / f"out{number}.txt").read_text(encoding="utf-8")
        assert doctest.OutputChecker().check_output(requested, result, OPTIONS), (
            f"expected:\n{requested}\nfound:\n{result}"
        )
