"""Arrow batches: the same answers as one by one, whatever form the messages come in."""

import pickle
import random
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.seeds import printed_seed
from twigcast import Limits, SubscriptionSet
from twigcast.arrow_types import ArrowBuffer, ArrowColumn
from twigcast.engine.arrow import ERROR_TYPE, KEYS_TYPE, NODES_TYPE, PAYLOADS_TYPE, UNDECIDED_TYPE, keys_of_groups
from twigcast.errors import RejectedMessage

QUERIES = ["/a", "/a/b", "//b", "/a/*", "//b[@x]", "//b[@x = 1]", "/a[b]", "//c//b", "//p[. = 'é']", "//@x"]
MESSAGES: list[bytes | None] = [
    b"<a/>",
    b"<a><b/></a>",
    b"<a><b x='1'/><b/></a>",
    b"<c><b/></c>",
    b"<c><a><b x='2'/></a></c>",
    "<a><p>é</p></a>".encode(),
    "<a><p>é</p></a>".encode("utf-16"),
    "<?xml version='1.0' encoding='latin-1'?><a><p>é</p></a>".encode("latin-1"),
    b"<!DOCTYPE a [<!ENTITY e '<b/>'>]><a>&e;</a>",
    b"<a>",
    b"<a><b></a></b>",
    b"",
    b"\xff\xfe<",
    b"<!DOCTYPE a [<!ENTITY e '&e;'>]><a>&e;</a>",
    None,
]


@pytest.fixture(scope="module")
def subs() -> SubscriptionSet:
    return SubscriptionSet((query, query) for query in QUERIES)


def one_by_one(subs: SubscriptionSet, message: bytes | None) -> dict[str, Any]:
    if message is None:
        return {"keys": None, "nodes": None, "code": "message-unreadable", "place": (None, None)}
    try:
        counts = subs.node_counts(message)
    except RejectedMessage as error:
        return {"keys": None, "nodes": None, "code": error.code, "place": (error.line, error.column)}
    return {"keys": list(counts), "nodes": list(counts.values()), "code": None, "place": None}


def memory(column: ArrowColumn[Any], number: int) -> ArrowBuffer:
    """One of the pieces of memory that a column is in."""
    buffer = column.buffers()[number]
    assert buffer is not None
    return buffer


def batched(subs: SubscriptionSet, messages: Any, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{**row} for row in subs.match_batch(messages, nodes=True, **options).to_pylist()]
    for row in rows:
        error = row.pop("error")
        row["code"] = error and error["code"]
        row["place"] = error and (error["line"], error["column"])
        assert row.pop("undecided") is None
    return rows


@given(st.lists(st.sampled_from(MESSAGES), max_size=12), st.integers(1, 3))
def test_a_batch_equals_one_by_one(messages: list[bytes | None], threads: int) -> None:
    subs = SubscriptionSet((query, query) for query in QUERIES)
    assert batched(subs, pa.array(messages, pa.binary()), threads=threads) == [one_by_one(subs, m) for m in messages]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()])
def test_binary_messages(subs: SubscriptionSet, kind: pa.DataType) -> None:
    requested = [one_by_one(subs, message) for message in MESSAGES]
    assert batched(subs, pa.array(MESSAGES, kind)) == requested


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_text_messages(subs: SubscriptionSet, kind: pa.DataType) -> None:
    texts = [message.decode() for message in MESSAGES[:6] if message is not None]
    assert batched(subs, pa.array(texts, kind)) == [one_by_one(subs, message) for message in MESSAGES[:6]]


def test_slices_chunks_and_record_batches(subs: SubscriptionSet) -> None:
    requested = [one_by_one(subs, message) for message in MESSAGES]
    whole = pa.array(MESSAGES, pa.binary())
    for start in range(len(MESSAGES)):
        assert batched(subs, whole[start : start + 5]) == requested[start : start + 5]
    assert batched(subs, pa.chunked_array([whole[:3], whole[3:3], whole[3:]])) == requested
    assert batched(subs, pa.record_batch({"id": whole, "xml": whole})) == requested
    assert batched(subs, pa.table({"xml": pa.chunked_array([whole, whole])})) == requested * 2


def test_an_empty_batch_and_an_empty_set(subs: SubscriptionSet) -> None:
    assert batched(subs, pa.array([], pa.string())) == []
    assert batched(subs, pa.chunked_array([], pa.string())) == []
    (row,) = batched(SubscriptionSet(), pa.array(["<a/>"]))
    assert row["keys"] == []


