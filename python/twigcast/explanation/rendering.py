"""Explanations as text: ``+`` marks conditions that hold on the message, ``-`` the first that fails."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

_INDENT: Final = "  "
_SHOWN_MAX: Final = 5
"""Nodes that are listed."""

_KEY_CHARACTERS_MAX: Final = 200
"""Characters of a value of ``by`` that are shown."""

_RESULT_CHARACTERS_MAX: Final = 2_000
"""Characters of a result that are shown."""

Part = Mapping[str, Any]
"""A JSON object of the engine's answer."""


def lines(explanation: Part) -> Iterator[str]:
    """Yields an explanation, line by line."""
    reported = list(_verdict(explanation["verdict"], 1, is_whole=True))
    yield from reported
    if explanation["note"]:
        yield f"{_INDENT}{explanation['note']}"
    yield from _selected(explanation)
    if explanation["result"] is not None:
        yield f"{_INDENT}the result, {len(explanation['result'].encode()):,} bytes:"
        yield f"{_INDENT * 2}{_shortened(explanation['result'])}"
    if explanation["no_result"] is not None:
        yield f"{_INDENT}there is no result: {explanation['no_result']}"
    for absent in explanation["absent_names"]:
        news = [near["message"] for near in absent["nearest"] if not _is_reported(near, reported)]
        if news:
            yield f"{_INDENT}nothing is named {_full_name(absent)}: {'; '.join(news)}"
    yield from _running(explanation["running"])
    if explanation.get("window") is not None:
        yield from window_lines(explanation["window"])


def _running(running: Part) -> Iterator[str]:
    """Yields how the query runs, and what is wrong with that."""
    cover = f", {running['cover']}" if running["cover"] else ""
    yield f"{_INDENT}runs as {running['route']} ({running['cost']}){cover}"
    for warning in running["warnings"]:
        yield f"{_INDENT}warning: {warning}"


def window_lines(window: Part) -> Iterator[str]:
    """Yields what the window of the subscription makes of the message."""
    key = f", by {window['key'][:_KEY_CHARACTERS_MAX]!r}" if window["key"] else ""
    yield f"{_INDENT}told when {json.dumps(window['when'], ensure_ascii=False)}{key}"
    yield f"{_INDENT * 2}{'now' if window['is_stored'] else 'before it'}: {window['holds'] or 'nothing is known'}"
    sign = {True: "+ ", False: "- ", None: ""}[window["delivers"]]
    yield f"{_INDENT * 2}{sign}{window['reason']}"
    if window["trouble"] is not None and window["trouble"] != window["reason"]:
        yield f"{_INDENT * 2}{window['trouble']}"


def _shortened(result: str) -> str:
    """Returns a result in a line of bounded length."""
    line = " ".join(result.split())
    return line if len(line) <= _RESULT_CHARACTERS_MAX else f"{line[:_RESULT_CHARACTERS_MAX]}..."


def _is_reported(near: Part, reported: list[str]) -> bool:
    """Returns whether a hint is reported, or one of its kind about a namespace: names mostly share theirs."""
    existing = "` is there in " if near["kind"] == "namespace" else near["message"]
    return any(existing in line for line in reported)


def _selected(explanation: Part) -> Iterator[str]:
    count, nodes = explanation["node_count"], explanation["nodes"]
    if not nodes:
        return
    yield f"{_INDENT}{_nodes(count)}:"
    for node in nodes[:_SHOWN_MAX]:
        yield f"{_INDENT * 2}{_location_text(node)}  {_quoted(node['value'])}"
    if count > _SHOWN_MAX:
        yield f"{_INDENT * 2}and {count - _SHOWN_MAX:,} more"


def _verdict(verdict: Part, depth: int, *, is_whole: bool = False) -> Iterator[str]:
    """Yields one part of the query. The caller has written the text of the whole query."""
    indent = _INDENT * depth
    if verdict["kind"] == "path" and verdict["steps"]:
        # A path of one step is written as its step.
        as_steps = is_whole or len(verdict["steps"]) == 1
        if not as_steps:
            yield f"{indent}{_mark(verdict)} {verdict['text']}"
        yield from _steps(verdict["steps"], depth if as_steps else depth + 1)
    else:
        yield f"{indent}{_mark(verdict)} {verdict['text']}{_worth(verdict)}"
        yield from _inner(verdict, depth + 1)
    yield from _hints(verdict["hints"], depth + 1)


