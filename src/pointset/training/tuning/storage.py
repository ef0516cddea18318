"""The database of a study: a file in its folder, or any that SQLAlchemy knows (:func:`open_storage`). Needs optuna."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, NoSuchModuleError, SQLAlchemyError

from pointset.errors import MissingExtraError, PointsetError, SpecError
from pointset.training.tuning.extra import experiments_allowed
from pointset.training.tuning.queue import take_up_killed

DATABASE = "study.db"
HEARTBEAT_SECONDS = 60
_BUSY_SECONDS = 120  # how long a process waits for another one that writes to the same file
_ATTEMPTS = 8  # two processes that make the tables of one new database at once: one of them fails, and tries again
_OF_A_RACE = ("already exists", "unique", "duplicate", "locked")  # what the database says then
_EXAMPLES = "sqlite:///FILE, postgresql://USER:PASSWORD@HOST/NAME or mysql://…"


def open_storage(url: str | None, folder: Path, *, heartbeat: int = HEARTBEAT_SECONDS) -> RDBStorage:
    """The database; trials whose process has given no sign of life for three heartbeats are taken up again.

    Args:
        url: of the database; None is the file ``study.db`` in the folder.
        folder: of the study.
        heartbeat: seconds.

    Raises:
        SpecError: it is no URL of a database.
        MissingExtraError: the database's driver is not installed.
        PointsetError: the database cannot be reached or read.
    """
    address = _address(url, folder)
    connect = {"connect_args": {"timeout": _BUSY_SECONDS}} if address.get_backend_name() == "sqlite" else {}
    plain = address.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")  # a template to Optuna
    with database_errors(shown_url(url, folder)):
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with experiments_allowed():
                    return RDBStorage(
                        plain,
                        engine_kwargs={**connect},
                        heartbeat_interval=heartbeat,
                        grace_period=3 * heartbeat,
                        heartbeat_stale_trial_callback=take_up_killed,
                    )
            except (DatabaseError, StorageInternalError) as error:
                said = f"{error} {error.__cause__}".lower()
                if attempt == _ATTEMPTS or not any(word in said for word in _OF_A_RACE):
                    raise
                time.sleep(0.2 * attempt)
            except RuntimeError as error:  # tables of another version of Optuna
                raise PointsetError(f"the study's database {shown_url(url, folder)}: {error}") from None
    raise AssertionError("every attempt returns or raises")


def shown_url(url: str | None, folder: Path) -> str:
    """The database for people, without a password."""
    return str(folder / DATABASE) if url is None else _address(url, folder).render_as_string(hide_password=True)


@contextmanager
def database_errors(name: str) -> Iterator[None]:
    """Errors of the database inside, in our words."""
    try:
        yield
    except (SQLAlchemyError, StorageInternalError) as error:
        cause = error.__cause__ if isinstance(error, StorageInternalError) and error.__cause__ else error
        reason = str(getattr(cause, "orig", None) or cause).strip().partition("\n")[0]
        raise PointsetError(
            f"the study's database {name} fails: {reason}\nOnce it works again, the same command goes on"
        ) from None


def _address(url: str | None, folder: Path) -> URL:
    if url is None:
        return URL.create("sqlite", database=str((folder / DATABASE).absolute()))
    try:
        address = make_url(url)
        address.get_dialect().import_dbapi()
    except (ArgumentError, NoSuchModuleError, ValueError):
        scheme = url.partition(":")[0]  # the rest may hold a password
        raise SpecError(f"got a storage that begins with {scheme!r:.40}; expected {_EXAMPLES}") from None
    except ImportError as error:
        raise MissingExtraError(
            f"the database {address.get_backend_name()} needs the package {error.name}, which is not installed. "
            f"Install it with: pip install {error.name}"
        ) from None
    return address
