"""The policy: a small recurrent network that writes SMILES token by token, and may read hints first.

A sequence is ``hints… BEGIN tokens… END``. Shapes: B sequences, T positions after ``BEGIN`` (the tokens
and their ``END``), V words of the vocabulary.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

TOKEN = re.compile(r"\[nH\]|Cl|Br|.")
PAD, BEGIN, END = "<pad>", "<begin>", "<end>"
HINT_SLOTS = 8
MAX_TOKENS = 16


class Vocabulary:
    """Words by number: three marks, the tokens of SMILES, and slots for kinds of hints as they appear."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self.words = [PAD, BEGIN, END, *tokens]
        self.first_hint = len(self.words)
        self.hints: list[str] = []
        self._number = {word: number for number, word in enumerate(self.words)}

    def __len__(self) -> int:
        return self.first_hint + HINT_SLOTS

    @classmethod
    def of(cls, lines: Sequence[str]) -> Vocabulary:
        """The vocabulary of some SMILES."""
        return cls(sorted({token for line in lines for token in TOKEN.findall(line)}))

    def encode(self, smiles: str) -> list[int]:
        """Numbers of a SMILES with its ``END``. Raises ``KeyError`` for a token it does not have."""
        return [self._number[token] for token in TOKEN.findall(smiles)] + [self._number[END]]

    def decode(self, numbers: Sequence[int]) -> str:
        """Text up to ``END``."""
        words = []
        for number in numbers:
            if self.words[number] == END:
                break
            words.append(self.words[number])
        return "".join(words)

    def hint(self, kind: str) -> int:
        """The number of a kind of hint; kinds beyond the slots share the last one."""
        if kind not in self.hints and len(self.hints) < HINT_SLOTS:
            self.hints.append(kind)
        return self.first_hint + (self.hints.index(kind) if kind in self.hints else HINT_SLOTS - 1)


@dataclass(frozen=True, slots=True)
class Batch:
    """Sampled sequences, T = ``MAX_TOKENS``: ``tokens`` (B, T) padded with 0, ``mask`` (B, T) true for
    tokens and ``END``, ``logprobs`` (B, T) under the policy that wrote them, ``texts`` B SMILES."""

    tokens: Tensor
    mask: Tensor
    logprobs: Tensor
    texts: list[str]

    def __len__(self) -> int:
        return len(self.texts)

    def rows(self) -> list[Batch]:
        """Each sequence alone, to be kept and joined again."""
        return [
            Batch(self.tokens[at : at + 1], self.mask[at : at + 1], self.logprobs[at : at + 1], [text])
            for at, text in enumerate(self.texts)
        ]

    @classmethod
    def joined(cls, batches: Sequence[Batch]) -> Batch:
        """Several as one."""
        parts = [(batch.tokens, batch.mask, batch.logprobs) for batch in batches]
        tokens, mask, logprobs = (torch.cat(column) for column in zip(*parts, strict=True))
        return cls(tokens, mask, logprobs, [text for batch in batches for text in batch.texts])


class Policy(nn.Module):
    """GRU language model with a value head (for PPO)."""

    def __init__(self, vocabulary: Vocabulary, hidden: int = 128) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.embed = nn.Embedding(len(vocabulary), 32, padding_idx=0)
        self.cell = nn.GRU(32, hidden, batch_first=True)
        self.head = nn.Linear(hidden, vocabulary.first_hint)
        self.value = nn.Linear(hidden, 1)

    def forward(
        self, tokens: Tensor, hints: Sequence[Sequence[int]] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Log-probabilities (B, T, V) of every next word, and values (B, T) before it."""
        states = self._states(tokens, hints)
        return self._words(states), self.value(states).squeeze(-1)

    def logprobs(self, tokens: Tensor, hints: Sequence[Sequence[int]] | None = None) -> Tensor:
        """Log-probability (B, T) of each given token."""
        words, _ = self(tokens, hints)
        return words.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)

    def _states(self, tokens: Tensor, hints: Sequence[Sequence[int]] | None) -> Tensor:
        begin = torch.full((len(tokens), 1), 1)
        read = torch.cat([begin, tokens[:, :-1]], dim=1)
        state = None if hints is None else self._read_hints(hints)
        states, _ = self.cell(self.embed(read), state)
        return states

    def _read_hints(self, hints: Sequence[Sequence[int]]) -> Tensor:
        """States (1, B, H) after each row's hints; a row without any begins as if there were none."""
        width = max(map(len, hints), default=0)
        prefix = torch.tensor([[0] * (width - len(row)) + list(row) for row in hints], dtype=torch.long)
        state = torch.zeros(1, len(hints), self.cell.hidden_size)
        for column in prefix.T:
            _, after = self.cell(self.embed(column.unsqueeze(1)), state)
            state = torch.where((column != 0)[None, :, None], after, state)
        return state

    def _words(self, states: Tensor) -> Tensor:
        logits = self.head(states)
        logits[..., :2] = -1e9  # neither padding nor BEGIN is ever written
        return torch.log_softmax(logits, dim=-1)

    @torch.no_grad()
    def sample(self, count: int, generator: torch.Generator) -> Batch:
        """``count`` sequences at temperature 1; one that is not ended after ``MAX_TOKENS`` is cut there."""
        number = torch.full((count, 1), 1)
        state = None
        alive = torch.ones(count, dtype=torch.bool)
        tokens, masks, logprobs = [], [], []
        for _ in range(MAX_TOKENS):
            states, state = self.cell(self.embed(number), state)
            words = self._words(states[:, -1])
            number = torch.multinomial(words.exp(), 1, generator=generator)
            tokens.append(torch.where(alive, number.squeeze(1), 0))
            masks.append(alive)
            logprobs.append(torch.where(alive, words.gather(1, number).squeeze(1), 0.0))
            alive = alive & (number.squeeze(1) != 2)
        written = torch.stack(tokens, dim=1)
        texts = [self.vocabulary.decode(row) for row in written.tolist()]
        return Batch(written, torch.stack(masks, dim=1), torch.stack(logprobs, dim=1), texts)


def padded(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Rows as tokens (B, T) and their mask (B, T)."""
    width = max(len(row) for row in rows)
    tokens = torch.tensor([list(row) + [0] * (width - len(row)) for row in rows])
    return tokens, tokens != 0


def pretrained(lines: Sequence[str], *, seed: int, epochs: int = 12, hidden: int = 128) -> Policy:
    """A policy that has learned to write molecules like ``lines`` by maximum likelihood, from scratch."""
    torch.manual_seed(seed)
    shuffler = random.Random(seed)
    policy = Policy(Vocabulary.of(lines), hidden)
    rows = [row for row in map(policy.vocabulary.encode, lines) if len(row) <= MAX_TOKENS]
    optimiser = torch.optim.Adam(policy.parameters(), lr=3e-3)
    for _ in range(epochs):
        shuffler.shuffle(rows)
        for start in range(0, len(rows), 64):
            tokens, mask = padded(rows[start : start + 64])
            loss = -(policy.logprobs(tokens) * mask).sum() / mask.sum()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return policy


def molecules(path: Path) -> list[str]:
    """The lines of a file of SMILES."""
    return path.read_text(encoding="ascii").split()
