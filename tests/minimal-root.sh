# Sourced by scripts that run something in a minimal system. Needs root.

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
