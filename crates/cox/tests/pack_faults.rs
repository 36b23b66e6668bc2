//! Faults of `cox pack` and of the packed program: in each case the program continues, and every affinity mask is what it would be without cox.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use changes::{ChangeRequest, Claim, JournalFolder, Knob, LiveKnobIo, Session};
use machine::cgroup::{Hierarchies, Version};
use machine::limits::{Who, allowed_cpus};
use machine::process::Task;
use machine::{CpuSet, Root};
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::thread::{CpuSet as KernelCpuSet, sched_setaffinity};
use testkit::Random;
use testkit::packed::{Place, Runs, two_cpus};
use testkit::run::{children, end_of, path, run, say, send, shell_code, state, through, turn, wait_for, workload};
use testkit::skip::{Need, skip};

/// What the guardian has to put all masks back, the one absolute time that these tests assert: it is what cox
/// promises. A machine that is busy with other things may take the CPU away from guardian and test for longer,
/// so a kill that was answered late is repeated; cox is at fault when it is late again and again.
const PROMISE: Duration = Duration::from_millis(100);
const REPEATS: usize = 10;

/// Moments that nobody has chosen, from the time of day, which is said so that a failure can be repeated.
struct Moments(Random);

impl Moments {
    fn new(test: &str) -> Moments {
        let seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
        say(&format!("{test}: moments from seed {seed}"));
        Moments(Random::new(seed))
    }

    /// From nothing to `longest`, early moments more often: that is when most happens.
    fn next(&mut self, longest: Duration) -> Duration {
        let share = self.0.number() as f64 / u64::MAX as f64;
        longest.mul_f64(share * share)
    }
}

/// SIGKILL of cox, alone or with its whole process group.
fn kill(cox: &mut Child, with_group: bool) {
    if with_group {
        kill_process_group(Pid::from_child(cox), Signal::KILL).unwrap();
    } else {
        cox.kill().unwrap();
    }
}

/// The time from now until `is_back`, which is looked at every millisecond.
fn time_until(is_back: impl Fn() -> bool) -> Duration {
    let since = Instant::now();
    wait_for("the masks", || is_back().then_some(()));
    since.elapsed()
}

/// That nothing is left of any session.
fn assert_clean(place: &Place) {
    // The last mask comes back before the journal goes. Empty files to be locked stay.
    // Killed before it had made the folder: there is nothing either.
    let names = || fs::read_dir(place.folder()).into_iter().flatten().map(|file| file.unwrap().file_name());
    let left = || names().filter(|name| name != "lock" && name != "rights").collect::<Vec<_>>();
    let since = Instant::now();
    while !left().is_empty() {
        assert!(since.elapsed() < Duration::from_secs(20), "{:?}", left());
        sleep(Duration::from_millis(1));
    }
    let status = run(&mut place.verb("changes", &["status"]));
    assert_eq!((status.code, status.text().as_str()), (0, "Nothing is changed.\n"), "{}", status.stderr);
}

/// Repeats what was late; the time that counts. Its other faults fail the test at once.
fn in_time(mut attempt: impl FnMut() -> Duration) -> Duration {
    let mut took = attempt();
    for _ in 1..REPEATS {
        if took <= PROMISE {
            break;
        }
        say(&format!("again: the masks were back after {took:?}"));
        took = attempt();
    }
    assert!(took <= PROMISE, "late {REPEATS} times, {took:?} at last");
    took
}

