// SPDX-License-Identifier: Apache-2.0 OR MIT
// Swaptions by random paths of the interest rate: a static partition, and no synchronisation except the join.
// See --help.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "crew.h"
#include "fail.h"
#include "kernel.h"

enum { STEPS_PER_YEAR = 12, EXPIRY_YEARS = 3, SWAP_YEARS = 5, SWAPTION_LIMIT = 256 };

// Vasicek's model of the short rate: the rate reverts to a mean, and bonds have a closed-form price.
static const double first_rate = 0.03, mean_rate = 0.045, speed = 0.4, volatility = 0.012;

// Values are added as integer multiples of this, so the sum is the same in any order.
static const double value_unit = 1e-12;

// Sums over the paths of one swaption, in units.
struct sums {
    int64_t payer, receiver, bond;
};

struct thread_sums {
    _Alignas(64) struct sums of[SWAPTION_LIMIT];
};

struct run {
    size_t threads, swaptions;
    uint64_t paths;                 // per swaption
    struct thread_sums *sums;
};

// Returns the price of a bond that pays 1 after `years`, at the short rate `rate`.
static double bond_price(double rate, double years)
{
    double reach = (1 - exp(-speed * years)) / speed;
    double ratio = volatility * volatility / (speed * speed);
    double level = (reach - years) * (mean_rate - ratio / 2) -
                   volatility * volatility * reach * reach / (4 * speed);
    return exp(level - reach * rate);
}

static double fixed_rate_of(size_t swaption)
{
    return 0.02 + 0.04 * (double)(swaption % 16) / 16;
}

// Returns the value of a swap that pays `fixed_rate` per year and receives the market rate.
static double swap_value(double rate, double fixed_rate)
{
    double value = 1 - bond_price(rate, SWAP_YEARS);
    for (int year = 1; year <= SWAP_YEARS; year++)
        value -= fixed_rate * bond_price(rate, year);
    return value;
}

// Draws two independent normal numbers by the Box-Muller method.
static void normal_pair(struct random_sequence *sequence, double pair[2])
{
    double radius = sqrt(-2 * log(1 - random_unit(sequence)));
    double angle = 2 * M_PI * random_unit(sequence);
    pair[0] = radius * cos(angle);
    pair[1] = radius * sin(angle);
}

// The random numbers depend on the path, not on the thread.
static struct sums one_path(size_t swaption, uint64_t path_number)
{
    struct random_sequence sequence = random_numbered(path_number);
    const double step = 1.0 / STEPS_PER_YEAR;
    const double decay = exp(-speed * step);
    const double shock = volatility * sqrt((1 - decay * decay) / (2 * speed));
    double rate = first_rate, integral = 0, normal[2];
    for (int i = 0; i < EXPIRY_YEARS * STEPS_PER_YEAR; i++) {
        if (i % 2 == 0)
            normal_pair(&sequence, normal);
        double next = mean_rate + (rate - mean_rate) * decay + shock * normal[i % 2];
        integral += step * (rate + next) / 2;
        rate = next;
    }
    double discount = exp(-integral) / value_unit;
    double value = swap_value(rate, fixed_rate_of(swaption));
    return (struct sums){
        .payer = llround(discount * fmax(value, 0)),
        .receiver = llround(discount * fmax(-value, 0)),
        .bond = llround(discount),
    };
}

static void all_paths(void *work, size_t thread)
{
    struct run *run = work;
    struct share share = share_of(run->swaptions * run->paths, run->threads, thread);
    for (size_t number = share.begin; number < share.end; number++) {
        size_t swaption = number / run->paths;
        struct sums path = one_path(swaption, number), *sums = &run->sums[thread].of[swaption];
        sums->payer += path.payer;
        sums->receiver += path.receiver;
        sums->bond += path.bond;
    }
}

static struct sums sums_of(const struct run *run, size_t swaption)
{
    struct sums all = {0, 0, 0};
    for (size_t i = 0; i < run->threads; i++) {
        const struct sums *part = &run->sums[i].of[swaption];
        all.payer += part->payer;
        all.receiver += part->receiver;
        all.bond += part->bond;
    }
    return all;
}

