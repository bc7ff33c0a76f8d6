"""The pages about overlays: all their commands are run in one shell, in order, and print what the pages say."""

from __future__ import annotations

import doctest
import os
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.overlay.onyx.network.processes import free_ports
from tests.test_docs import FENCE, OPTIONS, Command, commands

pytestmark = pytest.mark.slow

END = "--- the command has ended ---"


class Shell:
    """One shell that stays, as that of a reader does.

    Args:
        folder: Where it begins.
    """

    def __init__(self, folder: Path) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TWIGCAST_")}
        program = folder / "bin" / "twigcast"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from twigcast.cli import main; main()" "$@"\n')
        program.chmod(0o755)
        environment["PATH"] = f"{program.parent}{os.pathsep}{environment['PATH']}"
        self._process = subprocess.Popen(
            ["bash", "-m"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def run(self, command: str, seconds: float = 60.0) -> str:
        """What a command prints."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\necho; echo '{END}'\n".encode())
        self._process.stdin.flush()
        result, deadline = b"", time.monotonic() + seconds
        while not result.rstrip().endswith(END.encode()):
            assert time.monotonic() < deadline, f"$ {command}\ndoes not end; found:\n{result.decode()}"
            if select.select([self._process.stdout], [], [], 0.2)[0]:
                result += os.read(self._process.stdout.fileno(), 65_536)
        return result.decode().rstrip().removesuffix(END)

    def close(self) -> None:
        """End it with all that it has started."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._process.stdin as stdin:
            stdin.write(b"kill -9 $(jobs -p)\nexit\n")
        self._process.wait(20)
        self._process.stdout.close()


def shown(repository: Path, page: str, ports: tuple[int, ...]) -> list[Command]:
    """The commands of a page, with ports that are free here."""
    text = (repository / "docs" / page).read_text(encoding="utf-8")
    for port, free in zip(ports, free_ports(len(ports)), strict=True):
        text = re.sub(rf"\b{port}\b", str(free), text)
    fences = [fence for fence in FENCE.finditer(text) if fence["language"] == "console"]
    return [command for fence in fences for command in commands(fence["body"])]


@pytest.mark.parametrize(
    ("page", "ports", "least"),
    [
        ("tutorial/three-brokers-one-feed.md", (8081, 8082, 8083, 7401, 7402, 7403), 15),
        ("how-to/run-an-overlay.md", (8081, 8082, 7401), 7),
    ],
)
def test_the_page_is_right(repository: Path, tmp_path: Path, page: str, ports: tuple[int, ...], least: int) -> None:
    if shutil.which("openssl") is None and "openssl" in (repository / "docs" / page).read_text(encoding="utf-8"):
        pytest.skip("there is no program openssl, with which the page makes certificates")
    results = shown(repository, page, ports)
    assert len(results) >= least
    shell = Shell(tmp_path)
    try:
        for command in results:
            output = shell.run(command.text)
            is_shown = doctest.OutputChecker().check_output(command.output + "\n", output, OPTIONS)
            logs = "".join(path.read_text()[-800:] for path in tmp_path.glob("*.log"))
            assert is_shown, f"$ {command.text}\n{command.output}\nfound:\n{output}\n{logs}"
    finally:
        shell.close()
