"""A template is a program: what keeps it from running for ever, and from the machine."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from maxi_mlx.core.errors import InvalidRequest
from maxi_mlx.text.chat_template import JinjaTemplate, RenderFailed
from maxi_mlx.text.chat_template.limits import Limits

LOOP = "{% for i in range(99999) %}"


def failure(text: str, *, time_s: float = 0.1, output_chars: int = 1 << 20) -> RenderFailed:
    limits = Limits(time_s=time_s, output_chars=output_chars)
    with pytest.raises(RenderFailed) as caught:
        JinjaTemplate(text, limits=limits).render([], tools=(), variables={})
    return caught.value


LONG = {
    "silent loops": f"\n{LOOP}{LOOP}{{% endfor %}}{{% endfor %}}",
    "loops in a block": f"\n{{% set x %}}{LOOP}{LOOP}{{% endfor %}}{{% endfor %}}{{% endset %}}",
    "a macro that doubles": "\n{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}"
    "{% endmacro %}{{ f(60) }}",
    "a loop that doubles": "\n{% for i in range(60) recursive %}"
    "{{ loop(range(60)) if loop.depth < 40 }}{% endfor %}",
    "output": f"\n{LOOP}{LOOP}{{% generation %}}{{% endgeneration %}}{{% endfor %}}{{% endfor %}}",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_time_is_limited(name: str) -> None:
    began_s = time.thread_time()
    error = failure(LONG[name])
    assert time.thread_time() - began_s < 2
    assert "for more than 0.1 seconds" in error.words
    assert error.line == 2 or (name == "output" and error.line is None)  # between its pieces


LARGE = {
    "output": f"\n{LOOP}xxxxxxxxxxxxxxxxxxxxx{{% endfor %}}",
    "doubled by plus": "\n{% set n = namespace(x='xx') %}{% for i in range(99) %}"
    "{% set n.x = n.x + n.x %}{% endfor %}",
    "doubled by tilde": "\n{% set n = namespace(x='xx') %}{% for i in range(99) %}"
    "{% set n.x = 'a' ~ (n.x ~ n.x) %}{% endfor %}",
    "tilde in a call": "\n{% set n = namespace(x='xx') %}{% for i in range(99) %}"
    "{% set n.x = dict(a=n.x ~ n.x)['a'] | trim %}{% endfor %}",
    "a product": "\n{{ 'x' * 10 ** 12 }}",
    "a product, turned round": "\n{{ 10 ** 12 * [0] }}",
    "padding": "\n{{ 'x'.ljust(10 ** 12) }}",
    "centred": "\n{{ 'x'.center(10 ** 12) }}",
    "a number": "\n{{ 9 ** 99999999 }}",
    "a number by products": "\n{% set n = namespace(x=9) %}{% for i in range(99) %}"
    "{% set n.x = n.x * n.x %}{% endfor %}",
    "a date": "\n{{ strftime_now('%999999999d') }}",
}


@pytest.mark.parametrize("name", LARGE)
def test_sizes_are_limited(name: str) -> None:
    error = failure(LARGE[name], time_s=5)
    assert "it made" in error.words or "it would make" in error.words or "any length" in error.words
    assert error.line == 2 or (name == "output" and error.line is None)  # between its pieces


def test_a_range_is_limited() -> None:
    assert "Range too big" in failure("{% for i in range(10 ** 9) %}{% endfor %}").words


UNSAFE = [
    "{{ ''.__class__.__mro__ }}",
    "{{ messages.append(1) }}",
    "{{ namespace(__class__=1) }}",
    "{{ cycler.__init__.__globals__ }}",
    "{{ 'x' | attr('__class__') | string + 1 }}",
]


@pytest.mark.parametrize("text", UNSAFE)
def test_what_leads_out_of_the_sandbox_fails(text: str) -> None:
    assert failure(text).words


@pytest.mark.parametrize(
    "text",
    [
        "{{ dict.__class__ }}",
        "{{ raise_exception.__globals__ }}",
        "{{ '{0.__class__}'.format(1) }}",
    ],
)
def test_what_is_hidden_is_empty(text: str) -> None:
    assert JinjaTemplate(text).render([], tools=(), variables={}) == ""


def test_endless_depth_is_a_failure() -> None:
    assert failure("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").words == "it nests too deeply"


@pytest.mark.slow
def test_one_thread_does_not_count_anothers_work() -> None:
    template = JinjaTemplate(
        "{% for i in range(2000) %}x{% endfor %}", limits=Limits(time_s=5, output_chars=2500)
    )
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda _: template.render([], tools=(), variables={}), range(40)))
    assert texts == ["x" * 2000] * 40


BROKEN = [
    ("{% if %}", "line 1"),
    ("a\nb {{ c", "line 2"),
    ("a\n\n{% endfor %}", "line 3: Encountered unknown tag 'endfor'"),
    ("{{ x | nofilter }}", "No filter named 'nofilter'"),
    ("{% block %}", "line 1"),
    ("{{ " + "(" * 5000 + ")" * 5000 + " }}", "can't be compiled"),
    ("{% if x %}" * 300 + "{% endif %}" * 300, "can't be compiled"),
    ("x" * ((1 << 20) + 1), "at most 1048576"),
]


@pytest.mark.parametrize(("text", "words"), BROKEN, ids=[row[0][:20] for row in BROKEN])
def test_what_is_no_template_says_where(text: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        JinjaTemplate(text, name="chat template 'tool_use'")
    assert words in caught.value.message
    assert "The model's chat template 'tool_use'" in caught.value.message
    assert len(caught.value.message) < 600


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a\nb\n{{ raise_exception('No.') }}", 3, "No."),
        ("{% for m in [1] %}\n\n{{ m.x.y }}\n{% endfor %}", 3, "has no attribute 'x'"),
        ("{% macro f() %}\n{{ 1 + 'a' }}{% endmacro %}\n\n{{ f() }}", 2, "unsupported operand"),
        ("\n{{ raise_exception('x' * 9999) }}", 2, "…"),
        ("{{ [][5].x }}", 1, "list object has no element 5"),
    ],
    ids=["raised", "undefined", "in a macro", "long", "index"],
)
def test_a_failure_names_the_line(text: str, line: int, words: str) -> None:
    error = failure(text)
    assert error.line == line
    assert words in error.words
    assert len(error.words) < 500
