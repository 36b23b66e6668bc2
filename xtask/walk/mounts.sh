# Mounts what a root file system needs, in the namespaces in which this script was started, and runs COMMAND.
# Usage: mounts.sh ROOT TOOLCHAIN ARCHIVES COMMAND...
root=$1 toolchain=$2 archives=$3
shift 3

# pivot_root(8) requires the new root to be a mount point.
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
# Includes tracefs, BTF and control groups, as on a real machine.
mount --rbind --make-rslave /sys "$root/sys"

mount -t tmpfs -o mode=755,nosuid dev "$root/dev"
node() { mknod -m "$2" "$root/dev/$1" c "$3" "$4"; }
node null 666 1 3
node zero 666 1 5
node full 666 1 7
node random 666 1 8
node urandom 666 1 9
node tty 666 5 0
ln -s /proc/self/fd "$root/dev/fd"
ln -s /proc/self/fd/0 "$root/dev/stdin"
ln -s /proc/self/fd/1 "$root/dev/stdout"
ln -s /proc/self/fd/2 "$root/dev/stderr"
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 pts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mount -t tmpfs -o mode=1777,nosuid,nodev shm "$root/dev/shm"
# Set-user-ID programs are allowed, as in Debian 12, where /tmp is a folder of the root file system.
mount -t tmpfs -o mode=1777,nodev tmp "$root/tmp"

mount --bind "$toolchain" "$root/opt/rust"
mount -o remount,bind,ro "$root/opt/rust"
mount --bind "$archives" "$root/var/cache/apt/archives"

# Without exec, so that this shell, the first process of its PID namespace, reaps orphans.
"$@"
exit $?
