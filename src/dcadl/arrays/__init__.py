"""Arrays out to a library and device, and home again: the only room that names torch or cupy."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
from array_api_compat import (
    array_namespace,
    is_cupy_namespace,
    is_numpy_namespace,
    is_torch_namespace,
)
from array_api_compat import (
    device as device_of,
)
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import dgemm
from threadpoolctl import ThreadpoolController

from dcadl.arrays.freed_memory import keep_freed_memory
from dcadl.arrays.libraries import cholesky_factor, import_cupy, import_torch, lapack

__all__ = [
    "LARGE_SYSTEM",
    "Array",
    "SpdFactor",
    "array_namespace",
    "as_float64",
    "batch_rows",
    "beside_others",
    "blas_threads",
    "blas_threads_for",
    "check_backend",
    "device_of",
    "empty",
    "fetch",
    "free_memory",
    "import_torch",
    "inverse_factor",
    "is_device_array",
    "is_numpy",
    "on_host",
    "one_blas_thread",
    "one_thread",
    "row_major",
    "send",
    "spd_solver",
    "sync",
    "tiny",
    "zeros",
]

# NumPy's and SciPy's wheels each bring a BLAS with threads of its own, and called in turn the idle pool spins
# against the busy one. So small systems stay with NumPy: on two busy cores a solve of 300 unknowns took 32 ms
# there, a Cholesky factorisation of SciPy's 88 ms, although LU costs twice the operations.
SMALL_SYSTEM = 600
LARGE_SYSTEM = 1500  # side of matrices whose products and factors gain from threads, busy cores or not
BLOCK = 64  # rows of a triangle that are cleared at once

Array = Any  # an array of any library that follows the array API standard

keep_freed_memory()


def check_backend(backend: str) -> None:
    """Refuse a backend that is unknown or not installed, saying what to do."""
    library, _, where = str(backend).partition(":")
    if library == "numpy" and not where:
        return
    if library == "torch":
        torch = import_torch()
        if where.startswith("cuda") and not torch.cuda.is_available():
            raise ValueError(
                f"backend={backend!r} needs a CUDA device, and torch sees none; use backend='torch'."
            )
        if where and where != "cpu" and not where.startswith(("cuda", "mps")):
            raise ValueError(f"backend must name a torch device such as 'torch:cuda'; got {backend!r}.")
        return
    if library == "cupy" and not where:
        import_cupy()
        return
    raise ValueError(f"backend must be 'numpy', 'torch', 'torch:cuda' or 'cupy'; got {backend!r}.")


def send(x: Any, backend: str) -> Array:
    """`x` as an array of the backend, on its device, with its dtype kept."""
    library, _, where = backend.partition(":")
    if library == "torch":
        torch = import_torch()
        tensor = x if isinstance(x, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(x))
        return tensor.to(where or "cpu")
    if library == "cupy":
        return import_cupy().asarray(x)
    return x


def fetch(x: Any) -> np.ndarray:
    """`x` as a NumPy array, whatever it was."""
    if hasattr(x, "detach"):  # torch
        return x.detach().cpu().numpy()
    if hasattr(x, "get") and type(x).__module__.startswith("cupy"):
        return x.get()
    return np.asarray(x)


def sync(x: Array) -> None:
    """Wait until `x` is computed, so that a clock read next is honest."""
    xp = array_namespace(x)
    if is_torch_namespace(xp) and x.is_cuda:
        import_torch().cuda.synchronize(x.device)
    elif is_cupy_namespace(xp):
        import_cupy().cuda.get_current_stream().synchronize()


def is_numpy(x: Array) -> bool:
    """Whether `x` lives in host memory as NumPy's own."""
    return is_numpy_namespace(array_namespace(x))


def on_host(x: Array) -> bool:
    """Whether `x` lies in the memory of the processor, whatever its library."""
    return not str(device_of(x)).startswith(("cuda", "mps", "<CUDA"))


def batch_rows(x: Array, size: int) -> int:
    """Rows of x to work on at once: `size` where a processor's cache is to hold them, on a device all."""
    return size if on_host(x) else max(1, int(x.shape[0]))


