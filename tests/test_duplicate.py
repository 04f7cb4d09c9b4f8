"""Near-duplicates are found under turning, mirroring, scaling and re-encoding; other leaves are not."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from bench.drawing import LABELS, draw_leaf
from bench.duplicate import TURNS, Pair, across, candidates, correlation, find_pairs, hashes, joined, turned
from edge.errors import InputError

pytest.importorskip("imagehash", reason="near-duplicates need the extra 'bench'")


def save(picture: np.ndarray, path: Path, quality: int = 90) -> Path:
    Image.fromarray(np.ascontiguousarray(picture)).save(path, quality=quality)
    return path


@pytest.fixture(scope="module")
def shots(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One leaf of each class, then the first eight again, each in one of the eight turns, smaller and coarser."""
    folder = tmp_path_factory.mktemp("shots")
    leaves = [
        draw_leaf(label, np.random.default_rng([5, number]), 192, 192) for number, label in enumerate(LABELS)
    ]
    paths = [save(leaf, folder / f"{number}.jpg") for number, leaf in enumerate(leaves)]
    for number, (leaf, (_, turns, mirrored)) in enumerate(zip(leaves, TURNS, strict=True)):
        again = Image.fromarray(np.ascontiguousarray(turned(leaf, turns, mirrored))).resize((150, 150))
        paths.append(save(np.asarray(again), folder / f"{number}-again.jpg", quality=60))
    return paths


def test_every_copy_is_found_with_its_turn_and_nothing_else(shots: list[Path]) -> None:
    pairs = find_pairs(shots)
    assert [(pair.first, pair.second) for pair in pairs] == [(number, number + 8) for number in range(8)]
    # A pair names the turn that brings the second picture back to the first: the inverse of the one applied.
    inverse = [0, 3, 2, 1, 4, 5, 6, 7]
    assert [pair.turn for pair in pairs] == [TURNS[inverse[number]][0] for number in range(8)]
    assert all(pair.correlation > 0.95 for pair in pairs)


def test_the_leafs_outline_alone_does_not_make_a_duplicate() -> None:
    clean = draw_leaf("Healthy", np.random.default_rng(3), 96, 96).mean(axis=2).astype(np.uint8)
    marked = clean.copy()
    spots = np.random.default_rng(4)
    for _ in range(60):
        y, x = spots.integers(20, 76, 2)
        marked[y : y + 6, x : x + 6] = spots.integers(0, 120)
    assert correlation(clean, clean) == pytest.approx(1.0)
    assert correlation(clean, marked) < 0.9


def test_a_few_pixels_shift_does_not_hide_a_duplicate() -> None:
    leaf = draw_leaf("Anthracnose", np.random.default_rng(3), 120, 120).mean(axis=2).astype(np.uint8)
    assert correlation(leaf[:96, :96], leaf[4:100, 3:99]) > 0.95


def test_candidates_are_those_of_a_plain_comparison() -> None:
    generator = np.random.default_rng(0)
    codes = generator.integers(0, 2**63, (40, 8), dtype=np.uint64)
    codes[7] = codes[3] ^ np.uint64(0b1011)
    plain = [
        (first, second, turn, int(codes[first, 0] ^ codes[second, turn]).bit_count())
        for turn in range(8)
        for first in range(40)
        for second in range(first + 1, 40)
        if int(codes[first, 0] ^ codes[second, turn]).bit_count() <= 20
    ]
    assert sorted(candidates(codes, 20)) == sorted(plain)
    assert (3, 7, 0, 3) in plain


def test_hashes_of_a_turned_picture_are_those_of_the_turn() -> None:
    picture = draw_leaf("Die Back", np.random.default_rng(1), 96, 96).mean(axis=2).astype(np.uint8)
    assert hashes(turned(picture, 1, False))[0] == hashes(picture)[1]
    assert hashes(turned(picture, 2, True))[0] == hashes(picture)[6]


def test_groups_that_share_a_near_duplicate_become_one() -> None:
    pairs = [Pair(0, 2, "as it is", 0, 1.0), Pair(3, 5, "as it is", 0, 1.0), Pair(5, 4, "as it is", 0, 1.0)]
    codes = np.array([0, 0, 1, 2, 3, 4, 5])
    assert joined(codes, pairs).tolist() == [0, 0, 0, 2, 2, 2, 5]


def test_only_pairs_on_two_sides_are_across() -> None:
    pairs = [Pair(0, 1, "", 0, 1.0), Pair(1, 2, "", 0, 1.0), Pair(2, 3, "", 0, 1.0)]
    assert across(pairs, ["training", "training", "test", ""]) == pairs[1:2]


def test_an_unreadable_picture_is_named(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (64, 64)).save(buffer, "JPEG")
    (tmp_path / "torn.jpg").write_bytes(buffer.getvalue()[:200])
    with pytest.raises(InputError, match=r"torn\.jpg"):
        find_pairs([tmp_path / "torn.jpg"])


def test_an_unreadable_picture_may_be_reported_and_the_others_compared(
    shots: list[Path], tmp_path: Path
) -> None:
    torn = tmp_path / "torn.jpg"
    torn.write_bytes(shots[0].read_bytes()[:200])
    faults: list[tuple[int, str]] = []
    pairs = find_pairs(
        [torn, shots[0], torn, shots[8]], damaged=lambda position, fault: faults.append((position, fault))
    )
    assert [(pair.first, pair.second) for pair in pairs] == [(1, 3)]
    assert [position for position, _ in faults] == [0, 2]
    assert all("torn.jpg" in fault for _, fault in faults)
