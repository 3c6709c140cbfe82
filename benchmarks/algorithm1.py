"""Algorithm 1 written out as the paper prints it: columns, whole matrices, explicit inverses.

Two errata are followed, without which nothing can be computed or learned: line 6's `L` is Y and its
sign is turned (`printed_sign=True` keeps the printed one), and line 10 needs Ũᵀ.
"""

from __future__ import annotations

import numpy as np


def patches_as_columns(images, s, stride):
    """X̄: (s², n·p), image by image, each image's patches in reading order, unit length each."""
    columns = []
    for image in images:
        for top in range(0, image.shape[0] - s + 1, stride):
            for left in range(0, image.shape[1] - s + 1, stride):
                patch = image[top : top + s, left : left + s].reshape(-1)
                length = np.sqrt(np.sum(patch**2))
                columns.append(patch / length if length > 0 else patch)
    return np.stack(columns, axis=1)


def R1(U_bar, n, p):
    """Ū (m, n·p) to Ũ (m·p, n): the responses of an image in one column, patch first, then atom."""
    m = U_bar.shape[0]
    return U_bar.reshape(m, n, p).transpose(2, 0, 1).reshape(p * m, n)


def R1_inverse(U_tilde, m, p):
    """Ũ (m·p, n) to Ū (m, n·p)."""
    n = U_tilde.shape[1]
    return U_tilde.reshape(p, m, n).transpose(1, 2, 0).reshape(m, n * p)


def tau(U, a):
    return np.sign(U) * np.maximum(np.abs(U) - a, 0)


def one_pass(X_bar, Y, Omega, U_bar, W, lams, rho, printed_sign=False, released_ridge=False):
    """Lines 3-13. Y is (C, n), W is (C, m·p). The authors' release has no λ2 in line 10: `released_ridge`."""
    lam1, lam2, lam3, lam4 = lams
    m, n = Omega.shape[0], Y.shape[1]
    p = X_bar.shape[1] // n
    sign = -1.0 if printed_sign else 1.0

    U_bar = U_bar - rho * (U_bar - Omega @ X_bar)  # line 4
    U_tilde = R1(U_bar, n, p)  # line 5
    U_tilde = U_tilde + sign * rho * (lam2 * W.T @ (Y - W @ U_tilde))  # line 6
    U_tilde = tau(U_tilde, rho * lam1)  # lines 7-9: the shrinkage is entrywise
    weight = 1.0 if released_ridge else lam2
    inverse = np.linalg.inv(weight * U_tilde @ U_tilde.T + lam3 * np.eye(m * p))
    W = weight * Y @ U_tilde.T @ inverse  # line 10
    U_bar = R1_inverse(U_tilde, m, p)  # line 11
    Omega = U_bar @ X_bar.T @ np.linalg.inv(X_bar @ X_bar.T + lam4 * np.eye(len(X_bar)))  # line 12
    for i in range(m):  # line 13
        if np.sum(Omega[i] ** 2) > 1:
            Omega[i] = Omega[i] / np.sqrt(np.sum(Omega[i] ** 2))
    return Omega, U_bar, W


def objective(X_bar, Y, Omega, U_bar, W, lams):
    lam1, lam2, lam3, lam4 = lams
    U_tilde = R1(U_bar, Y.shape[1], X_bar.shape[1] // Y.shape[1])
    return (
        0.5 * np.sum((Omega @ X_bar - U_bar) ** 2)
        + lam1 * np.sum(np.abs(U_bar))
        + 0.5 * lam2 * np.sum((Y - W @ U_tilde) ** 2)
        + 0.5 * lam3 * np.sum(W**2)
        + 0.5 * lam4 * np.sum(Omega**2)
    )
