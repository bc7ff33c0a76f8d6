"""``RESULTS.md`` from the figures kept under ``results/``."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path

from benchmarks.measure import Row

_TITLES = {
    "filtering": "Filtering, from bytes to matching keys",
    "peers": "Peer: libxml2 (lxml), one compiled XPath per query",
    "loop": "A loop over compiled XPaths of lxml: from how many subscriptions on a set is worth it",
    "insertion": "Changes of a large set, and the messages after them",
    "adversarial": "Worst case: queries and messages made to defeat the cache",
    "hostile": "Hostile subscriptions: 300 that cost the square of a message, beside 1,000 ordinary ones",
    "mixed": "Changes while matching",
    "waiting": "Single messages beside a long batch and changes",
    "threads": "Several threads, one population",
    "real": "Subscriptions as people write them, by kind of condition",
    "real_peers": "Peers: the same interests over alerts, by event-ruler and Luwak",
    "language": "What the language has beyond XPath 1.0, beside the plain spelling",
    "words": "Rules of words over news, beside Luwak",
    "places": "Regions of subscribers over CAP alerts, beside a loop with shapely",
    "transformation": "For-Where-Return queries",
    "transformation_memory": "For-Where-Return queries: memory for one message of 50 MB",
    "transformation_peers": "Peers: a hundred For-Where-Return queries by other means",
    "library": "The library around the engine",
    "records": "Records of one large document",
    "doctypes": "Document types: a message that its DOCTYPE changes, beside what it means",
    "spark": "The Spark pipeline",
    "webhooks": "Webhooks: deliveries to one subscriber, next door and 100 ms away",
    "urgency": "Urgency: at 1.5 times what can be done, with priorities and without",
    "windows": "Windows in the broker: what a million keys take",
    "broker": "The broker as a process, with publishers and readers beside it on the same cores",
    "neighbours": "Two tenants of one broker: what hostile subscriptions of the one cost the other",
    "forwarding": "Between brokers: reading and routing a message in each form",
    "overlay": "Three brokers in a row, one overlay, on the same cores",
    "simulator": "The overlays' simulator",
}

_NOTES = {
    "filtering": (
        "`us`: processor microseconds per message, all in: scanning, matching and writing the matching keys into an "
        "Arrow array. `E`: the same as a multiple of expat's time. `grouped_E`: with the answer in groups of keys that "
        "share a query, in an Arrow array too: the number of keys is counted for each message, but each key is written "
        "once, not once a message; the target for 500k with duplicates, where a message has 170,000 keys, is meant of "
        "this. `first_pass_E`: nothing learnt from messages yet. "
        "`unseen_E`: 250 messages after 250 others. `bytes_per_query`: memory of the whole set, keys and texts "
        "included, before the first message.\n\n"
        "Targets of the first version (E): 100k paths 1.5, 50k with a predicate 3, 50k with a nested path 5; under 400 "
        "bytes a query; 100,000 queries a second added. Targets of the second: 0.45 / 0.55 / 0.7 for 1k / 10k / 100k; "
        "1.5 for 500k, 1.2 with duplicates; 0.9 / 1.2 for one / two predicates; 1.2 / 2 for one / three nested paths; "
        "0.45 for XMark; never above 1 for 10k at depth 10; first pass 6, unseen 2 at 100k."
    ),
    "peers": "The answers of both were compared before timing.",
    "loop": (
        "Processor microseconds per message, from bytes to the list of those who want it: `loop_us` parses with lxml "
        "and asks each compiled query in turn, `set_us` is `SubscriptionSet.match(message).keys`. `loop_of_set`: the "
        "one as a multiple of the other; below 1 the loop is faster. The answers of both were compared before timing."
    ),
    "insertion": (
        "Six times a thousand changes, of a set that has seen all messages; medians of seven sets. The "
        "message right after a change is matched by `match()` after each other change, as a batch of one "
        "after the rest. `next_match_E`, `next_batch_E`: what that takes, in a call of its own. "
        "`cold_match_E`, `cold_batch_E`: the same message in the same way just before, when another set was "
        "changed alike, so that the caches are as cold but nothing is to be learnt; `next_of_cold`, "
        "`batch_of_cold`: the one as a multiple of the other, the median of the pairs. Below 1: what is "
        "learnt in the change itself is in the cache then. `usual_match_E`: the message by `match()` in a "
        "stream of others, with warm caches; `next_of_usual`: the next message as a multiple of that, which "
        "is the price of cold caches, whoever made them cold. `pass_of_usual`: the pass over all messages "
        "after the change as a multiple of the usual; target of this and of `next_of_cold`: 1.2. "
        "`queries_per_s` counts what matchers learn in the change. The last row adds as many queries as there "
        "were in one call, to a set that has seen no message."
    ),
    "adversarial": (
        "Each history of the last forty names is a state of its own, and names are drawn by chance: whatever is learnt "
        "is of no use later. `NFA alone`: with a cache of one byte, so that the NFA itself is run; `of_nfa`: how many "
        "times as long as that. `bytes_grown`: memory that matching added to the process. Target: at most ten times the"
        " NFA, in fixed memory."
    ),
    "webhooks": (
        "Pending deliveries of 1 KB, signed, to one subscriber whose server answers at once or after 100 ms, until all "
        "are acknowledged. Targets: 1,000 a second to a local subscriber, 500 a second at 100 ms."
    ),
    "urgency": (
        "Messages come at 1.5 times the rate that the broker stores, or that the worker of a shared queue processes, "
        "for 12 seconds; one in twenty is urgent. `in_time`: the share of the urgent ones that their subscriber has "
        "within a second of the time at which they were to be published; `median_seconds`: of those that it has at "
        "all. With `priorities`, they have the priority 9, and the worker's queue is in the order of urgency. "
        "Target: 0.99."
    ),
    "windows": (
        "A window of three messages with two stored for each key, in a store on SQLite; then messages that are the "
        "third of theirs, a hundred at a time. Target: 500 MB for a million keys."
    ),
    "hostile": (
        "A message of 3,000 elements with a value each. The ordinary subscriptions are a group, the costly "
        "ones another. `good_alone_ms`: the ordinary ones without the others. `first_ms`: the first three "
        "messages, on which the costly ones have their turns until the message's budget is used up; "
        "`later_ms`: the median of the forty after them, on which most of the costly ones are set aside; "
        "`worst_ms`: the longest of all. `undecided`: on the first message. `good_missing`: answers of "
        "ordinary ones that are missing on any message, which ends the measurement. Target: none is missing, "
        "and no message takes more than twice its budget of 50 ms."
    ),
    "mixed": (
        "Half of the changes are removals; one thread changes and matches in turn. `ten changes after each message`: "
        "processor time. Else the changes that are due come before each message, and times are the clock's. "
        "`match_us` is the mean, `worst_match_us` the longest match."
    ),
    "waiting": (
        "By the clock, for 15 seconds each: one thread matches a batch of 20,000 messages over and over, one changes "
        "subscriptions, and one matches a message every millisecond. `match_p999_us`: 999 of 1,000 matches take no "
        "longer; `p999_of_alone`: that as a multiple of the same without changes. Target: at most 2."
    ),
    "threads": (
        "By the clock, not by processor time: some batches of 2,000 messages on one thread, then as many on two, in "
        "turn. The answers to a batch, 52 MB for 100,000 queries, are let go before the next. `times_one`: median of "
        "the pairs' ratios. Target: 1.8 times on two cores."
    ),
    "real": (
        "Generated feeds and the kinds of condition that are asked of each (`benchmarks/real_feeds.py`, "
        "`benchmarks/sector_feeds.py`); `mixed`: all kinds of the feed in equal shares. `us`: processor microseconds "
        "per message, all in, one thread; `E`: the same as a multiple of expat's time; `queries_per_s`: added in one "
        "call to an empty set; `bytes_per_query`: memory that the set then holds, keys and texts included, which equal "
        "queries share (target: 500). Where thousands of queries match, the message costs what these cost, each of "
        "which is found and its key written: `ns_per_match` says how much, and a few E cannot be had. Where few do, "
        "`E` above the targets (10,000 queries 3, 100,000 queries 8, alerts 12 where thousands match) is what it "
        "costs to verify those that the rarest of their values leads to in vain: with `two facts`, each query whose "
        "first concept the report has."
    ),
    "real_peers": (
        "10,000 interests of a kind, each as XPath, as a rule of event-ruler 1.8.1 and as a Lucene query of Luwak 1.5; "
        "processor time of one thread. event-ruler gets JSON and parses it, Luwak gets the XML and reads it with StAX. "
        "`ruler_ratio`, `luwak_ratio`: the peer's time as a multiple of the engine's. The numbers of matches are "
        "compared, unless a peer needs more than 15 seconds for the messages; "
        "one that needs more than a minute in all has no figure. Targets: event-ruler 2 (`except` and "
        "`prefix`: above 1), Luwak 10."
    ),
    "language": (
        "10,000 subscriptions of a kind over 300 messages that also say when they were sent, in some time zone and in "
        "minutes (`benchmarks/language.py`). `plain_E` is for conditions of XPath 1.0 that ask for about as much: "
        "ranges of minutes for ranges of dates, `contains` for `matches`; both in turns. Target: 3. `dialect xquery`: "
        "1,000 queries of native constructs, mixed, with the same in the dialect `xpath` as the plain spelling. "
        "`added_per_s`, `plain_added_per_s`: queries that one `add_many` adds in a second."
    ),
    "words": (
        "`contains text` with two to five words, `ftand`, `ftor` and `ftnot`, over news of 4 kB and 600 words "
        "(`benchmarks/words.py`). `selective`: no rule asks for one of the thousand most frequent words, as rules "
        "about people, firms and places do; `broad`: rules ask for all but the fifty most frequent ones, so a message "
        "matches hundreds. `us`: processor microseconds per message, all in, one thread. `read_E`: what the messages "
        "cost with one rule, which no message matches: scanning, and dividing the text into words. `luwak_us`: Luwak "
        "with the same rules over the same messages, which StAX reads; the numbers of matches were compared. "
        "Target: 5 E for 100,000 rules."
    ),
    "places": (
        "Circles of 2 to 40 km and polygons of 6 to 40 corners around 300 towns; alerts with one to three polygons "
        "(`benchmarks/places.py`). `us`: processor microseconds per message, all in, one thread; `matches`: "
        "subscriptions whose region meets the alert's. Of `E`, `read_E` is what the alerts cost with one region that "
        "is far away, and `reported_E` what they cost with as many matches that need no region. `shapely_us`: lxml "
        "parses, and an STRtree of shapely with polygons finds the regions; to it, circles are polygons of 64 "
        "corners, so numbers of matches differ a little. "
        "Target: 5 E for 100,000 regions. With hundreds of matches an alert, most of the time is that of the regions "
        "near it, one by one."
    ),
    "transformation": (
        "`known_E`: `deliver()`, from the bytes of a message until it is known which queries match with which "
        "bindings, and which nodes the returned paths lead to from those (the published times stop there too, but do "
        "not count parsing): groups of queries, of which each subscription's delivery and result are found when "
        "somebody looks. `told_E`: with the index of each delivery's result, in the order of the subscriptions. `E`: "
        "all in, a message a call, from bytes to columns of keys and results, with each different result once, in the"
        " order of the subscriptions (`arrow()` of what `deliver()` answers). `arrow_E`: from an Arrow array of one "
        "message to a record batch of that, with keys as a dictionary (`match_batch()`); what it takes more is mostly"
        " for Arrow's objects. `batch_E`: that for ten messages a call, as in the pipeline. `match_only_E`: the keys "
        "alone, by `match_batch()`, a message a call. "
        "`bytes_out`: payload bytes per message; `different_bytes`: those of different payloads. What copying takes "
        "bounds what making them can: `copy_different_E` and `copy_all_E` are for a plain copy of either, a message at "
        "a time, `copy_batch_E` for one of all payloads of ten messages at once, which no longer fit into the caches "
        "near the core. `copies`, `batch_copies`: `E` as a multiple of `copy_all_E`, and `batch_E` of `copy_batch_E`, "
        "with a target where copying alone takes longer than parsing. "
        "`unshared_times`: how many times as long it takes if each query's result is computed by itself.\n\n"
        "Two return paths a query; one predicate path, three for feeds named `-3`; values out of ten, out of a hundred "
        "for `-v100` (as where the published times go from 5,000 to 40,000 queries) and for more than 10,000 queries. "
        "`-full`: binding paths as deep as "
        "they may be. That is the reading that meets the only published number of matches (116 of 5,000 with three "
        "predicate paths; here 77 for `library`, 911 with depths drawn uniformly, where half of the binding paths are "
        "the root and return much of the message). With one predicate path more than half of the queries match in "
        "either reading: some twenty bindings, ten values.\n\n"
        "Targets: 3 E for 10,000 queries, 10 E for 100,000; once results dominate, within four times a copy; without "
        "sharing at least five times as long at 40,000. They are read together: what does not grow with the bytes has "
        "to stay below the first two (`known_E`), and so has all of it where copying what is delivered takes less than "
        "parsing (`copy_all_E` below 1); where that takes longer, four copies are what counts. All bytes of the "
        "different results of 10,000 queries of which most match cannot be had in 3 E: see docs/decisions/0023."
    ),
    "transformation_memory": (
        "`deliver()`, with all results looked at. `peak_before_mb`: the process after it has matched the message and "
        "counted nodes; `grown_by_results`: by how much the peak grows then, as a multiple of the results."
    ),
    "transformation_peers": (
        "How many queries have a result was compared before timing. `-full-3`: few queries have one, so what counts is "
        "what it costs to ask each."
    ),
    "library": (
        "`ms`: processor time of a process, the best of fifteen, with Python's own start in it. `us`: what the call "
        "takes, and `match_us` what `match()` takes that is in it; targets: import below 60 ms, `times_match` at most "
        "2 where messages are not tiny. `amatch` is timed by the clock; `pause_ms`: the longest time the event loop "
        "stood still meanwhile. `keys_times`, `in_times`: `match.keys` and `key in match` as `times_match`. Keys of a "
        "message that matches the same queries as one of the last four are at hand; with other keys for each "
        "message, each is looked up, and the target is met where matching takes as long as that. `list_us`: what "
        "Python alone takes to make a list of these keys, which exist already, one by one; where that is more than "
        "matching takes, no answer could meet the target. Other encodings: `match_us` is for the same in UTF-8."
    ),
    "records": (
        "A feed of 72,000 items, read from a file; a hundred subscriptions, of which each matches one item. `cut`: "
        "records as messages, not matched. The loop of lxml and the style sheet do what users write who have no "
        "`--record`; they find the items and match nothing. `peak_memory_mb`: what the process grows by at most in the "
        "first round. Target: cut and matched, no more than matched whole; memory bounded by a record."
    ),
    "doctypes": (
        "A hundred subscriptions; messages of some 5 to 15 MB, with a reference, default or list of tokens every 70 "
        "bytes or so. `plain_E`: the message that is meant, with everything in place and without DOCTYPE; `above_E`: "
        "what the DOCTYPE costs `match` more than that; `deliver_above_E` and `rewrite_above_E`: what it costs "
        "`deliver`, of whole messages and of results, with all payloads read; `batch_above_E`: what it costs "
        "`match_batch(deliver=True)` of results; `records_above_E`: what it costs `match_records`, of records of some "
        "70 bytes. E is expat's time for the plain message, which it reads faster; `expat_E`: what it needs for the "
        "one with the DOCTYPE. `above_own_E`: the most of these costs, but for records, as a multiple of expat's time "
        "for the very bytes that were read. Of each, the quickest of fifteen rounds in turn counts, since a difference "
        "of two times is looked for."
    ),
    "spark": (
        "By the clock, each job in turn with `nothing` over the same messages, after a round of both that does not "
        "count; `of_nothing` is the median of the pairs' ratios. `nothing`, read by Spark: Spark's own reader, a "
        "`mapInArrow` that hands its batches on, and a sink that drops them; all else is compared with it. Read by "
        "tasks: as a pipeline reads when it is given a path, without a way through the JVM; read by Spark: as it has "
        "to when it is given a DataFrame. Pipelines are timed whole: opening the messages, shipping the subscriptions, "
        "matching, writing, committing. Throughput is compared on feeds of 400,000 messages, so that what a job costs "
        "before the first message is a small part of both; the rows with 1,000 messages tell this fixed cost. What "
        "takes long for each message is measured on 100,000. `ordinary`: queries with two to four attribute tests "
        "each, taken from the messages, as subscribers would want; `bare paths`: the published kind of workload, where "
        "each message matches a fifth of all queries. Target: half the speed of `nothing` with a thousand ordinary "
        "subscriptions."
    ),
    "neighbours": (
        "The good tenant publishes a small message 200 times a second; its neighbour publishes one for 50 costly "
        "subscriptions 20 times a second (`hostile`), or for as many that cost nothing (`harmless`). Times: from the "
        "request to its answer. Target: `p99_of_harmless` at most 1.5."
    ),
    "overlay": (
        "A third of the subscriptions at each broker; messages are published at the first, and match one at each. "
        "`p50_ms`, `p99_ms`: from sending a message to its arrival at a stream of that broker, commits of both "
        "brokers included; of a new subscription, the median and the longest of ten. A hop is what the third broker "
        "is later than the second. `start_s`: until the broker listens; until it then wants exactly what its "
        "subscriptions want, it gets everything. `served_again_s`: until its subscriber has all that was missed. "
        "Targets: a hop under 1 ms at 1,000 messages a second, a new subscription under 1 s, served again under 5 s."
    ),
    "forwarding": (
        "A routing table of 10,000 linear paths for four neighbours. `read_E`: to where the engine has the message; "
        "`read_and_route_E`: to where it is known which neighbours want it, which is where reading ends; "
        "`all_looked_at_E`: the same with a fifth neighbour that wants what is in no message, so that all is looked "
        "at. `forward_us`: with the packet read before and written after, in Python, which is the same for all forms. "
        "What is sent on are the same bytes. `of_text`: against the same with text. The row by expat is what parsing "
        "costs a program without a core of its own. Target: reading and routing an element stream at most half of "
        "text."
    ),
    "simulator": (
        "Networks simulated message by message: an event is a message that arrives or a timer that goes off, with all "
        "that the node does then. A ring indexes 2,000 small queries and publishes 10 messages; the nodes of a tree "
        "join under 100 documents and are sent 400 more. `seconds`: of the processor. `kB_per_node`: what the process "
        "has grown by in the end; with few nodes that is queries and messages more than nodes."
    ),
}

_INTRODUCTION = """# Benchmarks