def test_nulls_with_bytes_below_them(subs: SubscriptionSet) -> None:
    # Arrow allows anything to lie under a null.
    buffers = pa.array([b"<a/>", b"<a/>"], pa.large_binary()).buffers()
    masked = pa.Array.from_buffers(pa.large_binary(), 2, [pa.py_buffer(b"\x02"), *buffers[1:]])
    first, second = batched(subs, masked)
    assert first["keys"] is None
    assert second["keys"] == ["/a"]


def test_bytes_before_and_behind_the_messages_are_left_alone(subs: SubscriptionSet) -> None:
    good = [message for message in MESSAGES[:5] if message is not None]
    expected = subs.match_batch(pa.array(good, pa.large_binary())).to_pylist()
    for before, behind in ((0, 0), (1, 0), (0, 1), (0, 64), (0, 65), (7, 5_000), (5_000, 7)):
        positions = [before]
        for message in good:
            positions.append(positions[-1] + len(message))
        data = b"<" * before + b"".join(good) + b"<" * behind
        buffers = [None, pa.array(positions, pa.int64()).buffers()[1], pa.py_buffer(data)]
        messages = pa.Array.from_buffers(pa.large_binary(), len(good), buffers)
        assert subs.match_batch(messages).to_pylist() == expected, (before, behind)
        assert subs.match_batch(messages[:0]).to_pylist() == []
        assert subs.match_batch(messages[1:3]).to_pylist() == expected[1:3], (before, behind)


@pytest.mark.parametrize("count", [1, 2, 1_024, 1_025, 3])
def test_columns_without_a_value_are_as_long_as_the_others(subs: SubscriptionSet, count: int) -> None:
    answers = subs.match_batch(pa.array([b"<a/>"] * count, pa.large_binary()))
    answers.validate(full=True)
    assert [answers.column(name).null_count for name in ("error", "undecided")] == [count, count]
    assert answers.num_rows == count


def test_the_schema_does_not_depend_on_the_data(subs: SubscriptionSet) -> None:
    for messages in ([b"<a/>"], [b"<a>"], [], ["<a/>".encode("utf-16")]):
        answer = subs.match_batch(pa.array(messages, pa.binary()), nodes=True, deliver=True)
        assert answer.schema.types == [KEYS_TYPE, NODES_TYPE, PAYLOADS_TYPE, ERROR_TYPE, UNDECIDED_TYPE]
        answer.validate(full=True)


def test_what_is_not_asked_for_is_not_there(subs: SubscriptionSet) -> None:
    assert subs.match_batch(pa.array(["<a/>"])).schema.names == ["keys", "error", "undecided"]


def test_payloads_are_null_for_the_message_itself(subs: SubscriptionSet) -> None:
    (row,) = subs.match_batch(pa.array(["<a><b/></a>"]), deliver=True).to_pylist()
    assert row["payloads"] == [None] * len(row["keys"] or [])


@pytest.mark.parametrize("messages", [7, pa.array([1, 2]), b"<a/>", pa.array([["<a/>"]])])
def test_what_is_no_column_of_messages_is_refused(subs: SubscriptionSet, messages: Any) -> None:
    with pytest.raises(TypeError, match="messages must be"):
        subs.match_batch(messages)


def test_a_mapping_is_not_taken_for_its_keys(subs: SubscriptionSet) -> None:
    with pytest.raises(TypeError, match=r"pass mapping.values\(\)"):
        subs.match_batch({"m": "<a/>"})
    assert subs.match_batch({"m": "<a/>"}.values()).num_rows == 1


@pytest.mark.parametrize(
    "xml",
    [
        ["<a/>", "<b/>", None],
        ["<a/>", b"<b/>", None],
        [b"<a/>", b"<b/>", None],
        ["<a/>", b"<b/>", float("nan")],
        pd.array(["<a/>", "<b/>", None], dtype="string"),
        pd.Categorical(["<a/>", "<b/>", None]),
        pd.array(["<a/>", "<b/>", None], dtype=pd.ArrowDtype(pa.string())),
    ],
)
def test_frames_whatever_their_other_columns_are(subs: SubscriptionSet, xml: Any) -> None:
    frame = pd.DataFrame({"number": [1, "x", object()], "xml": xml, "pair": [(1,), {"a": 1}, None]})
    wanted = batched(subs, ["<a/>", "<b/>", None])
    assert batched(subs, frame) == wanted
    assert batched(subs, frame.rename(columns={"xml": 7}), column=7) == wanted
    with pytest.raises(ValueError, match="messages must have one column 'other', and have 'number', 'xml', 'pair'"):
        subs.match_batch(frame, column="other")


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.large_string(), pa.large_binary(), pa.binary(12)])
def test_runs_of_equal_messages_and_messages_of_one_length(subs: SubscriptionSet, kind: pa.DataType) -> None:
    texts = ["<a><b/></a>\n", "<c><b/></c>\n", None]
    encoded = [text and text.encode() for text in texts] if pa.types.is_fixed_size_binary(kind) else texts
    values = pa.array(encoded, kind)
    wanted = batched(subs, [texts[0], texts[0], texts[1], texts[2], texts[2]])
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 5], pa.int32()), values)
    for messages in (
        runs,
        pa.chunked_array([runs[:1], runs[1:]]),
        pa.table({"xml": runs}),
        values.take([0, 0, 1, 2, 2]),
    ):
        assert batched(subs, messages) == wanted
    assert batched(subs, runs[:0]) == []
    assert batched(subs, list(values)) == batched(subs, texts)


