"""Claims, stored results, the registry, the report and the commands: everything around the measurements."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from twigcast.lab.experiments.commands import app
from twigcast.lab.experiments.framework import claims, registry, store
from twigcast.lab.experiments.framework.model import (
    MQPT,
    SCALES,
    Claim,
    Experiment,
    Figure,
    Held,
    Measured,
    Point,
    Results,
    Verdict,
)
from twigcast.lab.experiments.framework.variants import ON_NITF, find_nitf, on_nitf
from twigcast.lab.experiments.reporting.headline import headline
from twigcast.lab.experiments.reporting.report import write_report
from twigcast.lab.experiments.reporting.review import renewed

RUN = CliRunner()


def results(**curves: list[float]) -> Results:
    xs = (1, 10, 100)
    return Results(
        [Measured(s, x, MQPT, (y, y, y * 2)) for s, ys in curves.items() for x, y in zip(xs, ys, strict=False)]
    )


SAMPLE = results(low=[1, 2, 3], middle=[2, 3, 30], high=[5, 50, 500], even=[4, 4, 4])


@pytest.mark.parametrize(
    ("claim", "held"),
    [
        (claims.ordered("", ("low", "middle", "high")), "held"),
        (claims.ordered("", ("middle", "low")), "not held"),
        (claims.ordered("", ("low", "even"), at=1), "held"),
        (claims.ratio("", "high", "low", at_least=100), "held"),
        (claims.ratio("", "high", "low", at_least=200), "not held"),
        (claims.within("", "low", "even", share=0.0), "held"),
        (claims.within("", "middle", "low", share=1.0), "not held"),
        (claims.sublinear("", "low", share=0.1), "held"),
        (claims.sublinear("", "high"), "not held"),
        (claims.linear("", ("even",)), "held"),
        (claims.linear("", ("middle",), fit=0.9999), "not held"),
        (claims.grows_less("", "low", "middle"), "held"),
        (claims.grows_less("", "high", "middle", factor=True), "not held"),
        (claims.flat("", "even", factor=1), "held"),
        (claims.flat("", "low", factor=2), "not held"),
        (claims.least_sensitive("", "even", ("low", "high")), "held"),
        (claims.least_sensitive("", "high", ("low",)), "not held"),
        (claims.everywhere("", "low", "high"), "held"),
        (claims.everywhere("", "even", "low"), "not held"),
        (claims.rises("", "low"), "held"),
        (claims.rises("", "low", falls=True), "not held"),
        (claims.custom("", lambda _results: (None, "why")), "not checked"),
        (claims.ordered("", ("low", "absent")), "not checked"),
        (claims.sublinear("", "absent"), "not checked"),
        (claims.flat("", "absent", factor=1), "not checked"),
    ],
)
def test_claims(claim: Claim, held: str) -> None:
    verdict = claim.judge(SAMPLE)
    assert verdict.held == held
    assert verdict.seen


def test_a_reason_is_given_where_a_claim_does_not_hold_and_only_there() -> None:
    claim = claims.ordered("", ("low", "even"), at=100).because("it is another machine")
    assert (claim.judge(SAMPLE).held, claim.judge(SAMPLE).why) == ("held", "")
    wrong = claims.ordered("", ("middle", "low")).because("it is another machine").judge(SAMPLE)
    assert (wrong.held, wrong.why) == ("not held", "it is another machine")
    absent = claims.ordered("", ("low", "absent")).because("it is another machine").judge(SAMPLE)
    assert (absent.held, absent.why) == ("not checked", "")


def test_a_claim_about_a_place_is_not_reached_before_it() -> None:
    ratio = claims.ratio("", "high", "low", at_least=200)
    seen = ratio.at_position(1_000).judge(SAMPLE)
    assert (seen.held, seen.seen) == ("not reached", "at 100: 167 times; published for 1,000")
    assert ratio.at_position(100).judge(SAMPLE).held == "not held"
    assert claims.ratio("", "high", "low", at_least=100).at_position(1_000).judge(SAMPLE).held == "held"


def test_what_was_seen_has_a_unit() -> None:
    assert claims.ordered("", ("low", "high")).judge(SAMPLE).seen == "at 100: low 3, high 500 ms"
    assert claims.rises("", "low").judge(SAMPLE).seen == "low: from 1 to 3 ms"


def test_fewer_messages_change_nothing_else() -> None:
    for experiment in registry.experiments():
        fewer = experiment.with_messages(3)
        for scale in SCALES:
            for point, other in zip(fewer.sweep[scale], experiment.sweep[scale], strict=True):
                had = "documents" in other.parameters
                assert point.parameters == {**other.parameters, **({"documents": 3} if had else {})}
                assert point.x == other.x


def test_a_place_is_found_however_its_number_is_written() -> None:
    experiment = registry.experiment_by_id("D-F4.12")
    assert [point.x for point in experiment.at(["0", "0.20"]).sweep["small"]] == [0.0, 0.2]
    assert [point.x for point in experiment.at(["nothing"]).sweep["small"]] == []
    (some, *_) = registry.experiment_by_id("D-F4.6").sweep["small"]
    assert [point.x for point in registry.experiment_by_id("D-F4.6").at([f"{some.x}.0"]).sweep["small"]] == [some.x]


def test_results_are_medians() -> None:
    assert SAMPLE.value("low", 1) == 1
    assert SAMPLE.curve("high") == [(1, 5), (10, 50), (100, 500)]
    assert SAMPLE.xs("low") == [1, 10, 100]
    with pytest.raises(KeyError):
        SAMPLE.value("low", 2)


def test_results_survive_the_store(tmp_path: Path) -> None:
    measured = [Measured("a, b", 1_000, MQPT, (1.5, 2.5)), Measured("c", "Opt(q)", "states", (3.0,))]
    path = store.save(tmp_path, "D-T1", "small", measured, {"seconds": 1.0, "points": 2, "runner": "here"})
    run = store.load(path)
    assert (run.experiment, run.scale, run.results.measured) == ("D-T1", "small", measured)
    assert run.about["points"] == 2
    assert {"time", "machine", "python"} <= set(run.about)


def test_ids_are_unique_and_cover_the_chapters() -> None:
    measured = [experiment.id for experiment in registry.experiments()]
    shown = [illustration.id for illustration in registry.illustrations()]
    assert len(set(measured + shown)) == len(measured + shown)
    diao = {f"D-F4.{n}" for n in range(1, 14)} | {f"D-F5.{n}" for n in range(1, 10)}
    diao |= {f"D-F6.{n}" for n in range(1, 13)} | {f"D-T{n}" for n in range(1, 14)}
    dai = {"B-F4.1", "B-F4.3", "B-F4.4", "B-F4.5a", "B-F4.5b", "B-F4.6", "B-F4.7", "B-F4.8", "B-F4.9"}
    assert diao | dai <= set(measured) | set(shown)


@pytest.mark.parametrize("experiment", registry.experiments(), ids=lambda experiment: experiment.id)
def test_experiments_are_complete(experiment: Experiment) -> None:
    for scale in SCALES:
        points = experiment.sweep[scale]
        assert pickle.loads(pickle.dumps(points)) == points
        assert len({point.x for point in points}) == len(points)
    assert experiment.claims
    assert experiment.published
    assert registry.experiment_by_id(experiment.id.upper()) is experiment
    if "queries" in experiment.sweep["paper"][0].parameters and experiment.id.startswith("D-F4"):
        assert experiment.sweep["paper"][-1].parameters["documents"] == 200


def test_unknown_ids_are_refused() -> None:
    with pytest.raises(registry.UnknownExperimentError):
        registry.experiment_by_id("D-F9.9")


def test_variants_keep_everything_but_the_data(tmp_path: Path) -> None:
    assert find_nitf(tmp_path) is None
    (tmp_path / "nitf-2-5.dtd").write_text("")
    (tmp_path / "nitf-500.tar.gz").write_bytes(b"")
    assert find_nitf(tmp_path) == tmp_path.resolve()
    for name in ON_NITF:
        base = registry.experiment_by_id(name)
        variant = on_nitf(base, tmp_path)
        assert [point.x for point in variant.sweep["small"]] == [point.x for point in base.sweep["small"]]
        assert variant.sweep["small"][0].parameters["dtd"].endswith("nitf-2-5.dtd")
        assert registry.experiment_by_id(variant.id).measure is base.measure


def stored_sample(folder: Path) -> None:
    for name in ("D-F4.6", "D-F4.8", "D-F6.7", "D-T9"):
        experiment = registry.experiment_by_id(name)
        stack = experiment.shows.stack if isinstance(experiment.shows, Figure) else ()
        metrics = {MQPT, "distinct", *stack, "states"}
        xs = [point.x for point in experiment.sweep["small"]]
        rows = [
            Measured(series, x, metric, (1.0 + number, 2.0, 3.0))
            for series in ("YFilter", "Hybrid", "XFilter (List Balance)", "Twigcast")
            for number, x in enumerate(xs)
            for metric in sorted(metrics)
        ]
        store.save(folder, name, "small", rows, {"seconds": 1.0, "points": len(xs), "runner": "here"})


def test_report_is_one_page_without_references(tmp_path: Path) -> None:
    stored_sample(tmp_path)
    page = tmp_path / "deep" / "report.html"
    write_report(page, registry.experiments(), store.load_all(tmp_path), registry.illustrations())
    text = page.read_text()
    assert len(re.findall('<div class="panel(?: wide)?"><svg', text)) == 4  # two of figure 4.6, one each of 4.8, 6.7
    assert 'id="D-F4.6-small"' in text
    assert "NP-Filter at work" in text
    assert not re.findall(r'(?:src|href)="(?!#)(?!http://www\.w3\.org)', text)
    for badge in ("held", "not held", "not reached", "not checked"):
        assert f">{badge}</span>" in text


def test_headline_counts_a_statement_once() -> None:
    def verdicts(first: Held, second: Held) -> list[Verdict]:
        return [
            Verdict("one", first, "seen"),
            Verdict("two", second, "seen"),
            Verdict("mine", "held", "seen", ours=True),
        ]

    counted = headline(
        {
            ("A", "small"): verdicts("held", "not held"),
            ("A", "paper"): verdicts("not held", "not reached"),
            ("A@nitf", "small"): verdicts("held", "held"),
            ("B", "small"): verdicts("not checked", "not reached"),
        }
    )
    # A one: as at the published size. A two: not reached there, judged at small scale, on the bundled data.
    assert counted.published == {"held": 0, "not held": 2, "not reached": 1, "not checked": 1}
    assert (counted.total, counted.ours) == (4, 2)


def test_what_was_not_run_is_folded_away(tmp_path: Path) -> None:
    stored_sample(tmp_path)
    page = tmp_path / "report.html"
    write_report(page, registry.experiments(), store.load_all(tmp_path), registry.illustrations())
    text = page.read_text()
    assert f"<details><summary>{len(registry.experiments()) - 4} not run</summary>" in text
    assert "published statements, each counted once" in text


def test_commands(tmp_path: Path) -> None:
    listed = RUN.invoke(app, ["list"])
    assert listed.exit_code == 0
    assert {"D-F4.6", "B-F4.9", "D-T7"} <= {line.split()[0] for line in listed.output.splitlines()}
    arguments = ["run", "D-T1", "--here", "--results", str(tmp_path)]
    ran = RUN.invoke(app, arguments)
    assert ran.exit_code == 0, ran.output
    assert "held" in ran.output
    reported = RUN.invoke(app, ["report", "--results", str(tmp_path), "-o", str(tmp_path / "r.html")])
    assert reported.exit_code == 0
    assert "Our DTDs have the published sizes" in (tmp_path / "r.html").read_text()


def test_single_points(tmp_path: Path) -> None:
    arguments = ["run", "D-T1", "--here", "--results", str(tmp_path), "--at", "news", "--at", "manual"]
    ran = RUN.invoke(app, arguments)
    assert ran.exit_code == 0, ran.output
    run = store.load(tmp_path / "D-T1.small.parquet")
    assert run.about["command"] == "twigcast experiment run --scale small --at news --at manual D-T1"
    assert run.about["points"] == 2
    none = RUN.invoke(app, ["run", "D-T1", "--here", "--results", str(tmp_path), "--at", "nowhere"])
    assert none.exit_code == 2
    assert none.stderr == "twigcast: D-T1 has no point at nowhere at small scale\n"


def test_commands_refuse_what_is_not_there(tmp_path: Path) -> None:
    for arguments in (["run", "D-F0"], ["run", "X*"], ["run", "D-T1", "--nitf", str(tmp_path)]):
        result = RUN.invoke(app, [*arguments, "--here", "--results", str(tmp_path / "r")])
        assert result.exit_code == 2, arguments
        assert result.stderr.startswith("twigcast: ")
    assert RUN.invoke(app, ["run", "all", "--scale", "huge"]).exit_code == 2


def test_points_are_plain() -> None:
    assert Point(1, {"a": 1}) == Point(1, {"a": 1})


def test_the_page_of_statements_is_that_of_the_registry() -> None:
    page = Path(__file__).parents[3] / "docs/how-to/claims.md"
    text = page.read_text(encoding="utf-8")
    renew = "python -m twigcast.lab.experiments.reporting.review docs/how-to/claims.md"
    assert renewed(text) == text, renew


def test_every_statement_says_how_it_is_checked() -> None:
    for experiment in registry.experiments():
        for claim in experiment.claims:
            assert claim.rule, (experiment.id, claim.text)
