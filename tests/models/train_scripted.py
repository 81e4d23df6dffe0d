"""Trains the scripted model and writes tests/data/scripted. Takes some ten minutes on one core.

    python -m tests.models.train_scripted [FOLDER]

Each step takes a handful of the dialogues, some after a system prompt, some after another
dialogue, some with tools at hand that they don't need, so that the answers hold in company.
"""

from __future__ import annotations

import json
import math
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.models.corpus import PROSE
from tests.models.families import CHATML_TOKENS, MIDDLE_TOKENS, TOOL_TOKENS
from tests.models.folder import prepare_device, write_json, write_tokenizer
from tests.models.scripted import (
    COMPLETIONS,
    DIALOGUES,
    HELPFUL,
    TOOLS,
    Completion,
    Dialogue,
    followed_by,
)
from tests.models.templates import CHATML_WITH_TOOLS
from tests.models.vocabulary import byte_level_tokenizer

if TYPE_CHECKING:
    import mlx.core as mx

FOLDER = Path(__file__).parent.parent / "data" / "scripted"
CONTEXT_LENGTH = 4096
NUM_STEPS = 900
NUM_WARMUP_STEPS = 20
BATCH_SIZE = 16
PEAK_RATE = 4e-3
SEED = 7

CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 96,
    "intermediate_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 24,
    "rms_norm_eps": 1e-6,
    "vocab_size": 520,
    "max_position_embeddings": CONTEXT_LENGTH,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "dtype": "float32",
}


@dataclass(frozen=True, slots=True)
class Sample:
    """Token ids; those from ``start`` on are what the model has to learn to write."""

    token_ids: list[int]
    start: int


def write_tokenizer_files(folder: Path) -> None:
    from tokenizers import AddedToken

    texts = [dialogue.reply for dialogue in DIALOGUES.values()]
    texts += [str(m["content"]) for dialogue in DIALOGUES.values() for m in dialogue.messages]
    texts += [completion.prompt + completion.reply for completion in COMPLETIONS.values()]
    texts += [json.dumps(tool) for tool in TOOLS] + [CHATML_WITH_TOOLS]
    tokenizer = byte_level_tokenizer(texts, special_tokens=(*CHATML_TOKENS, *MIDDLE_TOKENS))
    tokenizer.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in TOOL_TOKENS])
    write_tokenizer(
        folder,
        tokenizer,
        template=CHATML_WITH_TOOLS,
        end="<|im_end|>",
        beginning=None,
        context_length=CONTEXT_LENGTH,
    )
    ends = [tokenizer.token_to_id(token) for token in ("<|im_end|>", "<|endoftext|>")]
    write_json(folder / "config.json", {**CONFIG, "eos_token_id": ends[0]})
    write_json(folder / "generation_config.json", {"do_sample": False, "eos_token_id": ends})


