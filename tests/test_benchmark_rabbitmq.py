"""The benchmark beside RabbitMQ says why there are no figures where it cannot be had, and does not fail."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from benchmarks import broker, rabbitmq

pytestmark = pytest.mark.skipif(importlib.util.find_spec("pika") is None, reason="pika is not installed")


def server(folder: Path, text: str) -> Path:
    """A program in place of the server."""
    path = folder / "rabbitmq-server"
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="ascii")
    path.chmod(0o700)
    return path


def test_a_server_that_ends_is_told_with_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rabbitmq, "SERVER", server(tmp_path, "echo starting; echo 'no cookie today' >&2; exit 70"))
    (row,) = broker.measure_peers((1, 2), 10)
    assert row == {"what": "RabbitMQ did not start: it ended with status 70; its last words: no cookie today"}


def test_a_server_that_does_not_answer_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rabbitmq, "SERVER", server(tmp_path, "exec sleep 60"))
    monkeypatch.setattr(rabbitmq, "START_SECONDS_MAX", 1.0)
    (row,) = broker.measure_peers((1,), 10)
    assert row == {"what": "RabbitMQ did not start: it did not answer within 1 s"}


def test_a_machine_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rabbitmq, "SERVER", tmp_path / "nothing")
    assert broker.measure_peers((1,), 10) == [{"what": "RabbitMQ with lxml: rabbitmq-server is not installed"}]