/// Attaches to `runs` again and again, and kills cox at moments up to `longest` after its start: two of four
/// wait until something is packed first, which takes a machine as long as it takes.
fn killed_at_random_moments(test: &str, runs: &Runs, arguments: &[&str], kills: usize, longest: Duration) {
    let place = Place::new();
    let before = runs.masks();
    let (mut moments, mut slowest, mut packed) = (Moments::new(test), Duration::ZERO, 0);
    let pid = runs.pid();
    let arguments = [&["-q", "--pid", &pid], arguments].concat();
    for number in 0..kills {
        let moment = moments.next(longest);
        let took = in_time(|| {
            // With the ordinary scheduling policy, whatever the test's own is.
            let mut cox = through(&["chrt", "--other", "0"], &place.cox(&arguments)).process_group(0).spawn().unwrap();
            if number % 4 >= 2 {
                wait_for("a packed program", || (!runs.is_as(&before)).then_some(()));
            }
            sleep(moment);
            assert!(!runs.masks().is_empty(), "the program has ended");
            let was_packed = !runs.is_as(&before);
            packed += usize::from(was_packed);
            kill(&mut cox, number % 2 == 1);
            // The journal goes when all masks are back: looking at a thousand of them takes as long as setting them.
            let gone = time_until(|| place.journals() == 0);
            let took = if was_packed { gone } else { Duration::ZERO };
            end_of(&mut cox);
            if !was_packed {
                // Killed before there was a guardian, or while it was on its way: nothing is held once it is gone.
                let undo = || run(&mut place.verb("changes", &["undo"])).code == 0;
                let journals = JournalFolder::at(place.folder());
                let is_held = || journals.is_held(runs.0.id()).unwrap();
                wait_for("the right to pack", || (undo() && !is_held()).then_some(()));
            }
            assert_clean(&place);
            assert!(runs.is_as(&before), "killed after {moment:?}: {:?}", runs.masks());
            took
        });
        slowest = slowest.max(took);
    }
    assert!(packed > 0, "no kill came while the program was packed");
    say(&format!(
        "{test}: {kills} kills, {packed} of a packed program; all masks back after {slowest:?} at the latest"
    ));
}

/// A team of OpenMP threads that works until it is told to finish, and then checks all it has done.
fn killed_with_a_team(test: &str, kills: usize) {
    let Some((_, cpus)) = two_cpus(test) else { return };
    let _turn = turn();
    let mut runs = Runs::start(&[&workload("regions"), "--threads", "3", "--regions", "100", "--on-signal"]);
    runs.wait_for_threads(3);
    let fixed = ["--cpus", &cpus, "--always", "--period", "200us"];
    killed_at_random_moments(test, &runs, &fixed, kills, Duration::from_millis(800));
    send(runs.0.id(), Signal::USR1);
    assert_eq!(shell_code(end_of(&mut runs.0)), 0, "its work was checked");
}

#[test]
fn killed_at_random_moments_all_masks_are_back_in_time() {
    killed_with_a_team("killed_at_random_moments_all_masks_are_back_in_time", 20);
}

#[test]
#[ignore = "takes minutes"]
fn killed_at_200_random_moments_all_masks_are_back_in_time() {
    killed_with_a_team("killed_at_200_random_moments_all_masks_are_back_in_time", 200);
}

/// A sleeper that woke early would have ended.
#[test]
fn a_thousand_threads_are_back_in_time() {
    let test = "a_thousand_threads_are_back_in_time";
    let Some((allowed, _)) = two_cpus(test) else { return };
    let _turn = turn();
    let runs = Runs::start(&[&workload("storm"), "--sleepers", "1000", "--seconds", "3600"]);
    runs.wait_for_threads(1001);
    let last = allowed.last().unwrap().to_string();
    killed_at_random_moments(test, &runs, &["--cpus", &last, "--always"], 5, Duration::from_millis(1500));
    assert_eq!(runs.masks().len(), 1001, "no sleeper woke early");
}

