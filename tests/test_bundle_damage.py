"""Bundles with single bits flipped, or cut short: refused with one clear error, or exactly the model that was written.

Which bits are flipped is drawn by a seed; ``POINTSET_FUZZ_SEED=7`` draws others.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from pointset.errors import PointsetError
from pointset.training.bundle import Bundle, read_bundle, write_bundle
from pointset.training.bundle_signature import SIGNATURE, new_key, public_beside, sign_bundle
from tests.test_uncertainty import small

SEED = int(os.environ.get("POINTSET_FUZZ_SEED", "0"))
FLIPS = 200
HEADER = 16  # bytes at either end of a file, which are all flipped
ZIP_HEADERS = (b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06")
ZIP_HEADER = 48  # bytes of each, with the name


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the same model as a folder and as a zip, bare and signed."""
    folder = tmp_path_factory.mktemp("original")
    model, uncertainty = small()
    for name in ("model", "model.zip", "signed", "signed.zip"):
        write_bundle(folder / name, model, uncertainty.card, uncertainty=uncertainty)
    return folder


@pytest.fixture(scope="module")
def key(original: Path) -> Path:
    """The public key of the signed ones."""
    pytest.importorskip("cryptography")
    new_key(original / "key")
    for name in ("signed", "signed.zip"):
        sign_bundle(original / name, original / "key")
    return public_beside(original / "key")


def numbers(bundle: Bundle) -> list[bytes]:
    """All that predictions are made of, NaN among it."""
    arrays = [tensor.numpy() for tensor in bundle.model.state_dict().values()]
    if bundle.uncertainty is not None:
        arrays += bundle.uncertainty.as_plain()[1].values()
    return [array.tobytes() for array in arrays]


class Trials:
    """Writes damaged bytes in the place of one file of a bundle, and loads the bundle."""

    def __init__(self, bundle: Path, file: Path, public_key: Path | None = None):
        self.bundle, self.file, self.public_key = bundle, file, public_key
        self.whole = file.read_bytes()
        self.loaded = read_bundle(bundle, public_key=public_key)
        self.refused = 0

    def __call__(self, content: bytes, what: str) -> None:
        self.file.write_bytes(content)
        try:
            again = read_bundle(self.bundle, public_key=self.public_key)
        except PointsetError as error:
            message = str(error)
        else:
            assert again.sha256 == self.loaded.sha256 and again.card == self.loaded.card, what
            assert numbers(again) == numbers(self.loaded), what
            return
        finally:
            self.file.write_bytes(self.whole)
        assert self.bundle.name in message and "\n" not in message, f"{what}: {message}"
        self.refused += 1

    def flips(self, places: Iterator[int], draw: random.Random) -> int:
        """How many of these bytes had a bit flipped."""
        count = 0
        for place in places:
            bit = draw.randrange(8)
            changed = bytearray(self.whole)
            changed[place] ^= 1 << bit
            self(bytes(changed), f"bit {bit} of byte {place:,} of {self.file.name} (seed {SEED})")
            count += 1
        return count

    def cuts(self, draw: random.Random) -> int:
        """How many truncations were tried."""
        sizes = {0, 1, HEADER, len(self.whole) - 1, *(draw.randrange(len(self.whole)) for _ in range(12))}
        for size in sizes:
            self(self.whole[:size], f"{self.file.name} cut to {size:,} bytes (seed {SEED})")
        return len(sizes)


@pytest.mark.parametrize("signed", [False, True], ids=["bare", "signed"])
def test_files_of_a_folder(original: Path, signed: bool, request: pytest.FixtureRequest) -> None:
    public_key = request.getfixturevalue("key") if signed else None
    bundle, draw = original / ("signed" if signed else "model"), random.Random(SEED)
    names = ["bundle.json", "model.safetensors", "uncertainty.safetensors", *([SIGNATURE] if signed else [])]
    for name in names:
        trials = Trials(bundle, bundle / name, public_key)
        size = len(trials.whole)
        ends = [*range(HEADER), *range(size - HEADER, size)]
        inside = [draw.randrange(size) for _ in range(FLIPS // len(names))]
        count = trials.flips(iter(ends + inside), draw) + trials.cuts(draw)
        # a byte of JSON may be written otherwise: 1e-05 as 1E-05, or a letter in another case in what is not covered
        assert trials.refused >= count - (2 if name.endswith(".json") else 0)


@pytest.mark.parametrize("signed", [False, True], ids=["bare", "signed"])
def test_an_archive(original: Path, signed: bool, request: pytest.FixtureRequest) -> None:
    public_key = request.getfixturevalue("key") if signed else None
    bundle, draw = original / ("signed.zip" if signed else "model.zip"), random.Random(SEED)
    trials = Trials(bundle, bundle, public_key)
    count = trials.flips((draw.randrange(len(trials.whole)) for _ in range(FLIPS)), draw) + trials.cuts(draw)
    assert trials.refused > 0.9 * count  # of the rest, bits of dates and attributes
    trials.refused = 0
    count = trials.flips(iter(places_of_headers(trials.whole)), draw)
    assert count > 250 and trials.refused > count / 3


def places_of_headers(content: bytes) -> list[int]:
    """Of every byte of the headers in a zip archive."""
    places: set[int] = set()
    for mark in ZIP_HEADERS:
        at = content.find(mark)
        while at >= 0:
            places |= set(range(at, min(at + ZIP_HEADER, len(content))))
            at = content.find(mark, at + 1)
    return sorted(places)