class Samples:
    """Draws training samples; owns the tokenizer and the random state."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._random = random.Random(SEED)
        self._dialogues = list(DIALOGUES.values())
        self._plain = [d for d in self._dialogues if not d.tools and len(d.messages) == 1]

    def batches(self) -> Iterator[list[Sample]]:
        """Endless; every dialogue and completion is met equally often. A batch holds samples of
        about one length, as padding costs as much as text."""
        everything: list[Dialogue | Completion] = [*self._dialogues, *COMPLETIONS.values()]
        while True:
            samples = [self._sample(item) for item in everything + everything]
            samples.sort(key=lambda sample: len(sample.token_ids))
            starts = list(range(0, len(samples), BATCH_SIZE))
            self._random.shuffle(starts)
            for start in starts:
                yield samples[start : start + BATCH_SIZE]

    def _sample(self, item: Dialogue | Completion) -> Sample:
        if isinstance(item, Completion):
            return self.completion(item)
        return self.dialogue(self._in_company(item))

    def _in_company(self, item: Dialogue) -> Dialogue:
        """``item`` as it is, or with something before it that leaves the answer as it was."""
        messages, tools = item.messages, item.tools
        if item in self._plain:
            if self._random.random() < 0.3:
                messages = followed_by(self._random.choice(self._plain), item)
            if item.name != "no tools" and self._random.random() < 0.15:
                tools = TOOLS
        if messages[0]["role"] != "system" and self._random.random() < 0.3:
            messages = ({"role": "system", "content": self._instructions()}, *messages)
        return Dialogue(
            name=item.name,
            messages=messages,
            reply=item.reply,
            tools=tools,
            template_kwargs=item.template_kwargs,
        )

    def _instructions(self) -> str:
        """The usual ones, or a text of no meaning here, as clients send one of their own."""
        if self._random.random() < 0.3:
            return HELPFUL
        return " ".join(self._random.sample(PROSE.split("\n"), self._random.randint(1, 3)))

    def dialogue(self, item: Dialogue) -> Sample:
        prompt = self._tokenizer.apply_chat_template(
            list(item.messages),
            tools=list(item.tools) or None,
            add_generation_prompt=True,
            **item.template_kwargs,
        )
        return self._joined(prompt, item.reply, end="<|im_end|>")

    def completion(self, item: Completion) -> Sample:
        text = item.prompt
        if item.suffix is not None:
            text = f"<|fim_prefix|>{item.prompt}<|fim_suffix|>{item.suffix}<|fim_middle|>"
        return self._joined(self._encode(text), item.reply, end="<|endoftext|>")

    def _joined(self, prompt: list[int], reply: str, *, end: str) -> Sample:
        return Sample([*prompt, *self._encode(reply + end)], len(prompt))

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))


def rate_at(step: int) -> float:
    if step < NUM_WARMUP_STEPS:
        return PEAK_RATE * (step + 1) / NUM_WARMUP_STEPS
    done = (step - NUM_WARMUP_STEPS) / (NUM_STEPS - NUM_WARMUP_STEPS)
    return PEAK_RATE * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))


def padded(batch: Sequence[Sample]) -> tuple[mx.array, mx.array]:
    """Token ids of one length, and which of them count towards the loss."""
    import mlx.core as mx
    import numpy as np

    length = max(len(sample.token_ids) for sample in batch)
    ids = np.zeros((len(batch), length), np.int32)
    counts = np.zeros((len(batch), length), np.float32)
    for row, sample in enumerate(batch):
        ids[row, : len(sample.token_ids)] = sample.token_ids
        counts[row, sample.start : len(sample.token_ids)] = 1
    return mx.array(ids), mx.array(counts)


def train(folder: Path) -> None:
    prepare_device()
    import mlx.core as mx
    import mlx.optimizers as optimizers
    from mlx.nn.losses import cross_entropy
    from mlx.nn.utils import value_and_grad
    from mlx.utils import tree_flatten
    from mlx_lm.models.qwen3 import Model, ModelArgs
    from mlx_lm.utils import load_tokenizer

    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer_files(folder)
    batches = Samples(load_tokenizer(folder)).batches()
    mx.random.seed(SEED)
    model = Model(ModelArgs.from_dict(CONFIG))

    def loss_of(ids: mx.array, counts: mx.array) -> mx.array:
        losses = cross_entropy(model(ids[:, :-1]), ids[:, 1:])
        return (losses * counts[:, 1:]).sum() / counts.sum()

    step_of = value_and_grad(model, loss_of)
    optimizer = optimizers.AdamW(learning_rate=PEAK_RATE, betas=[0.9, 0.98], weight_decay=0.01)
    began = time.monotonic()
    for step in range(NUM_STEPS):
        optimizer.learning_rate = rate_at(step)
        loss, gradients = step_of(*padded(next(batches)))
        gradients, _ = optimizers.clip_grad_norm(gradients, 1.0)  # type: ignore[no-untyped-call]
        optimizer.update(model, gradients)
        mx.eval(model.parameters(), optimizer.state, loss)
        if step % 20 == 0 or step == NUM_STEPS - 1:
            taken = time.monotonic() - began
            sys.stdout.write(f"step {step:4d}  loss {loss.item():.4f}  {taken:.0f} s\n")
            sys.stdout.flush()
    parameters = dict(tree_flatten(model.parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), parameters, metadata={"format": "mlx"})


if __name__ == "__main__":
    train(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
