//! Thresholds of the rules. They are all here, so that the pages in `docs/advice` can cite the numbers.

/// Least share of thread time for a headline. Run times on a shared machine spread by about one part in twenty, so a smaller gain could not be
/// demonstrated.
pub const WORTH_SHARE: f64 = 0.05;

/// Least speed-up factor of a forecast: as with [`WORTH_SHARE`], a smaller gain could not be demonstrated.
pub const WORTH_FACTOR: f64 = 1.05;

/// Least share of thread time for a secondary finding; a smaller one is not mentioned at all.
pub const MENTION_SHARE: f64 = 0.02;

/// A worker thread did at least this part of the busiest thread's work. A thread with less work is a helper (signals, timers, a main thread that only
/// joins).
pub const WORKER_WORK: f64 = 0.02;

/// A thread pool's reader, writer or main thread did less than this part of the busiest thread's work. It is a helper if it was blocked for most of its
/// life ([`HELPER_BLOCKED`]) and at least two other threads did most of the work ([`POOL_WORK`]). Reader and writer of pbzip2 and povray did 5 to 12 %.
pub const HELPER_WORK: f64 = 0.20;
/// See [`HELPER_WORK`].
pub const HELPER_BLOCKED: f64 = 0.80;
/// See [`HELPER_WORK`]: a part of the busiest thread's work.
pub const POOL_WORK: f64 = 0.30;

/// In a rank of an MPI program, a thread that ran for less than this part of the run time of the rank's busiest thread is a helper of the MPI library,
/// such as a progress thread, unless it slept on futexes for most of its life, as OpenMP threads do that get little work. In runs of a tenth of a second, such threads of MPICH ran for up to 8 %.
pub const RANK_HELPER_RUN: f64 = 0.10;

/// A thread that spun for this part of its life waits for other threads regularly, and is a worker even if it did no work.
pub const WORKER_SPIN: f64 = 0.10;

/// A thread that slept on a futex for this part of its life can be a worker, too; see [`WORKER_WAKEUPS_PER_S`].
pub const WORKER_SLEEP: f64 = 0.50;

/// A sleeping worker thread was woken at least this often per second. Threads that wait at a barrier or for a queue are woken that often; a thread
/// that waits in a join is not.
pub const WORKER_WAKEUPS_PER_S: f64 = 10.0;

/// Oversubscription: at least this many worker threads per CPU are alive on average. The margin of a tenth allows for threads that overlap while one
/// replaces another.
pub const THREADS_PER_CPU: f64 = 1.1;

/// Threads count as a team if on average at least this part of them is alive. In a parallel build with make, a smaller part is alive, because threads
/// come and go.
pub const TEAM_ALIVE: f64 = 0.5;

/// Queued threads count as a sign of oversubscription only if the allowed CPUs were busy for at least this part of the time. If the CPUs were less
/// busy, the threads queued for another reason. Example: three threads that meet at barriers on two CPUs can leave the CPUs idle for a quarter of the
/// time; if the rounds are short, wake-ups add more idle time.
pub const QUEUE_UTILISATION: f64 = 0.60;

/// One thread does all the work if at least this part of it is serial work, or if it does this part of the work and no other thread waits for its
/// own ([`TEAM_SPIN`]). The rest is what a reader, a writer or a main thread does beside it.
pub const ONE_THREAD_WORK: f64 = 0.9;

/// A thread without work that spins for this part of its life waits for its part of the work. ffmpeg's threads that never got work spun for up to 9 %,
/// while they were started.
pub const TEAM_SPIN: f64 = 0.25;

/// Half the width of a 90 % interval, in standard errors, for the error of what is sampled.
pub const HALF_INTERVAL: f64 = 1.645;

/// A forecast whose upper end is more than this many times its lower end is not printed, because it says little.
pub const WIDEST_RANGE: f64 = 2.0;

/// A typical gain beyond the work bound when threads no longer take turns on CPUs, because their work then takes less CPU time: programs measured 1.07
/// (NPB's BT, 4 threads on 2 CPUs), 1.15 (SP) and 1.18 (a stencil). A CPU that changes between threads refills its caches each time.
pub const TURNS_COST: f64 = 1.15;

/// The same for threads that no longer sleep and wake up on idle CPUs. Each sleep also costs work (the kernel's part of a switch, caches that have cooled
/// down), so the work shrinks the more, the more the sleeps cost: with a forecast of the factor f, by up to 1 + `WAKEUPS_COST` × (f − 1). Values measured with
/// two threads on two CPUs: 0.17 and 0.21 (a multigrid kernel), 0.26 (NPB's BT), below 0 (SP and LU).
pub const WAKEUPS_COST: f64 = 0.20;

