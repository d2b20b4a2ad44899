# Shared by the bash scripts: messages, packages, the build.

set -euo pipefail

root_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
build_dir=$root_dir/build
build_lock=${IPOIB_BUILD_LOCKED:-9}
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin # which ordinary users' PATH lacks

say() { printf '\033[1m==>\033[0m %s\n' "$*"; }
warn() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
die() { warn "$*"; exit 1; }
wrong() { warn "$*; try scripts/${0##*/} --help"; exit 2; }
# needs_value OPTION [VALUE]...: ends the script if the option is the last word, or its value is empty.
needs_value() { [ -n "${2:-}" ] || wrong "$1 needs a value"; }
is_root() { [ "$(id -u)" -eq 0 ]; }

# Where alternatives are named, one of them is enough: a|b.
build_packages=(g++ cmake ninja-build pkg-config 'libboost1.81-dev|libboost-dev'
  'libboost-program-options1.81-dev|libboost-program-options-dev'
  'libboost-json1.81-dev|libboost-json-dev' libibverbs-dev libibumad-dev libnl-3-dev libnl-route-3-dev
  libdeflate-dev libspdlog-dev libcap-ng-dev libseccomp-dev prometheus-cpp-dev)
run_packages=(iproute2 iputils-ping)
test_packages=(libgtest-dev libgmock-dev python3 procps ibverbs-utils ibverbs-providers
  infiniband-diags opensm ibsim-utils tshark ethtool iperf iperf3 socat mandoc bash-completion zsh fish
  python3-matplotlib python3-pyverbs perftest qperf dapl2-utils libfabric-bin librdmacm-dev rdmacm-utils ucx-utils
  openmpi-bin libopenmpi-dev mpich libmpich-dev libucx-dev fio tgt libiscsi-bin
  libiscsi-dev e2fsprogs ibacm srptools ibutils dnsmasq-base udhcpc radvd
  isc-dhcp-client dhcpcd-base iputils-arping tcpdump valgrind ceph-mon ceph-osd ceph-common
  avahi-daemon bird2 ifupdown openssh-client openssh-server rsync
  prometheus containernetworking-plugins python3-jsonschema python3-yaml abigail-tools doxygen python3-cffi keepalived strace)
# They compile and link in half the time; llvm-16 has the symbolizer.
sanitizer_packages=(clang-16 clang-format-16 libclang-rt-16-dev llvm-16 mold)
check_packages=(clang-16 clang-format-16 libclang-rt-16-dev llvm-16 python3-clang-16)
# clang-tidy 22 does not search system headers, which takes a third of the time. It is a security update.
# clang-22 precompiles headers for it.
lint_packages=(clang-16 clang-format-16 'clang-tidy-22|clang-tidy-16' 'clang-22|clang-16')
vm_packages=(qemu-system-x86 busybox-static cpio kmod)
module_packages=(xz-utils patch make gcc-12 libc6-dev)
kernel_peer_packages=(systemd)
service_packages=(systemd udev rdma-core debhelper dpkg-dev)
package_packages=(build-essential debhelper dh-python dpkg-dev lintian fakeroot git iproute2)
bench_packages=(fastd iperf iperf3 libbenchmark-dev librdmacm1 rdmacm-utils perftest python3 python3-matplotlib)

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
  local package wanted=()
  apt-get update -q || return
  for package in "$@"; do wanted+=("$(first_known "$package")"); done
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${wanted[@]}"
}

