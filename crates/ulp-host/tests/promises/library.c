/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A library that a ULP loads while it runs. */
#include <sys/types.h>
#include <unistd.h>

pid_t initialized_by;
static int sum;
static __thread int sum_tls;

__attribute__((constructor)) static void initialize(void)
{
	initialized_by = getpid();
}

int add(int more)
{
	return sum += more;
}

int add_tls(int more)
{
	return sum_tls += more;
}
