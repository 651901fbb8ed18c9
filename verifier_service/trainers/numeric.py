"""numpy for the signals, and what to install where it is missing. The adapters do not need it."""

from __future__ import annotations

from typing import TypeAlias

try:
    import numpy as np
except ModuleNotFoundError as missing:
    if missing.name != "numpy":
        raise
    message = "training signals need numpy. Next: pip install 'verifier-service[trainers]'"
    raise ModuleNotFoundError(message, name="numpy") from missing

from numpy.typing import ArrayLike, NDArray

__all__ = ["ArrayLike", "Flags", "Floats", "Indices", "floats", "mask_like", "np"]

Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Indices: TypeAlias = NDArray[np.int64]


def floats(values: ArrayLike, name: str, dimensions: int) -> Floats:
    """An array of floats with so many dimensions; ``ValueError`` names the argument otherwise."""
    made: Floats = np.asarray(values, dtype=np.float64)
    if made.ndim != dimensions:
        raise ValueError(f"{name} has {made.ndim} dimensions, expected {dimensions}")
    return made


def mask_like(mask: ArrayLike, other: Floats, name: str = "mask") -> Flags:
    """A mask of the shape of another array; ``ValueError`` names the argument otherwise.

    Masks of 0 and 1 are taken as well as booleans, and nothing else is.
    """
    given = np.asarray(mask)
    if given.shape != other.shape:
        raise ValueError(f"{name} has shape {given.shape}, expected {other.shape}")
    made: Flags = given.astype(np.bool_)
    if not np.array_equal(made, given):
        raise ValueError(f"{name} must hold 0 and 1 only")
    return made
