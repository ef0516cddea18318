"""Work shared by the workers of a Dask cluster: :func:`connected`, :class:`Cluster`.

A function goes to the workers once, as bytes with their SHA-256, and stays there for all chunks. Chunks are sent a few
ahead of the results, which come back in order, one for each item: what a cluster computes is what the same function
gives in this process. A chunk whose worker dies is tried elsewhere, as often as the scheduler allows
(``distributed.scheduler.allowed-failures``, by default on four workers); after that the item that kills workers is
looked for in parts of it, and only this item is given up. Dask is imported on first use.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.metadata
import logging
import math
import os
import pickle
import signal
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pointset.errors import ClusterError, MissingExtraError, SpecError
from pointset.extensions import VARIABLE, add_imports, passed_on
from pointset.machine import VERSION, main_left_alone
from pointset.stopping import deaf_to_ctrl_c

if TYPE_CHECKING:
    from distributed import Client, Future

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = Callable[[list[Item]], Sequence[Result]]  # a result for each item; can be pickled

LOCAL = "local:"
_CONNECT_SECONDS = 5
_FIRST_WORKER_SECONDS = 15  # until there must be a worker
_WORKERLESS_SECONDS = 60.0  # that workers may all be gone: one that died is back in a few seconds
_LOOK_SECONDS = 1.0  # between looks at how the cluster is, while a result is waited for
_AHEAD = 2  # chunks for each worker: one in work, one that waits there
_PARTS = 16  # of a chunk in which the item that kills workers is looked for: few rounds, as each costs workers
_KEPT_WORK = 2  # functions that a worker holds
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # as glibc's mallopt numbers them
_SAME = ("pointset", "python", "torch", "rdkit")  # versions that decide what is computed


class Cluster:
    """Workers that share work; made by :func:`connected`."""

    def __init__(self, client: Client, address: str):
        self.address = address
        self._client = client
        self._looked = self._peopled = time.monotonic()
        self._workers = 1

    def check(self) -> None:
        """Wait for the first worker, and refuse workers that would compute with other versions than this process.

        Raises:
            ClusterError: there are no workers, pointset is not installed there, or its version is another.
        """
        with self._lost_in_one_line():
            try:
                self._client.wait_for_workers(1, timeout=_FIRST_WORKER_SECONDS)
            except TimeoutError:
                raise ClusterError(
                    f"the scheduler at {self.address} has no workers (waited {_FIRST_WORKER_SECONDS} seconds); "
                    f"expected at least one. Start some: dask worker {self.address} --nthreads 1"
                ) from None
            found = self._client.run(_versions, on_error="return")
            for worker, versions in found.items():
                if isinstance(versions, BaseException):
                    raise ClusterError(_cannot_run(worker, versions))
                _check_versions(versions, _versions(), worker)
            self._look(now=True)

    def holds(self, statement: Callable[[], bool]) -> bool:
        """Whether a function that can be pickled says True on all workers."""
        with self._lost_in_one_line():
            return all(said is True for said in self._client.run(statement, on_error="return").values())

    def in_order(
        self,
        work: Work[Item, Result],
        chunks: Iterable[list[Item]],
        given_up: Callable[[Item], Item] | None = None,
    ) -> Iterator[tuple[list[Item], Sequence[Result]]]:
        """Each chunk with its results, in order; chunks are taken a few ahead only.

        Args:
            work: the function; each worker gets it once.
            chunks: lists of items, of which none is empty.
            given_up: what stands in the place of an item that kills workers; None where that ends the work.

        Raises:
            ClusterError: the scheduler or all workers are gone, or an item kills workers and ``given_up`` is None.
        """
        from distributed.protocol.pickle import dumps

        with passed_on():
            imports = os.environ.get(VARIABLE, "")
        packed = pickle.dumps((imports, _versions(), dumps(work)))
        digest = hashlib.sha256(packed).hexdigest()
        waiting: deque[tuple[list[Item], Future]] = deque()
        with self._lost_in_one_line():
            # A task, not data that is scattered: should all workers that hold it die, the scheduler makes it again.
            sent = self._submit(_as_it_is, packed, key=f"pointset-{digest}")

            def start(chunk: list[Item]) -> Future:
                return self._submit(_results, sent, digest, pickle.dumps(chunk), pure=False)

            try:
                for chunk in chunks:
                    waiting.append((chunk, start(chunk)))
                    while len(waiting) > _AHEAD * self._workers:
                        yield self._finished(*waiting.popleft(), start, waiting, given_up)
                        self._look()
                while waiting:
                    yield self._finished(*waiting.popleft(), start, waiting, given_up)
            finally:
                with suppress(Exception):  # what nobody waits for any more
                    self._client.cancel([future for _, future in waiting], force=True)

    def _submit(self, *call: Any, **options: Any) -> Future:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)  # of 10 MB
            return self._client.submit(*call, **options)

    def _finished(
        self,
        chunk: list[Item],
        future: Future,
        start: Callable[[list[Item]], Future],
        waiting: Iterable[tuple[list[Item], Future]],
        given_up: Callable[[Item], Item] | None,
    ) -> tuple[list[Item], Sequence[Result]]:
        results = self._result(future)
        if results is not None:
            return chunk, results
        if given_up is None:
            raise ClusterError(
                "workers died again and again over the same part of the work (out of memory?); start them with more "
                "memory each, or do it without --cluster to see the reason"
            )
        for _, other in waiting:  # whatever is on a worker that dies is suspected: look for the item alone
            self._wait(other)
        parts: Sequence[Any]
        parts, deadly = self._apart(chunk, start, given_up)
        # All others once more together, so that their results are those of a chunk in which this one cannot be read.
        left = [given_up(item) if at in deadly else item for at, item in enumerate(chunk)]
        together = self._result(start(left))
        return chunk, parts if together is None else together

    def _apart(
        self, chunk: list[Item], start: Callable[[list[Item]], Future], given_up: Callable[[Item], Item]
    ) -> tuple[list[Result], set[int]]:
        """Results of the parts of a chunk that kills workers, one after the other; and which items do it."""
        results: list[Result] = []
        deadly: set[int] = set()
        step = math.ceil(len(chunk) / _PARTS)
        for at in range(0, len(chunk), step):
            part = chunk[at : at + step]
            found = self._result(start(part))
            if found is None and len(part) > 1:
                found, inside = self._apart(part, start, given_up)
                deadly |= {at + place for place in inside}
            elif found is None:
                found = self._result(start([given_up(part[0])]))
                deadly.add(at)
                if found is None:
                    raise ClusterError(
                        "workers die over an item that is not even read (out of memory?); start them with more memory"
                    )
            results += found
        return results, deadly

    def _result(self, future: Future) -> Sequence[Any] | None:
        """What a chunk gave; None where it died with its workers. Its own error is raised."""
        from distributed import KilledWorker

        patience = _LOOK_SECONDS
        while True:
            self._wait(future)
            try:
                results: Sequence[Any] = pickle.loads(future.result(timeout=patience))  # noqa: S301 - of _results
                return results
            except KilledWorker:
                return None
            except TimeoutError:
                if future.status == "error":  # the function's own
                    raise
                patience *= 2  # the result is large, or its worker has just died and it is computed once more
                self._look()
            except (ModuleNotFoundError, AttributeError) as error:
                if isinstance(error, ModuleNotFoundError) or str(error).startswith("Can't get attribute"):
                    raise ClusterError(_cannot_run("of the cluster", error)) from error  # it failed to unpickle
                raise

    def _wait(self, future: Future) -> None:
        """Until it is done, or the cluster cannot do it any more."""
        while not future.done():
            with suppress(TimeoutError):
                future.exception(timeout=_LOOK_SECONDS)
            self._look()
        if future.cancelled():
            raise self._lost()

    def _look(self, *, now: bool = False) -> None:
        """See how many workers there are, now and then; raise where there were none for long."""
        if not now and time.monotonic() - self._looked < _LOOK_SECONDS:
            return
        if self._client.status != "running":
            raise self._lost()
        threads = self._client.nthreads()
        self._looked = time.monotonic()
        if threads:
            self._peopled, self._workers = self._looked, len(threads)
        elif self._looked - self._peopled > _WORKERLESS_SECONDS:
            raise ClusterError(
                f"the scheduler at {self.address} has had no workers for {_WORKERLESS_SECONDS:.0f} seconds; they died, "
                "or their time is up. Start new ones"
            )

    def _lost(self) -> ClusterError:
        return ClusterError(f"the scheduler at {self.address} is gone, or cannot be reached any more; start it again")

    @contextmanager
    def _lost_in_one_line(self) -> Iterator[None]:
        """Whatever Dask raises when its scheduler is gone."""
        from distributed.client import FutureCancelledError
        from distributed.comm import CommClosedError

        try:
            yield
        except (CommClosedError, FutureCancelledError) as error:
            raise self._lost() from error
        except (OSError, RuntimeError) as error:  # a connection that is refused, a client that is closed
            if self._client.status == "running":
                raise
            raise self._lost() from error


_current: ContextVar[Cluster | None] = ContextVar("_current", default=None)


def current() -> Cluster | None:
    """The cluster of the block of :func:`connected` that this is called in."""
    return _current.get()


@contextmanager
def connected(to: str | Client | None) -> Iterator[Cluster | None]:
    """Inside, tables of SMILES are read and graphs decomposed by the workers of this cluster; see :func:`current`.

    Args:
        to: the address of a Dask scheduler (``tcp://host:port``), its file (``dask scheduler --scheduler-file``),
            ``local:N`` for N processes of this machine, or a ``distributed.Client``. None: there is none.

    Raises:
        MissingExtraError: dask is not installed.
        SpecError: it is none of these.
        ClusterError: no scheduler answers within a few seconds, it has no workers, or theirs are other versions.
    """
    if to is None:
        yield None
        return
    distributed = _distributed()
    with ExitStack() as stack:
        if isinstance(to, str):
            client = stack.enter_context(_client_of(to))
        elif isinstance(to, distributed.Client) and not to.asynchronous:
            client = to
        else:
            raise SpecError(f"got {type(to).__name__} as the cluster; expected an address or a synchronous dask Client")
        named = str(client.scheduler.address) if client.scheduler is not None else str(to)
        cluster = Cluster(client, named)
        cluster.check()
        token = _current.set(cluster)
        try:
            yield cluster
        finally:
            _current.reset(token)


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise MissingExtraError(
            "a cluster needs dask and distributed, which are not installed: pip install 'pointset[cluster]'"
        ) from None
    return distributed


@contextmanager
def _client_of(address: str) -> Iterator[Client]:
    """A connection of our own. What Dask would log is said by our errors, in one line."""
    distributed = _distributed()
    with _silent_dask(), ExitStack() as stack:
        if address.startswith(LOCAL):
            where: dict[str, Any] = {"address": stack.enter_context(_local_cluster(address)).scheduler_address}
        elif address.endswith(".json"):
            if not Path(address).is_file():
                raise ClusterError(f"there is no scheduler file {address}; expected what `dask scheduler` wrote")
            where = {"scheduler_file": address}
        else:
            where = {"address": address}
        try:
            client = distributed.Client(**where, timeout=_CONNECT_SECONDS, set_as_default=False)
        except Exception as error:  # each transport has its own, and an address may be anything
            raise ClusterError(
                f"no Dask scheduler answers at {address} (waited up to {_CONNECT_SECONDS} seconds: {_brief(error)}); "
                f"expected an address such as tcp://host:8786, as `dask scheduler` prints it, or {LOCAL}4 for four "
                "processes of this machine"
            ) from None
        try:
            yield client
        finally:
            with suppress(Exception):  # the scheduler may be gone
                client.close(timeout=_CONNECT_SECONDS)


@contextmanager
def _local_cluster(address: str) -> Iterator[Any]:
    import dask

    number = address.removeprefix(LOCAL)
    if not number.isdecimal() or not 1 <= int(number) <= 1024:
        raise SpecError(f"got the cluster {address!r}; expected {LOCAL}N with the number of processes, such as local:4")
    # Nobody takes processes of this machine away: two that die over the same chunk are evidence enough.
    settings = {"distributed.scheduler.allowed-failures": 1}
    with dask.config.set(settings), main_left_alone(), deaf_to_ctrl_c():
        cluster = _distributed().LocalCluster(
            n_workers=int(number),
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        )
    try:
        yield cluster
    except BaseException:  # nobody waits for what they are at
        for nanny in cluster.workers.values():
            if nanny.pid:
                with suppress(OSError):
                    os.kill(nanny.pid, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
        raise
    finally:
        with suppress(Exception):
            cluster.close(timeout=_CONNECT_SECONDS)


@contextmanager
def _silent_dask() -> Iterator[None]:
    before = {name: logging.getLogger(name).level for name in list(logging.root.manager.loggerDict) if _is_dask(name)}
    for name in before:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def _is_dask(name: str) -> bool:
    return name.partition(".")[0] in ("distributed", "tornado")


def _brief(error: BaseException) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:120]


# --- versions


def _versions() -> dict[str, str]:
    """Of what decides what is computed; importing nothing."""
    found = {"pointset": VERSION, "python": ".".join(map(str, sys.version_info[:2]))}
    for package in ("torch", "rdkit"):
        with suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package).partition("+")[0]  # not how it was built
    return found


def _check_versions(there: dict[str, str], here: dict[str, str], worker: str) -> None:
    differing = [name for name in _SAME if there.get(name) != here.get(name)]
    if differing:
        described = ", ".join(f"{name} {there.get(name) or 'not installed'}" for name in differing)
        expected = ", ".join(f"{name} {here.get(name) or 'not installed'}" for name in differing)
        raise ClusterError(
            f"the worker {worker} has {described}; expected {expected}, as here. Install the same versions there"
        )


def _cannot_run(worker: str, error: BaseException) -> str:
    return (
        f"the worker {worker} cannot run pointset ({type(error).__name__}: {_brief(error)}); install pointset "
        f"{VERSION} there, and give modules of your own with --import"
    )


# --- in a worker


_opened: dict[str, Callable[[list[Any]], Sequence[Any]]] = {}
_one_at_a_time = threading.Lock()  # of a worker with several threads: models and their kernels are not for several


def _as_it_is(packed: bytes) -> bytes:
    return packed


def _results(packed: bytes, digest: str, chunk: bytes) -> bytes:
    """What the function gives for the items of a chunk, pickled."""
    with _one_at_a_time:
        work = _opened.get(digest) or _open(packed, digest)
        items = pickle.loads(chunk)  # noqa: S301 - from our own client
        results = list(work(items))
        if len(results) != len(items):
            raise ValueError(f"{len(results)} results of {len(items)} items")
        return pickle.dumps(results)


def _open(packed: bytes, digest: str) -> Callable[[list[Any]], Sequence[Any]]:
    """The function, kept for the next chunk."""
    if hashlib.sha256(packed).hexdigest() != digest:
        raise ClusterError("what was sent to a worker does not match its checksum; the network damaged it. Try again")
    imports, versions, function = pickle.loads(packed)  # noqa: S301 - from our own client, checked
    _check_versions(_versions(), versions, os.environ.get("HOSTNAME", "of the cluster"))
    if imports:
        add_imports([name for name in imports.split(os.pathsep) if name])
    work: Callable[[list[Any]], Sequence[Any]] = pickle.loads(function)  # noqa: S301 - ditto; it may need the imports
    _keep_memory()
    while len(_opened) >= _KEPT_WORK:
        del _opened[next(iter(_opened))]
    _opened[digest] = work
    return work


def _keep_memory() -> None:
    """Dask's nannies have a worker give memory back at once (``MALLOC_TRIM_THRESHOLD_``), which a model asks for again
    with its next layer: that costs a third of its time. Where the C library can, 128 MB stay.
    """
    with suppress(AttributeError, OSError, TypeError):
        change = ctypes.CDLL(None).mallopt
        change(_TRIM_THRESHOLD, 2**27)
        change(_MMAP_THRESHOLD, 2**25)
