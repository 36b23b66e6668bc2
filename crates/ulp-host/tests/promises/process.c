/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the kernel keeps for a process: pid, limits, descriptors, working directory. */
#include "promises.h"

#include <cox_ulp.h>

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

void own_identity(void)
{
	static pid_t pid, parent;
	pid = getpid();
	parent = getppid();
	give("pid", &pid);
	give("parent", &parent);
	struct rlimit limit = {.rlim_cur = 100 + me, .rlim_max = 200};
	CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	/* The highest is 19. */
	int nice = getpriority(PRIO_PROCESS, 0) + me;
	nice = nice > 19 ? 19 : nice;
	CHECK(setpriority(PRIO_PROCESS, 0, nice) == 0);
	for (int i = 0; i < 10; i++) {
		step();
		CHECK(getpid() == pid && syscall(SYS_gettid) == pid && syscall(SYS_getpid) == pid);
		step();
		CHECK(getppid() == parent && kill(pid, 0) == 0);
	}
	meet();
	CHECK(cox_ulp_pid(me) == pid);
	for (int other = 0; other < count; other++) {
		CHECK((*(pid_t *)of(other, "pid") == pid) == (other == me));
		CHECK(*(pid_t *)of(other, "parent") == parent);
	}
	step();
	CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == 100u + me && limit.rlim_max == 200);
	CHECK(getpriority(PRIO_PROCESS, 0) == nice);
	CHECK(setpgid(0, 0) == 0 && getpgrp() == pid);
	meet();
	CHECK(getpgrp() == pid && getsid(0) == getsid(parent));
}

/* Whether a shell that this ULP executes has the descriptor. */
static int is_inherited(int file)
{
	char command[64];
	snprintf(command, sizeof command, "[ -e /proc/self/fd/%d ]", file);
	step();
	return system(command) == 0;
}

void own_descriptors(void)
{
	static int number;
	char name[32], text[8];
	int ends[2];
	snprintf(name, sizeof name, "file.%d", me);
	step();
	int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
	/* All have the same number for different files. */
	number = file;
	give("number", &number);
	meet();
	CHECK(file >= 0 && *(int *)of((me + 1) % count, "number") == file);
	CHECK(write(file, name, 6) == 6);
	step();
	int again = dup(file);
	step();
	CHECK(again > file && dup2(file, 50 + me) == 50 + me);
	meet();
	for (int other = 50; other < 50 + count; other++)
		CHECK((fcntl(other, F_GETFD) == 0) == (other == 50 + me));
	/* What one closes, others keep. */
	if (me % 2)
		CHECK(close(file) == 0);
	meet();
	CHECK((fcntl(file, F_GETFD) == 0) == (me % 2 == 0));
	step();
	CHECK(lseek(again, 0, SEEK_SET) == 0 && read(again, text, sizeof text) == 6 && !memcmp(text, name, 6));
	CHECK(fcntl(again, F_SETFD, FD_CLOEXEC) == 0);
	CHECK(!is_inherited(again) && is_inherited(50 + me) && !is_inherited(50 + (me + 1) % count));
	CHECK(fcntl(again, F_GETFD) == FD_CLOEXEC);
	step();
	CHECK(pipe2(ends, O_CLOEXEC) == 0 && write(ends[1], name, 6) == 6);
	step();
	CHECK(read(ends[0], text, sizeof text) == 6 && !memcmp(text, name, 6) && close(ends[1]) == 0);
	step();
	CHECK(read(ends[0], text, sizeof text) == 0);
	/* A lock of a file belongs to a process. */
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int common = open("common", O_RDWR | O_CREAT, 0600);
	CHECK(common >= 0);
	if (me == 0)
		CHECK(fcntl(common, F_SETLK, &lock) == 0);
	meet();
	CHECK(fcntl(common, F_SETLK, &lock) == (me == 0 ? 0 : -1));
	meet();
	CHECK(close(common) == 0);
	meet();
	if (me == count - 1) {
		common = open("common", O_RDWR);
		CHECK(fcntl(common, F_SETLK, &lock) == 0);
	}
}

void own_folder(void)
{
	char name[32], before[PATH_MAX], path[PATH_MAX], right[PATH_MAX + 32];
	struct stat status;
	CHECK(getcwd(before, sizeof before));
	snprintf(name, sizeof name, "folder.%d", me);
	/* Another run may have made it. */
	mkdir(name, 0700);
	step();
	CHECK(chdir(name) == 0 && umask(me) < 0777);
	meet();
	snprintf(right, sizeof right, "%s/%s", before, name);
	CHECK(getcwd(path, sizeof path) && !strcmp(path, right));
	unlink("made");
	step();
	int file = open("made", O_WRONLY | O_CREAT | O_EXCL, 0666);
	CHECK(file >= 0 && fstat(file, &status) == 0 && (status.st_mode & 0777) == (mode_t)(0666 & ~me));
	strcat(right, "/made");
	step();
	CHECK(access(right, F_OK) == 0 && system("[ -f made ] && [ $(umask) = 000$RANK ]") == 0);
	meet();
	CHECK(chdir("..") == 0 && getcwd(path, sizeof path) && !strcmp(path, before));
	meet();
	CHECK(umask(0) == (mode_t)me);
}
