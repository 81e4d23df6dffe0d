"""A line for billing goes; whatever else a system prompt says stays, to the last character."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maxi_mlx.core.request import Message, Role
from maxi_mlx.text.volatile import without_volatile_lines, without_volatile_text

LINE = "x-anthropic-billing-header: cc_version=2.1.197.f3a; cc_entrypoint=cli; cch=5bd2e;"


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        (LINE, ""),
        (f"{LINE}\nYou are an agent.", "You are an agent."),
        (f"{LINE}\r\nYou are an agent.\r\n", "You are an agent.\r\n"),
        (f"{LINE}\n\n\nYou are.", "\n\nYou are."),
        (f"You are.\n{LINE}\nBe brief.", "You are.\nBe brief."),
        (f"You are.\n{LINE}", "You are.\n"),
        (f"{LINE}\n{LINE}\nYou are.", "You are."),
        ("x-anthropic-billing-header: cc_version=1\nYou are.", "You are."),
        ("x-anthropic-billing-header: a=1; b=; c-d.e=2\nYou are.", "You are."),
        ("x-anthropic-billing-header:\nYou are.", "You are."),
    ],
)
def test_the_line_goes(text: str, rest: str) -> None:
    assert without_volatile_lines(text) == rest


@pytest.mark.parametrize(
    "text",
    [
        "",
        "You are an agent.",
        f"{LINE} You are an agent.",
        f"Take out {LINE}",
        f" {LINE}",
        f"`{LINE}`",
        "x-anthropic-billing-header: what is it for?\nAnswer.",
        "x-anthropic-billing-header: a=1; and then b=2;\nAnswer.",
        "X-Anthropic-Billing-Header: a=1;",
        "x-request-id: 5bd2e",
    ],
)
def test_what_is_not_only_that_stays(text: str) -> None:
    assert without_volatile_lines(text) == text


@given(
    before=st.text(alphabet="ab \n", max_size=20),
    after=st.text(alphabet="ab=; \n", max_size=20),
    cch=st.text(alphabet="0123456789abcdef", max_size=8),
)
def test_whatever_is_around_it(before: str, after: str, cch: str) -> None:
    before = before + "\n" if before else ""
    line = f"x-anthropic-billing-header: cch={cch};\n"
    assert without_volatile_lines(before + line + after) == before + after


def test_a_hostile_line_takes_no_time() -> None:
    began = time.thread_time()
    for hostile in ("a=" * 200_000, "a=1; " * 100_000 + "!", " \t" * 200_000 + "!", "-" * 400_000):
        text = f"x-anthropic-billing-header: {hostile}\nYou are."
        assert without_volatile_lines(text).endswith("You are.")
    assert time.thread_time() - began < 1


def message(role: Role, text: str | None) -> Message:
    return Message(role=role, text=text)


def test_system_messages_alone_are_changed() -> None:
    user = message("user", f"{LINE}\nWhat does this line do?")
    said = [message("system", f"{LINE}\nYou are."), user, message("assistant", None)]
    expected = [message("system", "You are."), *said[1:]]
    assert without_volatile_text(said) == expected
    # As a proxy sends it: every block a message of its own.
    apart = [message("system", LINE), message("system", "You are."), *said[1:]]
    assert without_volatile_text(apart) == expected


def test_a_conversation_is_never_left_empty() -> None:
    only = [message("system", LINE)]
    assert without_volatile_text(only) == only
