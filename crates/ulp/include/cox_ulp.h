/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * cox_ulp.h - what a program can ask for when it runs as a user-level process (ULP) of `cox ulp`
 *
 * There is nothing to link. In an ordinary process, in the child of a fork and in a program that a ULP executes, the functions do what is
 * said there, so that a program needs no case distinction.
 *
 * A ULP begins on a kernel task of its own, its home: it is coupled. When it yields often and makes few system calls, cox moves its context
 * to a carrier, a thread that switches between ULPs in user space: it is decoupled. A system call, a fault or a signal brings it home, where
 * it happens as in any process. None of this changes what a program computes.
 *
 * Only the main thread of a ULP is decoupled; in its other threads, cox_ulp_yield() is sched_yield(). Do not call these functions from
 * signal handlers, nor in the child of vfork(); no other thread may execute a program (execve) while the main thread is decoupled. A program that uses the GS base register cannot use them.
 *
 * See also docs/ulp.md.
 */
#ifndef COX_ULP_H
#define COX_ULP_H

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <sys/auxv.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The functions of the host. Their address is in the auxiliary vector, which other programs do not inherit. */
struct cox_ulp_calls {
	unsigned long bytes;
	int (*number)(void);
	int (*count)(void);
	/* The argument: data that the caller reads next. cox prefetches it before it continues the caller. */
	void (*yield)(const void *);
	int (*yield_to)(int);
	int (*couple)(void);
	int (*decouple)(void);
	int (*suspend)(void);
	int (*resume)(int);
	int (*export_address)(const char *, void *);
	int (*import_address)(int, const char *, void **);
	int (*spawn)(const char *, char *const *, char *const *);
	int (*wait)(int, int *);
	int (*pid)(int);
};

#define COX_ULP_AUXILIARY_ENTRY 0x00434f580001ul

/* The address of the table. 0: not looked up yet; 1: an ordinary process. */
static unsigned long cox_ulp_known;

static inline const struct cox_ulp_calls *cox_ulp_calls(void)
{
	unsigned long found = __atomic_load_n(&cox_ulp_known, __ATOMIC_RELAXED);
	if (!found) {
		/* getauxval() sets errno if there is no such entry. */
		int before = errno;
		found = getauxval(COX_ULP_AUXILIARY_ENTRY);
		/* The table of an older host is shorter, and has not all functions. */
		if (!found || ((const struct cox_ulp_calls *)found)->bytes < sizeof(struct cox_ulp_calls))
			found = 1;
		errno = before;
		__atomic_store_n(&cox_ulp_known, found, __ATOMIC_RELAXED);
	}
	return found == 1 ? NULL : (const struct cox_ulp_calls *)found;
}

/* Returns the number of this ULP, from 0 on. Ordinary process: -ESRCH. */
static inline int cox_ulp_number(void)
{
	const struct cox_ulp_calls *calls = cox_ulp_calls();
	return calls ? calls->number() : -ESRCH;
}

/* Returns the number of ULPs that were started together, without those of cox_ulp_spawn(). Ordinary process: 1. */
static inline int cox_ulp_count(void)
{
	const struct cox_ulp_calls *calls = cox_ulp_calls();
	return calls ? calls->count() : 1;
}

/* Lets others run. Use it in loops that wait for other ULPs. Ordinary process: sched_yield(). */
static inline void cox_ulp_yield(void)
{
	const struct cox_ulp_calls *calls = cox_ulp_calls();
	if (calls)
		calls->yield(&cox_ulp_known);
	else
		sched_yield();
}

/*
 * Continues ULP `number` at once, if it is ready on this ULP's carrier; this ULP goes to the end of the carrier's queue. Otherwise yields.
 * Returns 0, -EAGAIN if it has yielded, -EINVAL if there is no such ULP. Ordinary process: yields, and returns -EAGAIN.
 */
static inline int cox_ulp_yield_to(int number)
{
	const struct cox_ulp_calls *calls = cox_ulp_calls();
	if (calls)
		return calls->yield_to(number);
	sched_yield();
	return -EAGAIN;
}

/*
 * Goes home, and stays there until cox_ulp_decouple(). Use it before many system calls; one alone comes home by itself. Returns 0, -EBUSY if
 * this ULP has asked for it already, -EPERM where nothing is ever decoupled. Ordinary process: -EPERM.
 */
