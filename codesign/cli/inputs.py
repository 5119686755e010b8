"""Input tensors of a run: from .npy or .npz files, or made up from a seed."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from codesign.diagnostics import CodesignError
from codesign.dtypes import Array
from codesign.ir.relay.types import TensorType

Inputs = Sequence[tuple[str, TensorType]]


def read_inputs(file: Path, inputs: Inputs) -> dict[str, Array]:
    """Return one array to every input's name, as the file has them; the runtime checks shapes.

    Raises
    ------
    CodesignError
        The file cannot be read, holds Python objects, or its names are not the network's.
    """
    loaded = _load(file)
    if isinstance(loaded, Mapping):
        return dict(loaded)
    if len(inputs) != 1:
        raise CodesignError.of(
            f"{file} holds one array, the network has {len(inputs)} inputs",
            help=f"use an .npz with the arrays {', '.join(name for name, _ in inputs)}",
        )
    return {inputs[0][0]: loaded}


def _load(file: Path) -> Array | dict[str, Array]:
    try:
        with file.open("rb") as opened:
            content = np.load(opened, allow_pickle=False)
            return dict(content) if isinstance(content, np.lib.npyio.NpzFile) else content
    except FileNotFoundError:
        raise CodesignError.of(f"there is no file {str(file)!r}") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise CodesignError.of(
            f"{str(file)!r} is not a NumPy file of plain numbers",
            found=str(error),
            help="write it with numpy.save or numpy.savez",
        ) from None
