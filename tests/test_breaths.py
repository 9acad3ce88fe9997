"""Long statements are heard in the pieces in which they are spoken."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from inferproof.grading.breaths import COARSE, breaths, runs
from inferproof.grading.reading import readings

SPEECH = (
    "so um the graph just sends everything in one go but you know the actual work on the gpu is exactly the same as "
    "before and then for the long prompt it does not help because there it is really computing the whole time"
)
CHINESE_SPEECH = (
    "就是说它先录一遍然后后面就直接放嘛省得 CPU 一个一个去发 kernel 但是录的时候显存地址是写死的所以输入得先拷到固定的 "
    "buffer 里去而且大小也只录了几档比如来了五个请求就按八个的那档跑"
)


def test_a_short_statement_stays_whole() -> None:
    (reading,) = readings("vLLM reuses whole blocks only.")
    assert breaths(reading, COARSE) == [reading]


def test_speech_in_one_breath_falls_into_its_thoughts() -> None:
    for speech in (SPEECH, CHINESE_SPEECH):
        (reading,) = readings(speech)
        said = [piece.span for piece in breaths(reading, COARSE)]
        assert len(said) > 3
        assert max(map(len, said)) < len(speech) / 2


def test_a_denial_reaches_the_pieces_in_its_scope_only() -> None:
    (reading,) = readings(SPEECH)
    denied = {piece.span: bool(piece.statement.denials) for piece in breaths(reading, COARSE)}
    assert next(is_denied for said, is_denied in denied.items() if "does not help" in said)
    assert not next(is_denied for said, is_denied in denied.items() if "one go" in said)


def test_runs_are_of_neighbours_and_of_every_length_up_to_the_longest() -> None:
    (reading,) = readings(SPEECH)
    pieces = breaths(reading, COARSE)
    found = list(runs(pieces, 2))
    assert [last - first for first, last in found].count(1) == len(pieces)
    assert [last - first for first, last in found].count(2) == len(pieces) - 1


words = st.sampled_from(["and", "the", "KV", "block", "是", "然后", "不", "not", ",", "2064", "so", "vLLM", "缓存 里"])


@given(st.lists(words, min_size=1, max_size=120))
def test_the_pieces_are_the_statement(spoken: list[str]) -> None:
    for reading in readings(" ".join(spoken)):
        pieces = breaths(reading, COARSE)
        places = [(piece.statement.start, piece.statement.end) for piece in pieces]
        assert places[0][0] == reading.statement.start and places[-1][1] == reading.statement.end
        assert all(one[1] == other[0] for one, other in pairwise(places))
        assert {piece.statement.stance for piece in pieces} == {reading.statement.stance}
