#!/usr/bin/env bash
# On a workstation with network: gather all that a board without network installs, as aarch64 wheels.
#   bash firmware_notes/wheels.sh bookworm FOLDER [PACKAGE...]     (or trixie)
# PACKAGE: further packages of requirements/dev.txt, by name.
# Every wheel must have a digest that requirements/device.txt lists. Then, on the board:
#   sudo bash firmware_notes/install.sh FOLDER
set -euo pipefail

release=${1:-}
folder=${2:-}
python=${PYTHON:-python3}
case $release in
bookworm) version=3.11 glibc=36 ;;
trixie) version=3.13 glibc=41 ;;
*)
  echo "error: say for which system and where to: bash firmware_notes/wheels.sh bookworm|trixie FOLDER" >&2
  exit 2
  ;;
esac
[ -n "$folder" ] || {
  echo "error: say which folder the wheels go to: bash firmware_notes/wheels.sh $release FOLDER" >&2
  exit 2
}
here=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$folder"

# pip would judge "python_version" and "platform_machine" by this machine; the board's are put in here.
"$python" - "$here/requirements" "$version" "${@:3}" >"$folder/requirements.txt" <<'END'
import sys

from pip._vendor.packaging.requirements import Requirement

locks, version, *further = sys.argv[1:]
board = {
    "python_version": version,
    "python_full_version": f"{version}.2",
    "platform_machine": "aarch64",
    "platform_python_implementation": "CPython",
    "implementation_name": "cpython",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "os_name": "posix",
    "extra": "",
}
seen = set()
for lock, wanted in (("device.txt", None), ("dev.txt", set(further))):
    for line in open(f"{locks}/{lock}").read().replace("\\\n", " ").splitlines():
        text, *digests = line.split("#")[0].split(" --hash=")
        if not text.strip():
            continue
        requirement = Requirement(text.strip())
        if requirement.name in seen or (wanted is not None and requirement.name not in wanted):
            continue
        if requirement.marker is None or requirement.marker.evaluate(board):
            seen.add(requirement.name)
            # The board's Python is fixed, so the marker has done its work.
            requirement.marker = None
            print(" ".join([str(requirement), *(f"--hash={digest.strip()}" for digest in digests)]))
if missing := set(further) - seen:
    sys.exit(f"error: not in {locks}/dev.txt: {', '.join(sorted(missing))}; check the names")
END

platforms=(--platform linux_aarch64 --platform manylinux2014_aarch64)
for minor in $(seq 17 "$glibc"); do platforms+=(--platform "manylinux_2_${minor}_aarch64"); done
"$python" -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: \
  --python-version "$version" --implementation cp --abi "cp${version/./}" --abi abi3 --abi none "${platforms[@]}" \
  --dest "$folder" -r "$folder/requirements.txt"
# The kit itself, without build tools on the board.
rm -f "$folder"/mango_leaf_kit-*.whl
"$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$folder" "$here"
echo "$folder: $(find "$folder" -name '*.whl' | wc -l) wheels for $release (Python $version, aarch64)," \
  "$(du -sm "$folder" | cut -f1) MB"