# first_known A|B...: the first of these packages that this distribution has, else the last.
first_known() {
  local name
  for name in ${1//|/ }; do
    if LC_ALL=C apt-cache policy "$name" | grep 'Candidate: [^(]' >/dev/null; then break; fi
  done
  echo "$name"
}

# is_installed A|B...: whether one of these packages is installed.
is_installed() {
  local name
  for name in ${1//|/ }; do
    if dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q 'ok installed'; then return 0; fi
  done
  return 1
}

# Installs the named packages that are missing.
install_packages() {
  local missing=() package
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  if ! is_root; then
    warn "packages are missing. This installs them:"
    echo "sudo apt-get install --no-install-recommends ${missing[*]%%|*}" >&2
    exit 1
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
# built. A script that a test runs uses the lock of scripts/test, and one that this script executes has
# inherited it. Processes that outlive the script must not inherit the descriptor $build_lock.
lock_build() {
  [ -z "${IPOIB_BUILD_LOCKED:-}" ] || return 0
  as_caller mkdir -p "$build_dir"
  as_caller touch "$build_dir/.lock"
  exec {build_lock}<"$build_dir/.lock"
  if ! flock --nonblock "$build_lock"; then
    say "waiting for another script that builds or tests in $build_dir"
    flock "$build_lock"
  fi
  export IPOIB_BUILD_LOCKED=$build_lock
}

# Runs a script of this folder in its own namespaces (scripts/namespaces), which let an ordinary user
# do what it needs root for; ends with a message if he may not have them.
enter_namespaces() {
  local why
  why=$("$root_dir/scripts/namespaces" true 2>&1) ||
    die "${why#*: }. Or run it as root: sudo scripts/${0##*/}"
  exec "$root_dir/scripts/namespaces" "$@"
}

configure_options=()
configure() {
  lock_build
  (cd "$root_dir" && as_caller cmake --preset "$1" -Wno-dev "${configure_options[@]}" >/dev/null) ||
    die "cmake could not configure; its messages are above"
}

# Passes on the output of ninja, but of its status lines only one for every 10 percent.
every_tenth_percent() {
  awk '!/^\[ *[0-9]+%\] / { print; fflush(); next }
       { percent = substr($0, 2) + 0 }
       percent >= next_one { print "  " percent " %"; fflush(); next_one = percent - percent % 10 + 10 }'
}

# ninja's status line if standard error is a terminal, else a line for every 10 percent.
show_progress() {
  if [ -t 2 ]; then "$@" >&2; else NINJA_STATUS='[%p] ' "$@" | every_tenth_percent >&2; fi
}

# build PRESET [TARGET...]: configures and builds. With IPOIB_NO_BUILD in the environment it does
# neither, and the scripts use the programs that are in the build folder; this is for tests.
build() {
  local preset=$1
  shift
  if [ -n "${IPOIB_NO_BUILD:-}" ]; then return 0; fi
  step "configure ($preset)"
  if [ -n "$ahead" ]; then
    wait "$ahead" || true # the build below says why
    ahead=''
  fi
  configure "$preset"
  step "build ($preset)"
  (cd "$root_dir" && show_progress as_caller cmake --build --preset "$preset" \
    --parallel "$(nproc)" ${1:+--target "$@"}) || die "the build failed; its messages are above"
}

# build_ahead PRESET [TARGET...]: begins a build at the lowest priority, for use while tests run, which
# often wait. A later `build` of that preset waits for it, continues it, and shows what is wrong with it.
ahead=''
build_ahead() {
  if [ -n "${IPOIB_NO_BUILD:-}" ]; then return 0; fi
  local preset=$1
  shift
  lock_build
  set -m # gives it a process group, by which end_build_ahead can end it
  (configure "$preset" &&
    cd "$root_dir" && as_caller nice -n 19 cmake --build --preset "$preset" \
      --parallel "$(nproc)" ${1:+--target "$@"}) </dev/null >/dev/null 2>&1 &
  set +m
  ahead=$!
}
signal_build_ahead() { [ -z "$ahead" ] || kill -s "$1" -- "-$ahead" 2>/dev/null || true; }
end_build_ahead() { signal_build_ahead TERM; signal_build_ahead CONT; }

# step NAME: begins a step of the script and says so. show_times prints how long each step took.
step_names=() step_starts=()
step() {
  say "$1"
  step_names+=("$1")
  step_starts+=("${EPOCHREALTIME/[.,]/}")
}

show_times() {
  local i
  step_starts+=("${EPOCHREALTIME/[.,]/}")
  printf '\n%-24s %8s\n' Step seconds
  for i in "${!step_names[@]}"; do
    print_time "${step_names[i]}" $((step_starts[i + 1] - step_starts[i]))
  done
  print_time total $((step_starts[-1] - step_starts[0]))
}

# print_time NAME MICROSECONDS
print_time() { printf '%-24s %6d.%d\n' "$1" $(($2 / 1000000)) $(($2 / 100000 % 10)); }