/// cox puts the masks back before all runnable threads have run once: on the one CPU of the pack, 80 threads need more than 200 ms for that. Takes
/// about 10 s, because each new cox waits for a CPU among threads that spin.
#[test]
fn the_threads_of_a_busy_program_are_back_in_time() {
    let test = "the_threads_of_a_busy_program_are_back_in_time";
    let Some((allowed, _)) = two_cpus(test) else { return };
    let _turn = turn();
    let fixed = ["--threads", "80", "--work-us", "1000", "--wait", "spin", "--iterations-per-us", "300"];
    let busy = workload("barriers");
    let runs = Runs::start(&[&[busy.as_str()][..], &fixed, &["--seconds", "3600"]].concat());
    runs.wait_for_threads(80);
    // Neither the test nor the `cox changes` that it starts waits for a turn among them.
    let this = rustix::thread::gettid().as_raw_nonzero().to_string();
    assert!(Command::new("chrt").args(["-f", "-p", "50", &this]).status().unwrap().success());
    let last = allowed.last().unwrap().to_string();
    killed_at_random_moments(test, &runs, &["--cpus", &last, "--always"], 4, Duration::from_secs(2));
}

/// A program that cox has started goes on without it, also while its threads come and go.
#[test]
fn a_launched_program_outlives_cox() {
    let test = "a_launched_program_outlives_cox";
    let Some((allowed, cpus)) = two_cpus(test) else { return };
    let _turn = turn();
    let (storm, barriers) = (workload("storm"), workload("barriers"));
    let spin: Vec<&str> =
        "--threads 3 --work-us 200 --wait spin-futex --iterations-per-us 300 --rounds 2000".split(' ').collect();
    let mut moments = Moments::new(test);
    for program in
        [[&[storm.as_str(), "--threads", "20000"][..], &[]].concat(), [&[barriers.as_str()][..], &spin].concat()]
    {
        // The line with times in it is another each time.
        let checksum =
            |text: &str| text.lines().last().and_then(|line| line.split("checksum").nth(1)).map(str::to_owned);
        let plain = checksum(&run(Command::new(program[0]).args(&program[1..])).text());
        assert!(plain.is_some());
        for _ in 0..4 {
            let place = Place::new();
            let arguments = [&["-q", "--cpus", &cpus, "--always", "--period", "200us", "--"][..], &program].concat();
            let out = path(&place.0, "out");
            let mut cox = place.cox(&arguments).stdout(File::create(&out).unwrap()).spawn().unwrap();
            let is_it = |pid: &u32| {
                Task::process(&Root::live(), *pid).stat().is_ok_and(|stat| program[0].ends_with(&stat.comm))
            };
            let pid = wait_for("the program", || children(cox.id()).into_iter().find(is_it));
            sleep(moments.next(Duration::from_millis(200)));
            cox.kill().unwrap();
            end_of(&mut cox);
            assert_clean(&place);
            let masks: Vec<CpuSet> = Task::process(&Root::live(), pid)
                .threads()
                .unwrap_or_default()
                .into_iter()
                .filter_map(|tid| allowed_cpus(&Root::live(), Who::Task(tid)).ok())
                .collect();
            assert!(masks.iter().all(|mask| *mask == allowed), "{masks:?}");
            wait_for("the program's end", || state(pid).is_none().then_some(()));
            assert_eq!(checksum(&fs::read_to_string(&out).unwrap()), plain);
        }
    }
}

