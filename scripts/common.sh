# Shared by the bash scripts: messages, packages, the build.

set -euo pipefail

root_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build_dir=$root_dir/build
build_lock=9

say() { printf '\033[1m==>\033[0m %s\n' "$*"; }
warn() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() { warn "$*"; exit 1; }
is_root() { [ "$(id -u)" -eq 0 ]; }

build_packages=(g++ cmake ninja-build pkg-config libboost1.81-dev libboost-program-options1.81-dev
  libboost-json1.81-dev libibverbs-dev libibumad-dev libnl-3-dev libnl-route-3-dev libspdlog-dev)
run_packages=(iproute2 iputils-ping)
test_packages=(libgtest-dev libgmock-dev python3 procps ibverbs-utils ibverbs-providers
  infiniband-diags opensm ibsim-utils tshark ethtool iperf3 socat mandoc bash-completion
  python3-matplotlib python3-pyverbs perftest dnsmasq-base udhcpc radvd
  avahi-daemon bird2 openssh-client openssh-server rsync)
check_packages=(clang-16 clang-tidy-16 clang-format-16 libclang-rt-16-dev)
kernel_peer_packages=(qemu-system-x86 busybox-static cpio kmod xz-utils patch make gcc-12 gcc
  libc6-dev dpkg-dev systemd)
vm_packages=(qemu-system-x86 busybox-static cpio kmod)
bench_packages=(fastd iperf3 libbenchmark-dev perftest python3 python3-matplotlib)

# Runs a command while packages may not start services, since nothing here needs one. A policy file of
# the operator is kept; one that a killed script has left behind is replaced.
without_services() (
  policy=/usr/sbin/policy-rc.d
  if [ ! -e $policy ] || grep -q 'of ipoibd' $policy; then
    trap 'rm -f $policy' EXIT
    printf '#!/bin/sh\n# Temporary, by the scripts of ipoibd.\nexit 101\n' >$policy
    chmod 755 $policy
  fi
  "$@"
)

apt_get_install() {
  apt-get update -q &&
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
}

# Installs the named packages that are missing.
install_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  if ! is_root; then
    die "these packages are missing: ${missing[*]}
Run this script once as root, or install them with: apt-get install --no-install-recommends ${missing[*]}"
  fi
  command -v apt-get >/dev/null || die "this is not Debian; install the equivalents of: ${missing[*]}"
  say "installing ${#missing[@]} packages: ${missing[*]}"
  local status=0 log
  log=$(mktemp)
  without_services apt_get_install "${missing[@]}" </dev/null >"$log" 2>&1 || status=$?
  if [ $status -ne 0 ]; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    die "apt-get failed; its last lines are above"
  fi
  rm -f "$log"
}

# Runs a command as the user who called sudo, else as the current user.
as_caller() {
  if is_root && [ -n "${SUDO_USER:-}" ] && [ "$SUDO_USER" != root ]; then
    runuser -u "$SUDO_USER" -- "$@"
  else
    "$@"
  fi
}

# Gives the build folder back to the user who called sudo.
give_back() {
  if is_root && [ -n "${SUDO_USER:-}" ] && [ "$SUDO_USER" != root ] && [ -d "$build_dir" ]; then
    chown -R "$SUDO_UID:$SUDO_GID" "$build_dir"
  fi
}

# Takes the build lock until the script ends, so that one script at a time builds and runs what it has
# built. A script that a test runs uses the lock of scripts/test. Processes that outlive the script
# must not inherit the descriptor $build_lock.
lock_build() {
  [ -z "${IPOIB_BUILD_LOCKED:-}" ] || return 0
  as_caller mkdir -p "$build_dir"
  as_caller touch "$build_dir/.lock"
  exec {build_lock}<"$build_dir/.lock"
  if ! flock --nonblock "$build_lock"; then
    say "waiting for another script that builds or tests in $build_dir"
    flock "$build_lock"
  fi
  export IPOIB_BUILD_LOCKED=1
}

configure() {
  lock_build
  (cd "$root_dir" && as_caller cmake --preset "$1" -Wno-dev >/dev/null) ||
    die "cmake could not configure; its messages are above"
}

# build PRESET [TARGET...]: configures and builds, with ninja's one-line progress on a terminal.
build() {
  local preset=$1
  shift
  say "building ($preset)"
  configure "$preset"
  local quiet=()
  [ -t 1 ] || quiet=(-- --quiet)
  (cd "$root_dir" && as_caller cmake --build --preset "$preset" --parallel "$(nproc)" \
    ${1:+--target "$@"} "${quiet[@]}") || die "the build failed; its messages are above"
}

# wait_for SECONDS COMMAND...: repeats the command until it succeeds; fails after SECONDS.
wait_for() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $deadline ] || return 1
    sleep 0.05
  done
}

# prepare_kernel_peer DIR: prepares the guest with the kernel's IPoIB, once and again when DIR changes.
prepare_kernel_peer() {
  lock_build
  export IPOIB_KERNEL_PEER=$1 KIPOIB_WORK=${KIPOIB_WORK:-$build_dir/kernel_peer/work}
  local prepared=$KIPOIB_WORK/prepared
  if [ ! -e "$prepared" ] || [ -n "$(find "$1" -newer "$prepared" -print -quit)" ]; then
    say "preparing the virtual machine in $KIPOIB_WORK"
    mkdir -p "$KIPOIB_WORK"
    "$1/build.sh" "$KIPOIB_WORK" >"$KIPOIB_WORK/log" 2>&1 ||
      die "preparing the virtual machine failed; see $KIPOIB_WORK/log"
    touch "$prepared"
  fi
}
