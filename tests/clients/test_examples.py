"""Every file of examples/ runs as it is, but for the server's address and the model's name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.conftest import RequestLog, Served, User
from tests.models.scripted import DIALOGUES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

EXAMPLES = Path(__file__).parents[2] / "examples"
CAPITAL = DIALOGUES["capital"].reply
ADDRESS, MODEL = "http://127.0.0.1:11434", "SmolLM2-135M-Instruct"


@pytest.fixture
def libraries(user: User, node_modules: Path) -> User:
    (user.work / "node_modules").symlink_to(node_modules)
    return user


@pytest.mark.parametrize("example", sorted(EXAMPLES.iterdir()), ids=lambda path: path.name)
def test_it_runs(
    libraries: User, library_python: Path, example: Path, served: Served, log: RequestLog
) -> None:
    text = example.read_text()
    assert ADDRESS in text
    program = libraries.work / example.name
    address = served.base_url.removesuffix("/v1")
    program.write_text(text.replace(ADDRESS, address).replace(MODEL, "scripted"))
    runners = {".py": library_python, ".mjs": "node", ".sh": "sh"}
    shown = libraries.run(runners[example.suffix], program, LITELLM_LOCAL_MODEL_COST_MAP="True")
    if example.suffix == ".sh":  # what came over the wire: a whole answer, and a stream
        assert f'"content":"{CAPITAL}"' in shown
        assert shown.rstrip().endswith("data: [DONE]")
    elif example.stem == "async_chat":
        assert f"{DIALOGUES['capital'].messages[0]['content']}\n{CAPITAL}\n" in shown
    else:
        assert shown == f"{CAPITAL}\n"
    assert log.requests
