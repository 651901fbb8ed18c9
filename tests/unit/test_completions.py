"""Where a completion begins and ends in decoded text."""

from __future__ import annotations

import time

import pytest

from verifier_service.domain.completions import completion_of, without_end


@pytest.mark.parametrize(
    ("prompt", "query", "found"),
    [
        ("p ", "p x", "x"),
        ("", "x", "x"),
        ("p", "p", ""),
        ("p , q", "p, q x", " x"),
        ("  p", "p x", " x"),
        ("p\n", "p", ""),
        ("px", "p y", None),
        ("p", "", None),
        ("pp", "p", None),
    ],
)
def test_the_completion_follows_the_prompt(prompt: str, query: str, found: str | None) -> None:
    assert completion_of(prompt, query) == found


@pytest.mark.parametrize(
    ("text", "chosen", "found"),
    [
        ("a", (), "a"),
        ("a ", (), "a "),
        ("a<|im_end|>\n", (), "a"),
        ("a</s><|endoftext|><|endoftext|>", (), "a"),
        ("a<｜end▁of▁sentence｜>", (), "a"),
        ("a<|not a token|>", (), "a<|not a token|>"),
        ("a|>", (), "a|>"),
        ("a<|" + "x" * 70 + "|>", (), "a<|" + "x" * 70 + "|>"),
        ("<|im_end|>", (), ""),
        ("a STOP<|im_end|>", ("<|im_end|>",), "a STOP"),
        ("a</s>", ("STOP",), "a</s>"),
        ("a", ("",), "a"),
    ],
)
def test_end_tokens_are_cut_off(text: str, chosen: tuple[str, ...], found: str) -> None:
    assert without_end(text, chosen) == found


def test_long_texts_take_linear_time() -> None:
    began = time.monotonic()
    completion_of(" p" * 200_000, "p " * 200_000)
    without_end("a" + "<|x|> " * 170_000)
    without_end("a" + " " * 1_000_000)
    assert time.monotonic() - began < 10.0
