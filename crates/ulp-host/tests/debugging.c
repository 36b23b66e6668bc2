/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Prints its pid, and then waits in a function of its own again and again. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static volatile long rounds;

__attribute__((noinline)) static void wait_a_little(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	rounds++;
}

int main(void)
{
	printf("%d\n", getpid());
	fflush(stdout);
	for (;;)
		wait_a_little();
}