static inline int cox_ulp_couple(void)
{
	const struct cox_ulp_calls *calls = cox_ulp_calls();
	return calls ? calls->couple() : -EPERM;
}

/* Goes to a carrier now, unless a debugger traces this ULP. Returns 0, or -EPERM where nothing is ever decoupled. Ordinary process: -EPERM. */
static inline int cox_ulp_decouple(void)
{
	const struct cox_ulp_calls *calls = cox_ulp_calls();
	return calls ? calls->decouple() : -EPERM;
}

/*
 * Waits until another ULP resumes this one. A resume that has come since the last suspend makes it return at once, so that none is lost. It
 * may also return without a resume, for instance after a signal: call it in a loop that looks at what this ULP waits for. Returns 0, or
 * -EPERM in a thread that is not the main thread, and in an ordinary process.
 */
static inline int cox_ulp_suspend(void)
{
	const struct cox_ulp_calls *calls = cox_ulp_calls();
	return calls ? calls->suspend() : -EPERM;
}

/*
 * Resumes ULP `number`. Any thread of a ULP may call it. Returns 0, or -EINVAL if there is no such ULP. Ordinary process: -EPERM.
 */
static inline int cox_ulp_resume(int number)
{
	const struct cox_ulp_calls *calls = cox_ulp_calls();
	return calls ? calls->resume(number) : -EPERM;
}

/*
 * Gives the other ULPs an address by a name of at most 47 bytes. Names are those of this ULP, and stay. Returns 0, -EEXIST,
 * -ENAMETOOLONG, or -ENOSPC after 4,096 names. Ordinary process: -EPERM.
 */
static inline int cox_ulp_export(const char *name, void *address)
{
	const struct cox_ulp_calls *calls = cox_ulp_calls();
	return calls ? calls->export_address(name, address) : -EPERM;
}

/*
 * Waits until ULP `number` has exported that name, and stores the address. What is there may go when that ULP ends. Returns 0, -ESRCH if it
 * has ended without exporting it, -EINVAL if there is no such ULP. Ordinary process: -EPERM.
 */
static inline int cox_ulp_import(int number, const char *name, void **address)
{
	const struct cox_ulp_calls *calls = cox_ulp_calls();
	return calls ? calls->import_address(number, name, address) : -EPERM;
}

/*
 * Starts the program `path` as another ULP of this address space. It begins with the descriptors (without those with O_CLOEXEC), the working
 * directory, the blocked signals and the limits of this ULP, as after posix_spawn(). It is a child of the host: cox_ulp_wait() waits for it,
 * waitpid() cannot. PATH is not searched. Returns its number, or -ENOENT, -EACCES, -ENOEXEC (cox check tells why), -E2BIG, -EFAULT, -ENOMEM, -EAGAIN
 * (192 run already, or a limit of processes), -ENOSPC (all 4,096 numbers have been used), -EINTR (a signal has told all to end), -EBUSY
 * (another thread of this ULP is starting one), -EPERM (this ULP may not send signals to the host any more). Ordinary process: -EPERM.
 */
static inline int cox_ulp_spawn(const char *path, char *const argv[], char *const envp[])
{
	const struct cox_ulp_calls *calls = cox_ulp_calls();
	return calls ? calls->spawn(path, argv, envp) : -EPERM;
}

/*
 * Waits until ULP `number` has ended, and stores how, as waitpid() does (WIFEXITED, WEXITSTATUS ...), if `status` is not NULL. Any ULP may wait for
 * any other, any number of times. Returns 0, -EINVAL if there is no such ULP, -EDEADLK for itself. Ordinary process: -EPERM.
 */
static inline int cox_ulp_wait(int number, int *status)
{
	const struct cox_ulp_calls *calls = cox_ulp_calls();
	return calls ? calls->wait(number, status) : -EPERM;
}

/*
 * Returns the pid of ULP `number`, for kill() and the like. -EAGAIN: it has not been started yet; -ESRCH: it has ended; -EINVAL: there is no
 * such ULP. Ordinary process: -EPERM.
 */
static inline int cox_ulp_pid(int number)
{
	const struct cox_ulp_calls *calls = cox_ulp_calls();
	return calls ? calls->pid(number) : -EPERM;
}

/* One who waits at a mutex or a barrier, on its own stack. */
struct cox_ulp_waiter {
	int number;
	int released;
	struct cox_ulp_waiter *next;
};

