/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Registers are kept: control words, those of a computation that is interrupted, and the stack that the program jumps on. */
#include "promises.h"

#include <fenv.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <ucontext.h>
#endif

static const int ways[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};

void rounding(void)
{
	volatile double one = 1, three = 3, results[4];
	volatile long double wide_results[4];
	for (int i = 0; i < 4; i++) {
		CHECK(fesetround(ways[i]) == 0);
		results[i] = -one / three;
		wide_results[i] = (long double)-one / three;
	}
	CHECK(results[1] != results[2] && wide_results[1] != wide_results[2]);
	/* Half of the ULPs have seen an exception. */
	int seen = me % 2 ? FE_DIVBYZERO | FE_OVERFLOW : 0;
	CHECK(fesetround(ways[me % 4]) == 0 && feclearexcept(FE_ALL_EXCEPT) == 0 && feraiseexcept(seen) == 0);
#ifdef __GLIBC__
	/* The others have SIGFPE for these exceptions, and see none. */
	CHECK(seen || feenableexcept(FE_DIVBYZERO | FE_OVERFLOW) == 0);
#endif
	for (int i = 0; i < 20; i++) {
		if (i % 2)
			step();
		else
			meet();
		CHECK(fegetround() == ways[me % 4]);
		CHECK(fetestexcept(FE_DIVBYZERO | FE_OVERFLOW) == seen);
		CHECK(-one / three == results[me % 4]);
		CHECK((long double)-one / three == wide_results[me % 4]);
	}
}

typedef double four __attribute__((vector_size(32)));

/* Keeps numbers in all kinds of registers while it computes without any call. Two rounds give what was there before. */
static int keeps(long rounds)
{
	const double own = me;
	four a = {own, own + 1, own + 2, own + 3}, b = a * 3, c = a * 5, sum = a + b + c;
	long double wide = own;
	unsigned long whole = me;
	for (long i = 0; i < rounds; i++) {
		a = sum - a;
		b = sum - b;
		c = sum - c;
		wide = 7 - wide;
		whole = ~whole;
		/* The compiler must not see that this is in vain. */
		__asm__ volatile("" : "+r"(whole));
	}
	int are_right = wide == own && whole == (unsigned long)me;
	for (int i = 0; i < 4; i++)
		are_right &= a[i] == own + i && b[i] == 3 * (own + i) && c[i] == 5 * (own + i);
	return are_right;
}

void long_computation(void)
{
	meet();
	/* Some ticks of a carrier, with more ULPs than CPUs. */
	double end = seconds() + 0.03;
	while (seconds() < end) {
		step();
		CHECK(keeps(10000000));
	}
	meet();
}

static jmp_buf begin;

static void jump_back(int value)
{
	longjmp(begin, value);
}

void jumps(void)
{
	volatile int times = 0;
	int value = setjmp(begin);
	CHECK(value == times);
	step();
	if (times < 10) {
		times++;
		/* On a carrier, or at home. */
		if (times % 2)
			getppid();
		below(5, jump_back, times);
	}
	meet();
	CHECK(times == 10);
}

static sigjmp_buf before;

static void jump(int signal)
{
	siglongjmp(before, signal);
}

void jumps_from_handlers(void)
{
	sigset_t set;
	volatile int times = 0;
	struct sigaction action = {.sa_handler = jump};
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && sigaction(SIGFPE, &action, NULL) == 0);
	volatile int zero = 0;
	/* The mask is restored, too: the signal can come again. */
	int value = sigsetjmp(before, 1);
	CHECK(value == (times == 0 ? 0 : times % 2 ? SIGUSR1 : SIGFPE));
	step();
	if (times < 10) {
		times++;
		if (times % 2)
			raise(SIGUSR1);
		zero = 7 / zero;
	}
	meet();
	CHECK(times == 10 && sigprocmask(SIG_BLOCK, NULL, &set) == 0 && !sigismember(&set, SIGUSR1) && !sigismember(&set, SIGFPE));
}

#ifdef __GLIBC__
static ucontext_t main_context, contexts[2];
static int visits[2];

/* Yields on a stack that the program has made, and goes to the next one. */
static void visit(int which)
{
	for (int i = 0; i < 5; i++) {
		volatile int kept = 10 * me + which;
		step();
		visits[which]++;
		CHECK(swapcontext(&contexts[which], which ? &main_context : &contexts[1]) == 0);
		CHECK(kept == 10 * me + which);
	}
}

void stacks(void)
{
	const size_t bytes = 64 << 10;
	char *memory = malloc(2 * bytes);
	CHECK(memory);
	for (int i = 0; i < 2; i++) {
		CHECK(getcontext(&contexts[i]) == 0);
		contexts[i].uc_stack.ss_sp = memory + i * bytes;
		contexts[i].uc_stack.ss_size = bytes;
		contexts[i].uc_link = &main_context;
		makecontext(&contexts[i], (void (*)(void))visit, 1, i);
	}
	for (int i = 0; i < 5; i++) {
		step();
		CHECK(swapcontext(&main_context, &contexts[0]) == 0);
	}
	CHECK(visits[0] == 5 && visits[1] == 5);
	meet();
	free(memory);
}
#endif
