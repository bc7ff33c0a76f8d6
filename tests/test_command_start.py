"""The command line starts without what a command does not use, and completes what one begins to type."""

import os
import subprocess
import sys

import pytest
import typer

from twigcast.cli import app
from twigcast.cli.lazy import LazyGroup


def modules_after(*arguments: str) -> set[str]:
    """The modules that a command has imported when it is done."""
    code = f"import sys\nfrom twigcast.cli import app\ntry: app({list(arguments)!r})\nexcept SystemExit: pass\n"
    code += "print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["match", "--help"], ["check", "/a"]])
def test_commands_import_neither_broker_nor_lab(arguments: list[str]) -> None:
    modules = modules_after(*arguments)
    assert "twigcast.cli.match" in modules
    heavy = (
        "twigcast.broker",
        "twigcast.lab",
        "twigcast.overlay",
        "twigcast.spark",
        "pyarrow",
        "numpy",
        "lxml",
        "rich",
    )
    assert not {module for module in modules if module.startswith(heavy)}


def test_the_package_imports_little() -> None:
    code = "import sys, twigcast; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    heavy = {
        "pyarrow",
        "numpy",
        "pandas",
        "lxml",
        "asyncio",
        "typer",
        "subprocess",
        "email",
        "http",
        "rich",
        "tempfile",
    }
    assert not heavy & set(done.stdout.split())


def test_summaries_of_lazy_commands_are_those_of_their_help() -> None:
    group = typer.main.get_command(app)
    assert LazyGroup.lazy
    for name, lazy in LazyGroup.lazy.items():
        command = group.get_command(None, name)  # type: ignore[attr-defined]
        assert command.get_short_help_str(limit=200) == lazy.summary, name
        assert command.name == name


def completed(shell: str, **environment: str) -> str:
    variables = {**os.environ, "_TWIGCAST_COMPLETE": f"complete_{shell}", **environment}
    command = [sys.executable, "-c", "from twigcast.cli import main; main()"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def test_every_shell_completes_commands_and_options() -> None:
    assert completed("bash", COMP_WORDS="twigcast ma", COMP_CWORD="1").split() == ["match"]
    assert completed("bash", COMP_WORDS="twigcast admin tok", COMP_CWORD="2").split() == ["token"]
    assert completed("bash", COMP_WORDS="twigcast subscriptions pa", COMP_CWORD="2").split() == ["pause"]
    assert completed("bash", COMP_WORDS="twigcast tenants tokens a", COMP_CWORD="3").split() == ["add"]
    assert "--record" in completed("zsh", _TYPER_COMPLETE_ARGS="twigcast match --re")
    fish = {"_TYPER_COMPLETE_FISH_ACTION": "get-args", "_TYPER_COMPLETE_ARGS": "twigcast check --dialect x"}
    assert completed("fish", **fish).split() == ["xpath", "xquery"]


def test_what_a_shell_offers_has_one_line_each() -> None:
    """fish takes each line for something to offer, however long the help of an option is."""
    fish = {"_TYPER_COMPLETE_FISH_ACTION": "get-args", "_TYPER_COMPLETE_ARGS": "twigcast match --", "COLUMNS": "40"}
    offered = completed("fish", **fish).splitlines()
    assert len(offered) > 10
    assert not [line for line in offered if not line.startswith("--")]
    assert any(len(line) > 100 for line in offered), "some help has more than one line of a terminal"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(shell: str) -> None:
    variables = {**os.environ, "_TWIGCAST_COMPLETE": f"source_{shell}"}
    command = [sys.executable, "-c", "from twigcast.cli import main; main()"]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=True)
    assert "_TWIGCAST_COMPLETE" in done.stdout
