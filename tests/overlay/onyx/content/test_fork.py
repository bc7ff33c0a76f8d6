"""A process may fork while its threads use a routing index: the child does not wait for a thread that it lacks."""

from __future__ import annotations

import multiprocessing
import os
import threading

import pytest

from twigcast._core import ConjunctionIndex, LabelRequest


def _in_child(index: ConjunctionIndex) -> None:
    added = index.add([("/child", {})], [7])
    assert index.route(b"<child/>", LabelRequest([(7, 0)])) == 1
    assert index.remove(added)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_works_while_threads_change_and_ask_an_index() -> None:
    index = ConjunctionIndex()
    for number in range(300):
        index.add([(f"/steady/v{number}[@n = '{number}']", {})], [number])
    is_over = threading.Event()

    def change() -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            index.remove(index.add([(f"//m{number % 97}[@n = {number}]", {})], [number % 50]))

    def ask() -> None:
        request = LabelRequest([(number, number) for number in range(50)])
        while not is_over.is_set():
            index.route(b"<steady>" + b"<v3 n='3'/>" * 300 + b"</steady>", request)

    threads = [threading.Thread(target=work) for work in (change, change, ask, ask)]
    for thread in threads:
        thread.start()
    forking = multiprocessing.get_context("fork")
    try:
        for _ in range(40):
            child = forking.Process(target=_in_child, args=[index])
            child.start()
            child.join(30)
            is_stuck = child.is_alive()
            if is_stuck:
                child.kill()
                child.join()
            assert not is_stuck, "the child waits for a thread that it does not have"
            assert child.exitcode == 0
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
