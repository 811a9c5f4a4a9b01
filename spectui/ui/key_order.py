"""Keys in the order in which they were typed: each is wholly dealt with before the next one is looked at.

Textual hands a key to the widget that has the focus when the key comes in, and the widget deals with it later. In a
burst (fast typing, a key held down, a slow line that delivers all at once) the keys behind ``w`` would be looked at
before the form that it opens is there, and be lost, or land in what had the focus before.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any

from textual import events
from textual.app import App
from textual.message_pump import MessagePump
from textual.screen import Screen

ROUNDS = 2
"""What a key changes is told in messages of its own, behind it: they too are through after the second round."""
NO_LONGER_THAN_S = 3.0
"""A key that is not dealt with by then keeps the others no longer."""


class InOrder(App[None]):
    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self._waiting: deque[events.Key | events.Paste] = deque()
        self._in_hand = 0
        """Number of the key that is being dealt with; 0 for none."""
        self._taken = 0

    @property
    def keys_wait(self) -> bool:
        return bool(self._waiting)

    def holds(self, event: events.Event) -> bool:
        """Whether a key must wait for something that is under way; ``next_key`` is then to be called at its end."""
        return False

    async def on_event(self, event: events.Event) -> None:
        if not isinstance(event, (events.Key, events.Paste)) or event.is_forwarded:
            await super().on_event(event)
            return
        self._waiting.append(event)
        await self.next_key()

    async def next_key(self) -> None:
        while self._waiting and not self._in_hand and self.screen_stack and not self.holds(self._waiting[0]):
            self._taken += 1
            number = self._in_hand = self._taken
            self.set_timer(NO_LONGER_THAN_S, partial(self._dealt_with, number))
            screen = self.screen
            if not screen.is_mounted:  # it takes no key yet
                self._go_round(number, [screen], [screen], screen, 1)
                return
            event = self._waiting.popleft()
            path = [node for node in (self.focused or screen).ancestors_with_self if node is not self]
            await super().on_event(event)
            self._go_round(number, path, path, screen, ROUNDS)

    def _go_round(self, number: int, path: list[Any], left: list[Any], screen: Screen[Any], rounds: int) -> None:
        """Stands in the queue of each node that the key goes through, one after another, and last in the app's."""
        for at, node in enumerate(left):
            step = partial(self._go_round, number, path, left[at + 1 :], screen, rounds)
            if node.is_attached and _queued(node, step):
                return
        _queued(self, partial(self._went_round, number, path, screen, rounds - 1))

    async def _went_round(self, number: int, path: list[Any], screen: Screen[Any], rounds: int) -> None:
        if number != self._in_hand:
            return
        if self.screen_stack and self.screen is not screen:  # the key has led there: it must be able to take the next
            screen, path, rounds = self.screen, [self.screen], ROUNDS
        if rounds:
            self._go_round(number, path, path, screen, rounds)
        else:
            await self._dealt_with(number)

    async def _dealt_with(self, number: int) -> None:
        if number == self._in_hand:
            self._in_hand = 0
            await self.next_key()


def _queued(node: MessagePump, step: partial[Any]) -> bool:
    return node.post_message(events.Callback(callback=step))
