"""Every error: an example, its code, its text, and that it survives pickling."""

import inspect
import pickle

import pytest

from twigcast import errors
from twigcast.errors import TwigcastError, caret

EXAMPLES: list[TwigcastError] = [
    errors.QuerySyntaxError("//a[b=", 7, "the predicate ends early", ["a name", "a number"]),
    errors.UnsupportedQuery("//a[lang('en')]", 5, "lang() is not evaluated", ["@xml:lang"]),
    errors.UndeclaredPrefix("//cap:info", 3, "the prefix 'cap' has no namespace"),
    errors.QueryLimitExceeded("query_steps_max", 1000, "the query has more than 1,000 steps", "//a" * 2000, 3001),
    errors.MalformedMessage(3, 14, "mismatched tag"),
    errors.UnreadableMessage("the file vanished"),
    errors.MessageLimitExceeded("depth_max", 2000, "elements are nested too deeply", 1, 6001),
    errors.NeedsConversion(1, 1, "the message is UTF-16"),
    errors.DuplicateKey("flood-desk"),
    errors.InvalidKey("\ud800", "half of a surrogate pair is no character"),
    errors.InvalidContext("the prefix 'p' stands for an empty namespace"),
    errors.SubscriptionChanged("k"),
    errors.UnknownKey("flood-desk"),
    errors.UndecidedSubscription("flood-desk", "the query took more than 100,000,000 visits"),
    errors.SubscriptionFileError("subscriptions.jsonl", 3, "there is no query"),
    errors.RefusedSubscriptions([("k", errors.DuplicateKey("k"))]),
    errors.SnapshotError("news.twig", "the checksum is wrong"),
    errors.SourceError("inbox", "there is no such file or folder"),
    errors.ReadOptionError("record", "it names no element"),
    errors.LifecycleProfileError("cap", "identity", "it is missing"),
    errors.WindowError("within", "it is missing"),
    errors.OutputError("outbox", "permission denied"),
    errors.EnvelopeError("1st", "it is no name"),
    errors.MissingExtra("pyspark", "spark"),
    errors.MissingJava("java was not found"),
    errors.PipelineError("the checkpoint belongs to another job"),
    errors.InternalError("index out of bounds"),
]
ABSTRACT = {
    errors.TwigcastError,
    errors.QueryError,
    errors.RejectedMessage,
    errors.LimitExceeded,
    errors.SubscriptionError,
    errors.MissingDependency,
}
CLASSES = [
    item
    for _, item in inspect.getmembers(errors, inspect.isclass)
    if issubclass(item, TwigcastError) and not item.__name__.startswith("_")
]


def identify(error: TwigcastError) -> str:
    return type(error).__name__


def test_every_error_has_an_example() -> None:
    assert {type(example) for example in EXAMPLES} == set(CLASSES) - ABSTRACT


def test_every_error_is_in_the_tree_and_exported() -> None:
    tree = set((errors.__doc__ or "").split())
    names = {c.__name__ for c in CLASSES}
    assert names - tree == set()
    assert names - set(errors.__all__) == set()


def test_codes_are_distinct() -> None:
    assert len({c.code for c in CLASSES}) == len(CLASSES)


@pytest.mark.parametrize("error", EXAMPLES, ids=identify)
def test_pickles(error: TwigcastError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert copy == error
    assert hash(copy) == hash(error)
    assert str(copy) == str(error)
    assert copy.details() == error.details()


def test_errors_equal_each_other_by_kind_and_arguments() -> None:
    assert errors.DuplicateKey("a") != errors.DuplicateKey("b")
    assert errors.DuplicateKey("a") != errors.UnknownKey("a")


@pytest.mark.parametrize("error", EXAMPLES, ids=identify)
def test_details_name_code_and_reason(error: TwigcastError) -> None:
    details = error.details()
    assert details["code"] == error.code
    assert details["reason"]


@pytest.mark.parametrize("error", EXAMPLES, ids=identify)
def test_every_error_says_something_on_its_first_line(error: TwigcastError) -> None:
    first = str(error).splitlines()[0]
    assert len(first) > 10
    assert "None" not in first


def test_query_error_points_at_the_place() -> None:
    error = errors.QuerySyntaxError("//a[b=]", 7, "a value is missing", ["a number", "a string", "a path"])
    assert str(error).splitlines() == [
        "column 7: a value is missing; expected a number, a string or a path",
        "    //a[b=]",
        "          ^",
    ]


def test_unsupported_query_says_what_to_write_instead() -> None:
    assert "write @xml:lang instead" in str(EXAMPLES[1])


def test_limit_says_how_to_raise_it() -> None:
    error = errors.MessageLimitExceeded("depth_max", 2000, "elements are nested too deeply")
    assert "raise it with limits=Limits(depth_max=...)" in str(error)
    assert isinstance(error, errors.RejectedMessage)
    assert isinstance(error, errors.LimitExceeded)


def test_undeclared_prefix_knows_the_prefix() -> None:
    assert errors.UndeclaredPrefix("/a/cap:info", 4, "").prefix == "cap"
    assert errors.UndeclaredPrefix("/a", 99, "").prefix == ""


def test_many_refused_subscriptions_are_counted() -> None:
    error = errors.RefusedSubscriptions([(str(n), errors.DuplicateKey(str(n))) for n in range(1_007)])
    assert str(error).splitlines()[0] == "1,007 subscriptions were refused"
    assert str(error).splitlines()[-1] == "... and 1,002 more"


@pytest.mark.parametrize(
    ("text", "column", "shown"),
    [
        ("//a", 1, "    //a\n    ^"),
        ("//a", 4, "    //a\n       ^"),
        ("//a", 99, "    //a\n       ^"),
        ("", 1, "    \n    ^"),
        ("for $a in /x\nreturn <b>", 16, "    return <b>\n      ^"),
        ("for $a in /x\r\nreturn <b>", 15, "    return <b>\n    ^"),
        ("/a\t/b", 4, "    /a /b\n       ^"),
        ("/日本[x", 5, "    /日本[x\n          ^"),
        ("/a\x1b[31m", 3, "    /a\N{REPLACEMENT CHARACTER}[31m\n      ^"),
    ],
)
def test_caret(text: str, column: int, shown: str) -> None:
    assert caret(text, column) == shown


def test_caret_shows_a_part_of_a_long_query() -> None:
    text = "/a" * 500_000
    excerpt, pointer = caret(text, 600_001).splitlines()
    assert len(excerpt) < 120
    assert excerpt.startswith("    ...")
    assert excerpt.endswith("...")
    assert excerpt[pointer.index("^")] == "/"
