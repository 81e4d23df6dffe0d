"""The chat's own loop: reads a message, asks the server, shows the answer."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator, Sequence

from maxi_mlx.cli.asking import models
from maxi_mlx.cli.asking.notice import notice_on, waiting_words
from maxi_mlx.cli.asking.server import AskedServer
from maxi_mlx.cli.asking.stream import End, Piece, Text, Thought
from maxi_mlx.cli.chatting.commands import COMMANDS, Leave, command_line
from maxi_mlx.cli.chatting.conversation import Conversation
from maxi_mlx.cli.chatting.keyboard import Source
from maxi_mlx.cli.chatting.screen import AnswerWriter, Screen
from maxi_mlx.core.errors import MaxiError, NoAnswer

INTERRUPTED = "Ctrl-D or /exit leaves"


class Session:
    """Lives on the main thread, as Ctrl-C does."""

    def __init__(self, server: AskedServer, *, system: str | None) -> None:
        self.server = server
        self.screen = Screen()
        self.conversation = Conversation(system)
        self.model = ""

    def choose_model(self, name: str | None) -> None:
        """Raises MaxiError where there is none of that name, or no telling which."""
        connection = self.server.connection()
        if name is None:
            self.model = models.usual(connection, self.server.settings.model).id
        else:
            self.model = models.named(connection, name).id

    def load_meanwhile(self) -> None:
        """Has the model loaded while the first message is typed."""
        connection, body = self.server.connection(), {"model": self.model}

        def load() -> None:
            with contextlib.suppress(NoAnswer):  # the first message will meet the same
                connection.send("POST", "/api/v1/models/load", body)

        threading.Thread(target=load, daemon=True).start()

    def run(self, source: Source) -> None:
        """Until there is no more to read."""
        url = self.server.connection().url
        self.screen.note(f"{self.model} at {url}\n/help tells the rest, Ctrl-D leaves")
        while True:
            try:
                message = source.read()
                if message is None:
                    return
                self._take(message)
            except Leave:
                return
            except KeyboardInterrupt:
                self.screen.note(INTERRUPTED)
            except MaxiError as error:
                self.screen.complain(error.message)

    def _take(self, message: str) -> None:
        if message.startswith("/"):
            name, words = command_line(message)
            COMMANDS[name].run(self, words)
        elif message:
            self.ask(message)

    def ask(self, question: str) -> None:
        """Shows the answer and keeps it. Ctrl-C ends it there; an error leaves no trace of it."""
        messages = self.conversation.messages(question)
        said: list[str] = []
        end = None
        try:
            with self.screen.answer() as writer:
                for piece in self._pieces(messages):
                    _show(piece, writer)
                    if isinstance(piece, Text):
                        said.append(piece.text)
                    elif isinstance(piece, End):
                        end = piece
        except KeyboardInterrupt:
            self.screen.note("stopped")
        if said:
            self.conversation.answered("".join(said), model=self.model)
        if end is not None and end.finish_reason == "length":
            self.screen.note("the answer ends here, as the model's context is full")

    def _pieces(self, messages: list[dict[str, str]]) -> Iterator[Piece]:
        connection = self.server.connection()
        with notice_on(sys.stderr, waiting_words(connection)) as notice:
            for piece in connection.ask({"model": self.model, "messages": messages}):
                notice.close()
                yield piece

    def choices(self, begun: str) -> Sequence[str]:
        """What may stand at the end of what was begun to type."""
        if not begun.startswith("/"):
            return []
        command, has_name, word = begun.partition(" ")
        if not has_name:
            return [name for name in COMMANDS if name.startswith(command)]
        if command != "/model":
            return []
        ids = [model.id for model in models.writers(self.server.connection())]
        return [id for id in ids if id.casefold().startswith(word.casefold())]


def _show(piece: Piece, writer: AnswerWriter) -> None:
    match piece:
        case Thought(text):
            writer.thought(text)
        case Text(text):
            writer.text(text)