#[test]
fn a_program_that_crashes_leaves_nothing() {
    let Some((_, cpus)) = two_cpus("a_program_that_crashes_leaves_nothing") else { return };
    let _turn = turn();
    let place = Place::new();
    let program = workload("barriers");
    let fixed: Vec<&str> =
        "--threads 3 --work-us 300 --wait spin --iterations-per-us 300 --rounds 1000000".split(' ').collect();
    let launched = [&["-q", "--cpus", &cpus, "--always", "--", &program][..], &fixed].concat();
    let mut cox = place.cox(&launched).spawn().unwrap();
    let threads = |pid: u32| Task::process(&Root::live(), pid).threads().map_or(0, |threads| threads.len());
    let pid = wait_for("its threads", || children(cox.id()).into_iter().find(|pid| threads(*pid) == 3));
    sleep(Duration::from_millis(100));
    send(pid, Signal::SEGV);
    assert_eq!(shell_code(end_of(&mut cox)), 128 + 11);
    assert_clean(&place);

    let mut runs = Runs::spinning("1000000");
    let before = runs.masks();
    let one: CpuSet = before.values().next().unwrap().iter().take(1).collect();
    let mut cox = place.cox(&["-q", "--cpus", &one.to_string(), "--always", "--pid", &runs.pid()]).spawn().unwrap();
    wait_for("the pack", || runs.masks().values().all(|mask| *mask == one).then_some(()));
    send(runs.0.id(), Signal::SEGV);
    assert_eq!(shell_code(end_of(&mut runs.0)), 128 + 11);
    assert_eq!(shell_code(end_of(&mut cox)), 0);
    assert_clean(&place);
}

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Asked,
    Killed,
}

impl End {
    const BOTH: [End; 2] = [End::Asked, End::Killed];

    fn of(self, cox: &mut Child) {
        match self {
            End::Asked => send(cox.id(), Signal::INT),
            End::Killed => cox.kill().unwrap(),
        }
        let code = shell_code(end_of(cox));
        assert_eq!(code, if self == End::Asked { 0 } else { 128 + 9 });
    }
}

fn sleepers(count: usize) -> Runs {
    let runs = Runs::start(&[&workload("storm"), "--sleepers", &count.to_string(), "--seconds", "60"]);
    runs.wait_for_threads(count + 1);
    runs
}

#[test]
fn two_sessions_end_in_either_order() {
    let Some((allowed, _)) = two_cpus("two_sessions_end_in_either_order") else { return };
    let one: CpuSet = allowed.iter().take(1).collect();
    let place = Place::new();
    for (end, first_ends_first) in [(End::Asked, true), (End::Asked, false), (End::Killed, true), (End::Killed, false)]
    {
        let programs = [sleepers(10), sleepers(10)];
        let before = programs.each_ref().map(Runs::masks);
        let mut sessions = programs.each_ref().map(|program| {
            let cox = place.cox(&["-q", "--cpus", &one.to_string(), "--pid", &program.pid()]).spawn().unwrap();
            wait_for("the pack", || program.masks().values().all(|mask| *mask == one).then_some(()));
            cox
        });
        let order = if first_ends_first { [0, 1] } else { [1, 0] };
        end.of(&mut sessions[order[0]]);
        wait_for("its masks", || programs[order[0]].is_as(&before[order[0]]).then_some(()));
        assert!(programs[order[1]].masks().values().all(|mask| *mask == one), "the other goes on");
        end.of(&mut sessions[order[1]]);
        wait_for("its masks", || programs[order[1]].is_as(&before[order[1]]).then_some(()));
        assert_clean(&place);
    }
}

/// Another engine's session wants the same masks: who ends last puts back what was there before the first.
#[test]
fn what_another_session_shares_goes_back_with_the_last() {
    let Some((allowed, _)) = two_cpus("what_another_session_shares_goes_back_with_the_last") else { return };
    let (one, other): (CpuSet, CpuSet) = (allowed.iter().take(1).collect(), allowed.iter().skip(1).take(1).collect());
    let place = Place::new();
    let knob_io = LiveKnobIo::new(Root::live());
    for (end, cox_ends_first) in [(End::Asked, true), (End::Asked, false), (End::Killed, true), (End::Killed, false)] {
        let runs = sleepers(10);
        let before = runs.masks();
        let mut cox = place.cox(&["-q", "--cpus", &one.to_string(), "--pid", &runs.pid()]).spawn().unwrap();
        wait_for("the pack", || runs.masks().values().all(|mask| *mask == one).then_some(()));
        let requests = |cpus: &CpuSet| {
            let request = |tid: &u32| ChangeRequest {
                engine: "test".into(),
                knob: Knob::Affinity(knob_io.thread(*tid).unwrap()),
                claim: Claim::Within(cpus.clone()),
                heir_of: Vec::new(),
            };
            before.keys().map(request).collect::<Vec<_>>()
        };
        let journals = JournalFolder::at(place.folder());
        let mut session = Session::begin(&knob_io, journals, std::process::id(), "test", |_| Ok(None)).unwrap();
        assert!(matches!(session.take(requests(&other)), Err(changes::Error::Held { .. })));
        session.take(requests(&one)).unwrap();
        let is_packed = || runs.masks().values().all(|mask| *mask == one);
        if cox_ends_first {
            end.of(&mut cox);
            wait_for("the other to be the last", || (place.journals() == 1).then_some(()));
            assert!(is_packed());
            session.end();
        } else {
            session.end();
            assert!(is_packed());
            end.of(&mut cox);
        }
        wait_for("the masks", || runs.is_as(&before).then_some(()));
        assert_clean(&place);
    }
}

