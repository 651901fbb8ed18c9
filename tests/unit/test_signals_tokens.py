"""Which tokens a turn wrote, and rewards on them that sum to the record's reward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.records import judged, scored, unscored
from verifier_service.trainers.spans import (
    Piece,
    Span,
    UnstableTemplate,
    action_mask,
    byte_offsets,
    chat_spans,
    in_bytes,
    shifted,
    token_spans,
    truncated,
    turn_spans,
)
from verifier_service.trainers.tokens import Inconsistent, place, token_rewards


def merged(text: str, vocabulary: Sequence[str]) -> list[tuple[int, int]]:
    """A greedy tokeniser: the longest piece of the vocabulary, else one character."""
    offsets, at = [], 0
    while at < len(text):
        size = max((len(p) for p in vocabulary if text.startswith(p, at)), default=1)
        offsets.append((at, at + size))
        at += size
    return offsets


def test_tokens_of_turns_in_a_text() -> None:
    text = "Q:AB|obs|CDE|"
    offsets = merged(text, ["Q:", "AB", "obs", "CD"])
    assert token_spans(offsets, [Piece(2, 4), Piece(9, 12)]) == (Span(1, 2), Span(5, 7))
    assert action_mask(token_spans(offsets, [Piece(2, 4), Piece(9, 12)]), len(offsets)).sum() == 3


def test_a_merge_across_a_border_belongs_to_who_wrote_its_first_character() -> None:
    text = "aabb"
    straight = token_spans(merged(text, ["aa", "bb"]), [Piece(0, 2), Piece(2, 4)])
    assert straight == (Span(0, 1), Span(1, 2))
    across = token_spans(merged(text, ["ab"]), [Piece(0, 2), Piece(2, 4)])
    assert across == (Span(0, 2), Span(2, 3))
    swallowed = token_spans([(0, 1), (1, 4)], [Piece(0, 2), Piece(2, 4)])
    assert swallowed == (Span(0, 2), Span(2, 2)), "the second turn has no token of its own"
    outside = token_spans([(0, 3), (3, 4)], [Piece(2, 4)])
    assert outside == (Span(0, 2),), "a token that begins in the template and reaches into the turn"


def test_tokens_that_the_tokeniser_added_belong_to_nobody() -> None:
    offsets = [(0, 0), (0, 2), (2, 4), (0, 0)]
    assert token_spans(offsets, [Piece(0, 2), Piece(2, 4)]) == (Span(1, 2), Span(2, 3))


def test_a_token_of_no_characters_inside_a_turn_is_not_counted_to_its_end() -> None:
    assert token_spans([(0, 3), (3, 3)], [Piece(0, 4)]) == (Span(0, 1),)


def test_several_tokens_of_one_character() -> None:
    """Byte-level BPE: a character of several tokens has the same offsets in all of them."""
    assert token_spans([(0, 1), (0, 1), (0, 1), (1, 2)], [Piece(0, 1), Piece(1, 2)]) == (
        Span(0, 3),
        Span(3, 4),
    )


def test_bytes_as_offsets() -> None:
    text = "é!ü?"
    pieces = in_bytes(text, [Piece(0, 2), Piece(2, 4)])
    assert pieces == (Piece(0, 3), Piece(3, 6))
    tokens = [b"\xc3", b"\xa9!", b"\xc3\xbc?"]
    assert token_spans(byte_offsets(tokens), pieces) == (Span(0, 2), Span(2, 3))


def test_broken_input_is_named() -> None:
    with pytest.raises(ValueError, match="turn 1 begins at 1"):
        token_spans([(0, 4)], [Piece(0, 2), Piece(1, 3)])
    with pytest.raises(ValueError, match="backwards at token 1"):
        token_spans([(2, 4), (0, 2)], [Piece(0, 4)])
    with pytest.raises(ValueError, match="turn 0 has tokens 0 to 5 of 3"):
        action_mask([Span(0, 5)], 3)
    with pytest.raises(ValueError, match="turn 1 has tokens that belong"):
        action_mask([Span(0, 2), Span(1, 3)], 3)
    with pytest.raises(ValueError, match="before the sequence"):
        shifted([Span(1, 2)], -2)


def test_turns_from_a_response_mask() -> None:
    assert turn_spans([1, 1, 0, 0, 1, 0]) == (Span(0, 2), Span(4, 5))
    assert turn_spans([0, 0]) == ()
    assert turn_spans(np.array([True])) == (Span(0, 1),)
    assert shifted(turn_spans([0, 1, 1]), 2) == (Span(3, 5),)


@given(st.lists(st.booleans(), max_size=30))
def test_spans_and_masks_are_two_forms_of_one_thing(mask: list[bool]) -> None:
    assert action_mask(turn_spans(mask), len(mask)).tolist() == mask


def render(messages: Sequence[Mapping[str, Any]], *, generation: bool) -> str:
    text = "".join(f"<{m['role']}>{m['content']}<end>" for m in messages)
    return text + "<assistant>" if generation else text


CHAT = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "2+2?"},
    {"role": "assistant", "content": "let me see"},
    {"role": "tool", "content": "4"},
    {"role": "assistant", "content": "4!"},
]
MARKS = ["<system>", "<user>", "<assistant>", "<tool>", "<end>"]


def test_tokens_of_a_chat() -> None:
    text = render(CHAT, generation=False)
    offsets = merged(text, MARKS)
    spans = chat_spans(CHAT, render, lambda whole: merged(whole, MARKS))
    said = ["".join(text[a:b] for a, b in offsets[span.start : span.stop]) for span in spans]
    assert said == ["let me see<end>", "4!<end>"]


def test_a_chat_whose_template_merges_across_turns() -> None:
    """The mark that ends a turn and the one that begins the next are one token here."""
    vocabulary = [*MARKS, "<end><tool>"]
    spans = chat_spans(CHAT, render, lambda whole: merged(whole, vocabulary))
    text = render(CHAT, generation=False)
    offsets = merged(text, vocabulary)
    assert text[offsets[spans[0].stop - 1][0] :].startswith("<end><tool>")
    assert spans[0].stop <= spans[1].start


def test_a_template_that_rewrites_earlier_turns_is_refused() -> None:
    def forgetful(messages: Sequence[Mapping[str, Any]], *, generation: bool) -> str:
        last = max((n for n, m in enumerate(messages) if m["role"] == "assistant"), default=-1)
        kept = [
            m | {"content": ""} if m["role"] == "assistant" and n < last else m
            for n, m in enumerate(messages)
        ]
        return render(kept, generation=generation)

    with pytest.raises(UnstableTemplate, match="message 2"):
        chat_spans(CHAT, forgetful, lambda whole: merged(whole, MARKS))


def test_rewards_by_hand() -> None:
    """Turns at tokens 1-2 and 5-7 of 9; process 1 and 0.5, weight 0.2: 0.1 and 0.05; outcome 0.6."""
    record = judged(0.6, (1.0, 0.5))
    rewards = place(record, [Span(1, 3), Span(5, 8)], 9)
    assert rewards is not None
    assert rewards == pytest.approx([0, 0, 0.1, 0, 0, 0, 0, 0.65, 0])
    assert rewards.sum() == pytest.approx(record.reward)


def test_turns_that_were_not_judged_get_nothing() -> None:
    rewards = place(judged(0.0, (None, 1.0, None)), [Span(0, 1), Span(1, 2), Span(2, 3)], 3)
    assert rewards is not None
    assert rewards == pytest.approx([0.0, 0.2, 0.0])


def test_a_closing_message_of_its_own() -> None:
    """The answer may be one message more than the turns that were judged, and nothing else may."""
    rewards = place(judged(1.0, (1.0,)), [Span(0, 2), Span(3, 4)], 4)
    assert rewards == pytest.approx([0.0, 0.2, 0.0, 1.0])
    with pytest.raises(Inconsistent, match="1 turns were judged, and there are 3 spans"):
        place(judged(1.0, (1.0,)), [Span(0, 1), Span(1, 2), Span(2, 3)], 4)


def test_cut_off_turns_hand_their_reward_back() -> None:
    spans = [Span(0, 2), Span(3, 5), Span(6, 8)]
    record = judged(0.5, (1.0, 0.0, 0.5), weight=0.3)
    cut = place(record, truncated(spans, 4), 4)
    assert cut is not None
    assert cut.sum() == pytest.approx(record.reward)
    assert cut == pytest.approx([0.0, 0.1, 0.0, 0.55])
    late = place(record, [Span(0, 0), Span(1, 1), Span(2, 4)], 4)
    assert late == pytest.approx([0.0, 0.0, 0.1, 0.55]), "turns that were never tokenised, before the first"


def test_no_reward_is_no_row() -> None:
    records = [judged(1.0, (1.0,)), unscored(), None, judged(1.0, (1.0,))]
    spans = [[Span(0, 2)], [Span(0, 2)], [Span(0, 2)], [Span(0, 0)]]
    found = token_rewards(records, spans, 3)
    assert found.scored.tolist() == [True, False, False, False]
    assert found.mask.tolist() == [[True, True, False], *[[False] * 3] * 3]
    assert found.rewards[1:].tolist() == [[0.0] * 3] * 3
    assert found.rewards[0].sum() == pytest.approx(1.2)
    with pytest.raises(ValueError, match="4 records"):
        token_rewards(records, spans[:2], 3)


def test_a_record_that_does_not_add_up_is_refused() -> None:
    with pytest.raises(Inconsistent, match="miss the reward"):
        place(scored(1.0, outcome=0.2, process=(1.0,), process_weight=0.2), [Span(0, 1)], 1)


def test_an_outcome_without_turns() -> None:
    assert place(scored(0.75), [Span(1, 4)], 5) == pytest.approx([0, 0, 0, 0.75, 0])


@st.composite
def placements(draw: st.DrawFn) -> tuple[Any, list[Span], int]:
    count = draw(st.integers(1, 6))
    spans, at = [], draw(st.integers(0, 3))
    for _ in range(count):
        stop = at + draw(st.integers(0, 4))
        spans.append(Span(at, stop))
        at = stop + draw(st.integers(0, 3))
    process = tuple(draw(st.one_of(st.none(), st.floats(0, 1))) for _ in range(count))
    record = judged(draw(st.floats(0, 1)), process, weight=draw(st.floats(0, 1)))
    return record, spans, at + draw(st.integers(0, 3))


@given(placements(), st.integers(0, 30))
def test_token_rewards_sum_to_the_reward_whatever_was_cut(
    case: tuple[Any, list[Span], int], kept: int
) -> None:
    record, spans, length = case
    length = min(length, kept)
    cut = truncated(spans, length)
    rewards = place(record, cut, length)
    written = action_mask(cut, length)
    if rewards is None:
        assert not written.any()
    else:
        assert rewards.sum() == pytest.approx(record.reward, abs=1e-12)
        assert not rewards[~written].any()
