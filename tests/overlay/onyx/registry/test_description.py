"""What a broker says of itself, as text and back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from twigcast.overlay.onyx.registry.description import Description, read_description

words = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=12)
names = words.filter(lambda word: "=" not in word)
numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(
    st.builds(
        Description,
        name=words,
        where=st.just("") | names,
        url=st.just("") | st.text(max_size=20),
        location=st.tuples(numbers, numbers),
        capacity=st.floats(0, 1e12),
        holders=st.lists(words, max_size=3).map(tuple),
    )
)
def test_what_is_written_is_read_again(given_: Description) -> None:
    assert read_description(str(given_)) == given_


@given(st.text(max_size=60))
def test_any_text_says_something_or_nothing(text: str) -> None:
    read_description(text)


def test_labels_of_older_brokers_and_words_of_newer_ones() -> None:
    assert read_description("north 127.0.0.1:7401") == Description("north", "127.0.0.1:7401")
    assert read_description("north") == Description("north")
    assert read_description("north h:1 colour=red place=1,2") == Description("north", "h:1", location=(1.0, 2.0))
    assert read_description("north place=1 capacity=much") == Description("north")
