// Loops in which one thread sleeps in each iteration and the other computes: speeds INSTANCES TRIPS. Prints which part of the last instance, in percent,
// was executed by the thread that sleeps.
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile double sink;

static void work(long units)
{
	double x = 1;
	for (long i = 0; i < units; i++)
		x = x * 0.999999 + 1e-6;
	sink = x;
}

int main(int argc, char **argv)
{
	long instances = argc > 1 ? atol(argv[1]) : 1, trips = argc > 2 ? atol(argv[2]) : 100;
	long slept = 0;
	for (long instance = 0; instance < instances; instance++) {
		long done = 0;
		slept = 0;
		#pragma omp parallel reduction(+ : done, slept)
		{
			#pragma omp for schedule(runtime)
			for (long i = 0; i < trips; i++) {
				done++;
				if (omp_get_thread_num() == 0) {
					work(100000);
				} else {
					usleep(2000);
					slept++;
				}
			}
		}
		if (done != trips)
			return 1;
	}
	printf("%ld\n", 100 * slept / trips);
	return 0;
}
