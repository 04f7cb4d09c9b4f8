"""Corruptions: the package's pixels, at every severity, from seeded numbers, whoever else is running."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import pytest
from conftest import ROOT
from PIL import Image

from bench.corruption import (
    CORRUPTIONS,
    FAMILIES,
    SEVERITIES,
    base,
    corrupt,
    corruption_generator,
    noise,
    package,
    versions,
    weather,
)
from bench.corruption.blur import displaced, trail
from bench.corruption.gaussian import blur_pixels
from bench.corruption.speed import measure, table, totals
from bench.drawing import draw_leaf
from edge.errors import InputError
from edge.files import sha256
from edge.preprocessing import InputSpec, Pixels, fit, read_photograph

LOOPED = "glass_blur"
"""A second and more an image in the package, so it meets fewer and smaller images here."""

DIGEST = sha256(b"leaf")


@pytest.fixture(scope="module", autouse=True)
def _package() -> None:
    try:
        package.read_file("corruptions.py")
    except InputError as error:
        pytest.skip(str(error))


class _Numbers(package.Source):
    """The random numbers the package is fed: those of the Generator, and Poisson numbers drawn as ours are."""

    def poisson(self, lam: np.ndarray) -> np.ndarray:
        return noise.poisson(lam, self.generator)


def of_the_package(image: Pixels, name: str, severity: int, seed: int) -> Pixels:
    """The package's own function, repaired, fed with the numbers of that seed."""
    functions = package.functions(_Numbers(np.random.default_rng(seed)))
    return np.asarray(functions[name](Image.fromarray(image), severity)).astype(np.uint8)


def pictures() -> dict[str, Pixels]:
    rng = np.random.default_rng(7)
    ramp = np.zeros((64, 96, 3), np.uint8)
    ramp[...] = np.arange(96)[:, np.newaxis] * np.array([1, 2, 2], np.uint8)
    two = np.full((80, 72, 3), 255, np.uint8)
    two[20:50, 10:40] = (10, 200, 30)
    return {
        "leaf": draw_leaf("Anthracnose", np.random.default_rng(1), 224, 224),
        "wide": draw_leaf("Die Back", np.random.default_rng(2), 240, 320),
        "tall": draw_leaf("Healthy", np.random.default_rng(3), 320, 240),
        "odd": draw_leaf("Sooty Mould", np.random.default_rng(4), 101, 67),
        "small": draw_leaf("Gall Midge", np.random.default_rng(5), 32, 32),
        "black": np.zeros((48, 64, 3), np.uint8),
        "white": np.full((64, 48, 3), 255, np.uint8),
        "noise": rng.integers(0, 256, (40, 56, 3)).astype(np.uint8),
        "grey": np.repeat(rng.integers(0, 256, (33, 47, 1)).astype(np.uint8), 3, axis=2),
        "ramp": ramp,
        "two colours": two,
    }


def expect_equal(ours: Pixels, theirs: Pixels, where: str) -> None:
    assert ours.dtype == np.uint8
    assert ours.shape == theirs.shape, where
    different = np.count_nonzero(ours != theirs)
    assert different == 0, f"{where}: {different} of {ours.size} values differ"


@pytest.mark.parametrize("name", [name for name in CORRUPTIONS if name != LOOPED])
def test_the_pixels_are_the_packages(name: str) -> None:
    for number, (what, image) in enumerate(pictures().items()):
        for severity in SEVERITIES:
            seed = 100 * number + severity
            ours = corrupt(image, name, severity, np.random.default_rng(seed))
            expect_equal(ours, of_the_package(image, name, severity, seed), f"{name} {severity} on {what}")


@pytest.mark.parametrize("severity", SEVERITIES)
def test_glass_blurs_pixels_are_the_packages(severity: int) -> None:
    for number, (what, image) in enumerate(pictures().items()):
        if what in ("leaf", "wide", "tall"):
            image = image[60:140, 70:170]
        ours = corrupt(image, LOOPED, severity, np.random.default_rng(number))
        expect_equal(
            ours, of_the_package(image, LOOPED, severity, number), f"glass blur {severity} on {what}"
        )


def test_photographs_give_the_packages_pixels(mango: Path) -> None:
    for number, label in enumerate(("Anthracnose", "Healthy", "Sooty Mould")):
        path = sorted((mango / label).iterdir())[11]
        image = fit(read_photograph(path), InputSpec(resize="lanczos"))
        for name in CORRUPTIONS:
            # The package needs 8 seconds for a photograph's glass blur at all severities: one of them on one.
            if name == LOOPED and number > 0:
                continue
            for severity in SEVERITIES if name != LOOPED else (2,):
                ours = corrupt(image, name, severity, np.random.default_rng(severity))
                theirs = of_the_package(image, name, severity, severity)
                expect_equal(ours, theirs, f"{name} {severity} on {path.name}")


