//! `cox noise` and `cox run --noise` of an ordinary user: what interrupts the user's threads, and nothing about other users.

use std::time::Instant;

use broker::protocol::{self, FunctionRow, NoiseRow, Part, Reply, Request, WantedNoise, Why, decode_reply, rows};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::*;

/// Names of the causes in a report, and how often each of them came.
fn causes(report: &Value, taken: &Value) -> BTreeMap<String, u64> {
    let name = |row: &Value| report["causes"][row["cause"].as_u64().unwrap() as usize]["name"].as_str().unwrap();
    let rows = taken.as_array().unwrap().iter();
    rows.map(|row| (name(row).to_owned(), row["count"].as_u64().unwrap())).collect()
}

#[test]
fn a_user_sees_the_causes_of_noise_by_name() {
    let test = "a_user_sees_the_causes_of_noise_by_name";
    let Some(installed) = Installed::new(test) else { return };
    let _turn = turn();
    let cox = installed.cox();
    let words = [cox.as_str(), "noise", "--for", "2s", "--warm-up", "200ms", "--json", "noise.json"];
    let ran = run(&mut installed.command(&words));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let report = json(&installed, "noise.json");
    assert!(report["events"]["blind"].is_null(), "{}", report["events"]);
    for cpu in report["cpus"].as_array().unwrap() {
        let causes = causes(&report, &cpu["by_cause"]);
        assert!(causes.get("timer tick").is_some_and(|count| *count > 50), "{causes:?}");
        // The kernel's counters are compared with those of the events.
        let timer = cpu["check"]["rows"].as_array().unwrap().iter().find(|row| row[0] == "LOC").unwrap();
        assert!(timer[2].as_u64().is_some_and(|seen| seen > 50), "{timer}");
    }
    let names: Vec<&Value> = report["causes"].as_array().unwrap().iter().map(|cause| &cause["name"]).collect();
    assert!(!ran.text().contains("0x") && !report["causes"].to_string().contains("0x"), "{names:?}");
    let words = [
        cox.as_str(),
        "run",
        "--noise",
        "--json",
        "cox.json",
        "--",
        "sh",
        "-c",
        "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done",
    ];
    let ran = run(&mut installed.command(&words));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let report = json(&installed, "cox.json");
    assert_eq!((report["backend"].as_str(), report["sees"]["unsampled"].as_str()), (Some("bpf"), Some("noise")));
    let noise = &report["noise"];
    // The helper takes no samples either.
    assert!(!noise["causes"].to_string().contains("perf_swevent_hrtimer"), "{}", noise["causes"]);
    assert!(causes(noise, &noise["total"]).get("timer tick").is_some_and(|count| *count > 10), "{noise}");
    assert!(ran.stderr.contains("taken by") && !ran.stderr.contains("0x"), "{}", ran.stderr);
}

#[test]
fn threads_of_other_users_have_no_name_as_causes_of_noise() {
    let test = "threads_of_other_users_have_no_name_as_causes_of_noise";
    let Some(installed) = Installed::new(test) else { return };
    let _turn = turn();
    let secret = installed.give("/bin/sh".as_ref(), "secret-of-root");
    let raised = fs::write("/proc/sys/kernel/ns_last_pid", "20000");
    let busy = start(Command::new("taskset").args(["-c", "0", &secret, "-c", "while :; do :; done"]));
    let (cox, pid) = (installed.cox(), busy.0.id().to_string());
    let words = [cox.as_str(), "noise", "--cpus", "0", "--for", "1s", "--json", "noise.json"];
    let measured = run(&mut installed.command(&words));
    assert_eq!(measured.code, 0, "{}", measured.stderr);
    let report = json(&installed, "noise.json");
    let program = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done";
    let words = [cox.as_str(), "run", "--noise", "--json", "cox.json", "--", "taskset", "-c", "0", "sh", "-c", program];
    let ran = run(&mut installed.command(&words));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let noise = &json(&installed, "cox.json")["noise"];
    for (report, taken) in [(&report, &report["cpus"][0]["by_cause"]), (noise, &noise["total"])] {
        let causes = causes(report, taken);
        assert!(causes.get("another user's thread").is_some_and(|count| *count > 5), "{causes:?}");
        let text = report["causes"].to_string();
        assert!(!text.contains("secret"), "{text}");
        let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
        assert!(!words.any(|word| word == pid), "{pid} in {text}; raised: {raised:?}");
    }
    assert!(!(measured.text() + &ran.stderr).contains("secret"), "{}{}", measured.text(), ran.stderr);
}

