"""POST /v1/audio/transcriptions and /v1/audio/translations: a form in, text out."""

from __future__ import annotations

from functools import partial

from aiohttp import web

from maxi_mlx.api import openai
from maxi_mlx.core.transcription import Task
from maxi_mlx.server.feed import TranscriptionFeed
from maxi_mlx.server.form import received_form
from maxi_mlx.server.keys import ENGINE, FEEDS, RECORD, SETTINGS
from maxi_mlx.server.stream import send_stream
from maxi_mlx.server.whole import send_whole


async def transcription(request: web.Request) -> web.StreamResponse:
    return await _write_down(request, "transcribe")


async def translation(request: web.Request) -> web.StreamResponse:
    return await _write_down(request, "translate")


async def _write_down(request: web.Request, task: Task) -> web.StreamResponse:
    record = request[RECORD]
    limit_bytes = request.app[SETTINGS].max_audio_bytes
    async with received_form(request, limit_bytes=limit_bytes) as form:
        call = openai.parse_audio(form.fields, file=form.file, task=task, request_id=record.id)
        record.observe_request(call.request)
        events = request.app[ENGINE].transcribe(call.request)
        async with TranscriptionFeed(
            events, asked_model=call.request.model, record=record, among=request.app[FEEDS]
        ) as feed:
            if call.stream:
                writer = openai.TranscriptionStreamWriter
                return await send_stream(request, feed, writer=writer, keep_alive=openai.KEEP_ALIVE)
            answer = partial(openai.TranscriptionAnswer, call)
            content_type = openai.content_type_of(call)
            return await send_whole(feed, answer, content_type=content_type)