def test_limits_hold_in_batches() -> None:
    subs = SubscriptionSet([("k", "/a")], limits=Limits(message_bytes_max=20))
    messages = [b"<a/>", b"<a>" + b" " * 100 + b"</a>", "<a>xxxxx</a>".encode("utf-16")]
    rows = batched(subs, pa.array(messages, pa.binary()))
    assert [row["code"] for row in rows] == [None, "message-limit", "message-limit"]


def test_keys_share_one_dictionary(subs: SubscriptionSet) -> None:
    """Matching many batches does not make a key's string again and again."""
    first, second = (subs.match_batch(pa.array(["<a/>"])).column("keys").values.dictionary for _ in range(2))
    assert memory(first, 2).address == memory(second, 2).address


@pytest.mark.parametrize("grouped", [False, True])
def test_memory_is_used_again_once_nobody_looks_at_it(grouped: bool) -> None:
    """Answers that somebody holds stay what they were, while others come into the memory of those that are gone."""
    seed = 11
    print("seed", seed)
    chance = random.Random(seed)
    subs = SubscriptionSet((f"key-{number}", f"/a[@n = '{number % 9}']") for number in range(400))
    keys_of = [[f"key-{number}" for number in range(400) if number % 9 == n] for n in range(12)]
    column = "groups" if grouped else "keys"
    held: list[tuple[pa.Array, list[Any]]] = []
    addresses = set()
    for _ in range(60):
        count = chance.randrange(chance.choice((4, 40, 400)))
        values = [chance.randrange(chance.choice((1, 12))) for _ in range(count)]
        batch = pa.array([f"<a n='{value}'/>" for value in values], pa.string())
        answer = subs.match_batch(batch, grouped=grouped, threads=chance.randint(1, 5)).column(column)
        keys = keys_of_groups(answer) if grouped else answer
        assert keys.to_pylist() == [keys_of[value] for value in values]
        numbers = memory(answer.values.indices, 1)
        addresses.add(numbers.address if numbers.size else 0)
        assert not numbers.is_mutable
        if chance.random() < 0.3:
            held.append((answer, answer.to_pylist()))
        if held and chance.random() < 0.3:
            held.pop(chance.randrange(len(held)))
        del answer, numbers
        for kept, reported in held:
            assert kept.to_pylist() == reported
    assert len(addresses) < 60


@pytest.mark.parametrize("threads", [1, 2])
def test_the_memory_of_payloads_is_used_again_once_nobody_looks_at_them(threads: int) -> None:
    """Large payloads and small ones come into memory of others; what somebody holds stays what it was."""
    seed = 12
    print("seed", seed)
    chance = random.Random(seed)
    queries = ["for $b in /a/b return <x>{ $b }{ $b/c }</x>", "for $b in /a/b where $b/@n = 1 return <y>{ $b }</y>"]
    subs = SubscriptionSet((str(number), query) for number, query in enumerate(queries))
    held: list[tuple[pa.Array, list[Any]]] = []
    addresses = []
    for _ in range(60):
        text = "x" * chance.choice((0, 10, 5000))
        bodies, expected = [], []
        for number in range(chance.randrange(40)):
            child = f"<c>{number}</c>"
            element = f'<b n="{number % 3}">{text}{child}</b>'
            bodies.append(f"<a>{element * number}</a>")
            results = [f"<x>{element}{child}</x>" * number, f"<y>{element}</y>" * number]
            expected.append([result.encode() for result in results[: 1 + (number % 3 == 1)] if number])
        answer = subs.match_batch(pa.array(bodies, pa.string()), deliver=True, threads=threads).column("payloads")
        assert answer.to_pylist() == expected
        data = memory(answer.values.dictionary, 2)
        assert not data.is_mutable
        addresses.append(data.address if data.size > 1 << 17 else 0)
        if chance.random() < 0.3:
            held.append((answer, expected))
        if held and chance.random() < 0.3:
            held.pop(chance.randrange(len(held)))
        del answer, data
        for kept, reported in held:
            assert kept.to_pylist() == reported
    large = [address for address in addresses if address]
    assert len(set(large)) < len(large)