def free_memory(x: Array) -> int | None:
    """Bytes that are free on the device of `x`; None where that is the host."""
    if on_host(x):
        return None
    if is_torch_namespace(array_namespace(x)) and x.is_cuda:
        torch = import_torch()
        unused = torch.cuda.memory_reserved(x.device) - torch.cuda.memory_allocated(x.device)
        return int(torch.cuda.mem_get_info(x.device)[0]) + int(unused)
    return int(import_cupy().cuda.Device().mem_info[0])


def is_device_array(x: Any) -> bool:
    """Whether `x` is a torch or cupy array, which then stays where it is."""
    return type(x).__module__.partition(".")[0] in ("torch", "cupy")


def as_float64(x: Array) -> Array:
    """`x` in float64: the small solves are conditioned beyond float32."""
    xp = array_namespace(x)
    return xp.astype(x, xp.float64)


def spd_solver(A: Array) -> Callable[[Array], Array]:
    """B ↦ A⁻¹B for a symmetric positive definite A, factored once (Cholesky where the library has it)."""
    xp = array_namespace(A)
    if is_numpy_namespace(xp):
        if A.shape[0] <= SMALL_SYSTEM:
            return lambda B: np.linalg.solve(A, B)
        factor = cho_factor(A, lower=True, check_finite=False)
        return lambda B: cho_solve(factor, B, check_finite=False)
    if is_torch_namespace(xp):
        torch = import_torch()
        lower = cholesky_factor(A)
        return lambda B: torch.cholesky_solve(B, lower)
    return lambda B: xp.linalg.solve(A, B)  # the standard has no triangular solve


class SpdFactor:
    """A = LLᵀ, factored once; on the host in its own memory, which is overwritten (see `libraries.lapack`).

    `L` is in the lower triangle there; above it is what was in A.

    There SciPy's BLAS does all of it: with NumPy's in between, whose idle threads spin, two threads brought
    nothing to 2000 unknowns, and 1.6 times the speed without.
    """

    def __init__(self, A: Array) -> None:
        self._solver = None if is_numpy_namespace(array_namespace(A)) else spd_solver(A)
        if self._solver is not None:
            self._eye = array_namespace(A).eye(A.shape[0], dtype=A.dtype, device=device_of(A))
            return
        self.L, self._n, info = np.require(A, np.float64, ["C", "W"]), ctypes.c_int(len(A)), ctypes.c_int(0)
        lapack("dpotrf")(b"U", self._n, self.L.ctypes.data, self._n, info)
        if info.value:
            raise np.linalg.LinAlgError("the matrix is not positive definite")

    def solve(self, B: Array) -> Array:
        """A⁻¹B."""
        if self._solver is not None:
            return self._solver(B)
        X, L, n, info = np.array(B, np.float64, order="F"), self.L, self._n, ctypes.c_int(0)
        lapack("dpotrs")(b"U", n, ctypes.c_int(X.shape[1]), L.ctypes.data, n, X.ctypes.data, n, info)
        return X

    def inverse_diagonal(self) -> Array:
        """Of A⁻¹ = L⁻ᵀL⁻¹; on the host L is gone then, and the factor of no more use."""
        if self._solver is not None:
            return array_namespace(self._eye).linalg.diagonal(self._solver(self._eye))
        lapack("dtrtri")(b"U", b"N", self._n, self.L.ctypes.data, self._n, ctypes.c_int(0))
        found = np.zeros(len(self.L))
        for i in range(0, len(found), BLOCK):
            rows = self.L[i : i + BLOCK, : i + BLOCK]
            rows[:, i:] = np.tril(rows[:, i:])  # above the diagonal is what was there
            found[: i + BLOCK] += np.einsum("ij,ij->j", rows, rows)
        return found

    def forms(self, F: Array, B: Array) -> tuple[Array, Array]:
        """FA⁻¹B, and fᵀA⁻¹f of each row of F, which is overwritten on the host."""
        if self._solver is not None:
            rows = self._solver(F.T).T
            return rows @ B, array_namespace(F).vecdot(F, rows)
        F, right = np.require(F, np.float64, ["C", "W"]), np.array(B.T, np.float64, order="C")
        one = ctypes.byref(ctypes.c_double(1.0))
        for rows in (F, right):  # each row x becomes L⁻¹x
            k, L, n = ctypes.c_int(len(rows)), self.L.ctypes.data, self._n
            lapack("dtrsm")(b"L", b"U", b"T", b"N", n, k, one, L, n, rows.ctypes.data, n)
        return dgemm(1.0, F.T, right.T, trans_a=1), np.einsum("ij,ij->i", F, F)


