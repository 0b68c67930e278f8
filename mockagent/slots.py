"""The cap on runs at a time: NAT serves 8, first come first served, over all transports."""

from __future__ import annotations

import asyncio
from types import TracebackType


class Slots:
    """``async with slots``: wait in line for a place, keep it until the block ends.

    ``total`` 0 is no cap.  A run that waits for its human keeps its place.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.held = 0
        self.waiting = 0
        self._line = asyncio.Semaphore(total) if total else None

    async def __aenter__(self) -> None:
        if self._line is not None:
            self.waiting += 1
            try:
                await self._line.acquire()
            finally:
                self.waiting -= 1
        self.held += 1

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.held -= 1
        if self._line is not None:
            self._line.release()
