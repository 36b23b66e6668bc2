/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* loads MODULE...: calls sum_of_numbers of each module, twice, as an interpreter would. */
#include <dlfcn.h>
#include <stdlib.h>

#include "look.h"

int main(int argc, char **argv)
{
	int (*sum[8])(void);
	for (int i = 1; i < argc; i++) {
		void *module = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
		if (module == NULL) {
			puts(dlerror());
			return 1;
		}
		sum[i] = (int (*)(void))dlsym(module, "sum_of_numbers");
	}
	for (int turn = 0; turn < 2; turn++)
		for (int i = 1; i < argc; i++)
			printf("sum %d\n", sum[i]());
	tell();
	return 0;
}
