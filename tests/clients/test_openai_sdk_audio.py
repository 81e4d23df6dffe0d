"""OpenAI's own SDK sends recordings and reads every answer."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from pathlib import Path

import openai
import pytest

from maxi_mlx.catalog.catalog import Root
from tests.models import whisper
from tests.server.running import started
from tests.sounds import needs_speech, voice, wav

pytestmark = needs_speech


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("speech")
    whisper.build_whisper(folder / "whisper")
    return folder


@pytest.fixture
async def sdk(models: Path) -> AsyncIterator[openai.AsyncOpenAI]:
    async with started() as start:
        server = await start(None, Root(models, "test", "folders"))
        url = f"http://127.0.0.1:{server.port}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            yield client


def recording(seconds: float = 3) -> io.BytesIO:
    file = io.BytesIO(wav(voice(seconds)))
    file.name = "speech.mp3"
    return file


async def test_json_text_and_verbose_json(sdk: openai.AsyncOpenAI) -> None:
    plain = await sdk.audio.transcriptions.create(model="whisper-1", file=recording())
    assert plain.text == whisper.TEXT
    assert plain.usage is not None
    assert plain.usage.type == "duration"
    text = await sdk.audio.transcriptions.create(
        model="whisper-1", file=recording(), response_format="text"
    )
    assert str(text).strip() == whisper.TEXT
    verbose = await sdk.audio.transcriptions.create(
        model="whisper",
        file=recording(),
        response_format="verbose_json",
        timestamp_granularities=["word", "segment"],
    )
    assert verbose.words is not None
    assert [word.word for word in verbose.words] == ["Guten", "Tag.", "Danke!"]
    assert verbose.segments is not None
    assert verbose.segments[0].avg_logprob > -1


async def test_a_stream(sdk: openai.AsyncOpenAI) -> None:
    stream = await sdk.audio.transcriptions.create(
        model="whisper", file=recording(), stream=True, language="de", temperature=0
    )
    events = [event async for event in stream]
    assert [event.type for event in events] == [
        "transcript.text.delta",
        "transcript.text.delta",
        "transcript.text.done",
    ]
    assert events[-1].text == whisper.TEXT  # type: ignore[union-attr]


# The SDK calls its own method deprecated.
@pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")
async def test_a_translation_and_a_refusal(sdk: openai.AsyncOpenAI) -> None:
    answer = await sdk.audio.translations.create(model="whisper", file=recording())
    assert answer.text == whisper.TRANSLATION
    with pytest.raises(openai.BadRequestError, match="klingon"):
        await sdk.audio.transcriptions.create(model="whisper", file=recording(), language="klingon")
