"""Memory of arrays that were freed, kept for the next ones."""

from __future__ import annotations

import ctypes
import sys

import numpy as np

LARGEST_KEPT = 31 << 20  # bytes of a block, just below glibc's limit
PIECES = 128 << 20  # of a thread's memory: two
M_TOP_PAD = -2  # glibc's number of that setting


def keep_freed_memory() -> None:
    """Ask glibc not to hand memory of large arrays back to the system.

    A page that comes back costs more than the arithmetic on it: features of images took four times as long.
    Freeing one block just below its limit raises the size up to which it keeps memory, to 62 MB in all; no
    page of the block is ever touched. Threads have memory of their own, 64 MB a piece, and hand back each
    piece that is free, whatever that limit, unless two of them are to be kept: 30 000 pages a fit, for some
    100 MB that stay with the process.
    """
    np.empty(LARGEST_KEPT, np.uint8)  # freed at once
    if sys.platform == "linux" and hasattr(ctypes.CDLL(None), "mallopt"):
        ctypes.CDLL(None).mallopt(M_TOP_PAD, PIECES)