/// Load imbalance is reported only if equal work would save at least this part of the worker threads' time.
pub const IMBALANCE_SHARE: f64 = 0.10;

/// A second condition for load imbalance: the busiest thread worked longer than the average by at least this factor.
pub const IMBALANCE_FACTOR: f64 = 1.15;

/// Work counts as equal if the busiest thread's work divided by the average work is at most this.
pub const EQUAL_WORK_FACTOR: f64 = 1.5;

/// A lock convoy is reported only if the program's work kept at most this part of the CPUs busy that it could use. Threads that queue for one lock
/// run about one at a time, which keeps half of two CPUs busy. The limit is higher because of the short work outside the lock.
pub const CONVOY_CONCURRENCY: f64 = 0.75;

/// In a lock convoy, no single thread ends more than this part of the worker threads' sleeping time. If three threads wake one another in turn, each
/// of them ends a third of it. If one of three threads wakes the other two, it ends two thirds; with more threads, the part is larger.
pub const ROTATION_SHARE: f64 = 0.50;

/// Waiting that has several causes is reported if it takes at least this part of the worker threads' time and some CPUs were without work.
pub const MIXED_SHARE: f64 = 0.25;

/// A CPU was available if at least this part of its time was idle.
pub const IDLE_CPU_SHARE: f64 = 0.50;

/// The program did not use a CPU if it spent no more than this part of its run time on it.
pub const UNUSED_CPU_SHARE: f64 = 0.02;

/// The load of other programs disturbs a measurement and therefore lowers the confidence in its verdict. Exception: the verdict that another program
/// takes the CPUs keeps its confidence if other programs take at least this part of the CPUs' time.
pub const CLEAR_LOAD: f64 = 0.25;

/// Parallelism is missing if at least this part of the CPUs' time was idle while no thread of the program wanted a CPU. A smaller part is what a
/// program's start, end and serial parts leave idle.
pub const UNUSED_CPUS_SHARE: f64 = 0.20;

/// Throttling counts if it takes at least this part of the run; a smaller part can be a single throttled period.
pub const THROTTLED_SHARE: f64 = 0.02;

/// Intended waiting (sleep, input, children) is the headline only if it is most of thread time.
pub const INTENDED_SHARE: f64 = 0.50;

/// A program that took CPUs is named in the report if it caused at least this part of the waiting.
pub const NAMED_SHARE: f64 = 0.10;

/// Programs are named until together they explain this part of the waiting.
pub const NAMED_ENOUGH: f64 = 0.80;

/// Hypervisor steal counts if it takes at least this part of run time.
pub const STEAL_SHARE: f64 = 0.03;

/// Least thread time for any verdict. With this much thread time and one sample per millisecond, the standard error of a spin share is 14 percentage
/// points, and the run consists of a dozen scheduler slices.
pub const MIN_THREAD_NS: u64 = 50_000_000;

/// Least wall time for a forecast. In a shorter run, starting and loading the program take a large part of the time, and no change of scheduling shortens
/// them. In a virtual machine there are 40 samples of each CPU in this time, so the standard error of a spin share is up to 8 percentage points.
pub const MIN_FORECAST_NS: u64 = 200_000_000;

/// In a run that is shorter than this, wall time, a verdict has at most medium confidence: the start and the end of the program are a large part of
/// it, and two runs can differ in which loss is the larger one.
pub const SHORT_NS: u64 = 1_000_000_000;

/// A forecast whose upper end is more than this many times its lower end lowers the verdict's confidence to medium.
pub const SURE_RANGE: f64 = 1.5;

/// Losing at most this part of the events changes no figure in its printed digits.
pub const LOSS_NEGLIGIBLE: f64 = 0.001;

/// If more than this part of the events is lost, there is no verdict: the error of a share can then be as large as the smallest share that makes a
/// headline ([`WORTH_SHARE`]).
pub const LOSS_TOO_MUCH: f64 = 0.05;

/// Unknown time is mentioned if it is at least this part of thread time, because the other shares are then unreliable.
pub const UNKNOWN_MENTION: f64 = 0.05;

/// Unknown time prevents a verdict if it is at least this part of thread time.
pub const UNKNOWN_TOO_MUCH: f64 = 0.50;

/// A sampled spin share is doubtful if its standard error is larger than this part of thread time.
pub const SPIN_ERROR_SHARE: f64 = 0.05;
