"""On-policy distillation over a real endpoint: both dialects, ids and text, and everything that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.support.teacher import VOCABULARY, Bigram, Served, segmented, serving
from verifier_service.domain.evidence import Hint
from verifier_service.trainers.distillation import mixed, padded, reverse_kl, with_hints
from verifier_service.trainers.teacher_answers import logprobs_of
from verifier_service.trainers.teachers import (
    Continuation,
    Misaligned,
    Teacher,
    TeacherRefused,
    Teachers,
    TeacherScore,
    TeacherUnavailable,
    UnusableAnswer,
)

DIALECTS = ("echo", "prompt_logprobs")
PROMPT, COMPLETION = [0, 1, 4], [3, 2, 5]
IDS = Continuation(PROMPT, COMPLETION)
TEXT = Continuation("<s>a ", ["ab", "b", "!"])


@pytest.fixture(scope="module")
def model() -> Bigram:
    return Bigram.random(1)


@pytest.fixture
def served(model: Bigram) -> Iterator[Served]:
    with serving(model) as endpoint:
        yield endpoint


def teacher(served: Served, **settings: Any) -> Teacher:
    return Teacher(url=served.url, model="bigram", **{"timeout_s": 20.0, "attempts": 1} | settings)


def ask(asked: list[Continuation], *teachers: Teacher) -> list[TeacherScore]:
    async def play() -> list[TeacherScore]:
        async with Teachers(*teachers) as pool:
            return await pool.logprobs(asked)

    return asyncio.run(play())


def expected(model: Bigram, prompt: list[int], completion: list[int]) -> list[float]:
    """The model's softmax, written in another way than the model writes it."""
    before = [prompt[-1], *completion[:-1]]
    weights = np.exp(model.logits)
    return [
        float(np.log(weights[a, b] / weights[a].sum())) for a, b in zip(before, completion, strict=True)
    ]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("asked", [IDS, TEXT], ids=["ids", "text"])
@pytest.mark.parametrize("generated", [None, 1, 3])
def test_log_probabilities_of_the_students_tokens(
    model: Bigram, served: Served, dialect: Any, asked: Continuation, generated: int | None
) -> None:
    [score] = ask([asked], teacher(served, dialect=dialect, generated=generated, key="secret"))
    assert score.failure is None
    assert score.logprobs == pytest.approx(expected(model, PROMPT, COMPLETION))
    [request] = served.requests
    assert request["prompt"] == ([*PROMPT, *COMPLETION] if asked is IDS else "<s>a abb!")
    least = 1 if dialect == "prompt_logprobs" else 0
    assert request["max_tokens"] == (least if generated is None else generated)
    assert served.keys == ["Bearer secret"]
    assert "secret" not in repr(teacher(served, key="secret"))


def test_ids_may_be_of_numpy(model: Bigram, served: Served) -> None:
    [score] = ask([Continuation(np.array(PROMPT), np.array(COMPLETION))], teacher(served))  # type: ignore[arg-type]
    assert score.logprobs == pytest.approx(expected(model, PROMPT, COMPLETION))


def test_ids_are_compared_where_the_endpoint_names_them(model: Bigram, served: Served) -> None:
    named = {"return_tokens_as_token_ids": True}
    [score] = ask([IDS], teacher(served, dialect="echo", extra=named))
    assert score.logprobs == pytest.approx(expected(model, PROMPT, COMPLETION))


def test_another_vocabulary_is_an_error_that_names_the_place(served: Served) -> None:
    """The student wrote "a" and "b"; this teacher reads "ab"."""
    for dialect in DIALECTS:
        with pytest.raises(Misaligned) as caught:
            ask([Continuation("<s>", ["!", "a", "b"])], teacher(served, dialect=dialect))
        assert (caught.value.position, caught.value.expected, caught.value.found) == (1, "a", "ab")
        assert "token 1 of the completion is 'a'" in str(caught.value)


def test_a_merge_over_the_end_of_the_prompt_is_one_too(served: Served) -> None:
    for dialect in DIALECTS:
        with pytest.raises(Misaligned) as caught:
            ask([Continuation("<s>a", ["b", "!"])], teacher(served, dialect=dialect))
        assert (caught.value.position, caught.value.expected, caught.value.found) == (0, "b", "ab")


