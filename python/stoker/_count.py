"""Which epoch comes next, of loops over a pipeline."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._passes import Pass


class Count:
    """Passes over a pipeline by `.torch()` and the like, where a loop goes on with the epoch after the last one.

    Each part (rank, world) has its own: one process may go over the parts of several ranks, one after the other.
    """

    __slots__ = ("_next", "last")

    def __init__(self) -> None:
        self._next: dict[tuple[int, int], int] = {}
        self.last: Pass | None = None  # that began

    def next(self, part: tuple[int, int]) -> int:
        return self._next.get(part, 0)

    def begin(self, part: tuple[int, int], now: Pass) -> None:
        self.last = now
        self._next[part] = max(self.next(part), now.start + (now.epochs or 1))
