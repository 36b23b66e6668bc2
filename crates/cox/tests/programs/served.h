/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A disk as slow as a test wants it: a file system (FUSE) whose files are read only when they are let go.
 *
 * It is served by a child. Were it served by a thread, a process killed while it reads would wait for itself.
 */
#ifndef SERVED_H
#define SERVED_H

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "blocked.h"

/* Bytes of a file: one page of it, so that each is a read of its own. */
#define SERVED_BYTES 4096
/* Ends the program where there can be no such file system. */
#define NOT_SERVED 77

struct served {
	pid_t server;
	int let_go; /* a byte here lets one read go */
};

/* What file number n is full of. */
static inline char served_byte(int number)
{
	return (char)('a' + number % 26);
}

static void reply(int fd, uint64_t unique, int error, const void *data, size_t bytes)
{
	char message[sizeof(struct fuse_out_header) + SERVED_BYTES];
	struct fuse_out_header header = { .len = (uint32_t)(sizeof(header) + bytes), .error = error, .unique = unique };

	memcpy(message, &header, sizeof(header));
	memcpy(message + sizeof(header), data, bytes);
	/* Who has asked may have gone meanwhile. */
	if (write(fd, message, header.len) != (ssize_t)header.len && errno != ENOENT)
		_exit(1);
}

/* Node 1 is the folder; file number n is node n + 2. */
static struct fuse_attr attributes(uint64_t node)
{
	return (struct fuse_attr){ .ino = node,
				   .size = node == 1 ? 0 : SERVED_BYTES,
				   .mode = node == 1 ? S_IFDIR | 0755 : S_IFREG | 0444,
				   .nlink = 1,
				   .blksize = SERVED_BYTES };
}

/* Answers one request; a read goes to the end of `held`. */
static void answer(int fd, struct fuse_in_header *held, int *holds)
{
	static _Alignas(8) char request[1 << 17];
	ssize_t length = read(fd, request, sizeof(request));
	struct fuse_in_header *in = (void *)request;

	if (length < 0 && errno == ENODEV)
		_exit(0);
	if (length < (ssize_t)sizeof(*in))
		return;
	if (in->opcode == FUSE_INIT) {
		struct fuse_init_in *init = (void *)(in + 1);
		struct fuse_init_out out = { .major = FUSE_KERNEL_VERSION,
					     .minor = FUSE_KERNEL_MINOR_VERSION,
					     .max_readahead = init->max_readahead,
					     .max_write = SERVED_BYTES };
		reply(fd, in->unique, 0, &out, sizeof(out));
	} else if (in->opcode == FUSE_LOOKUP) {
		uint64_t node = strtoull((char *)(in + 1), NULL, 10) + 2;
		struct fuse_entry_out out = {
			.nodeid = node, .entry_valid = 1000, .attr_valid = 1000, .attr = attributes(node)
		};
		reply(fd, in->unique, 0, &out, sizeof(out));
	} else if (in->opcode == FUSE_GETATTR) {
		struct fuse_attr_out out = { .attr_valid = 1000, .attr = attributes(in->nodeid) };
		reply(fd, in->unique, 0, &out, sizeof(out));
	} else if (in->opcode == FUSE_OPEN) {
		reply(fd, in->unique, 0, &(struct fuse_open_out){ 0 }, sizeof(struct fuse_open_out));
	} else if (in->opcode == FUSE_READ) {
		held[(*holds)++] = *in;
	} else if (in->opcode == FUSE_FLUSH || in->opcode == FUSE_RELEASE) {
		reply(fd, in->unique, 0, "", 0);
	} else if (in->opcode != FUSE_FORGET && in->opcode != FUSE_BATCH_FORGET && in->opcode != FUSE_INTERRUPT) {
		reply(fd, in->unique, -ENOSYS, "", 0);
	}
}

static void serve(int fd, int let_go)
{
	static struct fuse_in_header held[1024];
	int holds = 0, answered = 0;

	for (;;) {
		/* Looked at only while there is something to let go. */
		struct pollfd wanted[] = { { .fd = fd, .events = POLLIN },
					   { .fd = answered < holds ? let_go : -1, .events = POLLIN } };
		char byte, page[SERVED_BYTES];

		if (poll(wanted, 2, -1) < 0)
			_exit(1);
		if (wanted[0].revents)
			answer(fd, held, &holds);
		if (wanted[1].revents) {
			if (read(let_go, &byte, 1) != 1)
				_exit(0);
			memset(page, served_byte((int)held[answered].nodeid - 2), sizeof(page));
			reply(fd, held[answered++].unique, 0, page, sizeof(page));
		}
	}
}

/* Mounts it at a folder, for this process and its children only. Before there are threads. */
static struct served served_at(const char *folder, unsigned int seconds)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC), pipes[2];
	char options[100];

	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
	if (fd < 0 || unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("coxswain", folder, "fuse", MS_NOSUID | MS_NODEV, options)) {
		fprintf(stderr, "no file system of its own: %s\n", strerror(errno));
		exit(NOT_SERVED);
	}
	if (pipe(pipes))
		fail("pipe");
	pid_t server = fork();
	if (server == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* The last resort: whoever reads is let go by its end. */
		signal(SIGALRM, SIG_DFL);
		alarm(seconds + 1);
		close(pipes[1]);
		serve(fd, pipes[0]);
	}
	close(fd);
	close(pipes[0]);
	return (struct served){ .server = server, .let_go = pipes[1] };
}

static int served_file(const char *folder, int number)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%d", folder, number);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fail(path);
	return fd;
}

static void served_no_more(struct served *served, const char *folder)
{
	umount2(folder, MNT_DETACH);
	kill(served->server, SIGKILL);
	waitpid(served->server, NULL, 0);
}

#endif