def test_names_are_in_the_packages_order_and_each_is_in_one_family() -> None:
    import ast

    # The package itself cannot be imported beside a current setuptools: its order is read from its source.
    source = (Path(package.find_spec(package.NAME).submodule_search_locations[0]) / "__init__.py").read_text()  # type: ignore[union-attr,index]
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "corruption_tuple":
            assert tuple(ast.unparse(element) for element in statement.value.elts) == CORRUPTIONS  # type: ignore[attr-defined]
            break
    else:
        pytest.fail("no corruption_tuple in the package")
    members = [name for family in FAMILIES.values() for name in family]
    assert sorted(members) == sorted(CORRUPTIONS)


def test_the_release_digest_decides_what_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(package._DIGESTS, "frost/frost1.png", "0" * 64)
    with pytest.raises(InputError, match=r"frost1\.png: not the file of imagecorruptions 1\.1\.2"):
        package.read_file("frost/frost1.png")


def test_without_the_package_only_frost_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "find_spec", lambda _: None)
    weather._picture.cache_clear()
    weather._ice.cache_clear()
    image = pictures()["small"]
    with pytest.raises(InputError, match="imagecorruptions is not installed; install it with"):
        corrupt(image, "frost", 1, np.random.default_rng(0))
    assert corrupt(image, "fog", 1, np.random.default_rng(0)).shape == image.shape


def test_nothing_imports_pkg_resources_or_the_package_and_only_the_reference_scikit_image() -> None:
    program = (
        "import sys; sys.modules['pkg_resources'] = None; import numpy as np;"
        "from bench.corruption import corrupt, CORRUPTIONS, package;"
        "image = np.full((40, 40, 3), 9, np.uint8);"
        "[corrupt(image, name, 3, np.random.default_rng(0)) for name in CORRUPTIONS];"
        "assert 'skimage' not in sys.modules;"
        "[package.corrupt(image, name, 3, np.random.default_rng(0)) for name in CORRUPTIONS];"
        "assert 'imagecorruptions' not in sys.modules;"
        "assert not hasattr(np, 'float_') or np.__version__ < '2';"
        "assert type(np.random).__name__ == 'module'; print('fine')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, timeout=120, check=False
    )
    assert done.stdout == "fine\n", done.stderr


def test_the_global_random_state_is_neither_read_nor_moved() -> None:
    image = pictures()["odd"]
    np.random.seed(1)
    before = np.random.get_state()
    for name in CORRUPTIONS:
        first = corrupt(image, name, 3, np.random.default_rng(9))
        np.testing.assert_equal(np.random.get_state(), before)
        np.random.seed(2)
        expect_equal(corrupt(image, name, 3, np.random.default_rng(9)), first, name)
        np.random.seed(1)
    package.corrupt(image, "snow", 1, np.random.default_rng(9))
    np.testing.assert_equal(np.random.get_state(), before)


def test_the_image_given_is_left_as_it_was() -> None:
    image = pictures()["odd"]
    kept = image.copy()
    for name in CORRUPTIONS:
        result = corrupt(image, name, 5, np.random.default_rng(0))
        assert not np.shares_memory(result, image), name
    np.testing.assert_array_equal(image, kept)


def test_views_and_read_only_images_are_taken() -> None:
    image = pictures()["wide"]
    view = image[::2, 40:200:2][:, ::-1]
    view.flags.writeable = False
    for name in CORRUPTIONS:
        ours = corrupt(view, name, 2, np.random.default_rng(3))
        expect_equal(ours, corrupt(view.copy(), name, 2, np.random.default_rng(3)), name)


def _digest(task: tuple[str, int]) -> str:
    name, severity = task
    image = draw_leaf("Healthy", np.random.default_rng(6), 96, 128)
    return sha256(corrupt(image, name, severity, corruption_generator(DIGEST, name, severity, 0)).tobytes())


def test_threads_and_processes_give_the_bytes_of_one_thread() -> None:
    tasks = [(name, severity) for name in CORRUPTIONS for severity in (1, 4)]
    alone = [_digest(task) for task in tasks]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(_digest, tasks * 2)) == alone * 2
    with ProcessPoolExecutor(2) as processes:
        assert list(processes.map(_digest, tasks, chunksize=19)) == alone


