// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "fail.h"

const char *scratch_default_directory(void)
{
    const char *directory = getenv("TMPDIR");
    return directory != NULL && *directory != '\0' ? directory : ".";
}

int scratch_open(const char *directory)
{
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/cox-workload-XXXXXX", directory);
    if (length >= (int)sizeof path)
        bad_input("the path of the directory is too long");
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0)
        bad_input("cannot make a file in '%s': %s", directory, strerror(errno));
    if (unlink(path) != 0)
        system_failed("unlink '%s'", path);
    return fd;
}

int scratch_reopen(int fd, int flags)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, flags | O_CLOEXEC);
}

void scratch_demand_disk(int fd, const char *directory)
{
    struct statfs info;
    if (fstatfs(fd, &info) != 0)
        system_failed("get the file system of '%s'", directory);
    if (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC)
        not_possible_here("'%s' is in memory, not on a disk; name another directory", directory);
}
