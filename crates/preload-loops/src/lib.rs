//! `libcox_loops.so`: a library that LD_PRELOAD loads into a program, to give other schedules to its OpenMP loops.
//!
//! The program is not changed, and its OpenMP runtime keeps its teams, thread numbers and barriers. The library takes the place of the functions with
//! which compiled code asks for chunks. Which schedules there are, and how they decide, is in the crate `loops`.
//!
//! - `load`: what the library does before and after the program; what the environment asks for is in [`loops::options`].
//! - `gomp`, `gomp_regions`: libgomp's functions for loops and regions, as gcc calls them. `runtime`: the functions of the program's own runtime.
//! - `kmpc`: libomp's functions, as clang calls them. `ompt`: the teams of libomp.
//! - `region`, `team`, `member`: which team a thread is in, the team's memory, and the thread in it.
//! - `chain`: the instances of a team's loops: who opens one, and when its memory may be used again.
//! - `opener`: what the thread that opens an instance uses. `clause`: what the program says about a loop.
//! - `instance`: what the threads of an instance share. `plans`: plans are made once. `bounds`: the loop's counter.
//! - `known`: a loop of a team, what it did, and which schedule it gets next. `finished`: when each thread finished. `file`: what cox reads after the run.
//!   `sampling`: in which instances times are measured. `delays`: how long the kernel let a thread wait. `modules`: which file an address comes from.
//! - `measure`, `published`, `histories`, `clock`: adaptive schedules.
//!
//! Rules for code in this library:
//!
//! 1. **On request only.** Without a valid `COX_SCHEDULE`, each call goes to the runtime unchanged.
//! 2. **No lock, system call, getenv or allocation in a request**, and none at the start of an instance, except for what has not been needed before: a
//!    plan for other bounds, a slot, lines of a larger team.
//! 3. **Thin.** Unsafe code is in the modules above that say why, with the reason at each block; decisions are in `loops`.
//! 4. **C only at the entry points.** Only the interposed functions are visible. No panic leaves the library. Stack unwinding that the program causes
//!    (pthread_exit in a region) passes through it.

#[cfg(not(loom))]
mod bounds;
mod chain;
#[cfg(not(loom))]
mod clause;
#[cfg(not(loom))]
mod clock;
#[cfg(not(loom))]
mod delays;
#[cfg(not(loom))]
mod file;
#[cfg(not(loom))]
mod finished;
#[cfg(not(loom))]
mod gomp;
#[cfg(not(loom))]
mod gomp_regions;
#[cfg(not(loom))]
mod histories;
#[cfg(not(loom))]
mod instance;
#[cfg(not(loom))]
mod kmpc;
#[cfg(not(loom))]
mod known;
#[cfg(not(loom))]
mod load;
#[cfg(not(loom))]
mod measure;
#[cfg(not(loom))]
mod member;
#[cfg(not(loom))]
mod modules;
#[cfg(not(loom))]
mod ompt;
#[cfg(not(loom))]
mod opener;
#[cfg(not(loom))]
mod plans;
#[cfg(not(loom))]
mod published;
#[cfg(not(loom))]
mod region;
#[cfg(not(loom))]
mod runtime;
#[cfg(not(loom))]
mod sampling;
mod sync;
#[cfg(not(loom))]
mod team;
