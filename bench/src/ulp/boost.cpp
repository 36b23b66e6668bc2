// SPDX-License-Identifier: Apache-2.0 OR MIT
// N contexts of boost.context that continue each other in a ring, R times each. Usage: boost N R. Prints ns for one switch.
#include <boost/context/detail/fcontext.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace boost::context::detail;

static std::vector<fcontext_t> contexts;
static fcontext_t home;
static unsigned long left, running;

// Keeps the context that has just been left: the caller of turn(), which passes its address, or the one before `me`.
static void keep(transfer_t left_one, unsigned long me)
{
	if (left_one.data)
		home = left_one.fctx;
	else
		contexts[me == 0 ? contexts.size() - 1 : me - 1] = left_one.fctx;
}

static void go_round(transfer_t from)
{
	unsigned long me = running, next = me + 1 == contexts.size() ? 0 : me + 1;
	keep(from, me);
	for (;;) {
		bool end = left-- == 0;
		running = next;
		keep(jump_fcontext(end ? home : contexts[next], nullptr), me);
	}
}

static void turn(unsigned long switches)
{
	left = switches;
	transfer_t back = jump_fcontext(contexts[running], &home);
	contexts[running == 0 ? contexts.size() - 1 : running - 1] = back.fctx;
}

int main(int count, char **arguments)
{
	if (count != 3)
		return 2;
	unsigned long n = std::strtoul(arguments[1], nullptr, 10), rounds = std::strtoul(arguments[2], nullptr, 10);
	const std::size_t bytes = 64 << 10;
	for (unsigned long i = 0; i < n; i++)
		contexts.push_back(make_fcontext(static_cast<char *>(std::malloc(bytes)) + bytes, bytes, go_round));
	turn(2 * n);
	auto begin = std::chrono::steady_clock::now();
	turn(n * rounds);
	std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
	std::printf("{\"ns_per_yield\": %f}\n", took.count() / static_cast<double>(n * rounds));
}
