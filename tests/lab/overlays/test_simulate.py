"""The simulations of the command line: measures, drawings, determinism, refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import get_type_hints

import pytest
from lxml import etree
from typer.testing import CliRunner

from twigcast.cli import app
from twigcast.lab.overlays.chord.simulate import simulate as simulate_chord
from twigcast.lab.overlays.codd.simulate import simulate as simulate_codd
from twigcast.lab.overlays.counters import gini, shares, top_share
from twigcast.lab.overlays.draw import draw_load, draw_ring, draw_tree
from twigcast.lab.overlays.onyx.simulate import simulate as simulate_onyx
from twigcast.lab.overlays.options import PROTOCOLS, ChordOptions, CoddOptions, OnyxOptions
from twigcast.lab.overlays.simulations import Report
from twigcast.overlay.errors import ImpossibleSetting

SVG = "{http://www.w3.org/2000/svg}"


def nodes_in(drawing: str) -> int:
    (group,) = etree.fromstring(drawing.encode()).findall(f".//{SVG}g[@id='nodes']")
    return len(group.findall(f".//{SVG}use"))


def test_chord_simulation_finds_what_it_should() -> None:
    report = simulate_chord(ChordOptions(nodes=20, queries=60, publications=5, seed=3))
    again = simulate_chord(ChordOptions(nodes=20, queries=60, publications=5, seed=3))
    varying = {"events a second of processor time", "kB of memory a node", "seconds"}
    assert {k: v for k, v in report.measures.items() if k not in varying} == {
        k: v for k, v in again.measures.items() if k not in varying
    }
    assert report.measures["subscriptions confirmed"] == 60
    assert report.measures["ring"] == "whole"
    assert report.drawings == again.drawings
    assert nodes_in(report.drawings["ring.svg"]) == 20


@pytest.mark.parametrize("name", PROTOCOLS)
def test_each_protocol_has_a_simulation_for_its_options(name: str) -> None:
    simulation = import_module(f"twigcast.lab.overlays.{name}.simulate").simulate
    assert get_type_hints(simulation) == {"options": PROTOCOLS[name].options, "return": Report}


def test_virtual_nodes_and_levels_do_not_change_what_is_found() -> None:
    plain = simulate_chord(ChordOptions(nodes=12, queries=80, publications=6, seed=4))
    assert plain.measures["notifications"]
    for settings in ({"virtual_nodes": 3}, {"levels": 2}, {"shedding": True}, {"replicas": 3}):
        other = simulate_chord(ChordOptions(nodes=12, queries=80, publications=6, seed=4, **settings))
        if "virtual_nodes" not in settings:  # other publishers and subscribers, the same keys
            assert other.measures["notifications"] == plain.measures["notifications"]
        assert other.measures["states"] == plain.measures["states"]


def test_chord_simulation_survives_crashes() -> None:
    report = simulate_chord(ChordOptions(nodes=15, queries=40, publications=4, crashes=2, loss=0.01, seed=1))
    assert report.measures["peers alive"] == 13
    assert report.measures["publications confirmed"] == 4
    assert report.measures["given up"] == 0
    assert report.measures["ring"] == "whole"


def test_codd_simulation() -> None:
    report = simulate_codd(CoddOptions(nodes=40, documents=120, fan_out=3, crashes=3, seed=2))
    assert report.measures["nodes in the tree"] == 37
    assert report.measures["tree"] == "whole"
    assert nodes_in(report.drawings["tree.svg"]) == 38


def test_onyx_simulation_sends_what_is_wanted_and_little_else() -> None:
    report = simulate_onyx(OnyxOptions(nodes=12, queries=100, publications=40, sources=3, locality=1.0, seed=5))
    again = simulate_onyx(OnyxOptions(nodes=12, queries=100, publications=40, sources=3, locality=1.0, seed=5))
    assert report.drawings == again.drawings
    assert report.measures["missing"] == 0
    requested = report.measures["brokers that want a message, of 100 others"]
    got = report.measures["brokers that get it, of 100 others"]
    assert isinstance(requested, float)
    assert isinstance(got, float)
    assert 0 < requested <= got < 60
    assert nodes_in(report.drawings["flows.svg"]) == 12


def test_onyx_simulation_loses_nothing_when_much_goes_wrong() -> None:
    report = simulate_onyx(
        OnyxOptions(nodes=8, queries=80, publications=40, churn=0.3, crashes=4, cuts=4, loss=0.03, seed=6)
    )
    assert report.measures["missing"] == 0
    assert report.measures["questions"]


def test_one_node_is_a_network() -> None:
    assert simulate_chord(ChordOptions(nodes=1, queries=5, publications=2)).measures["ring"] == "whole"
    assert simulate_codd(CoddOptions(nodes=1, documents=20)).measures["tree"] == "whole"


def test_the_impossible_is_refused_by_name() -> None:
    makes: list[Callable[[], object]] = [
        lambda: simulate_chord(ChordOptions(nodes=0)),
        lambda: simulate_chord(ChordOptions(nodes=5, crashes=5)),
        lambda: simulate_codd(CoddOptions(nodes=0)),
        lambda: simulate_codd(CoddOptions(nodes=5, fan_out=0)),
        lambda: simulate_codd(CoddOptions(nodes=5, crashes=9)),
        lambda: simulate_chord(ChordOptions(nodes=5, crashes=-1)),
        lambda: simulate_chord(ChordOptions(nodes=5, publications=-1)),
        lambda: simulate_chord(ChordOptions(nodes=5, queries=-1)),
        lambda: simulate_chord(ChordOptions(nodes=5, levels=-1)),
        lambda: simulate_chord(ChordOptions(nodes=5, replicas=0)),
        lambda: simulate_chord(ChordOptions(nodes=5, replicas=10)),
        lambda: simulate_chord(ChordOptions(nodes=5, virtual_nodes=0)),
        lambda: simulate_chord(ChordOptions(nodes=5, loss=1.0)),
        lambda: simulate_codd(CoddOptions(nodes=5, reorganise_after=0)),
        lambda: simulate_codd(CoddOptions(nodes=5, loss=-0.5)),
    ]
    for make in makes:
        with pytest.raises(ImpossibleSetting, match="must be"):
            make()
    with pytest.raises(ImpossibleSetting, match="documents = -1"):
        simulate_codd(CoddOptions(nodes=5, documents=-1))


def test_the_command_line_prints_and_draws(tmp_path: Path) -> None:
    command = ["overlay", "simulate", "chord", "-n", "8", "--queries", "20", "--publications", "2"]
    done = CliRunner().invoke(app, [*command, "-o", str(tmp_path), "--journal"])
    assert done.exit_code == 0, done.output
    assert "logical messages a publication" in done.output
    assert json.loads((tmp_path / "measures.json").read_text())["messages published"] == 2
    lines = (tmp_path / "journal.jsonl").read_text().splitlines()
    assert {json.loads(line)["fate"] for line in lines} >= {"sent", "received", "delivered"}
    done = CliRunner().invoke(app, ["overlay", "simulate", "codd", "-n", "8", "--documents", "30"])
    assert done.exit_code == 0
    assert "overhead of the system" in done.output


def test_the_command_line_refuses(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["overlay", "simulate", "codd", "-n", "5", "--fan-out", "0"])
    assert done.exit_code == 2
    assert "fan_out" in done.output
    assert CliRunner().invoke(app, ["overlay", "simulate", "chord", "-n", "0"]).exit_code == 2
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(app, ["overlay", "simulate", "codd", "-n", "5", "-o", str(tmp_path / "file")])
    assert done.exit_code == 2
    assert "overhead" not in done.output, "refused before the simulation, not after it"


def test_drawings_escape_and_are_well_formed() -> None:
    pictures = [
        draw_ring([0.0, 0.5], [1, 0], [(0, 1)], title="a < b", labels=["<x>", "y&z"]),
        draw_tree({1: 0, 2: 0, 3: 1}, {3: 1.0}, root=0, title="tree"),
        draw_tree({}, {}, root=0, title="lonely"),
        draw_load({"none": [0.0], "some & more": [3, 1, 2]}, title="load"),
    ]
    for picture in pictures:
        assert etree.fromstring(picture.encode()).tag == f"{SVG}svg"


def test_shares_of_loads() -> None:
    assert shares([1, 3]) == [0.75, 0.25]
    assert shares([]) == []
    assert top_share([0, 0, 10, 0, 0], 0.2) == 1.0
    assert gini([5, 5, 5]) == pytest.approx(0)
    assert gini([0, 0, 0, 12]) == pytest.approx(0.75)
    assert gini([0, 0]) == 0.0