def test_an_answer_about_other_ids() -> None:
    """A proxy that tokenised again: as many tokens, and not the same."""
    listed = b'{"choices":[{"prompt_logprobs":[null,{"7":{"logprob":-1.0}}]}]}'
    echoed = (
        b'{"choices":[{"logprobs":{"tokens":["token_id:0","token_id:7"],"token_logprobs":[null,-1.0]}}]}'
    )
    for answer, dialect in ((listed, "prompt_logprobs"), (echoed, "echo")):
        with pytest.raises(Misaligned) as caught:
            logprobs_of(answer, Continuation([0], [3]), dialect, 1)  # type: ignore[arg-type]
        assert (caught.value.position, caught.value.expected, caught.value.found) == (0, 3, "7")


TROUBLES: list[tuple[str, type[Exception], str, tuple[str, ...]]] = [
    ("500", TeacherUnavailable, "http_500", DIALECTS),
    ("503", TeacherUnavailable, "http_503", DIALECTS),
    ("429", TeacherUnavailable, "http_429", DIALECTS),
    ("400", TeacherRefused, "http_400", DIALECTS),
    ("401", TeacherRefused, "http_401", DIALECTS),
    ("302", TeacherRefused, "http_302", DIALECTS),
    ("drop", TeacherUnavailable, "unreachable", DIALECTS),
    ("short", UnusableAnswer, "wrong_length", DIALECTS),
    ("long", UnusableAnswer, "wrong_length", DIALECTS),
    ("uneven", UnusableAnswer, "wrong_length", ("echo",)),
    ("nan", UnusableAnswer, "not_finite", DIALECTS),
    ("-inf", UnusableAnswer, "not_finite", DIALECTS),
    ("enormous", UnusableAnswer, "not_finite", DIALECTS),
    ("positive", UnusableAnswer, "not_a_logprob", DIALECTS),
    ("text", UnusableAnswer, "not_a_logprob", DIALECTS),
    ("true", UnusableAnswer, "not_a_logprob", DIALECTS),
    ("null", UnusableAnswer, "missing_logprob", DIALECTS),
    ("null_entry", UnusableAnswer, "missing_logprob", ("prompt_logprobs",)),
    ("nothing", UnusableAnswer, "no_logprobs", DIALECTS),
    ("list", UnusableAnswer, "no_logprobs", DIALECTS),
    ("not_json", UnusableAnswer, "not_json", DIALECTS),
    ("huge", UnusableAnswer, "too_large", DIALECTS),
]


@pytest.mark.parametrize(
    ("trouble", "kind", "code", "dialect"),
    [(name, kind, code, dialect) for name, kind, code, dialects in TROUBLES for dialect in dialects],
)
def test_no_failure_is_a_number(
    served: Served, trouble: str, kind: type[Exception], code: str, dialect: Any
) -> None:
    served.trouble = trouble
    [score] = ask([IDS], teacher(served, dialect=dialect, max_bytes=200_000))
    assert score.logprobs is None
    assert isinstance(score.failure, kind)
    assert score.failure.code == code  # type: ignore[attr-defined]


def test_a_teacher_that_hangs_is_given_up(served: Served) -> None:
    served.trouble = "hang"
    [score] = ask([IDS], teacher(served, timeout_s=0.3))
    assert isinstance(score.failure, TeacherUnavailable)
    assert score.failure.code == "timeout"


def test_a_teacher_that_is_not_there() -> None:
    [score] = ask([IDS], Teacher(url="http://127.0.0.1:9/v1", model="m", attempts=2))
    assert isinstance(score.failure, TeacherUnavailable)
    assert score.failure.code == "unreachable"


@pytest.mark.parametrize("trouble", ["500", "429", "drop"])
def test_what_passes_is_tried_again(model: Bigram, served: Served, trouble: str) -> None:
    served.trouble, served.times = trouble, 2
    [score] = ask([IDS], teacher(served, attempts=3))
    assert score.logprobs == pytest.approx(expected(model, PROMPT, COMPLETION))
    assert len(served.requests) == 3


def test_what_does_not_pass_is_not(served: Served) -> None:
    served.trouble = "400"
    ask([IDS], teacher(served, attempts=3))
    assert len(served.requests) == 1


def test_one_bad_answer_leaves_its_neighbours(model: Bigram, served: Served) -> None:
    served.trouble, served.times = "nan", 1
    scores = ask([IDS] * 4, teacher(served, concurrency=1))
    assert [score.logprobs is None for score in scores] == [True, False, False, False]


def test_at_most_so_many_at_a_time(model: Bigram, served: Served) -> None:
    served.delay_s = 0.05
    asked = [Continuation([0, n % 4 + 1], [1 + n % 3]) for n in range(24)]
    scores = ask(asked, teacher(served, concurrency=4))
    assert served.busiest <= 4
    assert len(served.requests) == 24
    for one, score in zip(asked, scores, strict=True):
        assert score.logprobs == pytest.approx(expected(model, list(one.prompt), list(one.completion)))  # type: ignore[arg-type]


