"""A tokenizer and a policy for tests: each act of the ladder ``spoken`` is one token, so that an untrained
policy says all of them. Built from a configuration; nothing is downloaded."""

from __future__ import annotations

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

PAD, EOS, UNKNOWN = "<pad>", "<eos>", "<unk>"
SPECIAL = (PAD, EOS, UNKNOWN)
NUMBERS = ("one", "two", "three", "four", "five", "six", "seven")
WORDS = ("act", *NUMBERS)
SILENT = list(range(len(SPECIAL) + len(WORDS)))
TEMPLATE = "{% for message in messages %}{{ message['content'] }} {% endfor %}"


def tokenizer(*acts: str) -> PreTrainedTokenizerFast:
    """One token for each special one, each word of the prompts and each act."""
    vocabulary = {token: place for place, token in enumerate((*SPECIAL, *WORDS, *acts))}
    model = Tokenizer(WordLevel(vocabulary, unk_token=UNKNOWN))
    model.pre_tokenizer = WhitespaceSplit()
    made = PreTrainedTokenizerFast(
        tokenizer_object=model, pad_token=PAD, eos_token=EOS, unk_token=UNKNOWN, padding_side="left"
    )
    made.chat_template = TEMPLATE
    return made


def policy(tokens: PreTrainedTokenizerFast, seed: int = 0) -> LlamaForCausalLM:
    """An untrained policy of some ten thousand parameters. It says all tokens equally often; generation
    suppresses ``SILENT``, those that are no acts."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokens),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=64,
        pad_token_id=tokens.pad_token_id,
        eos_token_id=tokens.eos_token_id,
        bos_token_id=None,
        tie_word_embeddings=False,
    )
    return LlamaForCausalLM(config)
