//! What ULPs have mapped is unmapped when they have ended, and nothing else is left of them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod place;

use place::{Place, each, lines};

/// What the last ULP finds: mappings of the address space, descriptors and tasks of the host.
fn left(line: &str) -> [u64; 3] {
    let numbers: Vec<u64> = line.strip_prefix("left: ").unwrap().split(' ').map(|word| word.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

#[test]
fn what_programs_map_in_all_ways_is_unmapped() {
    const OTHERS: usize = 24;
    let place = Place::new();
    let program = place.compile("memory", &["-ldl"]);
    for mode in ["coupled", "decoupled"] {
        let (alone, _) = place.run(1, &program, &[mode]);
        let [mappings, files, _] = left(&lines(&alone)[0]);
        let (output, ends) = place.run(OTHERS + 1, &program, &[mode]);
        let mut told = lines(&output);
        let now = left(&told.pop().unwrap());
        assert_eq!((told, ends), (each(OTHERS, |number| format!("{number} ok")), vec![0; OTHERS + 1]), "{mode}");
        // A second carrier has a stack and queues of its own. Sentinels do, if a carrier has slept in a page fault for some time.
        assert!(
            now[0] <= mappings + 16 && now[1] == files && now[2] <= 4 + 2 + 2,
            "{mode}: {now:?}, alone {mappings} {files}"
        );
        assert_eq!(place.told()["stays"].as_u64().unwrap() > OTHERS as u64, mode == "decoupled");
    }
}

#[test]
fn code_that_a_program_maps_is_changed_in_private_mappings_only() {
    let place = Place::new();
    let program = place.compile("code", &[]);
    let (output, ends) = place.run(1, &program, &[]);
    let told = lines(&output);
    let words: Vec<&str> = told[0].split(' ').collect();
    let ["page", "0", "private", private, "shared", "0", "0", "file", "as", "before"] = words[..] else {
        panic!("{told:?}")
    };
    // mmap, mremap and readlink, of which each replaced byte can happen to be the same.
    assert!((12..=21).contains(&private.parse().unwrap()) && ends == [0], "{told:?}");
}

/// As many as never have room at once: those that end make room for others.
#[test]
fn ten_thousand_leave_nothing() {
    let place = Place::new();
    let script = |last: usize| {
        format!(
            "[ $RANK = {last} ] || exit 0; while [ $(cat /proc/$PPID/task/*/children | wc -w) != 1 ]; do sleep 0.1; done; \
             sleep 0.2; echo $(wc -l </proc/$$/maps) $(ls /proc/$PPID/fd | wc -l) $(grep RssAnon /proc/$PPID/status | tr -dc 0-9)"
        )
    };
    let run = |count: usize| {
        let (output, ends) = place.run(count, "sh", &["-c", &script(count - 1)]);
        assert_eq!((ends.len(), ends.iter().find(|end| **end != 0)), (count, None));
        let numbers: Vec<u64> = lines(&output)[0].split(' ').map(|word| word.parse().unwrap()).collect();
        <[u64; 3]>::try_from(numbers).unwrap()
    };
    let ([mappings, files, kib], now) = (run(1), run(10_000));
    // The host keeps how each one ended, and its counters: 272 bytes.
    assert!(
        now[0] <= mappings + 8 && now[1] == files && now[2] < kib + 4096,
        "{now:?}, alone {mappings} {files} {kib}"
    );
}
