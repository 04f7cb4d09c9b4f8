#!/usr/bin/env bash
# The service under a real systemd, without a board: this machine's files under an overlay, in namespaces of their own
# (processes, mounts, network, control groups), systemd as process 1, the unit as it is installed. Checked: it becomes
# ready, runs unprivileged and confined, answers the watchdog, is replaced when it hangs, and ends on SIGTERM within 2 s.
# Needs root, systemd, and a Python with the kit: BIN=build/venv-device/bin bash firmware_notes/check_service.sh
set -euo pipefail

bin=$(cd "${BIN:-build/venv-device/bin}" && pwd)
here=$(cd "$(dirname "$0")/.." && pwd)
fail() {
  echo "error: $*" >&2
  exit 2
}

if [ "${1:-}" = inside ]; then # started below, as the overlay is still to be entered
  stage=$2
  root=$stage/root
  mount -t tmpfs tmpfs "$stage/layers"
  mkdir "$stage/layers/upper" "$stage/layers/work" "$stage/layers/log"
  mount -t overlay overlay -o "lowerdir=/,upperdir=$stage/layers/upper,workdir=$stage/layers/work" "$root"
  mount -t proc proc "$root/proc"
  mount -t sysfs sysfs "$root/sys"
  mount -t tmpfs tmpfs "$root/run"
  mount -t tmpfs tmpfs "$root/tmp"
  mount --rbind /dev "$root/dev"
  mkdir "$root/tmp/out"
  mount --bind "$stage/out" "$root/tmp/out"
  # Control groups as systemd 252 finds them on this machine: one tree, or the older controllers beside it.
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
  else
    mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
    for controller in cpu memory pids devices; do
      mkdir "$root/sys/fs/cgroup/$controller"
      mount -t cgroup -o $controller cgroup "$root/sys/fs/cgroup/$controller" || true
    done
    mkdir "$root/sys/fs/cgroup/systemd" "$root/sys/fs/cgroup/unified"
    mount -t cgroup -o none,name=systemd cgroup "$root/sys/fs/cgroup/systemd"
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup/unified"
  fi
  # None of this machine's own services: one target with the service and the checks.
  units=$root/etc/systemd/system
  rm -rf "$units"/*.wants "$units"/*.requires
  : >"$root/etc/fstab"
  for unit in systemd-udevd.service systemd-udev-trigger.service systemd-binfmt.service systemd-sysctl.service \
    systemd-modules-load.service systemd-remount-fs.service systemd-random-seed.service systemd-timesyncd.service \
    proc-sys-fs-binfmt_misc.automount dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount \
    sys-kernel-tracing.mount; do ln -sf /dev/null "$units/$unit"; done
  printf '[Unit]\nRequires=sysinit.target check.service\nAfter=sysinit.target\nAllowIsolate=yes\n' >"$units/check.target"
  printf '%s\n' '[Unit]' DefaultDependencies=no After=sysinit.target '[Service]' Type=oneshot \
    'ExecStart=/bin/bash /tmp/out/check.sh' StandardOutput=file:/tmp/out/log StandardError=file:/tmp/out/log \
    >"$units/check.service"
  # The kit where install.sh puts it. Its environment is this machine's, and its Python the system's.
  mkdir -p "$root/opt/mango-edge/bin" "$root/opt/mango-edge/site" "$root/etc/mango-edge" "$root/etc/sysusers.d"
  mount --bind "$("$bin/python" -c 'import numpy, pathlib; print(pathlib.Path(numpy.__file__).parent.parent)')" \
    "$root/opt/mango-edge/site"
  cp -r "$here/edge" "$root/opt/mango-edge/"
  cp -r "$stage/leaves" "$root/opt/mango-edge/leaves"
  # PYTHONPATH in the environment, so that the self-test's own process finds the packages too.
  printf '%s\n' '#!/bin/sh' 'export PYTHONPATH=/opt/mango-edge:/opt/mango-edge/site' \
    'exec /usr/bin/python3 -c "import sys; sys.argv[0] = \"mango-edge\"; from edge.cli import main; main()" "$@"' \
    >"$root/opt/mango-edge/bin/mango-edge"
  chmod 755 "$root/opt/mango-edge/bin/mango-edge"
  chmod -R a+rX "$root/opt/mango-edge/edge" "$root/opt/mango-edge/leaves" "$root/opt/mango-edge/bin"
  cp "$here/firmware_notes/mango-edge.service" "$units/"
  cp "$here/firmware_notes/mango-edge.sysusers" "$root/etc/sysusers.d/mango-edge.conf"
  sed 's|^SOURCE=.*|SOURCE=/opt/mango-edge/leaves|; s|^EXTRA=.*|EXTRA=--watch|' "$here/firmware_notes/mango-edge.env" \
    >"$root/etc/mango-edge/mango-edge.env"
  export container=other
  # Not a chroot alone: a namespace that the service makes is to begin at this root.
  mkdir "$root/mnt/old"
  cd "$root"
  pivot_root . mnt/old
  umount --lazy /mnt/old
  exec chroot . /usr/bin/systemd --unit=check.target --log-target=null --show-status=false
fi

[ "$(id -u)" = 0 ] || fail "systemd is started in namespaces of its own; run it as root"
[ -x /usr/bin/systemd ] || fail "systemd is not installed: apt-get install systemd"
[ "$(/usr/bin/python3 -c 'import sys; print(sys.version_info[:2])')" = "$("$bin/python" -c 'import sys; print(sys.version_info[:2])')" ] ||
  fail "the system's Python is not the version of $bin/python, so its packages cannot be borrowed"
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir "$stage/layers" "$stage/root" "$stage/out"
"$bin/mango-bench" draw "$stage/leaves" >/dev/null
"$bin/mango-convert" keygen "$stage/out/release" >/dev/null
for number in 1 2; do
  "$bin/mango-convert" sign "$here/edge/models/lcnn-int8.tflite" --key "$stage/out/release.pem" --release $number \
    --out "$stage/out/$number.tflite" >/dev/null
done
cat >"$stage/out/check.sh" <<'END'
wrong=0
expect() { if eval "$2"; then echo "ok    $1"; else echo "FAIL  $1"; wrong=1; fi; }
value() { systemctl show mango-edge --property="$1" --value; }
# A watched folder stands for the camera: a new picture every second, so that there is always something to decide.
leaf=$(find /opt/mango-edge/leaves -type f | head -n 1)
(
  while sleep 1; do
    cp "$leaf" /opt/mango-edge/new && mv /opt/mango-edge/new "/opt/mango-edge/leaves/$(date +%s%N).${leaf##*.}"
  done
) &
systemd-sysusers /etc/sysusers.d/mango-edge.conf
timeout 300 systemctl start mango-edge
expect "ready: systemctl start returns when the runner says so" '[ "$(systemctl is-active mango-edge)" = active ]'
process=$(value MainPID)
before=$(value WatchdogTimestampMonotonic)
sleep 40
echo "      status: $(value StatusText); memory $(value MemoryCurrent) bytes; tasks $(value TasksCurrent)"
expect "decides: frames are counted in the status" '[[ "$(value StatusText)" =~ ^[1-9][0-9]*\ frames ]]'
expect "watchdog: fed by the runner" '[ "$(value WatchdogTimestampMonotonic)" -gt "$before" ]'
state=$(cat /proc/$process/status)
expect "user: not root" '! grep -qE "^Uid:.*\b0\b" <<<"$state"'
expect "group: video" 'grep -E "^Groups:" <<<"$state" | grep -qw "$(getent group video | cut -d: -f3)"'
expect "no capability" 'grep -qE "^CapEff:\s+0+$" <<<"$state"'
expect "no new privileges, system calls filtered" 'grep -qE "^NoNewPrivs:\s+1" <<<"$state" && grep -qE "^Seccomp:\s+2" <<<"$state"'
expect "journal is written, in its own folder" '[ -s /var/lib/mango-edge/journal/journal.db ]'
expect "files of the system are read-only" '! nsenter --target $process --mount --root touch /usr/was-here /opt/mango-edge/was-here /etc/was-here 2>/dev/null'
kill -STOP $process
for second in $(seq 120); do
  sleep 1
  now=$(value MainPID)
  [ "$now" != 0 ] && [ "$now" != "$process" ] && break
done
expect "hanging: the watchdog replaced the process, after $second s" '[ "$now" != "$process" ] && [ "$(value NRestarts)" -ge 1 ]'
for second in $(seq 300); do [ "$(systemctl is-active mango-edge)" = active ] && break; sleep 1; done
expect "ready again" '[ "$(systemctl is-active mango-edge)" = active ]'
kit=/opt/mango-edge/bin/mango-edge
installed() { $kit model status --json | python3 -c "import json, sys; print(json.load(sys.stdin)['current'].get('$1'))"; }
install_and_restart() {
  $kit model install /tmp/out/$1.tflite --key /tmp/out/release.pub.pem --store /var/lib/mango-edge/models
  [ -z "${2:-}" ] || truncate --size=-1000 "$(installed path)"
  timeout 300 systemctl restart mango-edge
  for second in $(seq 60); do [ "$(installed on_trial)" = False ] && break; sleep 1; done
}
install_and_restart 1
expect "model: installed by root, run by the service, confirmed by the runner" '[ "$(installed release) $(installed on_trial)" = "1 False" ]'
expect "model: files belong to the service" '[ -z "$(find /var/lib/mango-edge/models ! -user mango-edge)" ]'
install_and_restart 2 damaged
expect "model: a damaged release 2 gave way to release 1 by itself" '[ "$(installed release) $(installed on_trial)" = "1 False" ]'
expect "service: works on" '[ "$(systemctl is-active mango-edge)" = active ]'
begin=$(date +%s%N)
systemctl stop mango-edge
took=$((($(date +%s%N) - begin) / 1000000))
expect "stop: SIGTERM ended it well, in $took ms" '[ "$(value Result)" = success ] && [ "$(value ExecMainStatus)" = 0 ] && [ $took -lt 2000 ]'
echo "wrong $wrong"
systemctl exit $wrong
END
status=0
timeout 900 unshare --mount --propagation private --pid --fork --kill-child --uts --ipc --net --cgroup \
  env BIN="$bin" bash "$0" inside "$stage" >"$stage/out/boot" 2>&1 || status=$?
[ -s "$stage/out/log" ] || fail "systemd did not come up here: $(tail -n 3 "$stage/out/boot")"
grep -v '^wrong' "$stage/out/log"
grep -qx 'wrong 0' "$stage/out/log" || {
  echo "error: the service does not do what its unit promises (status $status)" >&2
  exit 1
}
echo "The unit works under $(/usr/bin/systemd --version | head -n 1)."
