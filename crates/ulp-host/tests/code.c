/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Maps the code of a copy of its C library in several ways. Prints how many bytes of each mapping differ from the file, and whether the file has changed.
 */
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char path[4096];
static ElfW(Off) begin;
static size_t bytes;

static int visit(struct dl_phdr_info *info, size_t size, void *argument)
{
	(void)size;
	(void)argument;
	if (!strstr(info->dlpi_name, "/libc.so"))
		return 0;
	snprintf(path, sizeof path, "%s", info->dlpi_name);
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
			begin = info->dlpi_phdr[i].p_offset & ~4095ul;
			bytes = (info->dlpi_phdr[i].p_filesz + 4095) & ~4095ul;
		}
	return 1;
}

static char *read_all(int file, size_t *length)
{
	*length = lseek(file, 0, SEEK_END);
	char *all = malloc(*length);
	if (pread(file, all, *length, 0) != (ssize_t)*length)
		abort();
	return all;
}

static int differing(int file, const char *code, size_t length, int flags)
{
	unsigned char *at = mmap(NULL, length, PROT_READ | PROT_EXEC, flags, file, begin);
	int differ = 0;
	if (at == MAP_FAILED)
		return -1;
	for (size_t i = 0; i < length; i++)
		differ += at[i] != (unsigned char)code[i];
	return differ;
}

int main(void)
{
	size_t length, now;
	if (!dl_iterate_phdr(visit, NULL))
		return 1;
	int library = open(path, O_RDONLY), copy = open("copy.so", O_RDWR | O_CREAT | O_EXCL, 0600);
	char *all = read_all(library, &length), *code = all + begin;
	if (write(copy, all, length) != (ssize_t)length)
		return 1;
	/* The shorter mapping comes first: what is known of it must not be taken for what is known of all. */
	int page = differing(copy, code, 4096, MAP_PRIVATE), private = differing(copy, code, bytes, MAP_PRIVATE);
	int shared = differing(copy, code, bytes, MAP_SHARED), checked = differing(copy, code, bytes, MAP_SHARED_VALIDATE);
	char *after = read_all(copy, &now);
	printf("page %d private %d shared %d %d file %s\n", page, private, shared, checked,
	       now == length && !memcmp(all, after, length) ? "as before" : "changed");
	return 0;
}
