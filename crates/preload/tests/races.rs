//! The library's entry points under the thread sanitizer (`make tsan`). The sanitizer requires that all code is built for it, and that the program
//! contains its runtime. Therefore the library is a part of the test, with a runtime made of POSIX threads instead of libgomp.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[allow(dead_code, reason = "each test binary uses a part of it")]
mod common;

use std::ffi::{CString, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::process::Command;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use cox_preload as _;

type Work = unsafe extern "C-unwind" fn(*mut c_void);
type Copy = unsafe extern "C-unwind" fn(*mut c_void, *mut c_void);

unsafe extern "C-unwind" {
    fn GOMP_parallel(work: Work, data: *mut c_void, threads: c_uint, flags: c_uint);
    fn GOMP_barrier();
    fn GOMP_task(
        work: Work,
        data: *mut c_void,
        copy: Option<Copy>,
        bytes: c_long,
        align: c_long,
        deferrable: bool,
        flags: c_uint,
        depend: *const *mut c_void,
        priority: c_int,
        event: *mut c_void,
    );
    fn GOMP_taskloop(
        work: Work,
        data: *mut c_void,
        copy: Option<Copy>,
        bytes: c_long,
        align: c_long,
        flags: c_uint,
        tasks: c_ulong,
        priority: c_int,
        start: c_long,
        end: c_long,
        step: c_long,
    );
    fn GOMP_taskwait();
    fn GOMP_taskgroup_start();
    fn GOMP_taskgroup_end();
    fn omp_get_thread_num() -> c_int;
    fn dlopen(name: *const c_char, how: c_int) -> *mut c_void;
}

/// Flags of tasks (gomp-constants.h), and dlfcn.h's of libraries.
const DEPEND: c_uint = 1 << 3;
const IF: c_uint = 1 << 10;
const NOW_AND_FOR_ALL: c_int = 0x102;

const THREADS: u32 = 4;
const REGIONS: u64 = 50;
const TASKS: u64 = 40;

/// What tasks have done. Plain numbers are ordered by what the library promises, and by nothing else.
struct Board {
    done: AtomicU64,
    /// Written by one task after the other, which depend on one another.
    chain: u64,
    /// Written by members, each its own, between barriers, and read by the next.
    marks: [u64; THREADS as usize],
    /// Added up by what waits for children.
    children: AtomicU64,
}

#[test]
fn entry_points_order_what_they_promise() {
    // The library reads its environment before main.
    if std::env::var_os("COX_OVERLAP").is_none() {
        let test = std::env::current_exe().unwrap();
        let runtime = common::compile("runtime.c", "libruntime.so", &["-shared", "-fPIC"]);
        let mut again = Command::new(test);
        again.args(["--exact", "entry_points_order_what_they_promise", "--nocapture"]);
        let output = common::run(again.env("COX_OVERLAP", "off").env("COX_TEST_RUNTIME", runtime));
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let runtime = CString::new(std::env::var("COX_TEST_RUNTIME").unwrap()).unwrap();
    // SAFETY: a library that does nothing when it is loaded.
    assert!(!unsafe { dlopen(runtime.as_ptr(), NOW_AND_FOR_ALL) }.is_null());
    for region in 0..REGIONS {
        let mut board =
            Board { done: AtomicU64::new(0), chain: 0, marks: [0; THREADS as usize], children: AtomicU64::new(0) };
        // SAFETY: as gcc calls them, with a board that outlives the region.
        unsafe { GOMP_parallel(share, (&raw mut board).cast(), THREADS, 0) };
        let all = u64::from(THREADS) * TASKS;
        assert_eq!(board.done.load(Ordering::Relaxed), all + TASKS + 100, "region {region}");
        assert_eq!(board.chain, TASKS, "region {region}");
        assert_eq!(board.marks, [2; THREADS as usize], "region {region}");
        assert_eq!(board.children.load(Ordering::Relaxed), u64::from(THREADS) * 3, "region {region}");
    }
}

/// A member's share of a region.
unsafe extern "C-unwind" fn share(board: *mut c_void) {
    let bytes = size_of::<*mut Board>() as c_long;
    let mut argument = board;
    let data: *mut c_void = (&raw mut argument).cast();
    // SAFETY: as gcc calls them; the board outlives the region, and each member writes its own mark.
    unsafe {
        let board = board.cast::<Board>();
        let member = omp_get_thread_num() as usize;
        for _ in 0..TASKS {
            GOMP_task(count, data, None, bytes, 8, true, 0, ptr::null(), 0, ptr::null_mut());
        }
        (&raw mut (*board).marks[member]).write(1);
        GOMP_barrier();
        let next = (&raw mut (*board).marks[(member + 1) % THREADS as usize]).read();
        GOMP_barrier();
        (&raw mut (*board).marks[member]).write(next + 1);
        GOMP_taskgroup_start();
        for _ in 0..3 {
            GOMP_task(parent, data, Some(copy), bytes, 8, true, 0, ptr::null(), 0, ptr::null_mut());
        }
        GOMP_taskgroup_end();
        if member == 0 {
            // One that is written, of one in all.
            let place: [*mut c_void; 3] =
                [ptr::without_provenance_mut(1), ptr::without_provenance_mut(1), (&raw mut (*board).chain).cast()];
            for _ in 0..TASKS {
                GOMP_task(link, data, None, bytes, 8, true, DEPEND, place.as_ptr(), 0, ptr::null_mut());
            }
            let mut bounds: [*mut c_void; 3] = [ptr::null_mut(), ptr::null_mut(), board.cast()];
            let bytes = size_of_val(&bounds) as c_long;
            GOMP_taskloop(part, bounds.as_mut_ptr().cast(), None, bytes, 8, IF, 10, 0, 0, 100, 1);
        }
    }
}

/// The board that a task's data point to.
unsafe fn board_of(data: *mut c_void) -> *mut Board {
    // SAFETY: the caller's promise.
    unsafe { *data.cast::<*mut Board>() }
}

unsafe extern "C-unwind" fn count(data: *mut c_void) {
    // SAFETY: as `share` makes it.
    unsafe { (*board_of(data)).done.fetch_add(1, Ordering::Relaxed) };
}

unsafe extern "C-unwind" fn copy(to: *mut c_void, from: *mut c_void) {
    // SAFETY: as `share` makes it.
    unsafe { to.cast::<*mut Board>().write(*from.cast()) };
}

/// Writes what the one before has written.
unsafe extern "C-unwind" fn link(data: *mut c_void) {
    // SAFETY: as `share` makes it: alone, by its dependence.
    unsafe {
        let chain = &raw mut (*board_of(data)).chain;
        chain.write(chain.read() + 1);
        count(data);
    }
}

/// Waits for children that write where it reads.
unsafe extern "C-unwind" fn parent(data: *mut c_void) {
    let mut sum = [0u64; 2];
    // SAFETY: as gcc calls them; the sums are there until the children have been waited for.
    unsafe {
        for place in &mut sum {
            let mut argument: *mut c_void = (&raw mut *place).cast();
            let data: *mut c_void = (&raw mut argument).cast();
            GOMP_task(child, data, None, 8, 8, true, 0, ptr::null(), 0, ptr::null_mut());
        }
        GOMP_taskwait();
        let seen = (&raw const sum[0]).read() + (&raw const sum[1]).read();
        (*board_of(data)).children.fetch_add(seen / 2, Ordering::Relaxed);
    }
}

unsafe extern "C-unwind" fn child(data: *mut c_void) {
    // SAFETY: as `parent` makes it.
    unsafe { (*data.cast::<*mut u64>()).write(1) };
}

/// A part of a loop: the bounds, then the board.
unsafe extern "C-unwind" fn part(data: *mut c_void) {
    // SAFETY: as `share` makes it.
    unsafe {
        let [start, end, board] = *data.cast::<[usize; 3]>();
        (*(board as *mut Board)).done.fetch_add((end - start) as u64, Ordering::Relaxed);
    }
}
