"""The cache of arrays: found by content, safe against damage."""

import numpy as np
import pytest

from dcadl.features.cache import ArrayCache, digest


def test_what_was_put_is_found(tmp_path, rng):
    cache, array = ArrayCache(tmp_path), rng.random((3, 4))
    cache.put(digest("a"), array)
    np.testing.assert_array_equal(cache.get(digest("a")), array)
    assert cache.get(digest("b")) is None


def test_a_damaged_entry_counts_as_absent(tmp_path, rng):
    cache = ArrayCache(tmp_path)
    cache.put(digest("a"), rng.random(100))
    (file,) = tmp_path.rglob("*.npy")
    file.write_bytes(file.read_bytes()[:150])
    assert cache.get(digest("a")) is None


@pytest.mark.parametrize("share", np.linspace(0, 1, 30, endpoint=False))
def test_an_entry_with_a_flipped_bit_is_absent_or_the_same(tmp_path, rng, share):
    """The header of a `.npy` file is padded: some of its bits mean nothing."""
    cache, array = ArrayCache(tmp_path), rng.random(20)
    cache.put(digest("a"), array)
    (file,) = tmp_path.rglob("*.npy")
    data = bytearray(file.read_bytes())
    data[int(share * len(data))] ^= 4
    file.write_bytes(data)
    found = cache.get(digest("a"))
    assert found is None or np.array_equal(found, array)


def test_without_a_folder_nothing_is_kept(rng):
    cache = ArrayCache(None)
    cache.put(digest("a"), rng.random(3))
    assert cache.get(digest("a")) is None


def test_keys_differ_with_values_shape_type_and_order(rng):
    a = np.arange(6, dtype=np.int64)
    variants = [
        (a,),
        (a.reshape(2, 3),),
        (a.astype(np.uint64),),
        (a + 1,),
        (a, "x"),
        ("x", a),
        ("xy",),
        ("x", "y"),
    ]
    assert len({digest(*parts) for parts in variants}) == len(variants)


def test_no_partial_files_are_left(tmp_path, rng):
    ArrayCache(tmp_path).put(digest("a"), rng.random(3))
    assert [p.suffix for p in tmp_path.rglob("*") if p.is_file()] == [".npy"]
