# A container without privileges: root of a user namespace, with separate processes and mounts. cox must say what it cannot do, and still report the
# threads.

#: cox doctor says what is missing
code=0
cox doctor >report || code=$?
[ "$code" = 1 ] || [ "$code" = 0 ] || fail "exit code $code"
says report '->'

#: cox run falls back and says why
[ "$(id -u)" = 0 ]
cox run -- sh -c 'ls / >/dev/null; sleep 0.2' 2>report
has_threads report
says report '^ +(eBPF|perf|proc), '
cox run --pid $$ --for 500ms 2>report
has_threads report

#: cox pack and cox run --overlap
cox pack --ncpus 1 -- "$workloads/barriers" --threads 3 --work-us 200 --rounds 300 --wait spin 2>report
says report packed
cox run --overlap -- "$workloads/heat" --threads 2 2>report
has_threads report
cox changes status

#: a filter of system calls, as engines have one (as root)
gcc -O2 -Wall -Werror -o /usr/local/bin/without-calls -x c - <<'END'
/* Runs a program for which bpf(2), perf_event_open(2), ptrace(2) and others fail, as under the filters of container engines. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REFUSED(call) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

int main(int count, char **words) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        REFUSED(SYS_bpf), REFUSED(SYS_perf_event_open), REFUSED(SYS_ptrace), REFUSED(SYS_process_vm_readv),
        REFUSED(SYS_setns), REFUSED(SYS_mount), REFUSED(SYS_unshare), REFUSED(SYS_keyctl), REFUSED(SYS_userfaultfd),
        REFUSED(SYS_io_uring_setup), REFUSED(SYS_kcmp), REFUSED(SYS_pidfd_getfd),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (count < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("without-calls");
        return 125;
    }
    execvp(words[1], words + 1);
    perror(words[1]);
    return 127;
}
END

#: with that filter
code=0
without-calls cox doctor >report || code=$?
[ "$code" = 1 ] || fail "exit code $code"
cat report
without-calls cox run -- sh -c 'ls / >/dev/null; sleep 0.2' 2>report
has_threads report
says report '^ +proc, '
without-calls cox run --pid $$ --for 500ms 2>report
has_threads report
without-calls cox pack --ncpus 1 -- "$workloads/barriers" --threads 3 --work-us 200 --rounds 300 --wait spin 2>report
says report packed
without-calls cox run --overlap -- "$workloads/heat" --threads 2 2>report
has_threads report

#: the same filter for root outside a container (as root)
without-calls cox run -- sh -c 'ls / >/dev/null; sleep 0.2' 2>report
has_threads report
says report '^ +proc, '