/// What the program sets itself while it is packed is its own: cox neither overwrites it nor puts it back.
#[test]
fn what_the_program_sets_itself_survives() {
    let Some((allowed, _)) = two_cpus("what_the_program_sets_itself_survives") else { return };
    let _turn = turn();
    let (free, packed) = (allowed.first().unwrap(), allowed.last().unwrap());
    let place = Place::new();
    for end in End::BOTH {
        let runs = Runs::spinning("1000000");
        let before = runs.masks();
        let list = packed.to_string();
        let arguments = ["-q", "--cpus", &list, "--always", "--period", "200us", "--pid", &runs.pid()];
        let mut cox = place.cox(&arguments).spawn().unwrap();
        let pack: CpuSet = [packed].into_iter().collect();
        wait_for("the pack", || runs.masks().values().all(|mask| *mask == pack).then_some(()));
        let (&own, wish) = (before.keys().last().unwrap(), [free].into_iter().collect::<CpuSet>());
        set_mask(own, &wish);
        // Turns, measurements, and what ends them.
        sleep(Duration::from_millis(300));
        assert_eq!(runs.masks()[&own], wish, "while it is packed");
        end.of(&mut cox);
        let expected: BTreeMap<u32, CpuSet> =
            before.iter().map(|(tid, mask)| (*tid, if *tid == own { wish.clone() } else { mask.clone() })).collect();
        wait_for("the masks", || runs.is_as(&expected).then_some(()));
        assert_clean(&place);
        assert!(runs.is_as(&expected), "{end:?}");
    }
}

/// As the thread itself would.
fn set_mask(tid: u32, cpus: &CpuSet) {
    let mut mask = KernelCpuSet::new();
    cpus.iter().for_each(|cpu| mask.set(cpu as usize));
    sched_setaffinity(Pid::from_raw(tid as i32), &mask).unwrap();
}

/// A cgroup that says which CPUs its processes may use; gone with the test.
struct Fenced {
    folder: PathBuf,
    processes: Vec<Runs>,
}

impl Fenced {
    /// Below the cgroup of this process; `None`, said, where that cannot be.
    fn new(test: &str, cpus: &CpuSet) -> Option<Fenced> {
        let root = Root::live();
        let made = || -> Result<Fenced, String> {
            let all = Hierarchies::read(&root).map_err(|error| error.to_string())?;
            let memberships = Task::own(&root).cgroups().map_err(|error| error.to_string())?;
            let parent = all.cgroup_of(&memberships, "cpuset").map_err(|error| error.to_string())?;
            let parent = parent.ok_or("no cpuset controller is mounted")?;
            let folder = parent.folder.join(format!("cox-test-{}-{test}", std::process::id()));
            fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
            // From here on it goes with the test, whatever fails.
            let fenced = Fenced { folder, processes: Vec::new() };
            if parent.version == Version::V1 {
                // Without memory nodes of its own a cgroup of version 1 takes nobody.
                let nodes = fs::read_to_string(parent.folder.join("cpuset.mems")).map_err(|error| error.to_string())?;
                fenced.write("cpuset.mems", &nodes)?;
            }
            fenced.write("cpuset.cpus", &cpus.to_string())?;
            Ok(fenced)
        };
        made().map_err(|reason| skip(test, Need::Cgroup, reason)).ok()
    }

