"""Answers held to a grammar, among others that are not: they fit, and nobody else notices."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.core.events import Failed
from maxi_mlx.core.grammar import Constraint, Json, Lark, Node, Pattern, json_by_schema
from maxi_mlx.core.request import Reasoning, SamplingParams, TokenPrompt
from maxi_mlx.engine.engine import Engine
from maxi_mlx.engine.guide import GuideSpec
from maxi_mlx.engine.language_model import LanguageModel
from maxi_mlx.engine.mailbox import FaultNews, TokenNews
from maxi_mlx.engine.row import Row
from tests.engine.asking import ask, make_request
from tests.engine.conftest import LoadTiny, make_engine
from tests.engine.desk import Desk
from tests.engine.grammar.schemas import random_schema
from tests.engine.test_batch import DRAWN, GREEDY, prompt_of
from tests.engine.test_scheduler_faults import FAULTY_TOKEN, Faulty

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}


def form(node: Node) -> Constraint:
    return Constraint(node=node, param="response_format")


def drawn(seed: int) -> SamplingParams:
    return SamplingParams(temperature=1.0, seed=seed)


def check(text: str, schema: Any = PERSON) -> None:
    jsonschema.validate(json.loads(text), schema)


# -- through the whole engine ----------------------------------------------------------------------


async def test_free_rows_beside_constrained_ones_say_what_they_say_alone(engine: Engine) -> None:
    free = [make_request(prompt_of(9, seed), max_tokens=60) for seed in range(3)]
    alone = [(await ask(engine, request)).text for request in free]
    held = [
        make_request(
            prompt_of(7, seed),
            max_tokens=60,
            sampling=drawn(seed),
            constraint=form(json_by_schema(PERSON)),
        )
        for seed in range(4)
    ]
    replies = await asyncio.gather(*(ask(engine, request) for request in [*free, *held]))
    assert [reply.text for reply in replies[:3]] == alone
    for reply in replies[3:]:
        check(reply.text)
        assert reply.finishes[0] is not None
        assert reply.finishes[0].reason == "stop"


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma3", "llama-spm"])
async def test_answers_to_one_prompt_each_have_their_own_place(engine: Engine, family: str) -> None:
    request = make_request(
        prompt_of(7, 1),
        model=f"tiny-{family}",
        n=3,
        max_tokens=50,
        sampling=drawn(5),
        constraint=form(json_by_schema(PERSON)),
    )
    reply = await ask(engine, request)
    for text in reply.texts:
        check(text)
    assert len(set(reply.texts)) == 3
    again = await ask(engine, replace(request, id="again"))
    assert again.texts == reply.texts
    [first] = (await ask(engine, replace(request, id="one", n=1))).texts
    assert first == reply.texts[0]


@pytest.mark.parametrize("max_tokens", [12, 14, 20, 33, 200])
async def test_an_answer_closes_within_its_budget(engine: Engine, max_tokens: int) -> None:
    for seed in range(2):
        reply = await ask(
            engine,
            make_request(
                prompt_of(7, seed),
                model="tiny-qwen3",
                max_tokens=max_tokens,
                sampling=drawn(seed),
                constraint=form(json_by_schema(PERSON)),
                top_logprobs=1,
            ),
        )
        [finish] = reply.finishes
        assert finish is not None
        if finish.reason == "stop":
            check(reply.text)
        else:
            assert max_tokens == 12
        assert finish.completion_tokens <= max_tokens
        # Every token has its probability, those put in another's place too.
        assert b"".join(token.data for token in reply.tokens[0]).decode() == reply.text
        assert all(token.logprob <= 0 for token in reply.tokens[0])


async def test_no_room_at_all_is_the_reason_length(engine: Engine) -> None:
    constraint = form(json_by_schema({"const": "x" * 50}))
    reply = await ask(engine, make_request(prompt_of(7, 1), max_tokens=5, constraint=constraint))
    assert reply.finishes[0] is not None
    assert reply.finishes[0].reason == "length"


async def test_a_stop_string_ends_a_form_too(engine: Engine) -> None:
    request = make_request(
        prompt_of(7, 1), constraint=form(Pattern("a{1,5}b[cd]+e")), stop=("b",), max_tokens=30
    )
    reply = await ask(engine, request)
    assert set(reply.text) == {"a"}
    assert reply.finishes[0] is not None
    assert (reply.finishes[0].reason, reply.finishes[0].stop_string) == ("stop", "b")


async def test_a_form_in_a_text_that_the_cache_knows(engine: Engine) -> None:
    prompt = prompt_of(120, 3)
    request = make_request(
        prompt, max_tokens=40, sampling=drawn(3), constraint=form(json_by_schema(PERSON))
    )
    first, second = [await ask(engine, replace(request, id=name)) for name in ("a", "b")]
    check(first.text)
    assert second.text == first.text
    assert second.usage is not None
    assert second.usage.cached_tokens == 119


async def test_a_completion_has_forms_too_and_no_thoughts(engine: Engine) -> None:
    reply = await ask(
        engine,
        make_request(
            TokenPrompt((10, 20, 30)),
            model="tiny-qwen3",
            constraint=form(Pattern("<think>[ab]{3}")),
            reasoning=Reasoning(budget_tokens=0),
        ),
    )
    assert reply.text.startswith("<think>")
    assert len(reply.text) == 10


CATASTROPHES: dict[str, Node] = {
    "a regular expression": Pattern("(a|b|ab)*" * 50 + "((x{1,500}){1,500}){1,500}"),
    "sums of choices": json_by_schema(
        {"allOf": [{"anyOf": [{"required": [f"{i}{j}"]} for j in range(12)]} for i in range(12)]}
    ),
    "a long count": json_by_schema({"type": "string", "minLength": 10**7, "maxLength": 10**8}),
    "itself": json_by_schema({"$ref": "#"}),
    "deep": Json('{"items":' * 5000 + "{}" + "}" * 5000),
    "a grammar without an end": Lark("start: a\na: a a"),
}

HARMLESS = {"a regular expression", "a long count"}


@pytest.mark.parametrize("name", CATASTROPHES)
async def test_catastrophes_are_refused_or_answered_soon(engine: Engine, name: str) -> None:
    await ask(engine, make_request([1, 2], max_tokens=1))
    began = time.process_time()
    request = make_request([1, 2], max_tokens=5, constraint=form(CATASTROPHES[name]))
    if name in HARMLESS:
        assert (await ask(engine, request)).finishes[0] is not None
    else:
        with pytest.raises(InvalidRequest) as caught:
            await ask(engine, request)
        assert caught.value.param == "response_format"
        assert len(caught.value.message) < 500
    assert time.process_time() - began < 4
    assert (await ask(engine, make_request([1, 2], max_tokens=3))).failure is None


async def test_a_grammar_that_becomes_too_much_work_ends_its_own_answer(engine: Engine) -> None:
    """Three hundred rules, any of which the first letter may have begun."""
    rules = [
        f"e{i}: A e{(i * 7 + 1) % 300} | A e{(i * 13 + 5) % 300} | A | e{(i * 3 + 2) % 300} A"
        for i in range(300)
    ]
    start = "start: " + " | ".join(f"e{i}" for i in range(300))
    heavy = form(Lark("\n".join([start, *rules, "A: /a/"])))
    beside = make_request(prompt_of(9, 1), max_tokens=60)
    alone = (await ask(engine, beside)).text
    bad = make_request(prompt_of(9, 2), max_tokens=60, constraint=heavy, n=2)
    failed, good = await asyncio.gather(ask(engine, bad), ask(engine, replace(beside, id="beside")))
    assert good.text == alone
    last = failed.events[-1]
    assert isinstance(last, Failed)
    assert isinstance(last.error, InvalidRequest)
    assert last.error.param == "response_format"
    assert "too much work" in last.error.message


async def test_a_model_without_an_end_stops_where_the_form_does(
    tiny_model: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "endless"
    shutil.copytree(tiny_model("llama"), folder)
    for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        settings = json.loads((folder / name).read_text())
        settings.pop("eos_token_id", None)
        settings.pop("eos_token", None)
        (folder / name).write_text(json.dumps(settings))
    async with make_engine([folder]) as engine:
        reply = await ask(
            engine,
            make_request(
                prompt_of(5, 1),
                model="endless",
                max_tokens=60,
                sampling=drawn(1),
                constraint=form(json_by_schema(PERSON)),
            ),
        )
    check(reply.text)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("family", ["qwen3", "llama-spm"])
async def test_two_hundred_schemas(engine: Engine, family: str) -> None:
    async def one(seed: int) -> None:
        chance = random.Random(seed)
        schema = random_schema(chance)
        request = make_request(
            prompt_of(5, seed),
            model=f"tiny-{family}",
            max_tokens=chance.randint(100, 400),
            sampling=drawn(seed),
            constraint=form(json_by_schema(schema)),
        )
        reply = await ask(engine, request)
        assert reply.finishes[0] is not None, (schema, reply.failure)
        assert reply.finishes[0].reason == "stop", (schema, reply.text)
        check(reply.text, schema)

    for start in range(0, 200, 20):
        await asyncio.gather(*(one(seed) for seed in range(start, start + 20)))


# -- rows that are interrupted ---------------------------------------------------------------------


def guided_rows(desk: Desk, model: LanguageModel, count: int, *, max_tokens: int) -> list[Row]:
    spec = GuideSpec(grammar=model.grammars.compile(form(json_by_schema(PERSON))))
    return [
        desk.submit(
            prompt_of(6, seed),
            max_tokens=max_tokens,
            # Else a row may draw what a faulty model fails on.
            sampling=replace(DRAWN, seed=seed, logit_bias=((FAULTY_TOKEN, -100.0),)),
            key=(seed, 7),
            end_ids=model.end_ids,
            guide=spec.start(max_tokens=max_tokens),
        )[0]
        for seed in range(count)
    ]


def text_of(desk: Desk, model: LanguageModel, row: Row) -> str:
    tokens = [news for news in desk.of(row) if isinstance(news, TokenNews)]
    assert tokens[-1].end in ("complete", "end_token")
    return model.vocabulary.text([news.token_id for news in tokens if news.end != "end_token"])


@pytest.mark.parametrize("max_tokens", [24, 60])
def test_rows_put_back_for_memory_go_on_where_they_were(
    load_tiny: LoadTiny, max_tokens: int
) -> None:
    model = load_tiny("llama")
    calm = Desk(model)
    calm_rows = guided_rows(calm, model, 4, max_tokens=max_tokens)
    calm.run()
    desk = Desk(model)
    rows = guided_rows(desk, model, 4, max_tokens=max_tokens)
    desk.step(6)
    desk.budget = -(1 << 40)  # no memory for all of them
    desk.scheduler._num_steps = 0
    desk.step()
    assert desk.scheduler.num_decoding == 1
    desk.budget = 1 << 30
    desk.run()
    for row, calm_row in zip(rows, calm_rows, strict=True):
        check(text_of(desk, model, row))
        if max_tokens == 60:  # far from its budget an answer is what was drawn
            assert text_of(desk, model, row) == text_of(calm, model, calm_row)


def test_rows_of_a_batch_that_failed_go_on_by_themselves(load_tiny: LoadTiny) -> None:
    model = load_tiny("llama")
    desk = Desk(replace(model, model=Faulty(model.model)))
    rows = guided_rows(desk, model, 3, max_tokens=40)
    desk.step(6)
    (bad,) = desk.submit([11, FAULTY_TOKEN], max_tokens=20, sampling=GREEDY)
    desk.run()
    assert isinstance(desk.of(bad)[-1], FaultNews)
    for row in rows:
        check(text_of(desk, model, row))
