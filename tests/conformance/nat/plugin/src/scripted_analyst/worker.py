"""A server worker that lets any number of turns run at once: as released, eight do.

The toolkit has no setting for it, so a worker class of one's own is how a real deployment lifts it.
"""

from __future__ import annotations

from typing import Any

from nat.front_ends.fastapi.fastapi_front_end_plugin_worker import FastApiFrontEndPluginWorker
from nat.runtime.session import SessionManager


class WideWorker(FastApiFrontEndPluginWorker):
    """The toolkit's worker without the cap on running workflows."""

    async def _create_session_manager(self, builder: Any, entry_function: str | None = None) -> Any:
        manager = await SessionManager.create(
            config=self._config,
            shared_builder=builder,
            entry_function=entry_function,
            max_concurrency=0,
        )
        self._session_managers.append(manager)
        return manager
