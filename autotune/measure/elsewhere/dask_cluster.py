"""The workers of a Dask cluster as hosts that measure."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from ...settings import TuneSettings
from ...task import Task
from ..worker_process import WorkerError
from .remote import Answer, Machine, RemoteMeasurer, RunnerError, machines_of
from .station import machine_there, measure_there

SCHEME = "dask://"
_CONNECT_SECONDS = 10.0


class DaskCluster:
    """A connection to a cluster, and its machines."""

    def __init__(self, client: Any, closes: bool) -> None:
        self.client = client
        self._closes = closes
        killed = import_module("distributed.scheduler").KilledWorker
        self.lost: tuple[type[BaseException], ...] = (killed, asyncio.CancelledError)
        self.machines = self._machines()

    def measurer(
        self, task: Task, machine: Machine, settings: TuneSettings, seed: int
    ) -> RemoteMeasurer:
        """Returns a measurer of a task whose target is that of ``machine``."""
        return RemoteMeasurer(task, self, machine.hosts, settings, seed)

    def close(self) -> None:
        if self._closes:
            with suppress(Exception):
                self.client.close()

    def __enter__(self) -> DaskCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _machines(self) -> list[Machine]:
        try:
            answers: dict[str, str] = self.client.run(machine_there)
        except ImportError as error:
            raise RunnerError(f"the cluster's workers lack something: {error}") from error
        except Exception as error:
            raise RunnerError(f"the cluster's workers do not answer: {error}") from error
        if not answers:
            raise RunnerError("the cluster has no workers; start some: dask worker HOST:PORT")
        return machines_of({_host_of(address): answer for address, answer in answers.items()})

    def submit(self, request: str, hosts: Sequence[str]) -> Answer:
        """Begins a request on a worker of some hosts."""
        return self.client.submit(measure_there, request, workers=list(hosts), pure=False)

    def present(self) -> set[str]:
        """Returns the hosts that have workers now. Raises RunnerError if the cluster is gone."""
        if self.client.status != "running":
            raise RunnerError("the Dask cluster is gone")
        return {_host_of(address) for address in self.client.nthreads()}

    @contextmanager
    def reachable(self) -> Iterator[None]:
        """Raises errors of the connection as RunnerError; the outcome of a request passes
        through."""
        try:
            yield
        except (RunnerError, CancelledError, asyncio.CancelledError, TimeoutError):
            raise
        except WorkerError as error:
            raise RunnerError(f"on the Dask cluster: {error}") from error
        except (OSError, RuntimeError) as error:
            if isinstance(error, self.lost):
                raise
            raise RunnerError(f"the Dask cluster is gone: {error}") from error


def connect(runner: Any) -> DaskCluster:
    """Returns the cluster of ``dask://host:port`` or of a ``distributed.Client``, or raises
    RunnerError."""
    try:
        client_type = import_module("distributed").Client
    except ImportError as error:
        raise RunnerError(
            f"measuring on Dask needs a package that is not here ({error}); install it: "
            "pip install 'loopwright[dask]'"
        ) from error
    if isinstance(runner, client_type):
        return DaskCluster(runner, closes=False)
    if not isinstance(runner, str) or not runner.startswith(SCHEME):
        raise RunnerError(
            f"runner {runner!r} is not understood; write tcp://host:port or dask://host:port"
        )
    address = "tcp://" + runner.removeprefix(SCHEME)
    try:
        client = client_type(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise RunnerError(f"there is no Dask scheduler at {runner}: {error}") from error
    try:
        return DaskCluster(client, closes=True)
    except BaseException:
        client.close()
        raise


def _host_of(address: str) -> str:
    """Returns ``tcp://10.0.0.7:41231`` without scheme and port; "inproc:" addresses stay whole."""
    if address.startswith("inproc:"):
        return address
    return address.rpartition("://")[2].rpartition(":")[0].strip("[]")
