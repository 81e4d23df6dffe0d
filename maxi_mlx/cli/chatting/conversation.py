"""What was said so far. Knows no terminal and no server."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Turn:
    question: str
    answer: str
    model: str


@dataclass(slots=True)
class Conversation:
    """Owned by the chat's main thread. A question counts once it has an answer, so that one that
    failed is in nobody's way; ``asked`` is the latest, for another try."""

    system: str | None = None
    turns: list[Turn] = field(default_factory=list)
    asked: str | None = None
    is_answered: bool = False

    def messages(self, question: str) -> list[dict[str, str]]:
        """What the server is sent."""
        self.asked, self.is_answered = question, False
        said = [] if self.system is None else [_message("system", self.system)]
        for turn in self.turns:
            said += [_message("user", turn.question), _message("assistant", turn.answer)]
        return [*said, _message("user", question)]

    def answered(self, answer: str, *, model: str) -> None:
        assert self.asked is not None
        self.turns.append(Turn(self.asked, answer, model))
        self.is_answered = True

    def take_back(self) -> str | None:
        """The latest question, as if it had not been asked; None before the first."""
        if self.is_answered:
            self.turns.pop()
            self.is_answered = False
        return self.asked

    def clear(self) -> None:
        self.turns.clear()
        self.asked, self.is_answered = None, False

    def document(self) -> str:
        """All of it in Markdown."""
        parts = [] if self.system is None else [f"## System\n\n{self.system}\n"]
        for turn in self.turns:
            parts.append(f"## You\n\n{turn.question}\n")
            parts.append(f"## {turn.model}\n\n{turn.answer.strip()}\n")
        return "\n".join(parts)


def _message(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}
