#!/usr/bin/env bash
# Install the kit on a board, or bring it up to date: program, user, service. Run as root:
#   sudo bash firmware_notes/install.sh            (wheels from the package index)
#   sudo bash firmware_notes/install.sh FOLDER     (wheels that firmware_notes/wheels.sh gathered; no network)
# Settings in /etc/mango-edge and everything in /var/lib/mango-edge are left as they are.
set -euo pipefail

prefix=${PREFIX:-/opt/mango-edge}
wheels=${1:-}
here=$(cd "$(dirname "$0")/.." && pwd)

fail() {
  echo "error: $*" >&2
  exit 2
}

[ "$(id -u)" = 0 ] || fail "this writes to $prefix and /etc; run it with sudo"
# Not uname -m: a 32-bit system may run on a 64-bit kernel.
architecture=$(dpkg --print-architecture)
case $architecture in
arm64 | amd64) ;;
*) fail "no runtime or OpenCV wheels exist for $architecture; see \"32-bit systems\" in firmware_notes/README.md" ;;
esac
python3 -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' ||
  fail "Python $(python3 -V | cut -d' ' -f2) is not supported; Bookworm and Trixie bring 3.11 and 3.13"

# The system's packages stay visible: picamera2 and libcamera come from Debian, not from the package index.
[ -x "$prefix/bin/python" ] || python3 -m venv --system-site-packages "$prefix"
pip=("$prefix/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps)
if [ -n "$wheels" ]; then
  [ -f "$wheels/requirements.txt" ] || fail "$wheels holds no requirements.txt; make it with firmware_notes/wheels.sh"
  "${pip[@]}" --no-index --find-links "$wheels" --require-hashes --only-binary=:all: -r "$wheels/requirements.txt"
  "${pip[@]}" --no-index --force-reinstall "$wheels"/mango_leaf_kit-*.whl
else
  "${pip[@]}" --require-hashes --only-binary=:all: -r "$here/requirements/device.txt"
  "${pip[@]}" --force-reinstall "$here" # also where the version is the same
fi
ln -sf "$prefix/bin/mango-edge" "$prefix/bin/mango-bench" /usr/local/bin/

install -D -m 644 "$here/firmware_notes/mango-edge.sysusers" /etc/sysusers.d/mango-edge.conf
if command -v systemd-sysusers >/dev/null; then
  systemd-sysusers /etc/sysusers.d/mango-edge.conf
  install -d -o mango-edge -g mango-edge -m 750 /var/lib/mango-edge /var/lib/mango-edge/models
fi
install -D -m 644 "$here/firmware_notes/mango-edge.service" /etc/systemd/system/mango-edge.service
[ -f /etc/mango-edge/mango-edge.env ] ||
  install -D -m 640 "$here/firmware_notes/mango-edge.env" /etc/mango-edge/mango-edge.env
install -D -m 644 "$here/firmware_notes/watchdog.conf" /etc/systemd/system.conf.d/mango-edge.conf
install -D -m 644 "$here/firmware_notes/journald.conf" /etc/systemd/journald.conf.d/mango-edge.conf
cp -r "$here/firmware_notes" "$prefix/"
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  echo "Installed. Set SOURCE in /etc/mango-edge/mango-edge.env, then: sudo systemctl enable --now mango-edge"
else
  echo "Installed; systemd does not run here, so the service was not registered."
fi
