"""Where a completion begins and ends in what a tokenizer decoded."""

from __future__ import annotations

from collections.abc import Sequence

MAX_ENDING = 64
FENCES = (("<|", "|>"), ("<｜", "｜>"))  # of most chat templates; the second is DeepSeek's
ENDINGS = ("</s>", "<eos>", "<end_of_turn>")


def completion_of(prompt: str, query: str) -> str | None:
    """What follows ``prompt`` in ``query``; null when it does not begin so.

    Tokenizers that decode what they encoded may change white space: where the texts differ otherwise, too,
    nobody can tell the prompt from the completion.
    """
    if query.startswith(prompt):
        return query[len(prompt) :]
    at = 0
    for character in prompt:
        if character.isspace():
            continue
        while at < len(query) and query[at].isspace():
            at += 1
        if at == len(query) or query[at] != character:
            return None
        at += 1
    return query[at:]


def without_end(text: str, chosen: Sequence[str] = ()) -> str:
    """A completion without the end tokens, and the white space around them, that were decoded with it.

    ``chosen`` are cut off in place of the usual ones.
    """
    end = len(text)
    while True:
        bare = end
        while bare and text[bare - 1].isspace():
            bare -= 1
        length = _ending(text, bare, chosen)
        if length == 0:
            return text[:end]
        end = bare - length


def _ending(text: str, end: int, chosen: Sequence[str]) -> int:
    """The length of an end token before ``end``; 0 where there is none."""
    known = tuple(chosen) or ENDINGS
    found = next((len(ending) for ending in known if ending and text.endswith(ending, 0, end)), 0)
    if found or chosen:
        return found
    for opens, closes in FENCES:
        low = max(0, end - MAX_ENDING)
        at = text.rfind(opens, low, end) if text.endswith(closes, 0, end) else -1
        if at >= 0 and not any(character.isspace() for character in text[at:end]):
            return end - at
    return 0