// Returns the short rate at expiry at which the swap has the value 0.
static double rate_of_worthless_swap(double fixed_rate)
{
    double low = -1, high = 1;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        if (swap_value(middle, fixed_rate) < 0)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static double normal_distribution(double x)
{
    return 0.5 * erfc(-x * M_SQRT1_2);
}

// Returns today's price of a put on a bond: at expiry, the right to sell for `strike` a bond that pays 1
// `years` later.
static double bond_put(double strike, double years)
{
    double spread = volatility / speed * (1 - exp(-speed * years)) *
                    sqrt((1 - exp(-2 * speed * EXPIRY_YEARS)) / (2 * speed));
    double sold = bond_price(first_rate, EXPIRY_YEARS + years);
    double paid = strike * bond_price(first_rate, EXPIRY_YEARS);
    double upper = log(sold / paid) / spread + spread / 2;
    return paid * normal_distribution(spread - upper) - sold * normal_distribution(-upper);
}

// Returns the exact price. All bonds of the swap rise and fall together with the single rate, so an option
// on the swap is the sum of options on its bonds (Jamshidian).
static double payer_price(double fixed_rate)
{
    double rate = rate_of_worthless_swap(fixed_rate);
    double price = bond_put(bond_price(rate, SWAP_YEARS), SWAP_YEARS);
    for (int year = 1; year <= SWAP_YEARS; year++)
        price += fixed_rate * bond_put(bond_price(rate, year), year);
    return price;
}

static double forward_swap_value(double fixed_rate)
{
    double value = bond_price(first_rate, EXPIRY_YEARS) -
                   bond_price(first_rate, EXPIRY_YEARS + SWAP_YEARS);
    for (int year = 1; year <= SWAP_YEARS; year++)
        value -= fixed_rate * bond_price(first_rate, EXPIRY_YEARS + year);
    return value;
}

// Compares the mean of a sum with its exact value: they may differ by six standard errors and a small
// tolerance for the time step. `deviation` is an upper bound of a single path's standard deviation.
static void check_mean(const char *what, int64_t sum, double paths, double exact, double deviation)
{
    double mean = (double)sum * value_unit / paths;
    if (!(fabs(mean - exact) < 6 * deviation / sqrt(paths) + 1e-5))
        check_failed("the %s is %g by the paths, %g exactly", what, mean, exact);
}

static void check_sums(const struct run *run)
{
    int64_t bond = 0;
    double paths = (double)run->paths;
    for (size_t i = 0; i < run->swaptions; i++) {
        struct sums sums = sums_of(run, i);
        double payer = payer_price(fixed_rate_of(i));
        // Payer minus receiver is the swap itself.
        double receiver = payer - forward_swap_value(fixed_rate_of(i));
        check_mean("payer swaption", sums.payer, paths, payer, 0.03);
        check_mean("receiver swaption", sums.receiver, paths, receiver, 0.03);
        bond += sums.bond;
    }
    check_mean("bond", bond, paths * (double)run->swaptions, bond_price(first_rate, EXPIRY_YEARS),
               0.025);
}

int main(int argc, char **argv)
{
    struct kernel kernel = {0};
    uint64_t size = 64, paths = 25000;
    const struct option_spec options[] = {
        KERNEL_THREADS(&kernel),
        {"size", OPTION_COUNT, &size, 1, SWAPTION_LIMIT, NULL, "N", "number of swaptions (64)", NULL},
        {"steps", OPTION_COUNT, &paths, 1, 1e6, NULL, "S", "random paths for each (25000)", NULL},
    };
    const struct program program = {
        .name = "kernel-swaptions",
        .summary = "Values of options on interest rate swaps, by random paths of the short rate. Each\n"
                   "thread has an equal part of all paths and never waits: no synchronisation but the\n"
                   "join.",
        .example = "kernel-swaptions --threads 3 --steps 5000 --truth -",
        .checked = "Means over the paths against exact prices: of the right to pay or to receive, and\n"
                   "of a bond. Each path draws its own numbers, and values are added up as whole\n"
                   "numbers: the checksum, of all sums, is the same for any number of threads.",
        .options = options,
        .option_count = COUNT_OF(options),
    };
    kernel_start(&kernel, &program, argc, argv);
    struct run run = {.threads = kernel.threads, .swaptions = size, .paths = paths};
    run.sums = kernel_array(run.threads, sizeof *run.sums);

    crew_run(&kernel, all_paths, &run);
    check_sums(&run);
    for (size_t i = 0; i < run.swaptions; i++) {
        struct sums sums = sums_of(&run, i);
        kernel.checksum = digest_u64(kernel.checksum, (uint64_t)sums.payer);
        kernel.checksum = digest_u64(kernel.checksum, (uint64_t)sums.receiver);
        kernel.checksum = digest_u64(kernel.checksum, (uint64_t)sums.bond);
    }
    free(run.sums);
    return kernel_end(&kernel, &program, "%" PRIu64 " swaptions, %" PRIu64 " paths each", size, paths);
}
