// SPDX-License-Identifier: Apache-2.0 OR MIT
// Option prices by the Black-Scholes formula: no synchronisation except the join. See --help.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "crew.h"
#include "fail.h"
#include "kernel.h"

// Parameters of a European call and put.
struct contract {
    double spot, strike, rate, volatility, years;
};

struct prices {
    double call, put;
};

struct run {
    size_t threads, count;
    uint64_t steps;
    struct contract *contracts;
    struct prices *prices;    // prices of the last step
    struct digest {
        _Alignas(64) uint64_t sum;
    } *digests;
};

static double normal_distribution(double x)
{
    return 0.5 * erfc(-x * M_SQRT1_2);
}

static struct prices price(const struct contract *contract)
{
    double spread = contract->volatility * sqrt(contract->years);
    double discounted = contract->strike * exp(-contract->rate * contract->years);
    double upper = log(contract->spot / discounted) / spread + spread / 2;
    double lower = upper - spread;
    // Each is computed by its own formula, so that put-call parity is a check.
    return (struct prices){
        .call = contract->spot * normal_distribution(upper) -
                discounted * normal_distribution(lower),
        .put = discounted * normal_distribution(-lower) -
               contract->spot * normal_distribution(-upper),
    };
}

static struct contract draw_contract(uint64_t number)
{
    struct random_sequence sequence = random_numbered(number);
    struct contract contract;
    contract.spot = 50 + 100 * random_unit(&sequence);
    contract.strike = contract.spot * (0.6 + 0.8 * random_unit(&sequence));
    contract.rate = 0.01 + 0.07 * random_unit(&sequence);
    contract.volatility = 0.1 + 0.5 * random_unit(&sequence);
    contract.years = 0.1 + 2 * random_unit(&sequence);
    return contract;
}

// Returns the contract at a step: all spot prices rise a little from step to step, so no step repeats
// another.
static struct contract contract_at(const struct run *run, size_t number, uint64_t step)
{
    struct contract contract = run->contracts[number];
    contract.spot *= 1 + 1e-4 * (double)step;
    return contract;
}

static void all_steps(void *work, size_t thread)
{
    struct run *run = work;
    struct share share = share_of(run->count, run->threads, thread);
    uint64_t sum = 0;
    for (uint64_t step = 0; step < run->steps; step++) {
        for (size_t i = share.begin; i < share.end; i++) {
            struct contract contract = contract_at(run, i, step);
            run->prices[i] = price(&contract);
            sum += digest_doubles(mix_bits(step * run->count + i), &run->prices[i].call, 2);
        }
    }
    run->digests[thread].sum = sum;
}

static void check_prices(const struct run *run)
{
    // A known example with prices to four digits: spot 42, strike 40, 10 %, volatility 20 %, half a
    // year.
    const struct contract known = {42, 40, 0.1, 0.2, 0.5};
    struct prices found = price(&known);
    if (!(fabs(found.call - 4.7594) < 1e-4 && fabs(found.put - 0.8086) < 1e-4))
        check_failed("a known call costs %g and its put %g", found.call, found.put);
    for (size_t i = 0; i < run->count; i++) {
        struct contract contract = contract_at(run, i, run->steps - 1);
        struct prices prices = run->prices[i];
        double forward = contract.spot - contract.strike * exp(-contract.rate * contract.years);
        if (!(fabs(prices.call - prices.put - forward) < 1e-9 &&
              prices.call >= fmax(forward, 0) - 1e-9 && prices.call <= contract.spot))
            check_failed("option %zu: call %g and put %g are impossible prices", i, prices.call, prices.put);
    }
}

int main(int argc, char **argv)
{
    struct kernel kernel = {0};
    uint64_t size = 65536, steps = 240;
    const struct option_spec options[] = {
        KERNEL_THREADS(&kernel),
        {"size", OPTION_COUNT, &size, 1, 1e7, NULL, "N", "number of options (65536)", NULL},
        {"steps", OPTION_COUNT, &steps, 1, 1e6, NULL, "S", "number of times that all options are priced (240)", NULL},
    };
    const struct program program = {
        .name = "kernel-options",
        .summary = "Prices of calls and puts by the formula of Black and Scholes, again and again.\n"
                   "Each thread has its own options and never waits: no synchronisation but the join.",
        .example = "kernel-options --threads 3 --steps 50 --truth -",
        .checked = "A known price; parity of call and put, and the bounds of a call, of each option.\n"
                   "The checksum, of all prices bit by bit, is the same for any number of threads.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    kernel_start(&kernel, &program, argc, argv);
    struct run run = {.threads = kernel.threads, .count = size, .steps = steps};
    run.contracts = kernel_array(size, sizeof *run.contracts);
    run.prices = kernel_array(size, sizeof *run.prices);
    run.digests = kernel_array(run.threads, sizeof *run.digests);
    for (size_t i = 0; i < size; i++)
        run.contracts[i] = draw_contract(i);

    crew_run(&kernel, all_steps, &run);
    check_prices(&run);
    for (size_t i = 0; i < run.threads; i++)
        kernel.checksum += run.digests[i].sum;
    free(run.digests);
    free(run.prices);
    free(run.contracts);
    return kernel_end(&kernel, &program, "%" PRIu64 " options, %" PRIu64 " times", size, steps);
}
