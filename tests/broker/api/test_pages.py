"""'Your first broker': every command of the page is run, in order, and prints what the page says."""

from __future__ import annotations

import doctest
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.test_docs import FENCE, OPTIONS, Command, commands

PAGE = Path("docs") / "tutorial" / "your-first-broker.md"


def is_shown(expected: str, result: str) -> bool:
    return doctest.OutputChecker().check_output(expected, result, OPTIONS)


def run(command: Command, folder: Path, environment: dict[str, str]) -> None:
    # curl shows progress where it writes to a file.
    text = command.text.replace("curl ", "curl -s ")
    done = subprocess.run(
        ["bash", "-c", text], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, timeout=30, check=False
    )
    assert is_shown(command.output, done.stdout + "\n"), f"$ {command.text}\n{command.output}\nfound:\n{done.stdout}"


@pytest.mark.slow
def test_your_first_broker(repository: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    page = (repository / PAGE).read_text(encoding="utf-8").replace(":8080", f":{port}")
    first, *others = [
        command
        for fence in FENCE.finditer(page)
        if fence["language"] == "console"
        for command in commands(fence["body"])
    ]
    assert first.text == "twigcast serve"
    assert len(others) >= 12
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TWIGCAST_")}
    environment["TWIGCAST_PORT"] = str(port)
    greeting = tmp_path / "greeting"
    with greeting.open("w") as out:
        broker = subprocess.Popen(
            [sys.executable, "-c", "from twigcast.cli import main; main()", "serve"],
            cwd=tmp_path,
            env=environment,
            stdout=out,
            stderr=subprocess.DEVNULL,
        )
    try:
        end = time.monotonic() + 20
        while not greeting.read_text().endswith("/me\n\n") and time.monotonic() < end:
            time.sleep(0.02)
        shown = greeting.read_text()
        assert is_shown(first.output, shown), shown
        token = re.search(r"export TOKEN=(\S+)", shown)
        assert token
        for command in others:
            run(command, tmp_path, {**environment, "TOKEN": token[1]})
    finally:
        broker.send_signal(signal.SIGTERM)
        broker.wait(timeout=15)
