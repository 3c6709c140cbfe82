"""A neighbour graph over samples: who is near, DADL's topology weights, and the Laplacian."""

from __future__ import annotations

from dcadl.arrays import Array, array_namespace, device_of


def squared_distances(A: Array) -> Array:
    """‖a_i − a_j‖² of all pairs of rows, (n, n), symmetric, zero on the diagonal."""
    xp = array_namespace(A)
    G = A @ A.T
    G = (G + G.T) / 2  # a library may round the two triangles differently
    lengths = xp.linalg.diagonal(G)
    return xp.clip(lengths[:, None] + lengths[None, :] - 2 * G, min=0.0)


def nearest(D: Array, k: int) -> Array:
    """Indices of the k nearest others in each row of a matrix of distances, nearest first, (n, k)."""
    xp = array_namespace(D)
    column = xp.arange(D.shape[0], device=device_of(D))
    found = [column]
    for _ in range(k):
        D = xp.where(column == found[-1][:, None], xp.asarray(xp.inf, dtype=D.dtype), D)
        found.append(xp.argmin(D, axis=1))
    return xp.stack(found[1:], axis=1)


def topology_weights(D: Array, label: Array, k: int, sigma: float) -> Array:
    """DADL's weights W (n, n) ≥ 0, symmetric, from squared distances and class numbers (Eq. 8, 12).

    Among the k neighbours of i, one that is nearer than the others weighs more, and one of i's own class
    weighs more than any of another. Only neighbours meet: n·k² operations beside the n² distances.
    """
    xp = array_namespace(D)
    near = nearest(D, k)  # (n, k)
    S = 1 - xp.exp(-xp.take_along_axis(D, near, axis=1) / sigma**2)
    own = xp.reshape(xp.take(label, xp.reshape(near, (-1,))), near.shape) == label[:, None]

    lead = S[:, :, None] - S[:, None, :]  # (n, u, j): how much nearer j is than u
    only_u, only_j = own[:, :, None] & ~own[:, None, :], ~own[:, :, None] & own[:, None, :]
    lead = xp.where(only_u, -xp.abs(lead), xp.where(only_j, xp.abs(lead), lead))
    w = _rescaled(xp.sum(lead, axis=1))

    W = _scattered(w, near)
    return (W + W.T) / 2


def laplacian(W: Array) -> Array:
    """D − W, D the row sums of W on the diagonal."""
    xp = array_namespace(W)
    n = W.shape[0]
    return xp.sum(W, axis=1)[:, None] * xp.eye(n, dtype=W.dtype, device=device_of(W)) - W


def _rescaled(w: Array) -> Array:
    """Entries of each row that are not zero, mapped so that the least is 0 and the row's maximum 1.

    That maximum counts the zeros of samples which are no neighbours. Where it is the least entry itself,
    all entries are equal and there is nothing to rank: they weigh 1.
    """
    xp = array_namespace(w)
    counts = w != 0
    zero, one = xp.zeros_like(w), xp.ones_like(w)
    low = xp.min(xp.where(counts, w, one * xp.inf), axis=1, keepdims=True)
    span = xp.clip(xp.max(w, axis=1, keepdims=True), min=0.0) - low
    flat = ~(span > 0)
    scaled = (w - xp.where(flat, w - 1, low + zero)) / xp.where(flat, xp.ones_like(span), span)
    return xp.where(counts, scaled, zero)


def _scattered(w: Array, near: Array) -> Array:
    """Row i of w at the columns near[i] of an (n, n) matrix."""
    xp = array_namespace(w)
    column = xp.arange(w.shape[0], device=device_of(w))
    nothing = xp.zeros((1, 1), dtype=w.dtype, device=device_of(w))
    parts = (xp.where(column == near[:, j : j + 1], w[:, j : j + 1], nothing) for j in range(w.shape[1]))
    total = next(parts)
    for part in parts:
        total = total + part
    return total
