"""The signals beside verl's own functions, spans in the tokens of a real BPE, samples as TRL reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast
from trl.data_utils import is_conversational, maybe_apply_chat_template
from verl.trainer.ppo import core_algos

from tests.support.records import judged, scored, unscored
from verifier_service.domain.cases import Body
from verifier_service.domain.hindsight import hindsight as export
from verifier_service.domain.rewards import RewardCode, RewardReason
from verifier_service.domain.trajectories import Observation, ToolCall, Turn
from verifier_service.trainers.advantages import group_advantages, token_weights
from verifier_service.trainers.gae import gae
from verifier_service.trainers.hindsight import Correction, dpo, sft
from verifier_service.trainers.spans import Piece, chat_spans, token_spans
from verifier_service.trainers.tokens import place

SEEDS = range(20)
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CHAT = [
    {"role": "system", "content": "You draw molecules."},
    {"role": "user", "content": "Draw a ring of three, café style 🧪."},
    {"role": "assistant", "content": "Let me look that up: cyclopropane…"},
    {"role": "tool", "content": "C1CC1"},
    {"role": "assistant", "content": "It is C1CC1 ✅"},
]


class Batch:
    """Groups of random rewards and masks, as arrays and as verl's tensors."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.groups = [name for name in "abc" for _ in range(int(rng.integers(2, 6)))]
        count = len(self.groups)
        self.rewards = rng.integers(0, 5, count) / 4 if seed % 2 else rng.random(count)
        lengths = rng.integers(1, 9, count)
        self.mask = np.arange(9)[None, :] < lengths[:, None]
        self.mask &= rng.random(self.mask.shape) < 0.8
        self.mask[:, 0] = True
        self.values = rng.normal(size=self.mask.shape)
        self.dense = np.where(self.mask, rng.normal(size=self.mask.shape), 0.0)
        self.records = [scored(float(reward), f"t{n}") for n, reward in enumerate(self.rewards)]

    def outcome(self) -> dict[str, Any]:
        """Rewards on the last written token, as verl's outcome estimators read them."""
        made = torch.zeros(self.mask.shape, dtype=torch.float64)
        for row, mask in enumerate(self.mask):
            made[row, int(np.flatnonzero(mask)[-1])] = float(self.rewards[row])
        return {
            "token_level_rewards": made,
            "response_mask": torch.tensor(self.mask, dtype=torch.float64),
            "index": np.array(self.groups),
        }


