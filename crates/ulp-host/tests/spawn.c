/* A ULP that starts others: spawn HOW WHAT. */
#include <cox_ulp.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) \
	do { \
		if (!(what)) { \
			dprintf(1, "line %d: %s\n", __LINE__, #what); \
			_exit(99); \
		} \
	} while (0)

extern char **environ;
static const char *own, *how;

static void settle(void)
{
	if (!strcmp(how, "decoupled"))
		CHECK(cox_ulp_decouple() == 0);
}

static int start(const char *path, const char *a, const char *b)
{
	char *const words[] = {(char *)path, (char *)a, (char *)b, NULL};
	settle();
	return cox_ulp_spawn(path, words, environ);
}

static int status_of(int number)
{
	int status = -1;
	CHECK(number >= cox_ulp_count());
	settle();
	CHECK(cox_ulp_wait(number, &status) == 0);
	CHECK(cox_ulp_pid(number) == -ESRCH);
	return status;
}

static int is_blocked(int signal)
{
	sigset_t set;
	sigprocmask(SIG_SETMASK, NULL, &set);
	return sigismember(&set, signal);
}

/* What a started program has of the one that has started it. */
static void inherits(void)
{
	sigset_t set;
	int ends[2];
	char path[4096];
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK(pipe(ends) == 0 && dup2(ends[0], 9) == 9 && write(ends[1], "piped\n", 6) == 6 && close(ends[1]) == 0);
	CHECK(fcntl(0, F_DUPFD_CLOEXEC, 20) == 20);
	CHECK(mkdir("sub", 0700) == 0 && chdir("sub") == 0 && symlink("/bin/sh", "shell") == 0);
	CHECK(setenv("GIVEN", "given", 1) == 0 && sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	snprintf(path, sizeof path, "read line <&9; [ $PPID = %d ] && [ ! -e /proc/self/fd/20 ] && echo $line in ${PWD##*/}, $GIVEN; exit 7", getppid());
	char *const words[] = {"sh", "-c", path, NULL};
	settle();
	/* A relative path, and arguments of its own. */
	int status = status_of(cox_ulp_spawn("shell", words, environ));
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	CHECK(is_blocked(SIGUSR1) && !is_blocked(SIGUSR2));
	int leaf = start(own, how, "leaf");
	void *address;
	CHECK(leaf > 0 && cox_ulp_import(leaf, "value", &address) == 0 && *(int *)address == 4711);
	CHECK(cox_ulp_pid(leaf) > 1);
	CHECK(cox_ulp_resume(leaf) == 0 && status_of(leaf) == 0);
	/* Any number of times. */
	CHECK(status_of(leaf) == 0);
	dprintf(1, "ok\n");
}

static void leaf(void)
{
	static int value = 4711;
	CHECK(is_blocked(SIGUSR1) && !is_blocked(SIGUSR2) && fcntl(9, F_GETFD) == 0 && fcntl(20, F_GETFD) == -1);
	CHECK(cox_ulp_number() >= cox_ulp_count() && cox_ulp_export("value", &value) == 0);
	settle();
	CHECK(cox_ulp_suspend() == 0);
}

static void refused(void)
{
	int file = open("plain", O_CREAT | O_WRONLY, 0600);
	CHECK(file >= 0 && write(file, "no program\n", 11) == 11);
	CHECK(start("plain", NULL, NULL) == -EACCES && start("/", NULL, NULL) == -EACCES);
	CHECK(fchmod(file, 0700) == 0 && start("./plain", NULL, NULL) == -ENOEXEC);
	CHECK(start("/no/such/file", NULL, NULL) == -ENOENT && start("", NULL, NULL) == -ENOENT);
	/* The compiler does not know that these are wrong. */
	char *volatile wrong = (char *)8;
	CHECK(start(wrong, NULL, NULL) == -EFAULT && start("/bin/true", wrong, NULL) == -EFAULT);
	CHECK(cox_ulp_spawn("/bin/true", (char *const *)wrong, environ) == -EFAULT);
	char *long_one = malloc(200000);
	memset(long_one, 'x', 200000);
	long_one[199999] = 0;
	CHECK(start("/bin/true", long_one, NULL) == -E2BIG);
	CHECK(cox_ulp_wait(cox_ulp_number(), NULL) == -EDEADLK && cox_ulp_wait(5000, NULL) == -EINVAL);
	CHECK(cox_ulp_wait(-1, NULL) == -EINVAL && cox_ulp_pid(5000) == -EINVAL);
	CHECK(cox_ulp_pid(cox_ulp_number()) == getpid());
	/* A child is no ULP. */
	pid_t child = fork();
	if (!child)
		_exit(cox_ulp_spawn("/bin/true", NULL, NULL) == -EPERM && cox_ulp_wait(0, NULL) == -EPERM &&
		      cox_ulp_pid(0) == -EPERM ? 5 : 6);
	int status;
	CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 5);
	/* It still works. */
	CHECK(status_of(start("/bin/true", NULL, NULL)) == 0);
	CHECK(WEXITSTATUS(status_of(start("/bin/false", NULL, NULL))) == 1);
	CHECK(WTERMSIG(status_of(start("/bin/sh", "-c", "kill -9 $$"))) == SIGKILL);
	dprintf(1, "ok\n");
}

/* All start many at once. */
static void many(int times)
{
	int numbers[4];
	for (int time = 0; time < times; time++) {
		for (int i = 0; i < 4; i++)
			CHECK((numbers[i] = start("/bin/true", NULL, NULL)) > 0);
		for (int i = 0; i < 4; i++)
			CHECK(status_of(numbers[i]) == 0);
	}
	dprintf(1, "ok\n");
}

/* Starts as many as may run at once. */
static void crowd(void)
{
	static int numbers[192];
	for (int i = 0; i < 192; i++)
		for (int tries = 0; (numbers[i] = start("/bin/sleep", "1", NULL)) < 0; tries++) {
			/* The memory of those that have ended may not have been unmapped yet. */
			CHECK(numbers[i] == -EAGAIN && tries < 100);
			usleep(10000);
		}
	CHECK(start("/bin/true", NULL, NULL) == -EAGAIN);
	for (int i = 0; i < 192; i++)
		kill(cox_ulp_pid(numbers[i]), SIGTERM);
	for (int i = 0; i < 192; i++)
		CHECK(WTERMSIG(status_of(numbers[i])) == SIGTERM);
}

/* ULP 0 kills the others while they start programs. */
static void killed(void)
{
	int number = cox_ulp_number();
	if (number == 0) {
		for (int other = 1; other < cox_ulp_count(); other++) {
			usleep(1000 + 700 * other);
			while (cox_ulp_pid(other) == -EAGAIN)
				usleep(100);
			kill(cox_ulp_pid(other), SIGKILL);
		}
		/* None of the places is lost. */
		crowd();
		dprintf(1, "ok\n");
		return;
	}
	for (;;)
		start("/bin/true", NULL, NULL);
}

int main(int count, char **words)
{
	if (count < 3) {
		int status;
		char *const none[] = {NULL};
		return cox_ulp_spawn("/bin/true", none, none) == -EPERM && cox_ulp_wait(0, &status) == -EPERM && cox_ulp_pid(0) == -EPERM ? 0 : 1;
	}
	own = words[0];
	how = words[1];
	if (!strcmp(words[2], "inherits"))
		inherits();
	else if (!strcmp(words[2], "leaf"))
		leaf();
	else if (!strcmp(words[2], "refused"))
		refused();
	else if (!strcmp(words[2], "killed"))
		killed();
	else
		many(atoi(words[2]));
	return 0;
}