def test_the_number_of_opencv_threads_does_not_matter() -> None:
    threads = cv2.getNumThreads()
    try:
        cv2.setNumThreads(1)
        alone = [_digest((name, 3)) for name in CORRUPTIONS]
        cv2.setNumThreads(4)
        assert [_digest((name, 3)) for name in CORRUPTIONS] == alone
    finally:
        cv2.setNumThreads(threads)


def test_generators_are_the_same_everywhere() -> None:
    first = corruption_generator("ab" * 32, "fog", 3, 0)
    # Written down once: another value here means that every stored set would change.
    assert first.integers(0, 2**32, 3).tolist() == [3886150976, 3523146398, 1265342862]
    drawn = {
        (digest, name, severity, seed): corruption_generator(digest, name, severity, seed).integers(2**62)
        for digest in (DIGEST, "0" * 64)
        for name in CORRUPTIONS
        for severity in SEVERITIES
        for seed in (0, 1)
    }
    assert len(set(drawn.values())) == len(drawn)
    again = corruption_generator(DIGEST.upper(), "fog", 1, 1)
    assert again.integers(2**62) == drawn[DIGEST, "fog", 1, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("not hex!", "fog", 1, 0), "not a hexadecimal digest"),
        ((DIGEST, "rain", 1, 0), "corruption 'rain' is not known; the 19 are gaussian_noise,"),
        ((DIGEST, "fog", 6, 0), "severity 6 is not known; give 1 to 5"),
        ((DIGEST, "fog", 1, -1), "seed -1 is negative"),
    ],
)
def test_wrong_seeds_are_refused(arguments: tuple[str, str, int, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        corruption_generator(*arguments)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros((40, 40), np.uint8), "uint8 array"),
        (np.zeros((40, 40, 1), np.uint8), "uint8 array"),
        (np.zeros((40, 40, 4), np.uint8), "uint8 array"),
        (np.zeros((40, 40, 3), np.float32), "not float32"),
        (
            np.zeros((31, 200, 3), np.uint8),
            "200x31 pixels cannot be corrupted; give 32 to 4096 pixels a side",
        ),
        (np.zeros((40, 5000, 3), np.uint8), "5000x40 pixels"),
        (np.zeros((0, 40, 3), np.uint8), "40x0 pixels"),
    ],
)
def test_what_is_no_picture_is_refused(image: np.ndarray, message: str) -> None:
    for name in ("fog", "motion_blur", "glass_blur"):
        with pytest.raises(InputError, match=message):
            corrupt(image, name, 1, np.random.default_rng(0))


def test_names_and_severities_are_checked() -> None:
    image = np.zeros((40, 40, 3), np.uint8)
    with pytest.raises(InputError, match="corruption 'Fog' is not known"):
        corrupt(image, "Fog", 1, np.random.default_rng(0))
    with pytest.raises(InputError, match="severity 0 is not known"):
        corrupt(image, "fog", 0, np.random.default_rng(0))


def test_impulse_noise_repeats_and_flips_its_share() -> None:
    grey = np.full((200, 200, 3), 102, np.uint8)
    result = corrupt(grey, "impulse_noise", 5, np.random.default_rng(4))
    np.testing.assert_array_equal(corrupt(grey, "impulse_noise", 5, np.random.default_rng(4)), result)
    share = [np.mean(result == value) for value in (0, 255)]
    assert share == pytest.approx([0.135, 0.135], abs=0.005)


@pytest.mark.parametrize("photons", [60, 25, 12, 5, 3])
def test_poisson_numbers_have_the_poisson_distribution(photons: int) -> None:
    from scipy import stats

    for value in (0, 1, 17, 128, 254, 255):
        mean = value / 255.0 * photons
        thresholds = noise.poisson_thresholds(mean).astype(np.float64) / 2**32
        expected = stats.poisson.cdf(np.arange(len(thresholds)), mean)
        assert np.abs(thresholds - expected).max() < 2**-32
        assert thresholds[-1] == 1


def test_poisson_numbers_invert_the_distribution_function() -> None:
    # F(0) = 0.1353, F(1) = 0.4060, F(2) = 0.6767 for the mean 2, by the formula.
    class Draws:
        def integers(self, *_: object, **__: object) -> np.ndarray:
            return (np.array([0.0, 0.1353, 0.1354, 0.4060, 0.4061, 0.6766]) * 2**32).astype(np.uint32)

    numbers = noise.poisson(np.full(6, 2.0), Draws())  # type: ignore[arg-type]
    assert numbers.tolist() == [0, 0, 1, 1, 2, 2]


