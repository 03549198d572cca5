# Sourced by scripts that run something in a minimal system. Needs root.

# unpack_root NAME [PACKAGE,PACKAGE...]: a minimal Debian with these packages, unpacked into a new directory, whose name is in `root`. It is
# made once, as target/fresh/NAME.tar, and removed when the script ends.
unpack_root() {
  [ "$(id -u)" = 0 ] || { echo "missing: root, which makes the minimal system" >&2; exit 2; }
  command -v mmdebstrap >/dev/null || { echo "missing: mmdebstrap (Debian: mmdebstrap)" >&2; exit 2; }
  local state=$PWD/target/fresh
  local base=$state/$1.tar
  mkdir -p "$state"
  if [ ! -f "$base" ]; then
    echo "making a minimal Debian ($1)"
    mmdebstrap --quiet --variant=minbase ${2:+--include="$2"} --dpkgopt=force-unsafe-io bookworm "$base.new.tar"
    mv "$base.new.tar" "$base"
  fi
  root=$(mktemp -d "$state/root-XXXXXX")
  # Processes in it ended with their namespace; the mounts were in a namespace too.
  trap 'rm -rf --one-file-system "$root"' EXIT
  tar -xf "$base" -C "$root"
}

# enter_root ROOT DIRECTORY PLACE [NAME=VALUE...] COMMAND...: runs the command as the first process of the system in ROOT, with these
# variables alone and with a directory of this machine, read-only, at PLACE below ROOT. Its resolver is this machine's.
# It is the root of a mount namespace, not a `chroot`, in which no process could make user namespaces. Its processes end with it.
enter_root() {
  local root=$1
  mkdir -p "$root/old" "$root/$3"
  rm -f "$root/etc/resolv.conf"
  cat /etc/resolv.conf >"$root/etc/resolv.conf"
  # shellcheck disable=SC2016
  unshare --mount --pid --fork --kill-child bash -euc '
    root=$1 directory=$2 place=$3
    shift 3
    mount --make-rprivate /
    mount --bind "$root" "$root"
    mount --bind "$directory" "$root/$place"
    mount -o remount,bind,ro "$root/$place"
    mount --rbind /dev "$root/dev"
    mount --rbind /sys "$root/sys"
    mount -t proc proc "$root/proc"
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    mount -t tmpfs -o mode=755 tmpfs "$root/run"
    cd "$root"
    pivot_root . old
    umount -l /old
    exec env -i "$@"
  ' minimal-root "$@" </dev/null
}