def test_what_cannot_be_asked_is_refused_before_it_is_sent() -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        Continuation([], [1])
    with pytest.raises(ValueError, match="must not be empty"):
        Continuation("a", [])
    with pytest.raises(TypeError, match="both be token ids"):
        Continuation("a", [1])
    with pytest.raises(TypeError, match="both be token ids"):
        Continuation([1], ["a"])
    with pytest.raises(ValueError, match="http or https"):
        Teacher(url="file:///etc/passwd", model="m")
    with pytest.raises(ValueError, match="above 0"):
        Teacher(url="http://x", model="m", attempts=0)
    with pytest.raises(ValueError, match="at least one"):
        Teachers()


def test_from_two_teachers_to_targets(model: Bigram) -> None:
    """The whole way, against the same numbers from the models' tables."""
    student, other = Bigram.random(2), Bigram.random(3)
    rows = [Continuation([0, 1], [3, 2, 5]), Continuation([0], [6, 6])]

    async def play(*served: Served) -> list[list[TeacherScore]]:
        async with Teachers(teacher(served[0]), teacher(served[1], dialect="echo")) as pool:
            return await pool.all_logprobs(rows)

    with serving(model) as one, serving(other) as two:
        scores = asyncio.run(play(one, two))
    mask = np.array([[1, 0, 1, 0], [1, 1, 0, 0]])
    mine = np.zeros((2, 4))
    for row, each in enumerate(rows):
        known = expected(student, list(each.prompt), list(each.completion))  # type: ignore[arg-type]
        mine[row, : len(known)] = known
    found = reverse_kl(mine, mixed([padded(s, 4) for s in scores], [3, 1]), mask, coefficient=0.5)
    assert found.scored.tolist() == [True, True]
    for row, at, before, token in ((0, 0, 1, 3), (0, 2, 2, 5), (1, 0, 0, 6), (1, 1, 6, 6)):
        p = [
            np.exp(m.logits[before, token]) / np.exp(m.logits[before]).sum()
            for m in (student, model, other)
        ]
        kl = np.log(p[0] / (0.75 * p[1] + 0.25 * p[2]))
        assert found.reverse_kl[row, at] == pytest.approx(kl)
        assert found.advantage[row, at] == pytest.approx(-0.5 * kl)
    assert found.advantage[mask == 0].tolist() == [0.0] * int((mask == 0).sum())


def test_a_failed_row_is_not_trained_on(model: Bigram, served: Served) -> None:
    served.trouble, served.times = "500", 1
    scores = ask([IDS, IDS], teacher(served, concurrency=1))
    found = reverse_kl(np.full((2, 3), -1.0), padded(scores, 3), np.ones((2, 3)))
    assert found.scored.tolist() == [False, True]
    assert found.mask.tolist() == [[False] * 3, [True] * 3]
    assert found.advantage[0].tolist() == [0.0] * 3
    assert np.isfinite(found.advantage).all()


def test_hints_are_what_the_teacher_knows_more(model: Bigram, served: Served) -> None:
    """Self-distillation: one model, which reads the hint as teacher; the same completion is scored."""
    hinted = with_hints("<s>a", [Hint(kind="x", text="hint")], header="!")
    assert hinted == "<s>a\n\n!\n- hint"
    plain = hinted.replace("\n\n", " ").replace("\n- ", " ")  # this vocabulary has no line breaks
    asked = Continuation(plain + " ", ["ab", "!"])
    [score] = ask([asked], teacher(served))
    assert score.logprobs == pytest.approx(expected(model, segmented(plain + " "), [3, 5]))
    assert VOCABULARY[segmented(plain)[-1]] == "hint"


@pytest.mark.parametrize("write", [str, lambda text: [{"role": "user", "content": text}]])
def test_hints_in_prompts(write: Callable[[str], Any]) -> None:
    hints = [Hint(kind="a", text="one"), Hint(turn=2, kind="b", text="two"), Hint(kind="c", text="one")]
    made = with_hints(write("Do it."), hints)
    text = made if isinstance(made, str) else made[0]["content"]
    assert text.startswith("Do it.\n\n")
    assert text.endswith("\n- one\n- two")
    assert with_hints(write("Do it."), []) == write("Do it.")
    assert with_hints([{"role": "system", "content": "s"}], hints)[-1]["role"] == "user"  # type: ignore[index]
