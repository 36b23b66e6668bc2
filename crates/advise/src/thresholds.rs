//! Where "small" ends. One place, so that the pages in `docs/advice` can name the numbers.

/// Shares of thread time below this are not worth a headline: one part in twenty is about the spread
/// of run times on a shared machine, so a gain below it could not be shown.
pub const WORTH_SHARE: f64 = 0.05;

/// A forecast below this factor is not made, for the same reason.
pub const WORTH_FACTOR: f64 = 1.05;

/// A secondary finding below this share of thread time is not mentioned at all.
pub const MENTION_SHARE: f64 = 0.02;

/// A thread belongs to the crew when it did at least this part of the work of the busiest thread:
/// below that it helps (signals, timers, a main thread that only joins) but carries nothing.
pub const CREW_WORK: f64 = 0.02;

/// A thread that spun for this part of its life takes part in the program's rhythm, work or not.
pub const CREW_SPIN: f64 = 0.10;

/// … and so does one that slept for others this part of its life …
pub const CREW_SLEEP: f64 = 0.50;

/// … and was woken at least this often per second: a barrier or a queue does so, a join does not.
pub const CREW_WAKEUPS_PER_S: f64 = 10.0;

/// More threads than CPUs: at least this many crew threads per CPU alive on average. A tenth above one
/// leaves room for threads that overlap while one replaces another.
pub const THREADS_PER_CPU: f64 = 1.1;

/// Threads are a team when on average this part of them is alive: those of a make come and go.
pub const TEAM_ALIVE: f64 = 0.5;

/// A queue for CPUs means that CPUs were busy: below this utilisation of the allowed CPUs, threads do
/// not wait because they are too many. Three threads that meet at barriers on two CPUs can leave a
/// quarter of the time idle; short rounds lose some more to wake-ups.
pub const QUEUE_UTILISATION: f64 = 0.60;

/// Unequal work counts when balancing it would free this part of the crew's time.
pub const IMBALANCE_SHARE: f64 = 0.10;

/// … and the busiest thread worked this factor longer than the average.
pub const IMBALANCE_FACTOR: f64 = 1.15;

/// Work counts as equal among threads up to this factor of the busiest over the average.
pub const EQUAL_WORK_FACTOR: f64 = 1.5;

/// A convoy leaves CPUs without work: its work keeps at most this part of the CPUs it could use busy.
/// Threads that queue for one lock run about one at a time, which is half of two CPUs; the rest is the
/// short work outside the lock.
pub const CONVOY_CONCURRENCY: f64 = 0.75;

/// A lock goes round: no single thread ends more than this part of the crew's sleeping. Of three threads
/// that take turns each ends a third; one that wakes all the others ends two thirds, of more threads more.
pub const ROTATION_SHARE: f64 = 0.50;

/// Waiting of mixed reasons is told from this part of the crew's time, if CPUs were left without work.
pub const MIXED_SHARE: f64 = 0.25;

/// A CPU was there to be used when at least this part of it was idle.
pub const IDLE_CPU_SHARE: f64 = 0.50;

/// The program did not use a CPU that it spent no more than this part of its run time on.
pub const UNUSED_CPU_SHARE: f64 = 0.02;

/// From this part of the CPUs' time on, others are a loss of their own and no disturbance of the measurement.
pub const CLEAR_LOAD: f64 = 0.25;

/// Parallelism is missing when at least this part of the CPUs' time was idle while no thread of the program wanted a
/// CPU: less is what a program's start, its end and its serial parts leave.
pub const UNUSED_CPUS_SHARE: f64 = 0.20;

/// Throttling counts from this part of the run: less is one unlucky period.
pub const THROTTLED_SHARE: f64 = 0.02;

/// Intended waiting (sleep, input, children) is the headline only when it is most of thread time.
pub const INTENDED_SHARE: f64 = 0.50;

/// A program that others are known to have waited behind is named from this part of the waiting …
pub const NAMED_SHARE: f64 = 0.10;

/// … and names are added until they make this part of it.
pub const NAMED_ENOUGH: f64 = 0.80;

/// Hypervisor steal counts from this part of run time.
pub const STEAL_SHARE: f64 = 0.03;

/// Below this much thread time nothing is judged: at one sample per millisecond the standard error of
/// a spin share is then 14 points, and a run is a dozen scheduler slices.
pub const MIN_THREAD_NS: u64 = 50_000_000;

/// Losing at most this part of the events changes no figure in its printed digits.
pub const LOSS_NEGLIGIBLE: f64 = 0.001;

/// Losing more than this part makes every share uncertain by as much as a headline needs.
pub const LOSS_TOO_MUCH: f64 = 0.05;

/// When this part of thread time is unknown, shares of the rest say little.
pub const UNKNOWN_MENTION: f64 = 0.05;

/// … and from here nothing.
pub const UNKNOWN_TOO_MUCH: f64 = 0.50;

/// A sampled spin share whose standard error is larger than this part of thread time is doubtful.
pub const SPIN_ERROR_SHARE: f64 = 0.05;
