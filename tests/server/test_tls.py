"""https: a certificate that serves, and each that doesn't, by the flag that named it."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from maxi_mlx.cli.asking.connection import Connection
from maxi_mlx.core.errors import NoAnswer, SetupError
from maxi_mlx.core.settings import Settings
from maxi_mlx.server.address import served_at, tls_context
from tests.server.test_serve import ANY_PORT, serving, setup_error


def openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)


@dataclass
class Files:
    folder: Path

    def __getattr__(self, name: str) -> Path:
        return self.folder / f"{name}.pem"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """cert and key belong together; other is another key, locked is the key with a password."""
    made = Files(tmp_path_factory.mktemp("tls"))
    new = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    openssl(*new.split(), "-keyout", f"{made.key}", "-out", f"{made.cert}", "-addext", names)
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", f"{made.other}")
    openssl("pkey", "-in", f"{made.key}", "-aes128", "-passout", "pass:x", "-out", f"{made.locked}")
    made.both.write_bytes(made.cert.read_bytes() + made.key.read_bytes())
    made.text.write_text("nothing of the kind\n")
    return made


async def test_tls(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("maxi_mlx.server.address.PROBE_S", 30.0)
    settings = replace(ANY_PORT, tls_cert=files.cert, tls_key=files.key)
    async with serving(settings) as served:
        assert served.address.startswith("https://127.0.0.1:")
        port = int(served.address.rpartition(":")[2])
        trust = ssl.create_default_context(cafile=files.cert)
        async with served.session.get(served.address + "/health", ssl=trust) as answer:
            assert answer.status == 200
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")  # plain HTTP on the TLS port does no harm
        writer.close()
        async with served.session.get(served.address + "/health", ssl=trust) as answer:
            assert answer.status == 200
        assert await asyncio.to_thread(served_at, "127.0.0.1", port) == served.address


async def test_a_command_trusts_the_certificate_it_is_told_of(files: Files) -> None:
    settings = replace(ANY_PORT, tls_cert=files.cert, tls_key=files.key)
    async with serving(settings) as served:
        told = Connection(served.address, certificate=files.cert)
        assert (await asyncio.to_thread(told.get, "/health"))["version"]
        with pytest.raises(NoAnswer, match="certificate verify failed"):
            await asyncio.to_thread(Connection(served.address).get, "/health")


def test_one_file_may_hold_both(files: Files) -> None:
    assert tls_context(Settings(tls_cert=files.both)) is not None


@pytest.mark.parametrize(
    ("cert", "key", "words"),
    [
        ("none", None, "flag --tls-cert: {none}: no such file or directory"),
        ("text", "key", "flag --tls-cert: {text}: there is no certificate in PEM form in it"),
        ("key", "key", "flag --tls-cert: {key}: there is no certificate in PEM form in it"),
        ("cert", None, "flag --tls-cert: {cert}: there is no private key in it; name the key's"),
        ("cert", "none", "flag --tls-key: {none}: no such file or directory"),
        ("cert", "text", "flag --tls-key: {text}: there is no private key in PEM form in it"),
        ("cert", "other", "flag --tls-key: {other}: this private key is not the one of {cert}"),
        ("cert", "locked", "flag --tls-key: {locked}: the private key has a password; take it off"),
    ],
    ids=lambda value: str(value).partition(":")[0],
)
async def test_files_that_cannot_be_used(
    files: Files, cert: str, key: str | None, words: str
) -> None:
    settings = Settings(
        port=0, tls_cert=getattr(files, cert), tls_key=getattr(files, key) if key else None
    )
    message = await setup_error(settings)
    names = ("none", "text", "cert", "key", "other", "locked")
    assert message.startswith(words.format(**{name: getattr(files, name) for name in names}))
    assert "\n" not in message


def test_what_set_the_file_is_named(files: Files) -> None:
    settings = Settings(tls_cert=files.none, sources={"tls_cert": "file /c.toml"})
    with pytest.raises(SetupError, match=r"^file /c\.toml, tls_cert: "):
        tls_context(settings)
