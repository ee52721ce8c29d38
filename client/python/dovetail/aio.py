"""AsyncClient: the same requests for asyncio. Each runs in a thread; cancelling the task cancels the job."""
from __future__ import annotations

import asyncio
import functools
import threading
from typing import Any, Callable, Optional

from .client import Abort, Client
from .plan import Plan
from .results import Analysis, Run


class AsyncClient:
    """As Client, with coroutines. `progress` is called in the event loop's thread."""

    def __init__(self, *args: Any, **kwargs: Any):
        self._client = Client(*args, **kwargs)

    @property
    def device(self) -> Optional[str]:
        return self._client.device

    @property
    def local(self) -> bool:
        return self._client.local

    async def _call(self, fn: Callable[..., Any], graph: Any, progress: Any, options: Any) -> Any:
        loop, abort = asyncio.get_running_loop(), Abort()
        future: "asyncio.Future[Any]" = loop.create_future()
        tell = None if progress is None else functools.partial(loop.call_soon_threadsafe, progress)

        def settle(result: Any, error: Optional[BaseException]) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)

        def work() -> None:
            try:
                answer, error = fn(graph, progress=tell, _abort=abort, **options), None
            except BaseException as e:  # every one belongs to whoever awaits
                answer, error = None, e
            try:
                loop.call_soon_threadsafe(settle, answer, error)
            except RuntimeError:  # the loop is gone
                pass

        # a thread each, so that long jobs do not fill the executor that others need
        threading.Thread(target=work, name="dovetail", daemon=True).start()
        try:
            return await future
        except asyncio.CancelledError:
            threading.Thread(target=abort.abort, name="dovetail", daemon=True).start()
            raise

    async def analyze(self, graph: Any, *, progress: Any = None, **options: Any) -> Analysis:
        """As Client.analyze."""
        return await self._call(self._client.analyze, graph, progress, options)

    async def optimize(self, graph: Any, *, progress: Any = None, **options: Any) -> Plan:
        """As Client.optimize."""
        return await self._call(self._client.optimize, graph, progress, options)

    async def run(self, graph: Any, *, progress: Any = None, **options: Any) -> Run:
        """As Client.run."""
        return await self._call(self._client.run, graph, progress, options)
