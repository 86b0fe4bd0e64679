"""What a front end elsewhere asks of runs, answered once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from runners.state.layout import StateDirectory
from tui.snapshot.questions import Question, answer


async def send_answer(
    state: StateDirectory,
    number: int,
    asked: dict[str, Any],
    send: Callable[..., Awaitable[None]],
) -> None:
    """Answer the question `question` about `words`. ValueError for one that is not known."""
    words = [str(word) for word in asked["words"]]
    found = await asyncio.to_thread(answer, state, Question(asked["question"]), words)
    await send({"id": number, "answer": {"found": msgspec.to_builtins(found)}})