/// Without a source of events, the loops and the program run all the same.
#[test]
fn a_user_without_the_helper_is_told_why_noise_has_no_causes() {
    let test = "a_user_without_the_helper_is_told_why_noise_has_no_causes";
    let Some(installed) = Installed::new(test) else { return };
    let cox = installed.cox();
    let both_ways = |reason: &str| {
        let words = [cox.as_str(), "noise", "--for", "300ms", "--warm-up", "100ms", "--json", "noise.json"];
        let ran = run(&mut installed.command(&words));
        let text = on_one_line(&ran.text());
        assert!(ran.code == 0 && text.contains("causes not known: ") && text.contains(reason), "{text} {}", ran.stderr);
        let report = json(&installed, "noise.json");
        assert!(report["cpus"][0]["fine"]["count"].as_u64().unwrap() > 0, "{report}");
        let ran = run(&mut installed.command(&[&cox, "run", "--noise", "--", "sh", "-c", "echo out; exit 3"]));
        let said = on_one_line(&ran.stderr);
        assert_eq!((ran.code, ran.text().as_str()), (3, "out\n"), "{said}");
        assert!(said.contains("noise not known: ") && said.contains(reason) && said.contains("Fix: "), "{said}");
    };
    assert!(Command::new("setcap").arg("-r").arg(installed.helper()).status().unwrap().success());
    both_ways("cox-observe lacks CAP_BPF and CAP_PERFMON");
    fs::remove_file(installed.helper()).unwrap();
    both_ways("needs CAP_BPF and CAP_PERFMON");
}

/// A conversation with the helper as the user, message by message.
struct Conversation {
    socket: OwnedFd,
    helper: Running,
}

impl Conversation {
    fn new(installed: &Installed) -> Conversation {
        let (socket, its) = pair();
        let helper = start(installed.command(&[installed.helper().to_str().unwrap()]).stdin(Stdio::from(its)));
        let mut conversation = Conversation { socket, helper };
        let hello = Request::Hello { version: protocol::VERSION, layout: protocol::LAYOUT };
        assert_eq!(conversation.ask(&hello), (Vec::new(), None));
        conversation
    }

    /// Returns the messages of the answer, and the refusal.
    fn ask(&mut self, request: &Request) -> (Vec<Vec<u8>>, Option<(Why, String)>) {
        send(&self.socket, &request.encode(), SendFlags::NOSIGNAL).unwrap();
        let mut messages = Vec::new();
        let mut buffer = vec![0; protocol::MAX_REPLY];
        loop {
            let (_, length) = recv(&self.socket, &mut buffer[..], RecvFlags::empty()).unwrap();
            let message = &buffer[..length];
            assert!(length > 0, "{request:?}: the helper has ended: {:?}", self.helper.0.try_wait());
            match decode_reply(message).unwrap() {
                Reply::Done => return (messages, None),
                Reply::Refused(why, text) => return (messages, Some((why, text.to_owned()))),
                _ => messages.push(message.to_vec()),
            }
        }
    }
}

const WANTED: WantedNoise = WantedNoise { children: true, ring_bytes: 4 << 20, fault_period: Some(1), without: 0 };