def inverse_factor(A: Array, eye: Array) -> Array:
    """L⁻¹ for a well-conditioned, positive definite A = LLᵀ, read from its lower half."""
    xp = array_namespace(A)
    if is_torch_namespace(xp):
        linalg = import_torch().linalg
        return linalg.solve_triangular(linalg.cholesky_ex(A)[0], eye, upper=False)
    return xp.linalg.inv(xp.linalg.cholesky(A))


def tiny(x: Array) -> float:
    """The smallest normal number of x's dtype: added to a divisor, it changes none but zero."""
    return float(array_namespace(x).finfo(x.dtype).smallest_normal)


def row_major(x: Array) -> Array:
    """`x` with its rows one after the other in memory, as model files hold it.

    BLAS multiplies a matrix and its transpose by different kernels, whose sums round differently: an array
    that was fitted in column order and read back in row order would predict otherwise in the last bit.
    """
    xp = array_namespace(x)
    if is_numpy_namespace(xp):
        return np.ascontiguousarray(x)
    return x.contiguous() if is_torch_namespace(xp) else x


def empty(shape: tuple[int, ...], like: Array) -> Array:
    """Room for `shape` in the library, dtype and device of `like`, whatever is in it."""
    return array_namespace(like).empty(shape, dtype=like.dtype, device=device_of(like))


def zeros(shape: tuple[int, ...], like: Array) -> Array:
    """Zeros of `shape` in the library, dtype and device of `like`."""
    return array_namespace(like).zeros(shape, dtype=like.dtype, device=device_of(like))


# --- BLAS's own threads, put aside while ours run: the one place that sets their number ----------------


class _BlasThreads:
    """How many threads BLAS has, and who has set that.

    threadpoolctl lets only the thread that set a limit change it. So of fits side by side the first sets
    one, and takes it with it; one that takes longer then shares the processor with BLAS's threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held = False
        self._full = 1
        self._owner: int | None = None
        self._local = threading.local()

    def width(self) -> int:
        """Threads that BLAS may use: a user's own limit is honoured."""
        with self._lock:
            return self._full if self._held else _blas_width()

    @contextmanager
    def single(self) -> Iterator[None]:
        """One BLAS thread, unless another fit sees to that."""
        with self._lock:
            free, self._held = not self._held, True
            if free:
                self._full, self._owner = _blas_width(), threading.get_ident()
        if not free:
            yield
            return
        try:
            with _controller().limit(limits=1, user_api="blas"):
                yield
        finally:
            with self._lock:
                self._held, self._owner = False, None

    @contextmanager
    def for_size(self, size: int) -> Iterator[None]:
        """All of BLAS's threads again, for products of `size` × `size` and more that are worth it.

        Not where others of our threads are at work: their small products would have them, too.
        """
        shared = getattr(self._local, "beside", 0)
        if size < LARGE_SYSTEM or self._owner != threading.get_ident() or shared:
            yield
            return
        with _controller().limit(limits=self._full, user_api="blas"):
            yield

    @contextmanager
    def beside_others(self) -> Iterator[None]:
        """While this thread does its part of what several of ours do at once."""
        self._local.beside = getattr(self._local, "beside", 0) + 1
        try:
            yield
        finally:
            self._local.beside -= 1


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # a look at every loaded library: not to be repeated for each prediction


def _blas_width() -> int:
    return max((info["num_threads"] for info in _controller().select(user_api="blas").info()), default=1)


_BLAS = _BlasThreads()
blas_threads = _BLAS.width
one_blas_thread = _BLAS.single
blas_threads_for = _BLAS.for_size
beside_others = _BLAS.beside_others


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS and OpenMP, which scikit-learn uses, on one thread each: short loops gain nothing by more."""
    with one_blas_thread(), _controller().limit(limits=1, user_api="openmp"):
        yield
