"""The Dockerfile, the compose file and what they mount: as far as that can be checked without building them.

The workflow `check` builds the image, starts it, and runs hadolint.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from twigcast.broker.config import Settings

REPOSITORY = Path(__file__).resolve().parents[2]
DOCKERFILE = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = (REPOSITORY / "compose.yaml").read_text(encoding="utf-8")
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE)["services"]
LAST_STAGE = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]


def instructions(text: str, name: str) -> list[str]:
    joined = text.replace("\\\n", " ")
    return re.findall(rf"^{name} (.*)$", joined, re.MULTILINE)


def test_the_image_runs_as_a_user_of_its_own_and_tells_its_health() -> None:
    (user,) = instructions(LAST_STAGE, "USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user), "a number, so that a cluster can see that it is not root"
    assert instructions(LAST_STAGE, "HEALTHCHECK")
    assert "/ready" in LAST_STAGE
    assert not re.search(r"\bpip\b|\bcargo\b", LAST_STAGE), "the last stage installs nothing"


def test_the_image_holds_locked_packages() -> None:
    for line in instructions(DOCKERFILE, "RUN"):
        for command in re.split(r"&&", line):
            if "pip install" in command:
                assert "--require-hashes" in command or "--no-index" in command, command
    broker = (REPOSITORY / "requirements" / "broker.txt").read_text(encoding="utf-8")
    run = (REPOSITORY / "requirements" / "run.txt").read_text(encoding="utf-8")
    pinned = re.findall(r"^([\w.-]+==\S+)", broker, re.MULTILINE)
    assert "fastapi" in {one.partition("==")[0] for one in pinned}
    assert set(pinned) <= set(re.findall(r"^([\w.-]+==\S+)", run, re.MULTILINE)), "the versions that are tested"
    assert not {one.partition("==")[0] for one in pinned} & {"maturin", "pyspark"}


def test_base_images_are_named_with_their_versions() -> None:
    images = [*re.findall(r"^ARG \w+=(\S+)$", DOCKERFILE, re.MULTILINE)]
    images += [service["image"] for service in SERVICES.values() if "build" not in service]
    for image in set(images) - {"twigcast:local"}:
        assert re.search(r":v?\d", image), image


def test_the_context_holds_what_is_copied_and_little_else() -> None:
    allowed = re.findall(r"^!(.*)$", (REPOSITORY / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    assert all((REPOSITORY / name).exists() for name in allowed)
    for line in instructions(DOCKERFILE, "COPY"):
        source = line.split()[0]
        if not source.startswith("--from") and source != ".":
            assert source.partition("/")[0] in allowed, source
            assert (REPOSITORY / source).exists(), source
    for part in ("Cargo.lock", "LICENSE", "README.md", "pyproject.toml", "python", "crates"):
        assert part in allowed, f"the wheel needs {part}"


def test_settings_in_the_environment_are_settings() -> None:
    names = set(re.findall(r"TWIGCAST_(\w+)=", DOCKERFILE)) | {
        name.removeprefix("TWIGCAST_") for name in SERVICES["broker"]["environment"]
    }
    assert {"HOST", "STORE", "TRUSTED_HOSTS"} <= names
    assert {name.lower() for name in names} <= set(Settings.model_fields)


def test_services_are_confined_and_reached_from_this_machine_only() -> None:
    assert set(SERVICES) == {"broker", "feed", "grafana", "postgres", "prometheus"}
    for name, service in SERVICES.items():
        assert "no-new-privileges:true" in service["security_opt"], name
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name
        assert service.get("read_only") or name == "postgres", name
    variables = [item for service in SERVICES.values() for item in service.get("environment", {}).items()]
    secrets = [value for name, value in variables if "PASSWORD" in name or "@" in value]
    assert len(secrets) == 3
    assert all(re.search(r"\$\{\w+:\?", value) for value in secrets), "nobody starts it with a known password"


def test_what_is_mounted_is_there() -> None:
    mounted = {mount.split(":")[0] for service in SERVICES.values() for mount in service.get("volumes", [])}
    files = {mount for mount in mounted if mount.startswith("./")}
    assert len(files) >= 7
    assert all((REPOSITORY / file).exists() for file in files)
    assert mounted - files == set(yaml.safe_load(COMPOSE)["volumes"])


def test_prometheus_and_grafana_find_the_broker() -> None:
    scraped = yaml.safe_load((REPOSITORY / "ops" / "prometheus.yml").read_text(encoding="utf-8"))
    (job,) = scraped["scrape_configs"]
    assert job["job_name"] == "twigcast", "the rules ask for this name"
    assert job["static_configs"][0]["targets"] == ["broker:8080"]
    assert scraped["rule_files"][0] in {mount.split(":")[1] for mount in SERVICES["prometheus"]["volumes"]}
    source = yaml.safe_load((REPOSITORY / "ops" / "grafana" / "datasource.yml").read_text(encoding="utf-8"))
    assert source["datasources"][0]["type"] == "prometheus"
    dashboards = yaml.safe_load((REPOSITORY / "ops" / "grafana" / "dashboards.yml").read_text(encoding="utf-8"))
    folder = dashboards["providers"][0]["options"]["path"]
    assert any(mount.split(":")[1].startswith(folder) for mount in SERVICES["grafana"]["volumes"])
    json.loads((REPOSITORY / "ops" / "grafana-dashboard.json").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_the_demo_feed_subscribes_and_publishes(tmp_path: Path) -> None:
    binaries = Path(sys.executable).parent
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TWIGCAST_", "XDG_"))}
    environment = {**kept, "PATH": f"{binaries}{os.pathsep}{kept['PATH']}", "HOME": str(tmp_path), "PAUSE_SECONDS": "0"}
    token = tmp_path / "token"
    serve = ["twigcast", "serve", "--port", "0", "--token-file", str(token)]
    with subprocess.Popen(serve, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            environment |= {"TWIGCAST_URL": broker.stdout.readline().split()[3], "TOKEN_FILE": str(token)}
            feed = [
                "sh",
                str(REPOSITORY / "ops" / "demo-feed.sh"),
                str(REPOSITORY / "examples" / "feeds" / "alerts"),
                "1",
            ]
            # Twice, as when the container is started again.
            for _ in range(2):
                subprocess.run(feed, env=environment, check=True, timeout=120)
            environment["TWIGCAST_TOKEN"] = token.read_text().strip()
            pull = ["twigcast", "pull", "river-watch", "--json"]
            done = subprocess.run(pull, env=environment, check=True, timeout=60, capture_output=True, text=True)
        finally:
            broker.terminate()
    assert len(done.stdout.splitlines()) == 2 * 3, "three of the six messages are about floods"
