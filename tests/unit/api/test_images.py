"""Images of the four wire formats come out as bytes, with a mark where they stand in the text."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from maxi_mlx.api.anthropic.messages import conversation as anthropic_conversation
from maxi_mlx.api.anthropic.schema import MessageItem as AnthropicItem
from maxi_mlx.api.ollama.messages import conversation as ollama_conversation
from maxi_mlx.api.ollama.schema import MessageItem as OllamaItem
from maxi_mlx.api.openai import images
from maxi_mlx.api.openai.messages import messages as openai_messages
from maxi_mlx.api.openai.schema import MessageItem as OpenAIItem
from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.request import IMAGE_MARK, Image, Message

ONE, TWO = b"the first file", b"the second"
M = IMAGE_MARK


def coded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def url(data: bytes) -> dict[str, str]:
    return {"url": f"data:image/png;base64,{coded(data)}"}


def block(data: bytes) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "data": coded(data)}}


def of_openai(*content: dict[str, Any], role: str = "user") -> Message:
    item = msgspec.convert({"role": role, "content": list(content)}, OpenAIItem)
    return openai_messages([item])[0]


def found(message: Message) -> tuple[str | None, list[bytes], list[str]]:
    shown: Sequence[Image] = message.images
    return message.text, [image.data for image in shown], [image.path for image in shown]


def test_openais_parts_keep_their_order() -> None:
    message = of_openai(
        {"type": "text", "text": "a"},
        {"type": "text", "text": f"b{M}"},  # a client's own sign is no image
        {"type": "image_url", "image_url": url(ONE)},
        {"type": "text", "text": "c"},
        {"type": "input_image", "image_url": url(TWO)["url"]},
    )
    assert found(message) == (
        f"a\nb{M}c{M}",
        [ONE, TWO],
        ["messages[0].content[2].image_url.url", "messages[0].content[4].image_url"],
    )


def test_anthropics_blocks_and_results() -> None:
    content = [
        {"type": "tool_result", "tool_use_id": "c", "content": [block(ONE)]},
        block(TWO),
        {"type": "text", "text": "hi"},
    ]
    item = msgspec.convert({"role": "user", "content": content}, AnthropicItem)
    result, turn = anthropic_conversation([item], None).messages
    assert (result.role, *found(result)) == (
        "tool",
        M,
        [ONE],
        ["messages[0].content[0].content[0].source.data"],
    )
    assert found(turn) == (f"{M}hi", [TWO], ["messages[0].content[1].source.data"])


def test_ollamas_images_stand_before_the_text() -> None:
    item = OllamaItem(role="user", content="hi", images=[coded(ONE), url(TWO)["url"]])
    [message] = ollama_conversation([item]).messages
    assert found(message) == (
        f"{M}{M}hi",
        [ONE, TWO],
        ["messages[0].images[0]", "messages[0].images[1]"],
    )


@pytest.mark.parametrize("text", ["dGhl IGZp\ncnN0IGZpbGU", "dGhlIGZpcnN0IGZpbGU="])
def test_base64_with_blanks_or_without_padding(text: str) -> None:
    assert images.image_of_base64(text, "x").data == ONE


@pytest.mark.parametrize("role", ["system", "assistant"])
def test_only_users_and_tools_show_images(role: str) -> None:
    with pytest.raises(InvalidRequest, match="only a user's message or a tool's result"):
        of_openai({"type": "image_url", "image_url": url(ONE)}, role=role)


def test_an_image_is_of_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "MAX_IMAGE_BYTES", 12)
    for data in (ONE, ONE * 10):
        with pytest.raises(InvalidRequest, match="has more than") as caught:
            images.image_of_base64(coded(data), "images[0]")
        assert caught.value.param == "images[0]"


@pytest.mark.parametrize(
    "head", ["data:image/png;base64,", "DATA:Image/PNG;Base64,", "data:;base64,"]
)
def test_a_urls_scheme_may_be_written_large(head: str) -> None:
    assert images.image_of_url(head + coded(b"pixels"), "x").data == b"pixels"
