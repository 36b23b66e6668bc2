# Mounts what a root file system needs, in the namespaces that this was started in, and runs the rest of the words.
# Usage: mounts.sh ROOT TOOLCHAIN ARCHIVES COMMAND...
root=$1 toolchain=$2 archives=$3
shift 3

# A mount point of its own: pivot_root(8) asks for one.
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
# With tracing, BTF and control groups, as a machine has them.
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
# With set-user-id programs, as where /tmp is a folder of the root file system: Debian 12.
mount -t tmpfs -o mode=1777,nodev tmp "$root/tmp"

mount --bind "$toolchain" "$root/opt/rust"
mount -o remount,bind,ro "$root/opt/rust"
mount --bind "$archives" "$root/var/cache/apt/archives"

# Not exec: this shell is the first process of its namespace and reaps orphans.
"$@"
exit $?
