#!/usr/bin/env bash
# The arm64 check without a board: Debian for arm64 by debootstrap, the kit installed in it as README.md says, run by
# qemu-user, and compared with this machine. Run by `make check-arm64`, as root, with network for the first time.
# It checks that the kit installs, works and agrees. The emulator's times say nothing about a board: none is shown.
#   SUITE=bookworm|trixie   system of the board           OUT=FOLDER   where roots and wheels are kept
#   DATA=FOLDER             photographs, one folder a class; drawn leaves are compared in any case
#   BIN=FOLDER              holds this machine's mango-edge and mango-bench
set -euo pipefail

suite=${SUITE:-bookworm}
out=$(mkdir -p "${OUT:-build/arm64}" && cd "${OUT:-build/arm64}" && pwd)
bin=$(cd "${BIN:-build/venv-device/bin}" && pwd)
data=${DATA:+$(cd "$DATA" && pwd)}
here=$(cd "$(dirname "$0")/.." && pwd)
mirror=${MIRROR:-http://deb.debian.org/debian}
root=$out/$suite
leaves_out=()

say() { echo "== $*"; }
fail() {
  echo "error: $*" >&2
  exit 2
}

[ "$(uname -m)" = x86_64 ] || fail "this compares an emulated arm64 with x86-64, and this machine is $(uname -m)"
[ "$(id -u)" = 0 ] || fail "a root file system is made and entered; run it as root: sudo make check-arm64"
for program in debootstrap apt-get unshare chroot; do
  command -v $program >/dev/null || fail "$program is missing; install it: apt-get install debootstrap util-linux"
done
# Mounts below belong to this run alone and go away with it.
[ "${MANGO_UNSHARED:-}" = yes ] || MANGO_UNSHARED=yes exec unshare --mount --propagation private bash "$0" "$@"

qemu=$out/qemu/qemu-aarch64
if [ ! -x "$qemu" ]; then
  # Version 7.2 of Debian 12 crashes in LiteRT 2.3; 10.0 of Debian 13 does not.
  say "fetching qemu-user of Debian trixie"
  apt=$out/apt
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$out/qemu"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$apt/sources.list"
  printf '%s\n' "Dir::State::lists \"$apt/lists\";" "Dir::Cache \"$apt/cache\";" 'Dir::Etc::sourceparts "-";' \
    "Dir::Etc::sourcelist \"$apt/sources.list\";" 'Dir::State::status "/dev/null";' 'APT::Sandbox::User "root";' \
    'Acquire::Languages "none";' >"$apt/apt.conf"
  APT_CONFIG=$apt/apt.conf apt-get update -qq
  (cd "$apt" && APT_CONFIG=$apt/apt.conf apt-get download -qq qemu-user)
  dpkg-deb --extract "$apt"/qemu-user_*_"$(dpkg --print-architecture)".deb "$apt/unpacked"
  cp "$apt/unpacked/usr/bin/qemu-aarch64" "$qemu"
fi
say "$("$qemu" --version | head -n 1)"
export QEMU_CPU=cortex-a72

binfmt=/proc/sys/fs/binfmt_misc
[ -e $binfmt/register ] || mount -t binfmt_misc binfmt_misc $binfmt ||
  fail "the kernel has no binfmt_misc; load the module or run this on another machine"
if [ ! -e $binfmt/mango-aarch64 ]; then
  # F: the kernel opens the emulator now, so that it is found from inside the root.
  printf '%s' ':mango-aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:'"$qemu"':F' >$binfmt/register
  trap 'echo -1 >$binfmt/mango-aarch64' EXIT
fi

if [ ! -e "$root/ready" ]; then
  say "Debian $suite for arm64 by debootstrap"
  rm -rf "$root"
  debootstrap --arch=arm64 --variant=minbase --include=python3,python3-venv,ca-certificates "$suite" "$root" "$mirror" \
    >"$out/debootstrap-$suite.log" || fail "debootstrap failed; see $out/debootstrap-$suite.log"
  touch "$root/ready"
fi

say "wheels for $suite"
wheels=$out/wheels-$suite
PYTHON=$bin/python bash "$here/firmware_notes/wheels.sh" "$suite" "$wheels" \
  pytest iniconfig pluggy hypothesis sortedcontainers

# The files that a user would copy to the board: what git knows, and the model even before it is committed.
rm -rf "$root/srv/kit" && mkdir -p "$root/srv/kit" "$root/mnt/wheels" "$root/mnt/pictures"
(cd "$here" && { git ls-files -z && find edge/models -name '*.tflite' -print0; } | sort -zu |
  tar --null --files-from=- --create) | tar --extract --directory "$root/srv/kit"
mount --bind "$wheels" "$root/mnt/wheels"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t sysfs -o ro sysfs "$root/sys" # the runtime asks how many processors there are
inside() { env -i PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin HOME=/root LANG=C.UTF-8 QEMU_CPU=$QEMU_CPU chroot "$root" "$@"; }

say "the board's own words: $(inside uname -m), $(inside python3 -V), glibc $(inside ldd --version | head -n 1 | grep -o '[0-9.]*$')"
say "installing as firmware_notes/README.md says: bash firmware_notes/install.sh FOLDER"
inside bash /srv/kit/firmware_notes/install.sh /mnt/wheels
inside mango-edge --version
inside /opt/mango-edge/bin/python -m pip --disable-pip-version-check list 2>/dev/null |
  grep -iE '^(ai-edge-litert|numpy|pillow|opencv-python-headless|cryptography|scipy|scikit-image) ' | sed 's/^/   /'

pictures=$out/pictures
rm -rf "$pictures" && mkdir -p "$pictures"
"$bin/mango-bench" draw "$pictures/drawn" >/dev/null
if [ -n "$data" ]; then
  # Five photographs a class, evenly over the folder, so that no single session speaks for it.
  for class in "$data"/*/; do
    mkdir -p "$pictures/photographs/$(basename "$class")"
    find "$class" -maxdepth 1 -type f -iname '*.jp*g' | sort >"$out/class.txt"
    awk -v n="$(wc -l <"$out/class.txt")" '{ k = int((NR - 1) * 5 / n) } k != last || NR == 1 { print; last = k }' \
      "$out/class.txt" | while IFS= read -r file; do cp "$file" "$pictures/photographs/$(basename "$class")/"; done
  done
else
  leaves_out+=("photographs (no DATA given)")
fi
mount --bind "$pictures" "$root/mnt/pictures"

say "mango-edge classify, here and there"
step=$("$bin/mango-edge" info --json | "$bin/python" -c 'import json, sys; print(json.load(sys.stdin)["output_tensor"]["scale"] or 1 / 256)')
(cd "$pictures" && "$bin/mango-edge" classify --json --top 100 .) >"$out/here.json"
inside sh -c 'cd /mnt/pictures && exec mango-edge classify --json --top 100 .' >"$out/$suite.json"
"$bin/python" "$here/firmware_notes/agreement.py" "$out/here.json" "$out/$suite.json" "$step"

say "mango-bench robustness, a short one"
if inside mango-bench robustness --help >/dev/null 2>&1; then
  kind=drawn
  [ -z "$data" ] || kind=photographs
  inside mango-bench robustness --data "/mnt/pictures/$kind" --images all \
    --limit 8 --corruptions gaussian_noise,pixelate --severities 3 --out /root/robustness.json
else
  leaves_out+=("mango-bench robustness (this checkout has no such command)")
fi

say "signed models: install, self-test, refuse"
rm -rf "$out/signed" && mkdir -p "$out/signed" "$root/root/signed"
if [ -x "$bin/mango-convert" ] && "$bin/mango-convert" keygen "$out/signed/release" >/dev/null 2>&1; then
  "$bin/mango-convert" sign "$here/edge/models/lcnn-int8.tflite" --key "$out/signed/release.pem" --release 1 \
    --out "$out/signed/one.tflite" >/dev/null
  cp "$out/signed/one.tflite" "$out/signed/release.pub.pem" "$root/root/signed/"
  inside rm -rf /root/store
  inside mango-edge model install /root/signed/one.tflite --key /root/signed/release.pub.pem --store /root/store
  printf 'x' | dd of="$root/root/signed/one.tflite" bs=1 seek=5000 conv=notrunc status=none
  if inside mango-edge model install /root/signed/one.tflite --key /root/signed/release.pub.pem --store /root/store; then
    fail "a tampered model was installed"
  fi
else
  leaves_out+=("signed models (mango-convert with cryptography is not installed here)")
fi

say "tests that need neither TensorFlow nor a browser"
inside /opt/mango-edge/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-index \
  --find-links /mnt/wheels pytest iniconfig pluggy hypothesis sortedcontainers
# By name: what else there is needs TensorFlow, a browser, ffmpeg or a broker, or kills processes by the hundred.
tests=()
for name in agreement classifier classify_command contract preprocessing score split time_baseline golden signature \
  model_store doctor notify gate corruption; do
  for file in "$here/tests/test_$name"*.py; do [ -f "$file" ] && tests+=("tests/$(basename "$file")"); done
done
inside sh -c "cd /srv/kit && exec /opt/mango-edge/bin/python -m pytest -q -p no:cacheprovider ${TESTS:-${tests[*]}}"

say "passed on Debian $suite for arm64, emulated (QEMU_CPU=$QEMU_CPU): installed, agrees with x86-64, tests pass"
for thing in "${leaves_out[@]}"; do echo "   NOT checked: $thing"; done
