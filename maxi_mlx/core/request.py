"""What a client asks for, in one form whatever protocol it spoke.

A wire format makes a `GenerateRequest` and checks everything that can be checked without a model;
the engine checks the rest (token ids, context, memory) before any work is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from maxi_mlx.core.grammar import Constraint

Role = Literal["system", "user", "assistant", "tool"]

MAX_STOP_STRINGS = 64
MAX_STOP_LENGTH = 1000  # characters
MAX_TOP_LOGPROBS = 20
MAX_CHOICES = 128
DEFAULT_XTC_THRESHOLD = 0.1
# Where an image stands in a message's text: Unicode's own sign for an object among characters.
IMAGE_MARK = "\ufffc"
# A request's ``max_tokens`` that says so: to the end of the context.
NO_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the assistant made in an earlier turn; ``arguments`` is the JSON text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Image:
    """An image file's bytes. ``path`` is where it stands in the request, for what is said of it."""

    data: bytes = field(repr=False)
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One turn of a conversation. ``text`` is None only where an assistant turn has just calls.
    Where there are ``images``, it has an `IMAGE_MARK` for each, in their order."""

    role: Role
    text: str | None
    images: tuple[Image, ...] = ()
    name: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that the model may call. ``parameters`` is the JSON schema of its arguments, an
    object's; None: it takes none. ``strict``: what is written must fit the schema."""

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChoice:
    """``auto``: the model may call tools; ``required``: it must. ``names`` narrows the choice to
    some of the tools, all of which the prompt describes; empty: any of them."""

    mode: Literal["auto", "required"] = "auto"
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoning:
    """How the model is to think before it answers. None everywhere: as its template has it.

    ``budget_tokens`` is the most that a thought may take, its tags included; 0 is no thought.
    ``effort`` and ``enabled`` are in the prompt's ``template_kwargs`` too.
    """

    effort: str | None = None
    enabled: bool | None = None
    budget_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPrompt:
    """Messages, turned into a prompt by the model's own chat template.

    ``template_kwargs`` are extra names for the template (``enable_thinking``); never a template.
    ``prefill`` is how the answer begins: the model goes on from it, and it is not told again.
    """

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    prefill: str | None = None

    @property
    def images(self) -> tuple[Image, ...]:
        return tuple(image for message in self.messages for image in message.images)


@dataclass(frozen=True, slots=True)
class TextPrompt:
    """Raw text to continue; with ``suffix``, the text between the two is asked for."""

    text: str
    suffix: str | None = None


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """Token ids to continue, as they are."""

    token_ids: tuple[int, ...]


Prompt = ChatPrompt | TextPrompt | TokenPrompt


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How the next token is drawn. None means: the model's own default (the owner's, else
    generation_config.json's), and where it has none, the neutral value named here.

    ``repetition_penalty`` covers prompt and answer; ``presence_penalty`` and
    ``frequency_penalty`` cover the answer alone, as OpenAI defines them. XTC ("exclude top
    choices") acts in ``xtc_probability`` of the steps: of the tokens whose probability is at
    least ``xtc_threshold``, all but the least likely are left out.
    """

    temperature: float | None = None  # neutral: 1.0; 0 is greedy
    top_p: float | None = None  # neutral: 1.0
    top_k: int | None = None  # neutral: 0, off
    min_p: float | None = None  # neutral: 0.0, off
    xtc_probability: float = 0.0
    xtc_threshold: float = DEFAULT_XTC_THRESHOLD
    repetition_penalty: float | None = None  # neutral: 1.0
    presence_penalty: float | None = None  # neutral: 0.0
    frequency_penalty: float | None = None  # neutral: 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    seed: int | None = None  # any 64-bit value


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateRequest:
    """One call for generated text.

    There are ``len(prompts) * n`` answers; answer ``i`` continues prompt ``i // n``.
    ``max_tokens`` None means the model's own default, and where it has none, to the end of the
    context, which `NO_LIMIT` says outright. ``top_logprobs`` None means that no
    log-probabilities are wanted; 0 asks for the chosen tokens' alone. ``constraint`` is a form that
    the answer's text must have, thoughts and tool calls apart.
    """

    id: str
    model: str
    prompts: tuple[Prompt, ...]
    n: int = 1
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    sampling: SamplingParams = field(default_factory=SamplingParams)
    top_logprobs: int | None = None
    echo: bool = False
    uses_cache: bool = True  # may go on from a stored prefix, and leave one
    tool_choice: ToolChoice = field(default_factory=ToolChoice)
    parallel_tool_calls: bool = True
    reasoning: Reasoning = field(default_factory=Reasoning)
    constraint: Constraint | None = None
    adapter: str | None = None  # the name of one that goes over the model

    @property
    def num_choices(self) -> int:
        return len(self.prompts) * self.n

    @property
    def is_chat(self) -> bool:
        return isinstance(self.prompts[0], ChatPrompt)

    @property
    def images(self) -> tuple[Image, ...]:
        """Only a conversation has any."""
        prompt = self.prompts[0]
        return prompt.images if isinstance(prompt, ChatPrompt) else ()

    @property
    def has_prefill(self) -> bool:
        prompt = self.prompts[0]
        return isinstance(prompt, ChatPrompt) and prompt.prefill is not None

    @property
    def tools(self) -> tuple[Tool, ...]:
        """What the model may call; empty for raw prompts."""
        prompt = self.prompts[0]
        return prompt.tools if isinstance(prompt, ChatPrompt) else ()