def _worth(verdict: Part) -> str:
    """Returns the values of the operands of a comparison, as text."""
    if verdict["kind"] == "value":
        return f"  (it is {verdict['value']})"
    if verdict["kind"] != "comparison":
        return ""
    sides = (verdict["left"], verdict["right"])
    reported = [f"{side['text']} {_values(side)}" for side in sides if side["text"] not in _literal(side)]
    return f"  ({'; '.join(reported)})" if reported else ""


def _literal(side: Part) -> tuple[str, ...]:
    """Returns how an operand is written if it consists of its value alone."""
    value = side["values"][0]["value"] if side["kind"] in {"string", "number"} else None
    return () if value is None else (value, f"'{value}'", f'"{value}"')


def _values(side: Part) -> str:
    if side["kind"] == "nodes":
        if not side["count"]:
            return "selects nothing"
        shown = ", ".join(_quoted(entry["value"]) for entry in side["values"])
        more = f" and {side['count'] - len(side['values']):,} more" if side["count"] > len(side["values"]) else ""
        return f"is {shown}{more}"
    value = side["values"][0]["value"]
    return f"is {_quoted(value) if side['kind'] == 'string' else value}"


def _inner(verdict: Part, depth: int) -> Iterator[str]:
    """Yields the operands or steps of a part."""
    if verdict["kind"] in {"all", "any"}:
        for operand in verdict["operands"]:
            yield from _verdict(operand, depth)
    elif verdict["kind"] == "not":
        yield from _verdict(verdict["operand"], depth)
    elif verdict["kind"] == "comparison":
        for side in (verdict["left"], verdict["right"]):
            # A path of one step that selects nothing has said so in the values.
            if side["path"] and (len(side["path"]["steps"]) > 1 or _has_news(side["path"]["steps"][0])):
                yield from _steps(side["path"]["steps"], depth)


def _has_news(step: Part) -> bool:
    return bool(step["hints"] or step["example"])


def _steps(steps: list[Part], depth: int) -> Iterator[str]:
    for step in steps:
        yield f"{_INDENT * depth}{'+' if step['selected'] else '-'} {step['text']}  ({_of(step)})"
        yield from _example(step, depth + 1)
        yield from _hints(step["hints"], depth + 1)


def _of(step: Part) -> str:
    """Returns how many nodes a step selects, of how many on its axis, as text."""
    if step["candidates"] == step["selected"]:
        return _nodes(step["selected"])
    return f"{step['selected']:,} of {_nodes(step['candidates'])}"


def _example(step: Part, depth: int) -> Iterator[str]:
    """Yields a node at which the predicates hold or, if there is none, the nearest one."""
    example = step["example"]
    if example is None or not example["predicates"]:
        return
    yield f"{_INDENT * depth}{'at' if step['selected'] else 'nearest:'} {_location_text(example['place'])}"
    for predicate in example["predicates"]:
        yield from _verdict(predicate, depth + 1)


def _hints(hints: list[Part], depth: int) -> Iterator[str]:
    for hint in hints:
        where = f": {_location_text(hint['place'])}" if hint["place"] else ""
        yield f"{_INDENT * depth}{hint['message']}{where}"


def _full_name(absent: Part) -> str:
    return f"{absent['name']} in namespace {_quoted(absent['namespace'])}" if absent["namespace"] else absent["name"]


def _mark(verdict: Part) -> str:
    return "+" if verdict["holds"] else "-"


def _location_text(position: Part) -> str:
    return f"{position['path']} (line {position['line']}, column {position['column']})"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count:,} nodes"


def _quoted(value: str) -> str:
    """Returns a value in quotes, with visible white space instead of line ends."""
    visible = value.translate({ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"})
    return f'"{visible}"'