/* Waits until another ULP releases this one. */
static inline void cox_ulp_await_release(struct cox_ulp_waiter *me)
{
	while (!__atomic_load_n(&me->released, __ATOMIC_ACQUIRE))
		if (cox_ulp_suspend() != 0)
			cox_ulp_yield();
}

/* Releases one who waits. Its stack may have changed afterwards. */
static inline void cox_ulp_release(struct cox_ulp_waiter *other)
{
	int number = other->number;
	__atomic_store_n(&other->released, 1, __ATOMIC_RELEASE);
	cox_ulp_resume(number);
}

/*
 * A mutex, in memory of one of the ULPs. Zeros. The holder gives it to the one that has waited longest. A ULP that ends while it holds it
 * leaves it locked; one that is killed while it waits leaves a waiter in memory that is another's afterwards.
 */
struct cox_ulp_mutex {
	/* NULL: free. Otherwise those that have come since the holder last looked, newest first; the mutex itself stands for the end. */
	struct cox_ulp_waiter *arrivals;
	/* Those that came before, oldest first. Only the holder uses it. */
	struct cox_ulp_waiter *queue;
};

/* Takes the mutex if it is free. Returns 0, or -EBUSY. */
static inline int cox_ulp_mutex_trylock(struct cox_ulp_mutex *mutex)
{
	struct cox_ulp_waiter *free = NULL;
	int taken = __atomic_compare_exchange_n(&mutex->arrivals, &free, (struct cox_ulp_waiter *)(void *)mutex, 0, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED);
	return taken ? 0 : -EBUSY;
}

/* Takes the mutex; waits until it can. */
static inline void cox_ulp_mutex_lock(struct cox_ulp_mutex *mutex)
{
	struct cox_ulp_waiter me = {cox_ulp_number(), 0, NULL};
	do {
		if (cox_ulp_mutex_trylock(mutex) == 0)
			return;
		me.next = __atomic_load_n(&mutex->arrivals, __ATOMIC_RELAXED);
	} while (!me.next ||
		 !__atomic_compare_exchange_n(&mutex->arrivals, &me.next, &me, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
	cox_ulp_await_release(&me);
}

/* Gives the mutex to the one that has waited longest, or to nobody. */
static inline void cox_ulp_mutex_unlock(struct cox_ulp_mutex *mutex)
{
	struct cox_ulp_waiter *end = (struct cox_ulp_waiter *)(void *)mutex, *none = end, *next = mutex->queue, *before;
	if (!next) {
		if (__atomic_compare_exchange_n(&mutex->arrivals, &none, (struct cox_ulp_waiter *)NULL, 0, __ATOMIC_RELEASE,
						__ATOMIC_RELAXED))
			return;
		/* The newest comes last. */
		for (none = __atomic_exchange_n(&mutex->arrivals, end, __ATOMIC_ACQUIRE); none != end; none = before) {
			before = none->next;
			none->next = next;
			next = none;
		}
	}
	mutex->queue = next->next;
	cox_ulp_release(next);
}

/* A barrier for `count` ULPs, in memory of one of them. Zeros but for the count. */
struct cox_ulp_barrier {
	int count;
	int arrived;
	struct cox_ulp_waiter *waiters;
};

/* Waits until `count` ULPs have called it. Returns 1 to the last one, and 0 to the others. */
static inline int cox_ulp_barrier_wait(struct cox_ulp_barrier *barrier)
{
	struct cox_ulp_waiter me = {cox_ulp_number(), 0, NULL};
	struct cox_ulp_waiter *all, *next;
	/* When this one counts as arrived, others may complete the barrier and free it. */
	int count = barrier->count;
	/* Each is in the list before it counts as arrived, so that the last one finds all. */
	me.next = __atomic_load_n(&barrier->waiters, __ATOMIC_RELAXED);
	while (!__atomic_compare_exchange_n(&barrier->waiters, &me.next, &me, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
	if (__atomic_add_fetch(&barrier->arrived, 1, __ATOMIC_ACQ_REL) < count) {
		cox_ulp_await_release(&me);
		return 0;
	}
	/* Nobody arrives for the next time before it is released. */
	all = __atomic_exchange_n(&barrier->waiters, NULL, __ATOMIC_ACQUIRE);
	__atomic_store_n(&barrier->arrived, 0, __ATOMIC_RELAXED);
	for (; all; all = next) {
		next = all->next;
		if (all != &me)
			cox_ulp_release(all);
	}
	return 1;
}

#ifdef __cplusplus
}
#endif

#endif