def test_poisson_numbers_have_mean_and_variance_of_the_pixel() -> None:
    means = np.repeat([0.0, 0.5, 3.0, 60.0], 40_000)
    numbers = noise.poisson(means, np.random.default_rng(8)).reshape(4, -1)
    np.testing.assert_allclose(numbers.mean(axis=1), [0, 0.5, 3, 60], rtol=0.02)
    np.testing.assert_allclose(numbers.var(axis=1), [0, 0.5, 3, 60], rtol=0.04)


def test_displacements_follow_the_walk() -> None:
    """The chains that are followed all at once end where the package's walk, pixel by pixel, takes its values."""
    for height, width, reach in ((12, 9, 1), (15, 20, 2), (11, 30, 4), (9, 9, 4), (8, 40, 4)):
        origin = displaced(height, width, reach, np.random.default_rng(height))
        generator = np.random.default_rng(height)
        walked = np.arange(height * width).reshape(height, width)
        for h in range(height - reach, reach, -1):
            for w in range(width - reach, reach, -1):
                dx, dy = generator.integers(-reach, reach, size=2)
                walked[h, w] = walked[h + dy, w + dx]
        np.testing.assert_array_equal(origin.reshape(height, width), walked)


def test_a_trail_longer_than_the_picture_is_cut_as_the_package_cuts_it() -> None:
    whole = trail(20, 15, 0.0, 224, 224)
    cut = trail(20, 15, 0.0, 32, 32)
    assert len(whole.offsets) == 41
    assert sum(whole.weights) == pytest.approx(1)
    assert cut.offsets == whole.offsets[:32]
    # (2 Phi(31.5 / 15) - 1) / (2 Phi(40.5 / 15) - 1) = 0.9643 / 0.9931
    assert sum(cut.weights) == pytest.approx(0.971, abs=2e-3)


def test_drops_that_never_fall_leave_the_picture() -> None:
    """Where no drop falls the package divides 0 by 0; the kit leaves the picture, but for cutting."""
    image = pictures()["small"]
    dry = next(
        seed
        for seed in range(2000)
        if not (
            weather._smoothed(np.random.default_rng(seed).normal(0.65, 0.3, (32, 32)), 4, 0.69) >= 0.69
        ).any()
    )
    result = corrupt(image, "spatter", 1, np.random.default_rng(dry))
    assert np.abs(result.astype(int) - image).max() <= 1


def test_even_areas_and_patterns_round_as_scipy_rounds() -> None:
    """Where a sum meets a whole number its last bits decide: flat areas, ramps, stripes, and one pixel off."""
    from scipy import ndimage

    stripes = np.zeros((70, 70, 3), np.uint8)
    stripes[:, ::2] = (40, 80, 120)
    dotted = np.full((90, 90, 3), 77, np.uint8)
    dotted[45, 45] = 78
    ramp = np.repeat(np.arange(80, dtype=np.uint8)[:, np.newaxis], 60, axis=1)[..., np.newaxis].repeat(
        3, axis=2
    )
    for image in (stripes, dotted, ramp, np.full((40, 40, 3), 200, np.uint8)):
        for sigma in (0.7, 1, 2, 6):
            filtered = ndimage.gaussian_filter(image / 255.0, (sigma, sigma, 0), mode="nearest")
            expect_equal(
                blur_pixels(image, sigma), (np.clip(filtered, 0, 1) * 255).astype(np.uint8), f"{sigma}"
            )


def test_results_name_their_base() -> None:
    assert base() == "imagecorruptions 1.1.2, repaired"
    assert versions().startswith(base())
    for library in ("numpy", "scipy", "pillow", "opencv"):
        assert f"{library} " in versions()


def test_the_speed_table_has_a_line_for_each_pair_and_totals() -> None:
    leaf = draw_leaf("Healthy", np.random.default_rng(0), 32, 32)
    threads = cv2.getNumThreads()
    pairs = measure(leaf, repeats=1, looped_repeats=1)
    assert cv2.getNumThreads() == threads
    assert [(pair.corruption, pair.severity) for pair in pairs] == [
        (name, severity) for name in CORRUPTIONS for severity in SEVERITIES
    ]
    assert all(pair.ours > 0 and pair.package > 0 for pair in pairs)
    assert [(name, len(chosen)) for name, chosen, _ in totals(pairs)] == [
        ("all 95", 95),
        ("the 90 without glass_blur", 90),
    ]
    lines = table(pairs).splitlines()
    assert len(lines) == 1 + 95 + 2 + 1
    assert "target 0.100" in lines[96]
    with pytest.raises(InputError, match="repeats must be 1 or more"):
        measure(leaf, repeats=0)
