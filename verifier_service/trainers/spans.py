"""Which tokens of a sequence a turn wrote: from offsets of the trainer's own tokeniser, a mask, or a chat.

A token belongs to one turn or to none (prompt, observations, template, padding). Positions count from 0;
spans are half-open.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from verifier_service.trainers.numeric import ArrayLike, Flags, np


class Span(NamedTuple):
    """Tokens ``start`` to ``stop`` - 1. Where ``start`` equals ``stop`` the turn has no token: it was cut
    off, never tokenised, or merged into its neighbour; ``start`` then is where it would stand."""

    start: int
    stop: int

    @property
    def empty(self) -> bool:
        """Whether the turn has no token."""
        return self.start == self.stop


class Piece(NamedTuple):
    """Characters (or bytes) ``start`` to ``stop`` - 1 of a text: what one turn wrote."""

    start: int
    stop: int


class Render(Protocol):
    """A chat template: the text of a conversation, with ``generation`` up to where the assistant begins."""

    def __call__(self, messages: Sequence[Mapping[str, Any]], *, generation: bool) -> str: ...


class UnstableTemplate(ValueError):
    """The text of a longer conversation does not begin with the text of a shorter one, so that no place in
    it belongs to one message (templates that drop earlier reasoning do that); or the first message is the
    assistant's, and the template writes no empty conversation. Take ``turn_spans`` over the tokens as they
    were sampled instead."""


def token_spans(offsets: Sequence[tuple[int, int]], turns: Sequence[Piece]) -> tuple[Span, ...]:
    """The tokens of each turn, in a text that was tokenised as a whole.

    ``offsets`` (T): start and end of each token in the text, as fast tokenisers give them
    (``return_offsets_mapping=True``); an empty range is a token of the tokeniser's own, which no turn
    wrote. ``turns``: the place of each turn in the same text and unit, in order, without overlaps.

    A token across a border (a merge of BPE) belongs to the turn that wrote its first character; one that
    begins outside all turns belongs to the first turn that it reaches into. No token belongs to two turns.
    Raises ``ValueError`` when turns overlap or offsets go backwards.
    """
    _ordered(turns)
    _forwards(offsets)
    written = [turn for turn, piece in enumerate(turns) if piece.start < piece.stop]
    stops = [turns[turn].stop for turn in written]
    spans: dict[int, Span] = {}
    for place, (start, end) in enumerate(offsets):
        index = bisect_right(stops, start)
        if start < end and index < len(written) and turns[written[index]].start < end:
            first = spans.get(written[index], Span(place, place)).start
            spans[written[index]] = Span(first, place + 1)
    return tuple(spans.get(turn) or _nowhere(piece, offsets) for turn, piece in enumerate(turns))


def turn_spans(mask: ArrayLike) -> tuple[Span, ...]:
    """The turns of a sequence that was sampled turn by turn: every run of 1 in ``mask`` (T,) is one.

    That is verl's ``response_mask`` and SkyRL's ``loss_mask``: 1 where the policy wrote, 0 on observations
    and padding. Turns with nothing between them are one run.
    """
    given = np.asarray(mask)
    if given.ndim != 1:
        raise ValueError(f"mask has {given.ndim} dimensions, expected 1")
    edges = np.flatnonzero(np.diff(np.concatenate(([0], (given != 0).astype(np.int8), [0]))))
    return tuple(Span(int(start), int(stop)) for start, stop in edges.reshape(-1, 2))


def chat_spans(
    messages: Sequence[Mapping[str, Any]],
    render: Render,
    offsets_of: Callable[[str], Sequence[tuple[int, int]]],
) -> tuple[Span, ...]:
    """The tokens of each assistant message of a conversation, in the tokens of the whole.

    ``render`` is the chat template, ``offsets_of`` the tokeniser: offsets of the tokens of a text. With
    transformers::

        render = lambda messages, generation: tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=generation)
        offsets_of = lambda text: tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]

    Includes what closes the message (its end-of-turn token: the policy wrote that, too). Raises
    ``UnstableTemplate``, naming the message, when the template does not extend its own text.
    """
    whole = render(messages, generation=False)
    pieces: list[Piece] = []
    for place, message in enumerate(messages):
        if message.get("role") != "assistant":
            continue
        before = _before(messages[:place], render)
        after = render(messages[: place + 1], generation=False)
        if not (after.startswith(before) and whole.startswith(after)):
            raise UnstableTemplate(f"the text of message {place} changes with what comes after it")
        pieces.append(Piece(len(before), len(after)))
    return token_spans(offsets_of(whole), pieces)


def _before(messages: Sequence[Mapping[str, Any]], render: Render) -> str:
    """The text up to where the assistant begins."""
    if messages:
        return render(messages, generation=True)
    try:
        return render(messages, generation=True)
    except Exception as fault:  # whatever the template's language raises
        raise UnstableTemplate(
            f"the template writes no empty conversation, which is before message 0: {fault}"
        ) from fault


def byte_offsets(tokens: Sequence[bytes]) -> list[tuple[int, int]]:
    """Offsets in bytes of tokens that are given as bytes (tiktoken: ``decode_single_token_bytes``)."""
    ends = [0]
    for token in tokens:
        ends.append(ends[-1] + len(token))
    return list(pairwise(ends))


def in_bytes(text: str, pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """Places in characters as places in bytes of UTF-8."""
    return tuple(
        Piece(len(text[: piece.start].encode()), len(text[: piece.stop].encode())) for piece in pieces
    )


def truncated(spans: Sequence[Span], length: int) -> tuple[Span, ...]:
    """The spans in a sequence of which only the first ``length`` tokens were kept."""
    if length < 0:
        raise ValueError(f"length must be at least 0, not {length}")
    return tuple(Span(min(span.start, length), min(span.stop, length)) for span in spans)


def shifted(spans: Sequence[Span], by: int) -> tuple[Span, ...]:
    """The spans after ``by`` more tokens in front (left padding, a prompt); negative takes some away."""
    if any(span.start + by < 0 for span in spans):
        raise ValueError(f"a span would begin before the sequence, shifted by {by}")
    return tuple(Span(span.start + by, span.stop + by) for span in spans)


def action_mask(spans: Sequence[Span], length: int) -> Flags:
    """(``length``,): true on the tokens of any turn. Raises ``ValueError`` for spans beyond the end, or
    that overlap."""
    made = np.zeros(length, dtype=np.bool_)
    for turn, (start, stop) in enumerate(spans):
        if not 0 <= start <= stop <= length:
            raise ValueError(
                f"turn {turn} has tokens {start} to {stop} of {length}: truncate the spans first"
            )
        if made[start:stop].any():
            raise ValueError(f"turn {turn} has tokens that belong to another turn")
        made[start:stop] = True
    return made


def _ordered(turns: Sequence[Piece]) -> None:
    end = 0
    for turn, piece in enumerate(turns):
        if not end <= piece.start <= piece.stop:
            raise ValueError(
                f"turn {turn} begins at {piece.start}, before the end of the one before it ({end})"
            )
        end = piece.stop


def _forwards(offsets: Sequence[tuple[int, int]]) -> None:
    reached = 0
    for place, (start, end) in enumerate(offsets):
        if start < end:
            if start < reached:
                raise ValueError(f"offsets go backwards at token {place}")
            reached = start


def _nowhere(piece: Piece, offsets: Sequence[tuple[int, int]]) -> Span:
    """Where the tokens of a turn without any would stand."""
    after = (place for place, (start, end) in enumerate(offsets) if end > start >= piece.start)
    here = next(after, len(offsets))
    return Span(here, here)
