"""On-policy distillation: a dense signal per token, from teachers that read what the student wrote.

The student samples, teachers say how likely each of its tokens is for them, and every token is rewarded
with what lowers the reverse KL divergence, log p_teacher - log p_student (Agarwal et al. 2024, "On-policy
distillation of language models", arXiv 2306.13649; Thinking Machines Lab, "On-Policy Distillation", 2025).
A teacher may know more than the student: the record's hints in its prompt make the same model its own
teacher (Zhao et al. 2026, arXiv 2601.18734).

``teachers`` asks the endpoints; here is what follows from the answers. Log-probabilities are in nats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from verifier_service.domain.evidence import Hint
from verifier_service.trainers.numeric import ArrayLike, Flags, Floats, floats, mask_like, np
from verifier_service.trainers.teachers import TeacherScore

Mixing = Literal["mixture", "log_mean"]
HEADER = "An earlier answer to this was checked. Keep in mind:"


@dataclass(frozen=True, kw_only=True, slots=True)
class DistillationTargets:
    """Targets for B sequences of T completion tokens, padded on the right.

    ``reverse_kl`` (B, T): log p_student - log p_teacher of the sampled token, in nats: an unbiased estimate
    of KL(student || teacher) at that position; 0 where not masked in. ``advantage`` (B, T): what to weigh
    the token's policy gradient with. ``mask`` (B, T): tokens that have a target. ``scored`` (B,): rows that
    every teacher scored; the others must not be trained on.
    """

    reverse_kl: Floats
    advantage: Floats
    mask: Flags
    scored: Flags

    def mean_kl(self) -> float:
        """Mean over all masked-in tokens, in nats a token; NaN when there are none."""
        count = int(self.mask.sum())
        return float(self.reverse_kl.sum()) / count if count else float("nan")


def padded(scores: Sequence[TeacherScore], length: int) -> Floats:
    """(B, ``length``) log-probabilities of a teacher, NaN beyond each completion and in rows that failed.

    Raises ``ValueError`` for completions longer than ``length``.
    """
    made = np.full((len(scores), length), np.nan)
    for row, score in enumerate(scores):
        if score.logprobs is not None:
            if len(score.logprobs) > length:
                raise ValueError(f"row {row} has {len(score.logprobs)} tokens, more than {length}")
            made[row, : len(score.logprobs)] = score.logprobs
    return made


def mixed(
    logprobs: Sequence[ArrayLike], weights: Sequence[float] | None = None, how: Mixing = "mixture"
) -> Floats:
    """(B, T) one teacher out of K, each (B, T); ``weights`` (K,) are scaled to sum to 1, equal by default.

    ``mixture``: log of the weighted mean probability, a teacher who is one of them at random: a token that
    any of them finds likely is likely. ``log_mean``: weighted mean of the log-probabilities; the reverse KL
    to it is the weighted mean of the reverse KLs, so a token that one of them finds impossible is. (Without
    the normalising constant of that product of experts, which does not depend on the token.) NaN where any
    teacher of weight above 0 has none: who is missing is not left out in silence.
    """
    stacked = np.stack([floats(one, "logprobs", 2) for one in logprobs])
    shares = np.ones(len(stacked)) if weights is None else floats(weights, "weights", 1)
    if shares.shape != (len(stacked),):
        raise ValueError(f"{len(stacked)} teachers and {len(shares)} weights")
    if not np.isfinite(shares).all() or (shares < 0).any() or not shares.sum() > 0:
        raise ValueError("weights must be at least 0, and not all 0")
    kept = shares > 0
    stacked, shares = stacked[kept], (shares[kept] / shares.sum())[:, None, None]
    if how == "log_mean":
        mean: Floats = (shares * stacked).sum(axis=0)
        return mean
    terms = stacked + np.log(shares)
    highest = terms.max(axis=0)
    mixture: Floats = highest + np.log(np.exp(terms - highest).sum(axis=0))
    return mixture


def reverse_kl(
    student: ArrayLike,
    teacher: ArrayLike,
    mask: ArrayLike,
    *,
    coefficient: float = 1.0,
    discount: float = 0.0,
    clip: float | None = None,
) -> DistillationTargets:
    """Targets from (B, T) log-probabilities of the sampled tokens.

    ``student``: those with which the tokens were sampled. ``teacher``: from ``padded`` or ``mixed``.
    ``mask``: 1 on the tokens that the student wrote; prompt, observations and padding are 0 and are read
    nowhere. With k_t = student_t - teacher_t, bounded to +-``clip`` where given (vLLM writes -9999 for a
    probability of 0):

    advantage_t = -``coefficient`` x sum over masked-in s >= t of ``discount``^(steps from t to s) k_s

    ``discount`` 0 looks at the token itself only, as Thinking Machines does; 1 is the gradient of the whole
    sequence's reverse KL (Gu et al. 2024, MiniLLM, arXiv 2306.08543, section 2.2). A row in which the
    teacher has NaN at a masked-in token is not scored. Raises ``ValueError`` for a student that has.
    """
    mine, theirs = floats(student, "student", 2), floats(teacher, "teacher", 2)
    if mine.shape != theirs.shape:
        raise ValueError(f"teacher has shape {theirs.shape}, expected {mine.shape}")
    if not 0.0 <= discount <= 1.0 or (clip is not None and not clip > 0):
        raise ValueError("discount must be within 0 and 1, clip above 0")
    wanted = mask_like(mask, mine)
    if not np.isfinite(mine[wanted]).all():
        raise ValueError("student must be finite where the mask is 1")
    scored = np.asarray(np.isfinite(np.where(wanted, theirs, 0.0)).all(axis=1), dtype=np.bool_)
    kept = wanted & scored[:, None]
    gap = np.where(kept, mine, 0.0) - np.where(kept, theirs, 0.0)
    bounded = gap if clip is None else np.clip(gap, -clip, clip)
    advantage, running = np.zeros_like(gap), np.zeros(len(gap))
    for at in range(gap.shape[1] - 1, -1, -1):
        running = np.where(kept[:, at], bounded[:, at] + discount * running, running)
        advantage[:, at] = np.where(kept[:, at], -coefficient * running, 0.0)
    return DistillationTargets(reverse_kl=gap, advantage=advantage, mask=kept, scored=scored)


def with_hints(
    prompt: str | Sequence[Mapping[str, Any]], hints: Sequence[Hint], *, header: str = HEADER
) -> str | list[dict[str, Any]]:
    """The teacher's prompt: the student's, with what the verifiers said as privileged context.

    Text gets a paragraph; chat messages get it at the end of the last user message, or as a user message of
    its own. Each different text once, in order; without hints the prompt is unchanged. A reward record's
    hints are as the verifiers wrote them; those of the hindsight export are without what repeats a value of
    the reference. The completion that the teacher then scores stays the student's own.
    """
    texts = list(dict.fromkeys(hint.text.strip() for hint in hints if hint.text.strip()))
    note = "\n".join([header, *(f"- {text}" for text in texts)])
    if isinstance(prompt, str):
        return f"{prompt}\n\n{note}" if texts else prompt
    messages = [dict(message) for message in prompt]
    if not texts:
        return messages
    users = [place for place, message in enumerate(messages) if message.get("role") == "user"]
    if not users or not isinstance(messages[users[-1]].get("content"), str):
        return [*messages, {"role": "user", "content": note}]
    messages[users[-1]]["content"] += f"\n\n{note}"
    return messages