/// What a user gets who speaks with the helper without cox.
#[test]
fn the_helper_sends_no_address_of_the_kernel_and_nothing_about_others() {
    let test = "the_helper_sends_no_address_of_the_kernel_and_nothing_about_others";
    let Some(installed) = Installed::new(test) else { return };
    let _turn = turn();
    let secret = installed.give("/bin/sh".as_ref(), "secret-of-root");
    let busy = start(Command::new("taskset").args(["-c", "0", &secret, "-c", "while :; do :; done"]));
    let own = start(&mut installed.command(&["taskset", "-c", "0", "sh", "-c", "while :; do :; done"]));
    wait_for("the user's loop", || {
        fs::read_to_string(format!("/proc/{}/comm", own.0.id())).is_ok_and(|comm| comm == "sh\n").then_some(())
    });
    let mut conversation = Conversation::new(&installed);
    assert_eq!(conversation.ask(&Request::Noise(WANTED)).1, None);
    for refused in [Request::Process(busy.0.id()), Request::Threads(vec![own.0.id(), busy.0.id()]), Request::Process(1)]
    {
        let (messages, refusal) = conversation.ask(&refused);
        let is_refused = matches!(&refusal, Some((Why::NoTarget, why)) if why.contains("another user"));
        assert!(is_refused && messages.is_empty(), "{refused:?}: {refusal:?}");
    }
    assert_eq!(conversation.ask(&Request::Process(own.0.id())), (Vec::new(), None));
    let (mut events, mut functions) = (Vec::new(), Vec::new());
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        sleep(Duration::from_millis(100));
        let mut messages = conversation.ask(&Request::Tick).0;
        messages.extend(conversation.ask(&Request::Counts).0);
        for message in &messages {
            assert!(!contains(message, b"secret"));
            // The structs begin behind a head of eight bytes, and have numbers of eight bytes at places that can be divided by eight.
            for number in message.chunks_exact(8).map(|bytes| u64::from_ne_bytes(bytes.try_into().unwrap())) {
                let is_data = (0xffff_8000_0000_0000..0xffff_ffff_0000_0000).contains(&number);
                assert!(!is_data && number < 0xffff_ffff_8000_0000, "{number:#x}");
            }
            match decode_reply(message).unwrap() {
                Reply::Data(Part::NoiseEvents, bytes) => events.extend(rows::<NoiseRow>(bytes)),
                Reply::Data(Part::Functions, bytes) => functions.extend(rows::<FunctionRow>(bytes)),
                _ => {}
            }
        }
    }
    use wire::layout::ANOTHER_USERS;
    use wire::noise::{edge, kind};
    let of = |kind: u8, edge: u8| events.iter().filter(move |row| row.event.kind == kind && row.event.edge == edge);
    assert!(of(kind::VECTOR, edge::BEGIN).count() > 50, "{} events", events.len());
    let timers: Vec<u64> = of(kind::HRTIMER, edge::BEGIN).map(|row| row.event.a).collect();
    let tick = functions.iter().find(|row| row.name.starts_with(b"tick_"));
    let tick = tick.unwrap_or_else(|| panic!("{functions:?}"));
    assert!(timers.iter().filter(|number| **number == tick.number).count() > 50, "{timers:?}");
    let came: Vec<u32> = of(kind::SWITCH, edge::POINT).map(|row| row.event.tid).collect();
    assert!(came.contains(&ANOTHER_USERS) && came.contains(&own.0.id()), "{came:?}");
    for row in &events {
        assert!(row.event.tid != busy.0.id() && row.named.tgid != busy.0.id(), "{row:?}");
        let is_hidden = row.event.tid == ANOTHER_USERS && row.event.kind != kind::SWITCH;
        assert!(!is_hidden || (row.event.a, row.named.call) == (0, -1), "{row:?}");
    }
}

#[test]
fn noise_events_have_limits() {
    let test = "noise_events_have_limits";
    let Some(installed) = Installed::new(test) else { return };
    for ring_bytes in [0, 4097, 256 << 20, 1 << 31] {
        let refusal = Conversation::new(&installed).ask(&Request::Noise(WantedNoise { ring_bytes, ..WANTED })).1;
        assert!(matches!(refusal, Some((Why::Unavailable, _))), "{ring_bytes}: {refusal:?}");
    }
    // The memory of all sessions counts.
    let large = Request::Noise(WantedNoise { ring_bytes: 128 << 20, ..WANTED });
    let mut sessions: Vec<Conversation> = (0..4).map(|_| Conversation::new(&installed)).collect();
    let refusals: Vec<_> = sessions.iter_mut().map(|session| session.ask(&large).1).collect();
    assert_eq!(refusals.iter().filter(|refusal| refusal.is_none()).count(), 3, "{refusals:?}");
    assert!(matches!(&refusals[3], Some((Why::Unavailable, why)) if why.contains("512 MiB")), "{refusals:?}");
}
