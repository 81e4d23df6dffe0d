"""What huggingface_hub is asked for: a repository's files, and their bytes. Its errors come out as
ours, in words that say what to do.

Blocks on the network. The library is imported when it is used; it comes with mlx-lm.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from maxi_mlx import __version__
from maxi_mlx.catalog.names import printable
from maxi_mlx.catalog.pull.hub.files import HubFile
from maxi_mlx.catalog.pull.hub.repository import MAIN, Repository
from maxi_mlx.catalog.pull.reasons import plain_words, status_words
from maxi_mlx.core.errors import DownloadFailed, Forbidden, MaxiError, ModelNotFound

ANSWER_TIMEOUT_S = 20.0
MAX_FILE_BYTES = 10**15  # no disk has room for more
_COMMIT = re.compile(r"[0-9a-f]{40}")
_NUM_NEAR = 3


class Broken(Exception):
    """The connection ended before the answer did. The text is for the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A repository's files at one commit."""

    commit: str
    files: tuple[HubFile, ...]


class HubLibrary:
    """``endpoint`` is a mirror's address; None: the hub's, or what HF_ENDPOINT says."""

    def __init__(self, endpoint: str | None = None) -> None:
        from huggingface_hub import constants, utils

        self.endpoint = (endpoint or constants.ENDPOINT).rstrip("/")
        # The library's own headers would first ask the hub what programs it is to look for here.
        self._headers = {"User-Agent": f"maxi-mlx/{__version__}"}
        if (token := utils.get_token()) is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._session = utils.get_session()
        self._check_status = utils.hf_raise_for_status
        # It has changed the library by which it speaks HTTP before; the session tells which it is.
        library = importlib.import_module(type(self._session).__module__.partition(".")[0])
        self._network_errors: tuple[type[Exception], ...] = (
            library.HTTPError,
            library.InvalidURL,
            library.StreamError,
        )

    def listing(self, repository: Repository) -> Listing:
        """Raises a MaxiError that says why there is none."""
        revision = quote(repository.revision, safe="")
        with self._explained(repository):
            response = self._session.get(
                f"{self.endpoint}/api/models/{repository.name}/revision/{revision}",
                params={"blobs": "true"},
                headers=self._headers,
                timeout=ANSWER_TIMEOUT_S,
            )
            self._check_status(response)
            return _listing(response.json())

    @contextmanager
    def reading(
        self, repository: Repository, path: str, *, commit: str, start: int
    ) -> Iterator[tuple[int, Iterator[bytes]]]:
        """A file's bytes, with the place where they begin: ``start``, or 0 where the server can't
        do that. Raises Broken for a connection that fails, a MaxiError for a refusal."""
        url = f"{self.endpoint}/{repository.name}/resolve/{commit}/{path}"
        headers = {**self._headers, "Accept-Encoding": "identity"}
        if start:
            headers["Range"] = f"bytes={start}-"
        try:
            with self._session.stream(
                "GET", url, headers=headers, timeout=ANSWER_TIMEOUT_S
            ) as response:
                if response.status_code >= 500 or response.status_code in (408, 429):
                    raise Broken(status_words(response.status_code))
                with self._explained(repository):
                    self._check_status(response)
                # As they come: chunks of a size of ours would lose the last one at a cut.
                yield (start if response.status_code == 206 else 0), response.iter_raw()
        except self._network_errors as error:
            raise Broken(plain_words(error)) from error

    @contextmanager
    def _explained(self, repository: Repository) -> Iterator[None]:
        from huggingface_hub import errors

        try:
            yield
        except errors.OfflineModeIsEnabled as error:
            raise DownloadFailed(
                f"{repository} can't be fetched: HF_HUB_OFFLINE is set, which keeps this program "
                "off the network. Unset it, and run the command again."
            ) from error
        except errors.HfHubHTTPError as error:
            raise self._refusal(repository, error) from error
        except self._network_errors as error:
            raise DownloadFailed(self._unreachable(repository, plain_words(error))) from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:  # other JSON, or none
            raise DownloadFailed(
                f"{self.endpoint} does not answer as a Hugging Face hub, with files, sizes and "
                "checksums. Name another by --from or HF_ENDPOINT."
            ) from error

    def _unreachable(self, repository: Repository, reason: str) -> str:
        return (
            f"{repository} can't be fetched: {self.endpoint} can't be reached: {reason}. Models "
            "that are on this machine already need no network; a mirror can be named by --from or "
            "HF_ENDPOINT."
        )

    def _refusal(self, repository: Repository, error: Any) -> MaxiError:
        from huggingface_hub import errors

        status = error.response.status_code
        has_token = "Authorization" in self._headers
        if isinstance(error, errors.GatedRepoError) or status == 403:
            return Forbidden(self._gated(repository, has_token=has_token))
        if isinstance(error, errors.RevisionNotFoundError):
            return ModelNotFound(
                f"{repository.name} has no revision '{printable(repository.revision)}'. Leave it "
                f"out for the newest ({MAIN}), or name a branch, a tag or a commit that "
                f"{self._page(repository)} has."
            )
        if isinstance(error, errors.EntryNotFoundError):
            return DownloadFailed(
                f"{self.endpoint} has lost a file of {repository} that it lists. Try again later."
            )
        if isinstance(error, errors.RepositoryNotFoundError) or status == 404:
            return ModelNotFound(self._absent(repository, has_token=has_token))
        if status == 401:
            return Forbidden(
                f"{self.endpoint} refuses the token of HF_TOKEN (or of `hf auth login`). Make a "
                "new one at https://huggingface.co/settings/tokens, or unset it."
            )
        return DownloadFailed(
            f"{repository} can't be fetched: {self.endpoint} answers {status_words(status)}. Try "
            "again later."
        )

    def _gated(self, repository: Repository, *, has_token: bool) -> str:
        terms = f"agree to its terms on {self._page(repository)}"
        if has_token:
            return (
                f"{repository} is gated, and the account of the token in HF_TOKEN may not read it: "
                f"{terms} with that account, and see that the token may read gated models."
            )
        return (
            f"{repository} is gated: {terms}, then set HF_TOKEN to a token of that account "
            "(https://huggingface.co/settings/tokens)."
        )

    def _absent(self, repository: Repository, *, has_token: bool) -> str:
        near = self._near(repository)
        guess = f" Did you mean {' or '.join(near)}?" if near else ""
        token = "" if has_token else " A private one needs a token in HF_TOKEN."
        return f"There is no model {repository.name} on {self.endpoint}.{guess}{token}"

    def _near(self, repository: Repository) -> list[str]:
        """Names that were perhaps meant; the hub searches them. No answer is no guess."""
        org, name = repository.name.split("/")
        try:
            response = self._session.get(
                f"{self.endpoint}/api/models",
                params={"search": name, "author": org, "limit": _NUM_NEAR},
                headers=self._headers,
                timeout=ANSWER_TIMEOUT_S,
            )
            found = [model["id"] for model in response.json()]
        except self._network_errors:
            return []
        except (ValueError, KeyError, TypeError):  # an error's body, or a page
            return []
        return [printable(id) for id in found if isinstance(id, str)][:_NUM_NEAR]

    def _page(self, repository: Repository) -> str:
        return f"{self.endpoint}/{repository.name}"


def _listing(answer: Any) -> Listing:
    """Raises ValueError, TypeError or KeyError for what no hub answers."""
    files = tuple(_file(each) for each in answer["siblings"])
    if not _COMMIT.fullmatch(answer["sha"]):
        raise ValueError
    return Listing(answer["sha"], files)


def _file(sibling: Any) -> HubFile:
    large = sibling.get("lfs") or {}
    digest = large["sha256"] if large else sibling["blobId"]
    num_bytes = large["size"] if large else sibling["size"]
    if not isinstance(num_bytes, int) or not isinstance(digest, str):
        raise TypeError
    if not 0 <= num_bytes <= MAX_FILE_BYTES:
        raise ValueError
    return HubFile(path=str(sibling["rfilename"]), num_bytes=num_bytes, digest=digest)
