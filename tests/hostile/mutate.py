"""Seeded damage: to bytes, to JSON, to arrays and to values. The same generator gives the same damage."""

from __future__ import annotations

import copy
import json

import numpy as np

VALUES = [
    *(None, True, False, -1, 0, 1, 2, 7, 50, 2**31, 2**63, 10**30, -(10**30), 0.5, 1e-300, 1e300, -1e300),
    *("", "x", "None", "../../x", "é\0\n\x1b[31m", "x" * 50_000, [], {}, [0], [[]], [1, [2, [3]]], {"": {}}),
    *(float("nan"), float("inf"), [float("nan")] * 3, [10**9] * 4, [0, 0], ["a", 1, None]),
]


def any_value(rng):
    """A value that nobody expects, or one that somebody might."""
    return copy.deepcopy(VALUES[rng.integers(len(VALUES))])


def damaged_bytes(rng, data):
    """Bits flipped, parts cut off, doubled, filled with noise or put in another place."""
    data = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        if not data:
            break
        at = int(rng.integers(len(data)))
        length = int(min(len(data) - at, rng.choice([1, 2, 8, 64, 1000])))
        match rng.integers(7):
            case 0 | 1:
                data[at] ^= 1 << int(rng.integers(8))
            case 2:
                del data[at:]
            case 3:
                del data[at : at + length]
            case 4:
                data[at:at] = data[at : at + length]
            case 5:
                data[at : at + length] = rng.bytes(length)
            case 6:
                data += rng.bytes(length)
    return bytes(data)


def damaged_json(rng, tree):
    """The same tree with one to three of its values replaced, removed, added or nested deeply."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.integers(1, 4)):
        node, key = _somewhere(rng, tree)
        if node is None:
            return any_value(rng)
        match rng.integers(6):
            case 0 | 1 | 2:
                node[key] = any_value(rng)
            case 3:
                del node[key]
            case 4 if isinstance(node, dict):
                node[["extra", "predict", "__class__", "n_iter_", ""][rng.integers(5)]] = any_value(rng)
            case _:
                node[key] = _near(rng, node[key])
    return tree


def damaged_text(rng, tree):
    """A damaged tree as text, which may be no JSON."""
    match rng.integers(12):
        case 0:
            return "[" * 100_000
        case 1:
            return '{"a":' * 50_000
        case 2:
            return damaged_bytes(rng, json.dumps(tree).encode()).decode(errors="replace")
        case _:
            return json.dumps(damaged_json(rng, tree))


def damaged_array(rng, array):
    """Other values, another shape, another type, or all of them."""
    array = np.array(array)
    match rng.integers(6):
        case 0:
            array = array.astype(rng.choice(["f4", "f8", "f2", "i8", "i1", "u1", "?"]))
        case 1:
            array = array.reshape(-1)[: rng.integers(array.size + 1)]
        case 2:
            array = array.T
        case 3 if array.ndim:
            array = np.concatenate([array, array])
        case _:
            flat = array.reshape(-1)
            some = rng.integers(max(array.size, 1), size=min(array.size, 3))
            with np.errstate(all="ignore"):
                flat[some] = np.array(rng.choice([0, -1, 1e30, 3e38, np.nan, np.inf, 1e-40])).astype(
                    array.dtype
                )
    return np.ascontiguousarray(array)


def _near(rng, value):
    """A number beside it, or the value in a list."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value + [1, -1, 0.5, value, -2 * value][rng.integers(5)]
    return [value]


def _somewhere(rng, tree):
    """A container in the tree and a key of it, or None."""
    found = []

    def walk(node):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            found.append((node, key))
            if isinstance(value, dict | list):
                walk(value)

    if isinstance(tree, dict | list):
        walk(tree)
    return found[rng.integers(len(found))] if found else (None, None)
