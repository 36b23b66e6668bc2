// Loops in which one iteration takes longer than all others: uneven INSTANCES TRIPS [slope|work|fork]. With slope, iterations
// sleep longer towards the end; with work, all compute.
// With fork, a child process does the same.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile double sink;

static void work(long units)
{
	double x = 1;
	for (long i = 0; i < units; i++)
		x = x * 0.999999 + 1e-6;
	sink = x;
}

// Iterations sleep: other load changes little.
static void iteration(long i, char how)
{
	if (how == 's')
		usleep(200 * i);
	else if (how == 'w')
		work(200000);
	else if (i == 0)
		usleep(5000);
	else
		work(10);
}

static void loops(long trips, char how)
{
	long done = 0;
	#pragma omp parallel reduction(+ : done)
	{
		#pragma omp for schedule(runtime)
		for (long i = 0; i < trips; i++) {
			iteration(i, how);
			done++;
		}
		#pragma omp for schedule(dynamic, 3)
		for (long i = 0; i < trips; i++) {
			iteration(i, 0);
			done++;
		}
		#pragma omp for schedule(guided)
		for (long i = 0; i < trips; i++) {
			iteration(i, 0);
			done++;
		}
	}
	if (done != 3 * trips) {
		printf("%ld of %ld iterations\n", done, 3 * trips);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	long instances = argc > 1 ? atol(argv[1]) : 1, trips = argc > 2 ? atol(argv[2]) : 1;
	const char *how = argc > 3 ? argv[3] : "";
	for (long i = 0; i < instances; i++)
		loops(trips, *how);
	if (strcmp(how, "fork") == 0) {
		pid_t child = fork();
		int status;
		if (child == 0) {
			for (long i = 0; i < instances; i++)
				loops(trips, 0);
			_exit(0);
		}
		if (waitpid(child, &status, 0) != child || status != 0)
			return 1;
	}
	puts("kept");
	return 0;
}
