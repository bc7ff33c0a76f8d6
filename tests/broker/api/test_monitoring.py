"""The dashboard and the alert rules in ``ops/``: a running broker exports each metric that they name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.broker.api.running import Party, RunningBroker

NAME = re.compile(r"\b(?:twigcast|process|python)_\w+")
USE = re.compile(r"\b((?:twigcast|process|python)_\w+)(?:\{([^}]*)\})?(\[[^\]]+\])?")
OF_PROMETHEUS = {"instance", "job"}
"""Labels that Prometheus adds to what it fetches."""

VARIABLE = re.compile(r"\$(\w+)")


@dataclass(frozen=True)
class Exported:
    """What a broker exports: the type of each metric, and its labels."""

    types: dict[str, str]
    labels: dict[str, set[str]]


@pytest.fixture
def exported(broker: RunningBroker, party: Party) -> Exported:
    party.subscribe("k", "/a")
    party.publish("<a/>")
    text = broker.operator.get("/metrics").text
    types: dict[str, str] = {}
    for name, kind in re.findall(r"^# TYPE (\S+) (\w+)$", text, re.MULTILINE):
        types[name] = kind
        if kind == "histogram":
            types.update({f"{name}_bucket": "counter", f"{name}_count": "counter", f"{name}_sum": "counter"})
    labels: dict[str, set[str]] = {}
    for name, inside in re.findall(r"^([a-z]\w+)(?:\{(.*)\})? \S+$", text, re.MULTILINE):
        labels.setdefault(name, set()).update(re.findall(r'(\w+)="', inside))
    return Exported(types, labels)


def alerts(repository: Path) -> list[dict[str, object]]:
    document = yaml.safe_load((repository / "ops" / "prometheus-alerts.yml").read_text(encoding="utf-8"))
    return [rule for group in document["groups"] for rule in group["rules"]]


def dashboard(repository: Path) -> dict[str, object]:
    result: dict[str, object] = json.loads((repository / "ops" / "grafana-dashboard.json").read_text(encoding="utf-8"))
    return result


def expressions(repository: Path) -> Iterator[str]:
    for rule in alerts(repository):
        yield str(rule["expr"])
    panels = dashboard(repository)["panels"]
    assert isinstance(panels, list)
    for panel in panels:
        for target in panel["targets"]:
            yield target["expr"]


def complaints(expression: str, exported: Exported) -> list[str]:
    """What is wrong with an expression, as far as names, labels and kinds of metrics show it."""
    found = []
    for name, selected, span in USE.findall(expression):
        if name not in exported.labels:
            found.append(f"{name} is not exported")
            continue
        unknown = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selected)) - exported.labels[name] - OF_PROMETHEUS
        found += [f"{name} has no label {label}" for label in sorted(unknown)]
        if (exported.types[name] == "counter") != bool(span):
            found.append(f"{name} is a {exported.types[name]}: counters are for rate() and increase(), gauges are not")
    known = set().union(*(exported.labels.get(name, set()) for name in NAME.findall(expression))) | OF_PROMETHEUS
    for names in re.findall(r"\b(?:by|without) \(([^)]*)\)", expression):
        found += [f"there is no label {name}" for name in re.split(r",\s*", names) if name not in known]
    if any(expression.count(a) != expression.count(b) for a, b in ("()", "{}", "[]")):
        found.append("a bracket is missing")
    return found


def test_each_metric_is_exported_and_used_as_what_it_is(repository: Path, exported: Exported) -> None:
    seen = list(expressions(repository))
    assert len(seen) > 30
    queries = [variable["query"] for variable in dashboard(repository)["templating"]["list"]]  # type: ignore[index]
    assert set(NAME.findall(json.dumps(queries))) <= exported.labels.keys()
    assert {expression: wrong for expression in seen if (wrong := complaints(expression, exported))} == {}


@pytest.mark.parametrize(
    ("expression", "complaint"),
    [
        ("twigcast_nothing > 0", "twigcast_nothing is not exported"),
        ("twigcast_commits_total > 0", "counters are for rate"),
        ("rate(twigcast_streams[5m])", "counters are for rate"),
        ('twigcast_streams{tenant="x"}', "twigcast_streams has no label tenant"),
        ("sum by (subscriber) (twigcast_consumer_pending)", "there is no label subscriber"),
        ("sum(twigcast_streams", "a bracket is missing"),
    ],
)
def test_a_mistake_is_noticed(exported: Exported, expression: str, complaint: str) -> None:
    assert any(complaint in found for found in complaints(expression, exported))


def test_alerts_say_where_and_what(repository: Path, exported: Exported) -> None:
    rules = alerts(repository)
    names = [str(rule["alert"]) for rule in rules]
    assert len(set(names)) == len(names)
    for rule in rules:
        assert rule["labels"] in ({"severity": "page"}, {"severity": "ticket"}), rule
        annotations = rule["annotations"]
        assert isinstance(annotations, dict)
        expression = str(rule["expr"])
        kept = OF_PROMETHEUS.union(*(exported.labels.get(name, set()) for name in NAME.findall(expression)))
        for label in re.findall(r"\$labels\.(\w+)", annotations["summary"]):
            assert label in kept, rule


def test_the_dashboard_has_its_variables_and_no_panel_covers_another(repository: Path) -> None:
    board = dashboard(repository)
    panels, templating = board["panels"], board["templating"]
    assert isinstance(panels, list)
    assert isinstance(templating, dict)
    names = {variable["name"] for variable in templating["list"]} | {"__rate_interval"}
    used = set(VARIABLE.findall(" ".join(expressions(repository))))
    assert {name for name in used if name not in ("labels", "value")} <= names
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        mine = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & mine, panel["title"]
        cells |= mine
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_every_alert_is_about_a_metric_that_the_page_on_running_explains(repository: Path) -> None:
    page = (repository / "docs" / "how-to" / "run-a-broker.md").read_text(encoding="utf-8")
    assert "ops/prometheus-alerts.yml" in page
    for name in ("consumer_oldest_seconds_max", "consumer_pending_max", "commits_failed_total"):
        assert name in page
        assert any(name in expression for expression in expressions(repository))


def test_the_picture_of_the_dashboard_shows_its_panels_and_series(repository: Path) -> None:
    picture = (repository / "docs" / "pictures" / "dashboard.svg").read_text(encoding="utf-8")
    shown = re.findall(r"<text [^>]*>([^<]*)</text>", picture)
    panels = dashboard(repository)["panels"]
    assert isinstance(panels, list)
    for panel in panels:
        assert panel["title"] in shown, "run docs/pictures/dashboard.py"
        for target in panel["targets"]:
            legend = re.sub(r"\\{\\{tenant\\}\\}", "default", re.escape(target["legendFormat"]))
            assert any(re.fullmatch(legend, text) for text in shown), f"{panel['title']}: {target['legendFormat']}"