    fn write(&self, file: &str, text: &str) -> Result<(), String> {
        fs::write(self.folder.join(file), text).map_err(|error| format!("{file}: {error}"))
    }

    fn allow(&self, cpus: &CpuSet) {
        self.write("cpuset.cpus", &cpus.to_string()).unwrap();
    }

    /// A program inside, from its first instruction.
    fn run(&mut self, count: usize, arguments: &[&str]) -> &Runs {
        let enter = format!("echo $$ > {}/cgroup.procs; exec \"$@\"", self.folder.display());
        let runs = Runs::start(&[&["sh", "-c", &enter, "sh"][..], arguments].concat());
        runs.wait_for_threads(count);
        self.processes.push(runs);
        self.processes.last().unwrap()
    }
}

impl Drop for Fenced {
    fn drop(&mut self) {
        self.processes.clear();
        // The kernel lets go of who has ended a little later.
        wait_for("the empty cgroup", || fs::remove_dir(&self.folder).is_ok().then_some(()));
    }
}

/// The cpuset shrinks to one CPU while two are packed, and grows again, before or after the end.
#[test]
fn a_cpuset_that_shrinks_is_obeyed_and_its_growth_too() {
    let test = "a_cpuset_that_shrinks_is_obeyed_and_its_growth_too";
    let Some((_, cpus)) = two_cpus(test) else { return };
    let _turn = turn();
    let two: CpuSet = cpus.parse().unwrap();
    let one: CpuSet = two.iter().take(1).collect();
    let Some(mut fenced) = Fenced::new(test, &two) else { return };
    let place = Place::new();
    let team = workload("regions");
    let program = [team.as_str(), "--threads", "3", "--regions", "100", "--on-signal"];
    for (end, grows_before) in [(End::Asked, true), (End::Asked, false), (End::Killed, true), (End::Killed, false)] {
        // The other CPU is packed alone: then nothing is left of the pack, and the kernel gives the whole cpuset.
        let other = two.last().unwrap().to_string();
        for pack in [cpus.as_str(), &other] {
            fenced.allow(&two);
            fenced.run(3, &program);
            let runs = fenced.processes.last().unwrap();
            let pid = runs.pid();
            let before = runs.masks();
            assert!(before.values().all(|mask| *mask == two), "{before:?}");
            let arguments = ["-q", "--cpus", pack, "--always", "--period", "200us", "--pid", &pid];
            let mut cox = place.cox(&arguments).spawn().unwrap();
            wait_for("the pack", || (!runs.is_as(&before)).then_some(()));
            sleep(Duration::from_millis(50));
            fenced.allow(&one);
            wait_for("the cpuset", || runs.masks().values().all(|mask| *mask == one).then_some(()));
            sleep(Duration::from_millis(100));
            assert!(runs.masks().values().all(|mask| *mask == one), "{:?}", runs.masks());
            if grows_before {
                fenced.allow(&two);
                sleep(Duration::from_millis(100));
            }
            end.of(&mut cox);
            assert_clean(&place);
            if !grows_before {
                assert!(runs.masks().values().all(|mask| *mask == one), "{:?}", runs.masks());
                fenced.allow(&two);
            }
            assert!(runs.is_as(&before), "{end:?}, {grows_before}, {pack}: {:?}", runs.masks());
            send(runs.0.id(), Signal::USR1);
            assert_eq!(shell_code(end_of(&mut fenced.processes.last_mut().unwrap().0)), 0, "its work was checked");
        }
    }
}