@pytest.mark.parametrize("seed", SEEDS)
def test_group_advantages_are_those_of_verl(seed: int) -> None:
    batch = Batch(seed)
    theirs = {
        "grpo": core_algos.compute_grpo_outcome_advantage(**batch.outcome(), epsilon=1e-6),
        "dr_grpo": core_algos.compute_grpo_outcome_advantage(
            **batch.outcome(), norm_adv_by_std_in_grpo=False
        ),
        "rloo": core_algos.compute_rloo_outcome_advantage(**batch.outcome()),
    }
    for estimator, (advantages, _) in theirs.items():
        mine = group_advantages(batch.records, estimator, groups=batch.groups, ddof=1)  # type: ignore[arg-type]
        spread = token_weights(mine.advantage, batch.mask, normalise="none")
        assert spread == pytest.approx(advantages.numpy(), abs=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_verl_cannot_leave_out_is_left_out(seed: int) -> None:
    """Groups with unscored members are verl's groups without them."""
    batch = Batch(seed)
    holes = [*batch.records, *(unscored(f"u{n}") for n in range(4)), None]
    groups = [*batch.groups, "a", "b", "c", "c", "a"]
    mine = group_advantages(holes, groups=groups, ddof=1)
    theirs, _ = core_algos.compute_grpo_outcome_advantage(**batch.outcome())
    assert mine.advantage[: len(batch.records)] == pytest.approx(theirs[:, 0].numpy(), abs=1e-6)
    assert mine.mask.tolist() == [True] * len(batch.records) + [False] * 5


@pytest.mark.parametrize("seed", SEEDS)
def test_gae_is_that_of_verl(seed: int) -> None:
    """Its returns; its advantages are whitened over the batch before they are given out."""
    batch = Batch(seed)
    mask = torch.tensor(batch.mask, dtype=torch.float64)
    white, returns = core_algos.compute_gae_advantage_return(
        torch.tensor(batch.dense), torch.tensor(batch.values), mask, torch.tensor(0.97), torch.tensor(0.9)
    )
    mine = gae(batch.dense, batch.values, batch.mask, gamma=0.97, lam=0.9)
    assert mine.returns[batch.mask] == pytest.approx(returns.numpy()[batch.mask], abs=1e-6)
    given = mine.advantages[batch.mask]
    score = (given - given.mean()) / np.sqrt(given.var(ddof=1) + 1e-8)
    assert score == pytest.approx(white.numpy()[batch.mask], abs=1e-5)


@pytest.mark.parametrize(
    ("normalise", "mode"),
    [("token", "token-mean"), ("sequence", "seq-mean-token-mean"), ("constant", "seq-mean-token-sum-norm")],
)
@pytest.mark.parametrize("seed", SEEDS)
def test_weights_are_verls_ways_to_aggregate_a_loss(seed: int, normalise: Any, mode: str) -> None:
    batch = Batch(seed)
    mask = batch.mask.copy()
    mask[0] = False
    mine = group_advantages(batch.records, "dr_grpo", groups=batch.groups)
    weights = token_weights(mine.advantage, mask, normalise=normalise, max_tokens=mask.shape[1])
    losses = -mine.advantage[:, None] * batch.values
    theirs = core_algos.agg_loss(torch.tensor(losses), torch.tensor(mask, dtype=torch.float64), mode)
    assert -(weights * batch.values).sum() == pytest.approx(float(theirs), abs=1e-7)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE, trained here on a few lines; no file is fetched."""
    bare = Tokenizer(models.BPE())
    bare.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bare.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bare.train_from_iterator(["It is C1CC1 a ring of three\n", "Let me look that up: C1CC1"] * 9, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=bare, chat_template=TEMPLATE)


def offsets_of(tokenizer: PreTrainedTokenizerFast, text: str) -> list[tuple[int, int]]:
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    return [tuple(pair) for pair in encoded["offset_mapping"]]


def test_the_turns_of_a_chat_in_real_tokens(tokenizer: PreTrainedTokenizerFast) -> None:
    def render(messages: Any, *, generation: bool) -> str:
        text: str = tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=generation
        )
        return text

    spans = chat_spans(CHAT, render, lambda text: offsets_of(tokenizer, text))
    ids = tokenizer(render(CHAT, generation=False), add_special_tokens=False)["input_ids"]
    said = [tokenizer.decode(ids[span.start : span.stop]) for span in spans]
    assert [text.removesuffix("\n") for text in said] == [
        "Let me look that up: cyclopropane…<|im_end|>",
        "It is C1CC1 ✅<|im_end|>",
    ]
    rewards = place(judged(1.0, (1.0, 0.0)), spans, len(ids))
    assert rewards is not None
    assert np.flatnonzero(rewards).tolist() == [spans[0].stop - 1, spans[1].stop - 1]
    assert rewards.sum() == pytest.approx(1.1)


def test_merges_across_turns_in_real_tokens(tokenizer: PreTrainedTokenizerFast) -> None:
    """A text cut at every place, also within a merge and within a character of several bytes: every token
    belongs to exactly one side, and a side loses no token but the one across."""
    text = "It is C1CC1 é✅ a ring of three"
    offsets = offsets_of(tokenizer, text)
    assert any(end - start > 1 for start, end in offsets)
    for cut in range(1, len(text)):
        first, second = token_spans(offsets, [Piece(0, cut), Piece(cut, len(text))])
        assert (first.start, second.stop) == (0, len(offsets))
        assert first.stop == second.start
        left: NDArray[Any] = np.array([start < cut for start, _ in offsets])
        assert int(left.sum()) == first.stop


TOOLS_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for c in m.tool_calls or [] %}"
    "<call>{{ c.function.name }} {{ c.function.arguments | tojson }}</call>"
    "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_trl_reads_the_samples(tokenizer: PreTrainedTokenizerFast) -> None:
    """TRL's own functions: the format is recognised, and the template writes what the policy would say."""
    call = ToolCall(id="c", name="draw", arguments='{"atoms": 3}')
    turns = (Turn(message="I draw.", calls=(call,), observations=(Observation(call="c", text="C1CC1"),)),)
    reason = RewardReason(code=RewardCode.REJECTED, detail="wrong", message="Not that one.")
    record = export(scored(0.0, reason=reason), Body(prompt="Draw a ring.", turns=turns, answer="CCC"))
    better = Correction([{"role": "assistant", "content": "C1CC1"}], scored(1.0, "b"))
    with_tools = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer, chat_template=TOOLS_TEMPLATE
    )
    pair, single = dpo(record, better), sft(record, better)
    assert is_conversational(pair)
    assert is_conversational(single)
    written = maybe_apply_chat_template(pair, with_tools)
    assert '<call>draw {"atoms": 3}</call>' in written["prompt"]
    assert written["prompt"].endswith("<|im_start|>assistant\n")
    assert written["chosen"] == "C1CC1<|im_end|>\n"
    assert written["rejected"] == "CCC<|im_end|>\n"
    assert maybe_apply_chat_template(single, with_tools)["completion"] == "C1CC1<|im_end|>\n"