def test_a_table_of_keys_is_made_once_it_has_paid() -> None:
    subs = SubscriptionSet((f"key-{number}", f"/a[@n = '{number // 10}']") for number in range(3_000))
    batch = pa.array([f"<a n='{number % 7}'/>" for number in range(8)])

    def table_size() -> int:
        answer = subs.match_batch(batch).column("keys")
        assert answer.to_pylist() == [subs.match(xml).keys for xml in batch.to_pylist()]
        return len(answer.values.dictionary)

    # A round names 80 keys, and a table of 1,000 keys costs nothing.
    assert [table_size() for _ in range(26)] == [70] * 24 + [3_000] * 2
    subs.remove("key-5")
    assert table_size() == 3_000, "a removed key stays, and no answer has it"
    subs.add_many([("new-1", "/a"), ("new-2", "/b"), ("new-3", "/a[@n = '4']")])
    first, second = (subs.match_batch(batch).column("keys").values.dictionary for _ in range(2))
    assert (len(first), memory(first, 2).address) == (3_003, memory(second, 2).address), "answers share the table"
    # So many are removed that their slots are given to others.
    for number in range(1_000, 2_500):
        subs.remove(f"key-{number}")
    subs.add("last", "/a")
    sizes = [table_size() for _ in range(26)]
    assert (sizes[0], sizes[-1]) == (72, 3_003)


def test_tables_of_keys_grow_behind_answers_that_are_kept() -> None:
    """Keys come and go between batches: of each answer the keys stay those of its moment."""
    seed = printed_seed()
    randomness = random.Random(seed)
    subs = SubscriptionSet((f"key-{number}", f"/a[@n = '{number % 10}']") for number in range(2_000))
    batch = pa.array([f"<a n='{number}'/>" for number in range(10)])
    kept: list[tuple[pa.Array, list[list[str]]]] = []
    for round_ in range(60):
        for number in range(randomness.choice([0, 1, 50])):
            subs.add(f"{round_}-{number}-{'é' * randomness.randrange(9)}", f"/a[@n = '{randomness.randrange(10)}']")
        for key in randomness.sample(subs.keys(), randomness.choice([0, 1, 30])):
            subs.remove(key)
        answer = subs.match_batch(batch).column("keys")
        answer.validate(full=True)
        expected = [sorted(subs.match(xml).keys) for xml in batch.to_pylist()]
        kept.append((answer, expected))
        for answer, expected in randomness.sample(kept, min(len(kept), 4)):
            assert [sorted(row) for row in answer.to_pylist()] == expected
    again = pickle.loads(pickle.dumps(kept[-1][0]))
    assert [sorted(row) for row in again.to_pylist()] == kept[-1][1]


def test_messages_in_other_encodings_right_after_a_change() -> None:
    """Both parts of such a batch bring their own keys: for so few there is no table of all."""
    subs = SubscriptionSet((f"other-{number}", f"/other-{number}") for number in range(3_000))
    subs.add_many((f"key-{number}", f"/a[@n = '{number % 5}']") for number in range(20))
    subs.add("late", "for $a in /a where $a/@n = '3' return <r>{ $a/@n }</r>")
    texts = [f"<a n='{number}'>é</a>" for number in (3, 9, 1, 3, 4, 1)]
    encoded = [text.encode(("utf-8", "utf-16")[number % 2]) for number, text in enumerate(texts)]
    rows = subs.match_batch(pa.array(encoded, pa.binary()), deliver=True, nodes=True).to_pylist()
    for text, row in zip(texts, rows, strict=True):
        counts = subs.match(text).node_counts()
        assert dict(zip(row["keys"] or [], row["nodes"] or [], strict=True)) == counts
        delivered = {one.key: one.payload if one.rewritten else None for one in subs.deliver(text)}
        assert dict(zip(row["keys"] or [], row["payloads"] or [], strict=True)) == delivered


