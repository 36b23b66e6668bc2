//! A program that cox packs: cox has set its affinity masks, on CPUs that its user chose, and cox's own threads run beside it.

mod staged;

use advise::evidence::Evidence;
use advise::forecast::Refusal;
use advise::forecast::modelled::Sketch;
use advise::{Facts, Kind, Verdict};
use ledger::{Preemptor, PreemptorKind};
use staged::common::judge;
use staged::{Behind, Life, OTHERS, SIBLINGS, Stage};

const S: u64 = 1_000_000_000;

fn text(verdict: &Verdict) -> String {
    verdict.sentences.iter().map(|sentence| format!("{} {:?}\n", sentence.text, sentence.next)).collect()
}

fn packed(mut stage: Stage, cpus: &[u32]) -> Stage {
    stage.facts.packed_cpus = Some(cpus.to_vec());
    stage
}

fn crowd(online: u32) -> Stage {
    let mut stage = Stage::alike(2, SIBLINGS, 4, &Life { spin: 0.2, preempted: 0.5, ..Life::default() });
    stage = stage.on_machine_of(online);
    stage.facts.allowed_cpus = (0..online).collect();
    stage
}

#[test]
fn the_cpus_are_those_of_the_pack() {
    let mut facts = Facts { allowed_cpus: vec![0, 1, 2, 3], pinned_cpus: Some(vec![0, 1, 2]), ..Facts::default() };
    facts.packed_cpus = Some(vec![1, 2]);
    assert_eq!(facts.program_cpus(), [1, 2]);
    let stage = packed(crowd(8), &[0, 1]);
    assert_eq!(Evidence::new(&stage.account, &stage.facts).cpus, 2.0);
}

/// The same threads unpacked have pinned themselves: idle CPUs beside them, and none of those used.
#[test]
fn the_packs_masks_are_nobodys_pinning() {
    let mut pinned = crowd(8);
    pinned.facts.pinned_cpus = Some(vec![0, 1]);
    assert_eq!(judge(&pinned).headline, Kind::PinnedTooFew);
    for stage in [packed(crowd(8), &[0, 1]), packed(pinned, &[0, 1])] {
        let verdict = judge(&stage);
        assert_eq!(verdict.headline, Kind::TooManyThreadsSpinning, "{}", text(&verdict));
        let text = text(&verdict);
        assert!(text.contains("4 threads share 2 CPUs of the pack") && text.contains("2 threads"), "{text}");
        assert!(!text.contains("taskset") && !text.contains("stood idle"), "{text}");
    }
    // Masks of one CPU each, and one of the pack's stays idle: cox gathers who waits.
    let gathered = || {
        let mut stage = Stage::alike(1, SIBLINGS, 2, &Life { preempted: 0.5, ..Life::default() }).on_machine_of(2);
        stage.facts.allowed_cpus = vec![0, 1];
        stage
    };
    assert_eq!(judge(&gathered()).headline, Kind::PinnedTooFew);
    assert_ne!(judge(&packed(gathered(), &[0, 1])).headline, Kind::PinnedTooFew);
}

#[test]
fn a_packed_program_is_not_told_to_be_packed() {
    let mut stage = crowd(2);
    stage.facts.verbs.insert("advise".into());
    assert!(text(&judge(&stage)).contains("cox advise"));
    let text = text(&judge(&packed(stage, &[0, 1])));
    assert!(!text.contains("cox advise"), "{text}");
}

/// Threads that waited for cox's own threads are told so by the section on packing.
#[test]
fn nobody_is_told_to_stop_the_packer() {
    let took = |stage: &mut Stage, comm: &str, wait_ns| {
        let preemptor =
            Preemptor { comm: comm.into(), tid: 8, host_tid: None, threads: 1, kind: PreemptorKind::Cox, wait_ns };
        stage.account.preemptors.push(preemptor);
    };
    let mut alone = Stage::alike(2, OTHERS, 2, &Life { preempted: 0.3, ..Life::default() });
    let all_ns = alone.account.preemptors[0].wait_ns;
    assert_eq!(judge(&alone).headline, Kind::CpuHog);
    alone.account.preemptors.clear();
    took(&mut alone, "cox-slot-0", all_ns / 2);
    took(&mut alone, "cox-pack", all_ns - all_ns / 2);
    let verdict = judge(&packed(alone, &[0, 1]));
    assert_ne!(verdict.headline, Kind::CpuHog, "{}", text(&verdict));

    let mut both = Stage::alike(2, OTHERS, 2, &Life { preempted: 0.6, ..Life::default() });
    both.account.preemptors[0].wait_ns = 9 * S;
    took(&mut both, "cox-slot-1", 3 * S);
    both = packed(both, &[0, 1]);
    let verdict = judge(&both);
    assert_eq!(verdict.headline, Kind::CpuHog, "{}", text(&verdict));
    let text = text(&verdict);
    assert!(text.contains("Other programs, cox's packing among them, took") && text.contains("stop stress"), "{text}");
    assert!(!text.contains("cox-slot"), "{text}");
    // Nor is more promised than stopping the others can give.
    (both.account.preemptors[1].comm, both.account.preemptors[1].kind) = ("make".into(), PreemptorKind::Other);
    let expected = |verdict: &Verdict| verdict.sentences[0].next[0].expected_low;
    assert!(expected(&verdict) < expected(&judge(&both)));
}

/// Without seeing whom threads waited for, somebody else is suspected; with cox's own masks on them that is
/// no conclusion.
#[test]
fn waiting_beside_free_cpus_is_no_sign_of_others() {
    let behind = Behind { sibling: 0.0, other: 0.5, idle: 0.5 };
    let stage = Stage::alike(2, behind, 2, &Life { preempted: 0.4, ..Life::default() }).by_perf();
    assert_eq!(judge(&stage).headline, Kind::CpuHog);
    let verdict = judge(&packed(stage, &[0, 1]));
    assert_ne!(verdict.headline, Kind::CpuHog, "{}", text(&verdict));
}

#[test]
fn no_forecast_is_made_from_a_packed_run() {
    let stage = packed(crowd(2), &[0, 1]);
    assert_eq!(Sketch::of(&Evidence::new(&stage.account, &stage.facts), 2), Err(Refusal::Packed));
}