Made by `make bench` (`python -m benchmarks.run`; sections by name). E is the time that `pyexpat`, with no handlers set,
needs for the same bytes, measured in turn with the work beside it on the same core; ratios to E carry over from machine
to machine, microseconds do not. Times are medians of processor time unless said otherwise. The `news` workloads are
generated from the DTD that comes with Twigcast; `nitf` and `xmark` are real ones, run where they are at hand.
"""


def machine() -> str:
    """The machine, in a few words."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{os.cpu_count()} cores, {model}, Python {platform.python_version()}"


def table(rows: list[Row]) -> str:
    """Rows as a Markdown table."""
    if not rows:
        return "(not measured)\n"
    columns = list(dict.fromkeys(column for row in rows for column in row))
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(_cell(row.get(column)) for column in columns) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value)


def document(results: Path) -> str:
    """The whole page."""
    parts = [_INTRODUCTION]
    for name, title in _TITLES.items():
        file = results / f"{name}.json"
        if not file.exists():
            continue
        measured = json.loads(file.read_text(encoding="utf-8"))
        parts.append(f"## {title}\n")
        if name in _NOTES:
            parts.append(_NOTES[name] + "\n")
        parts.append(table(measured["rows"]))
        parts.append(f"*Measured {measured['measured']}: {measured['machine']}; `python -m benchmarks.run {name}`.*\n")
    return "\n".join(parts)