@pytest.mark.parametrize("others", [0, 3_000])
def test_batches_while_the_population_changes(others: int) -> None:
    """With a table of all keys at once, and, where there are many, once it has paid."""
    seed = printed_seed()
    chance = random.Random(seed)
    subs = SubscriptionSet((f"other-{number}", f"/other-{number}") for number in range(others))
    held: set[str] = set()
    for number in range(200):
        if held and chance.random() < 0.5:
            key = chance.choice(sorted(held))
            held.remove(key)
            subs.remove(key)
        else:
            held.add(f"key-{number}")
            subs.add(f"key-{number}", "/a")
        for _ in range(chance.randrange(3)):
            (row,) = subs.match_batch(pa.array(["<a/>"])).to_pylist()
            assert set(row["keys"] or []) == held
            assert set(subs.match("<a/>").keys) == held


def laid_out(messages: list[bytes]) -> tuple[bytes, bytes]:
    column = pa.array(messages, pa.large_binary())
    _, offsets, data = column.buffers()
    return offsets.to_pybytes(), data.to_pybytes()


def test_the_engine_takes_views_and_slices(subs: SubscriptionSet) -> None:
    """Longer and shorter batches in turn: views are copied to memory that is used again."""
    good = [message for message in MESSAGES if message][:5]

    def ask(offsets: bytes, data: bytes | memoryview, count: int) -> tuple[bytes, bytes]:
        result = subs._session.engine.match_batch(offsets, data, count, naming="slots")
        assert not result.errors
        return bytes(result.match_offsets), bytes(result.matches)

    for messages in (good * 40, good[:1], good * 7, good[1:4]):
        offsets, data = laid_out(messages)
        requested = ask(offsets, data, len(messages))
        assert len(requested[1]) > 0
        assert ask(offsets, memoryview(data), len(messages)) == requested
        assert ask(offsets, memoryview(bytearray(data)), len(messages)) == requested
        for start in range(min(len(messages), 5)):
            first = sum(map(len, messages[:start]))
            count = len(messages) - start
            cut = ask(*laid_out(messages[start:]), count)
            assert ask(offsets[8 * start :], memoryview(data)[first:], count) == cut


def test_the_engine_refuses_offsets_that_lead_astray(subs: SubscriptionSet) -> None:
    offsets, data = laid_out([b"<a/>", b"<b/>"])
    backwards = offsets[8:16] + offsets[:8] + offsets[16:]
    below_zero = offsets[:8] + (-1).to_bytes(8, "little", signed=True) + offsets[16:]
    cases = ((backwards, data), (below_zero, data), (offsets, data[:-1]), (offsets[:16], data))
    for wrong, bytes_ in cases:
        for supplied in (bytes_, memoryview(bytes_)):
            with pytest.raises(ValueError, match="offsets do not describe slices of data"):
                subs._session.engine.match_batch(wrong, supplied, 2)
    with pytest.raises(BufferError):
        subs._session.engine.match_batch(offsets, memoryview(data).cast("b"), 2)
    with pytest.raises(TypeError):
        subs._session.engine.match_batch(offsets, "text", 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("threads", [1, 3])
def test_payloads_come_and_go_with_the_queries_that_rewrite(threads: int) -> None:
    subscriptions = SubscriptionSet([("b", "//b"), ("a", "/a"), ("all", "/*")])
    messages = pa.array([b"<a><b/></a>", b"<c/>"] * 40)

    def answer() -> list[Any]:
        batch = subscriptions.match_batch(messages, deliver=True, threads=threads)
        rows = list(zip(batch.column("keys").to_pylist(), batch.column("payloads").to_pylist(), strict=True))
        assert rows == rows[:2] * 40
        return [dict(zip(keys or [], payloads or [], strict=True)) for keys, payloads in rows[:2]]

    plain = [{"b": None, "a": None, "all": None}, {"all": None}]
    assert answer() == plain
    subscriptions.add("r", "for $b in //b return <x>{ $b }</x>")
    assert answer() == [{**plain[0], "r": b"<x><b/></x>"}, plain[1]]
    subscriptions.discard("r")
    assert answer() == plain


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_decoded_text_may_declare_any_encoding(kind: pa.DataType) -> None:
    subscriptions = SubscriptionSet([("k", "/a[. = '\xe9']")])
    declarations = [
        "",
        *(f"<?xml version='1.0' encoding='{name}'?>" for name in ("utf-16", "iso-8859-1", "UTF-8", "x")),
    ]
    messages = [None, *(f"{declaration}<a>\xe9</a>" for declaration in declarations)]
    batch = subscriptions.match_batch(pa.array(messages, kind))
    assert batch.column("keys").to_pylist() == [None, *(["k"] for _ in declarations)]
    assert all("k" in subscriptions.match(message) for message in messages if message is not None)
