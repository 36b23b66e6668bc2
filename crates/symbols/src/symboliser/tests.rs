use std::fs;

use super::*;

const TGID: u32 = 5;

/// A machine with one process whose only file is no ELF file.
fn machine() -> (tempfile::TempDir, Symboliser) {
    let folder = tempfile::tempdir().expect("temporary folder");
    fs::create_dir_all(folder.path().join("proc/5")).expect("mkdir");
    let maps = "1000-2000 r-xp 00000000 08:01 5 /bin/script\n\
                3000-4000 r-xp 00000000 00:00 0 [vdso]\n\
                5000-6000 rwxp 00000000 00:00 0 \n\
                7000-8000 r-xp 00000000 00:05 9 /memfd:jit (deleted)\n";
    fs::write(folder.path().join("proc/5/maps"), maps).expect("write");
    fs::create_dir(folder.path().join("bin")).expect("mkdir");
    fs::write(folder.path().join("bin/script"), "#!/bin/sh\n").expect("write");
    let symboliser = Symboliser::new(Root::at(folder.path()));
    (folder, symboliser)
}

fn sample(tgid: u32, tid: u32, ip: u64, in_kernel: u32) -> Sample {
    Sample { ip, tid, tgid, in_kernel, ..Sample::default() }
}

#[test]
fn mappings_name_modules() {
    let (_folder, mut symboliser) = machine();
    let ips = [0x1010, 0x3010, 0x5010, 0x7010, 0x9010];
    symboliser.observe(&ips.map(|ip| sample(TGID, 5, ip, 0)), |_, _| {});
    symboliser.observe(&[sample(6, 6, 0x1010, 0)], |_, _| {});
    let sample_sites = symboliser.sample_sites();
    let modules: Vec<(u32, &str)> = sample_sites.iter().map(|site| (site.tid, site.module.as_str())).collect();
    let expected = [(5, "[anon]"), (5, "[unknown]"), (5, "[vdso]"), (5, "memfd:jit"), (5, "script"), (6, "[unknown]")];
    assert_eq!(modules, expected);
    assert!(sample_sites.iter().all(|site| site.function.is_none() && site.waiting.is_none()));
}

#[test]
fn in_the_kernel_only_sched_yield_and_futex_calls_wait() {
    let (_folder, mut symboliser) = machine();
    let in_call = |number: libc::c_long| 1 + u32::try_from(number).expect("small");
    let batch = [
        sample(TGID, 5, 0x1010, in_call(libc::SYS_sched_yield)),
        sample(TGID, 5, 0x1010, in_call(libc::SYS_futex)),
        sample(TGID, 5, 0x1020, in_call(libc::SYS_futex)),
        sample(TGID, 5, 0x1020, 0),
        sample(TGID, 5, 0x1020, in_call(libc::SYS_write)),
        sample(TGID, 5, 0x1020, Sample::NO_CALL),
    ];
    symboliser.observe(&batch, |_, _| {});
    symboliser.observe(&batch[..1], |_, _| {});
    let sample_sites: Vec<(u64, u64, Option<Waiting>)> =
        symboliser.sample_sites().iter().map(|site| (site.samples, site.in_kernel, site.waiting)).collect();
    assert_eq!(sample_sites, [(3, 2, None), (2, 2, Some(Waiting::Yield)), (2, 2, Some(Waiting::Futex))]);
}

#[test]
fn what_finds_no_room_is_counted() {
    let (_folder, mut symboliser) = machine();
    symboliser.max_places = 2;
    let batch = [0x1010, 0x1020, 0x1030, 0x1010, 0x1040].map(|ip| sample(TGID, 5, ip, 0));
    symboliser.observe(&batch, |_, _| {});
    assert_eq!(symboliser.lost_samples(), 2);
    assert_eq!(symboliser.sample_sites().iter().map(|site| site.samples).sum::<u64>(), 3);
}

#[test]
fn samples_in_rounds_count_for_shares_only_of_brief_threads() {
    let (_folder, mut symboliser) = machine();
    let in_round = |tid, t_ns| Sample { flags: Sample::IN_ROUND, t_ns, ..sample(TGID, tid, 0x1010, 0) };
    let mut seen = 0;
    let later = Sample { t_ns: 1_000_000 + BRIEF_NS, ..sample(TGID, 5, 0x1010, 0) };
    let batch = [in_round(5, 1_000_000), in_round(6, 1_000_500), later];
    symboliser.observe(&batch, |_, _| seen += 1);
    let sample_sites: Vec<(u32, u64)> = symboliser.sample_sites().iter().map(|site| (site.tid, site.samples)).collect();
    assert_eq!(sample_sites, [(5, 1), (6, 1)], "thread 6 is brief");
    assert_eq!((seen, symboliser.waits().len()), (1, 2));
}
