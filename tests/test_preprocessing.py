"""One picture, one answer, in whatever container, mode and orientation it comes."""

from __future__ import annotations

import hashlib
import io
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from edge.errors import InputError
from edge.preprocessing import InputSpec, Pixels, fit, read_photograph


def encode(image: Image.Image, form: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


@pytest.mark.parametrize("form", ["PNG", "BMP", "TIFF", "WEBP"])
def test_lossless_containers_give_the_very_pixels(leaf: Pixels, form: str) -> None:
    options = {"lossless": True} if form == "WEBP" else {}
    assert np.array_equal(read_photograph(encode(Image.fromarray(leaf), form, **options)), leaf)


@pytest.mark.parametrize(("form", "tolerance"), [("JPEG", 4.0), ("WEBP", 4.0)])
def test_lossy_containers_stay_within_a_mean_difference_of_four_levels(
    leaf: Pixels, form: str, tolerance: float
) -> None:
    read = read_photograph(encode(Image.fromarray(leaf), form, quality=95))
    assert np.abs(read.astype(int) - leaf).mean() < tolerance


# JPEG is what cameras write: there, within the mean difference of its coding.
@pytest.mark.parametrize(("form", "tolerance"), [("PNG", 0.0), ("TIFF", 0.0), ("WEBP", 0.0), ("JPEG", 4.0)])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_exif_orientation_shows_the_same_picture(
    leaf: Pixels, orientation: int, form: str, tolerance: float
) -> None:
    # How a camera stores the picture so that the tag turns it back (EXIF 2.32, tag 0x0112).
    stored = {
        1: leaf,
        2: leaf[:, ::-1],
        3: leaf[::-1, ::-1],
        4: leaf[::-1],
        5: leaf.transpose(1, 0, 2),
        6: np.rot90(leaf, 1),
        7: leaf[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(leaf, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"WEBP": {"lossless": True}, "JPEG": {"quality": 95}}.get(form, {})
    data = encode(Image.fromarray(np.ascontiguousarray(stored)), form, exif=exif, **options)
    for read, shown in ((read_photograph(data), leaf), (read_photograph(data, exif="ignore"), stored)):
        assert read.shape == shown.shape
        assert np.abs(read.astype(int) - shown).mean() <= tolerance


@pytest.mark.parametrize("orientation", [0, 9, 255])
def test_an_orientation_out_of_range_means_as_stored(leaf: Pixels, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    assert np.array_equal(read_photograph(encode(Image.fromarray(leaf), "PNG", exif=exif)), leaf)


def test_a_damaged_exif_block_does_not_hide_the_picture(leaf: Pixels) -> None:
    data = encode(Image.fromarray(leaf), "PNG", exif=b"Exif\x00\x00MM\x00*\xff\xff\xff\xffgarbage")
    assert np.array_equal(read_photograph(data), leaf)


def test_grey_modes_agree_with_each_other(leaf: Pixels) -> None:
    grey = np.asarray(Image.fromarray(leaf).convert("L"))
    expected = np.repeat(grey[:, :, np.newaxis], 3, axis=2)
    alpha = Image.merge("LA", (Image.fromarray(grey), Image.new("L", (320, 240), 255)))
    sixteen = Image.fromarray(grey.astype(np.uint16) * 257)
    assert sixteen.mode.startswith("I;16")
    for image, form in [
        (Image.fromarray(grey), "PNG"),
        (alpha, "PNG"),
        (sixteen, "PNG"),
        (sixteen, "TIFF"),
        (Image.fromarray(grey.astype(np.float32) * 257), "TIFF"),
    ]:
        assert np.array_equal(read_photograph(encode(image, form)), expected), (image.mode, form)


def test_sixteen_bit_grey_is_rounded_to_the_nearest_level() -> None:
    values = np.array([[0, 128, 129, 65535, 65406, 65407]], dtype=np.uint16)
    read = read_photograph(encode(Image.fromarray(values), "PNG"))
    assert read[0, :, 0].tolist() == [0, 0, 1, 255, 254, 255]


def test_sixteen_bit_colours_are_within_one_level_of_sixteen_bit_greys() -> None:
    values = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    grey = read_photograph(encode(Image.fromarray(values), "PNG"))
    for channels, colour_type in ((3, 2), (4, 6), (2, 4)):
        samples = values[:, :, np.newaxis].repeat(channels, axis=2)
        if channels in (2, 4):
            samples[:, :, -1] = 65535
        read = read_photograph(sixteen_bit_png(samples, colour_type))
        assert np.array_equal(read[:, :, 0], values >> 8)
        assert np.abs(read.astype(int) - grey).max() == 1
    # Outside the values that show the rule: what was 8 bits once comes back exactly.
    assert np.array_equal(read_photograph(sixteen_bit_png(EIGHT * 257, 2)), EIGHT.astype(np.uint8))


EIGHT = np.arange(256, dtype=np.uint16).reshape(16, 16, 1).repeat(3, axis=2)


def sixteen_bit_png(samples: npt.NDArray[np.uint16], colour_type: int) -> bytes:
    """A PNG of uint16 samples (height, width, channels), which Pillow reads but does not write."""
    height, width = samples.shape[:2]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in samples)

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", width, height, 16, colour_type, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


def test_one_bit_pictures_are_black_and_white() -> None:
    bits = np.array([[True, False], [False, True]])
    read = read_photograph(encode(Image.fromarray(bits), "PNG"))
    assert read[:, :, 0].tolist() == [[255, 0], [0, 255]]


def test_an_opaque_alpha_channel_changes_nothing(leaf: Pixels) -> None:
    image = Image.fromarray(leaf).convert("RGBA")
    assert np.array_equal(read_photograph(encode(image, "PNG")), leaf)


def test_transparent_pixels_are_white() -> None:
    clear = Image.new("RGBA", (4, 4), (10, 20, 30, 0))
    assert (read_photograph(encode(clear, "PNG")) == 255).all()
    palette = Image.new("P", (4, 4), 3)
    palette.putpalette([0, 0, 0, 9, 9, 9, 8, 8, 8, 200, 10, 10])
    assert (read_photograph(encode(palette, "PNG")) == (200, 10, 10)).all()
    assert (read_photograph(encode(palette, "PNG", transparency=3)) == 255).all()


def test_cmyk_is_read_as_the_colours_it_stands_for() -> None:
    cyan = Image.new("CMYK", (16, 16), (255, 0, 0, 0))
    assert np.abs(read_photograph(encode(cyan, "JPEG", quality=95)).astype(int) - (0, 255, 255)).max() <= 2
    assert (read_photograph(encode(cyan, "TIFF")) == (0, 255, 255)).all()


@pytest.mark.parametrize("resize", ["nearest", "bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 500), (240, 320), (3000, 4000)])
def test_every_size_is_fitted_to_the_input(shape: tuple[int, int], resize: str) -> None:
    grey = np.full((*shape, 3), 77, dtype=np.uint8)
    fitted = fit(grey, InputSpec(resize=resize))
    assert fitted.shape == (224, 224, 3)
    assert (fitted == 77).all()


def test_fitting_a_fitted_picture_changes_nothing_and_copies(leaf: Pixels) -> None:
    once = fit(leaf, InputSpec())
    twice = fit(once, InputSpec())
    assert np.array_equal(once, twice)
    assert not np.shares_memory(once, twice)


def test_bilinear_fitting_averages_when_it_halves() -> None:
    # Triangle filter of support 2 at scale 2: an inner output pixel weighs 1/8, 3/8, 3/8, 1/8 (Pillow's
    # antialiased bilinear); on a ramp that is the value between the two middle pixels.
    ramp = np.repeat(np.arange(0, 160, 10, dtype=np.uint8)[np.newaxis, :, np.newaxis], 3, axis=2)
    fitted = fit(np.repeat(ramp, 2, axis=0), InputSpec(height=2, width=8))
    assert fitted[0, 1:7, 0].tolist() == [25, 45, 65, 85, 105, 125]


def test_crop_keeps_the_aspect_and_cuts_the_sides() -> None:
    image = np.zeros((100, 200, 3), dtype=np.uint8)
    image[:, 50:150] = 255
    # The outermost columns average over the cut edge (antialiasing).
    assert (fit(image, InputSpec(height=50, width=50, fit="crop"))[:, 1:-1] == 255).all()
    squashed = fit(image, InputSpec(height=50, width=50))
    assert squashed[:, :10].max() == 0


def test_the_same_picture_gives_the_same_bytes_on_every_machine() -> None:
    # Recorded on x86-64 with Pillow 13; Pillow's 8-bit resize is integer arithmetic on every machine.
    digest = hashlib.sha256(
        b"".join(fit(leaf, InputSpec()).tobytes() for leaf in ramp_pictures())
    ).hexdigest()
    assert digest == RAMP_DIGEST


def ramp_pictures() -> list[Pixels]:
    rows, columns = np.mgrid[0:240, 0:320]
    picture = np.stack([rows % 256, columns % 256, (rows * columns) % 256], axis=2).astype(np.uint8)
    return [picture, np.ascontiguousarray(picture.transpose(1, 0, 2)), picture[:37, :53]]


RAMP_DIGEST = "27f6c36c63db3851f0f01881c85c2b47bca7ec073d613e4aab5f153e926262c6"


@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "TIFF", "BMP"])
def test_a_truncated_picture_is_refused_with_one_sentence(leaf: Pixels, form: str, share: float) -> None:
    data = encode(Image.fromarray(leaf), form)
    with pytest.raises(InputError, match=r"(damaged or truncated|not a picture)") as caught:
        read_photograph(data[: max(8, int(share * len(data)))])
    assert "\n" not in str(caught.value)


def test_random_damage_never_raises_anything_else(leaf: Pixels) -> None:
    generator = np.random.default_rng(5)
    for form in ("JPEG", "PNG", "WEBP", "TIFF", "BMP"):
        data = encode(Image.fromarray(leaf[:60, :60]), form)
        for _ in range(60):
            damaged = bytearray(data)
            for position in generator.integers(0, len(data), size=8):
                damaged[position] = int(generator.integers(256))
            try:
                assert read_photograph(bytes(damaged)).shape[2] == 3
            except InputError:
                continue


def test_files_that_are_no_pictures_are_named(tmp_path: Path) -> None:
    text = tmp_path / "notes.jpg"
    text.write_text("row 3, tree 7")
    empty = tmp_path / "empty.png"
    empty.touch()
    gif = tmp_path / "leaf.gif"
    gif.write_bytes(encode(Image.new("L", (4, 4)), "GIF"))
    link = tmp_path / "link.jpg"
    link.symlink_to(tmp_path / "nowhere.jpg")
    for path, words in [
        (text, "not a picture"),
        (empty, "is empty"),
        (gif, "not a picture"),
        (link, "link to a file that does not exist"),
        (tmp_path / "missing.jpg", "no such file"),
        (tmp_path, "a folder"),
    ]:
        with pytest.raises(InputError, match=words) as caught:
            read_photograph(path)
        assert str(path) in str(caught.value)


def test_what_never_ends_or_waits_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.jpg"
    os.mkfifo(pipe)
    device = tmp_path / "device.jpg"
    device.symlink_to("/dev/zero")
    for path in (pipe, device):
        with pytest.raises(InputError, match="a device, pipe or socket, not a picture") as caught:
            read_photograph(path)
        assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["x" * 300 + ".png", "a\0b.png", "x.png/y.png"])
def test_a_name_that_no_file_can_have_is_one_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / "x.png").touch()
    with pytest.raises(InputError, match="check the path") as caught:
        read_photograph(tmp_path / name)
    assert "\0" not in str(caught.value)


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "private.jpg"
    path.write_bytes(b"x")
    path.chmod(0)
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    # Root may read everything, so the file is read in a child process as another user.
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            read_photograph(path)
        except InputError as error:
            os._exit(0 if "not readable by this user" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_decompression_bomb_is_refused_before_it_is_decoded() -> None:
    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    for side in (9_000, 60_000):
        header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
        png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 99))
        with pytest.raises(InputError, match="more"):
            read_photograph(png + chunk(b"IEND", b""))


def test_an_array_of_the_wrong_kind_is_refused() -> None:
    for array in (
        np.zeros((4, 4), np.uint8),
        np.zeros((4, 4, 4), np.uint8),
        np.zeros((4, 4, 3)),
        np.zeros((0, 4, 3)),
    ):
        with pytest.raises(InputError, match="uint8 array"):
            fit(array, InputSpec())  # type: ignore[arg-type]


def test_an_unknown_preprocessing_is_refused() -> None:
    for values in ({"resize": "area"}, {"fit": "pad"}, {"exif": "maybe"}, {"colour": "BGR"}, {"height": 0}):
        with pytest.raises(InputError):
            InputSpec(**values)  # type: ignore[arg-type]
