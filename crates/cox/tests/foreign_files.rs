//! cox leaves foreign files alone. Whatever exists at a path to which cox writes, and was not made by cox, is unchanged afterwards: folders, links,
//! FIFOs, sockets and other users' files, in every output, state folder and temporary folder. `cox-observe` is not tested, because it writes no
//! files: it opens only /dev/null and files of /proc.
//!
//! cox runs as a user without privileges in a folder to which every user may write, like /tmp. cox replaces an output only if it is a regular file of
//! the same user; no case here is one. If no foreign file exists, each output is written; otherwise its cases would prove nothing. Traces of a run
//! need eBPF, so the user has `cox-observe`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{CWD, Mode, OFlags, mkfifoat};
use rustix::pipe::fcntl_setpipe_size;
use tempfile::TempDir;
use testkit::built::COX_OBSERVE;
use testkit::run::{COX, NOBODY as USER, as_user, is_root, open_folder, path, preload_library, run, workload};
use testkit::skip::{Need, skip};

/// What stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Folder,
    LinkToFile,
    LinkToFolder,
    LinkToNothing,
    Fifo,
    Socket,
    OthersFile,
    OthersLink,
}

const KINDS: [Kind; 8] = [
    Kind::Folder,
    Kind::LinkToFile,
    Kind::LinkToFolder,
    Kind::LinkToNothing,
    Kind::Fifo,
    Kind::Socket,
    Kind::OthersFile,
    Kind::OthersLink,
];

/// A folder that everybody may write to, and one of another user's that links lead to.
struct Field {
    folder: TempDir,
    /// Keeps what is written to FIFOs, so that nobody waits for a reader.
    fifos: Vec<File>,
    sockets: Vec<UnixListener>,
}

impl Field {
    fn new() -> Field {
        let folder = open_folder();
        let field = Field { folder, fifos: Vec::new(), sockets: Vec::new() };
        for (name, mode) in [("open", 0o1777), ("others", 0o755)] {
            fs::create_dir(field.at(name)).unwrap();
            fs::set_permissions(field.at(name), Permissions::from_mode(mode)).unwrap();
        }
        fs::write(field.at("others/thesis.tex"), "years of work\n").unwrap();
        field
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn open(&self) -> PathBuf {
        self.at("open")
    }

    /// Puts it there, as the user's own but for what is another's.
    fn put(&mut self, kind: Kind, at: &Path) {
        let others = self.at("others");
        match kind {
            Kind::Folder => {
                fs::create_dir(at).unwrap();
                fs::write(at.join("thesis.tex"), "more years\n").unwrap();
                chown(at.join("thesis.tex"), Some(USER), None).unwrap();
                chown(at, Some(USER), None).unwrap();
            }
            Kind::LinkToFile | Kind::OthersLink => symlink(others.join("thesis.tex"), at).unwrap(),
            Kind::LinkToFolder => symlink(&others, at).unwrap(),
            Kind::LinkToNothing => symlink(others.join("nothing"), at).unwrap(),
            Kind::Fifo => {
                mkfifoat(CWD, at, Mode::from_raw_mode(0o600)).unwrap();
                chown(at, Some(USER), None).unwrap();
                let flags = OFlags::NONBLOCK.bits().cast_signed();
                let fifo = OpenOptions::new().read(true).write(true).custom_flags(flags).open(at).unwrap();
                // Room for a whole page.
                fcntl_setpipe_size(&fifo, 1 << 20).unwrap();
                self.fifos.push(fifo);
            }
            Kind::Socket => {
                self.sockets.push(UnixListener::bind(at).unwrap());
                chown(at, Some(USER), None).unwrap();
            }
            Kind::OthersFile => {
                fs::write(at, "of root\n").unwrap();
                fs::set_permissions(at, Permissions::from_mode(0o644)).unwrap();
            }
        }
        if matches!(kind, Kind::LinkToFile | Kind::LinkToFolder | Kind::LinkToNothing) {
            std::os::unix::fs::lchown(at, Some(USER), None).unwrap();
        }
    }

    /// Whether something was written to a FIFO.
    fn has_received(&self) -> bool {
        self.fifos.iter().any(|mut fifo| fifo.read(&mut [0]).is_ok_and(|length| length > 0))
    }

    /// All that is there: kind, inode, owner, mode, and content or target. What cox makes is not among it.
    fn all(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).unwrap() {
                let at = entry.unwrap().path();
                let status = fs::symlink_metadata(&at).unwrap();
                let kind = status.file_type();
                let content = if kind.is_file() {
                    fs::read_to_string(&at).unwrap_or_default()
                } else if kind.is_symlink() {
                    fs::read_link(&at).unwrap().display().to_string()
                } else {
                    format!("{} {}", kind.is_fifo(), kind.is_socket())
                };
                let what = format!("{kind:?} {} {} {:o} {content}", status.ino(), status.uid(), status.mode());
                found.insert(at.clone(), what);
                if kind.is_dir() {
                    folders.push(at);
                }
            }
        }
        found
    }
}

/// Makes `$1` the `/run` of what comes behind, which nobody else sees.
const WITH_A_RUN: &str = "mount --make-rprivate / && mount --bind \"$1\" /run && shift && exec \"$@\"";

/// The user, with a copy of cox: others may not be able to enter the folder where it was built. Beside it is the program that has eBPF for it.
struct User(TempDir);

impl User {
    fn new() -> User {
        let folder = open_folder();
        fs::copy(COX, folder.path().join("cox")).unwrap();
        let helper = folder.path().join("cox-observe");
        fs::copy(COX_OBSERVE, &helper).unwrap();
        // Where it cannot be, cox says that traces need eBPF.
        let _ = Command::new("setcap").arg("cap_bpf,cap_perfmon+ep").arg(helper).status();
        User(folder)
    }

    /// Runs cox; it ends by itself, without a panic.
    fn cox(&self, arguments: &[&str], variables: &[(&str, &Path)]) -> (i32, String) {
        let mut command = patient();
        command.arg("setpriv").args(as_user(USER)).arg(path(&self.0, "cox")).args(arguments);
        ended(command.envs(variables.iter().copied()))
    }
}

/// Runs root's cox with this folder as its `/run`.
fn cox_of_root(arguments: &[&str], run: &Path, library: &Path) -> (i32, String) {
    let mut command = patient();
    command.args(["unshare", "-m", "sh", "-c", WITH_A_RUN, "sh"]).arg(run).arg(COX).args(arguments);
    ended(command.env("COX_PRELOAD", library).env_remove("COX_CHANGES"))
}

/// What ends a command that does not end by itself.
fn patient() -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "1", "60"]).stdin(Stdio::null()).current_dir("/").env_remove("XDG_RUNTIME_DIR");
    command
}

fn ended(command: &mut Command) -> (i32, String) {
    let ran = run(command);
    assert!(ran.code != 124 && ran.code != 137, "{command:?} does not end: {}", ran.stderr);
    assert!(!ran.stderr.contains("panicked"), "{command:?}: {}", ran.stderr);
    (ran.code, ran.stderr)
}

/// Nothing that was there is another thing, or gone.
fn assert_same(field: &Field, before: &BTreeMap<PathBuf, String>, what: &str) {
    let after = field.all();
    for (at, was) in before {
        assert_eq!(after.get(at), Some(was), "{what}: {}", at.display());
    }
}

/// Some switches, as `perf script` prints them.
const RECORDING: &str = " a 5 [000] 1.000000: sched:sched_switch: a:5 [120] S ==> b:6 [120]\n b 6 [000] 1.000500: sched:sched_switch: b:6 [120] S ==> a:5 [120]\n";

/// A recording and reports, as inputs.
fn inputs(user: &User) -> TempDir {
    let folder = open_folder();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).unwrap();
    for name in ["one", "two"] {
        let json = path(&folder, name);
        let (code, stderr) = user.cox(&["run", "-q", "--backend", "proc", "--json", &json, "--", "sleep", "0.1"], &[]);
        assert_eq!(code, 0, "{stderr}");
    }
    fs::write(folder.path().join("recording"), RECORDING).unwrap();
    // For advice it must be known how threads wait.
    let (json, hog) = (path(&folder, "waits"), workload("hog"));
    let program = ["--", &hog, "--threads", "3", "--seconds", "0.2"];
    let ran = run(Command::new(COX).args(["run", "-q", "--backend", "bpf", "--json", &json]).args(program));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    folder
}

#[test]
fn outputs_replace_nothing_but_the_users_own_files() {
    let test = "outputs_replace_nothing_but_the_users_own_files";
    if !is_root(test) {
        return;
    }
    let user = User::new();
    let inputs = inputs(&user);
    let (one, two) = (path(&inputs, "one"), path(&inputs, "two"));
    let changes = inputs.path().join("changes");
    let run = ["run", "-q", "--backend", "proc"];
    let loud = ["run", "--backend", "proc"];
    let traced = ["run", "-q", "--backend", "bpf"];
    let pack = ["pack", "--backend", "proc", "--ncpus", "1"];
    let compare = ["compare"];
    let report = ["report"];
    let advise = ["advise", "--ncpus", "1"];
    let table = ["compare", "--table", "waiting_for_cpu_ns/thread_ns"];
    let (recording, waits) = (path(&inputs, "recording"), format!("--from={}", path(&inputs, "waits")));
    let cells = [format!("a/one={one}"), format!("a/two={two}")];
    let (program, files) = (["--", "true"], [one.as_str(), two.as_str()]);
    let (recorded, reported, cells) = ([recording.as_str()], [waits.as_str()], [cells[0].as_str(), cells[1].as_str()]);
    // Command, option, what follows its name in the file's, and what comes behind.
    let places: [(&[&str], &str, &str, &[&str]); 27] = [
        (&run, "--json", "", &program),
        (&loud, "--output", "", &program),
        (&traced, "--html", "", &program),
        (&traced, "--trace", "", &program),
        (&traced, "--paraver", ".prv", &program),
        (&traced, "--paraver", ".pcf", &program),
        (&traced, "--paraver", ".row", &program),
        (&traced, "--paraver", ".states.cfg", &program),
        (&pack, "--json", "", &program),
        (&pack, "--output", "", &program),
        (&pack, "--log-moves", "", &program),
        (&compare, "--json", "", &files),
        (&compare, "--output", "", &files),
        (&compare, "--csv", "", &files),
        (&compare, "--csv-runs", "", &files),
        (&compare, "--html", "", &files),
        (&table, "--svg", "", &cells),
        (&table, "--html", "", &cells),
        (&report, "--json", "", &recorded),
        (&report, "--output", "", &recorded),
        (&report, "--html", "", &recorded),
        (&report, "--trace", "", &recorded),
        (&report, "--paraver", ".prv", &recorded),
        (&advise, "--json", "", &reported),
        (&advise, "--output", "", &reported),
        (&["pack", "simulate", "--threads", "3", "--ncpus", "2"], "--json", "", &[]),
        (&["man"], "", "/cox.1", &[]),
    ];
    for (command, option, suffix, behind) in places {
        // Nothing is in the way, and then everything.
        for kind in [None].into_iter().chain(KINDS.map(Some)) {
            let mut field = Field::new();
            let name = field.open().join("out").into_os_string().into_string().unwrap();
            let at = PathBuf::from(format!("{name}{suffix}"));
            if suffix.starts_with('/') {
                fs::create_dir(&name).unwrap();
                fs::set_permissions(&name, Permissions::from_mode(0o1777)).unwrap();
            }
            kind.iter().for_each(|kind| field.put(*kind, &at));
            let before = field.all();
            let option: &[&str] = if option.is_empty() { &[&name] } else { &[option, &name] };
            let (code, stderr) = user.cox(&[command, option, behind].concat(), &[("COX_CHANGES", &changes)]);
            let what = format!("{command:?} {option:?}{suffix} {kind:?}: {code} {stderr}");
            assert_same(&field, &before, &what);
            match kind {
                // What follows would show nothing.
                None if !at.exists() && command == traced && stderr.contains("eBPF") => {
                    skip(test, Need::Bpf, format_args!("{option:?}{suffix}: {}", stderr.trim()));
                    break;
                }
                None => assert!(at.exists(), "not written: {what}"),
                // A reader of the user's own FIFO gets the output. `true` has one thread, so that no move is logged: the only output that is empty.
                Some(Kind::Fifo) => {
                    assert_eq!((code, field.has_received()), (0, option[0] != "--log-moves"), "{what}");
                }
                Some(_) => assert!(code == 125 && stderr.contains(&name), "not refused by name: {what}"),
            }
        }
    }
}

#[test]
fn state_and_temporary_folders_lose_nothing_of_others() {
    let test = "state_and_temporary_folders_lose_nothing_of_others";
    if !is_root(test) {
        return;
    }
    let Some(library) = preload_library(test) else { return };
    let (user, hog) = (User::new(), workload("hog"));
    let tools = open_folder();
    for (from, to) in [(library.as_path(), "libcox_preload.so"), (Path::new(&hog), "hog")] {
        fs::copy(from, tools.path().join(to)).unwrap();
    }
    let (library, hog) = (tools.path().join("libcox_preload.so"), path(&tools, "hog"));
    let pack = ["pack", "-q", "--backend", "proc", "--ncpus", "1", "--", &hog, "--threads", "2", "--seconds", "0.1"];
    let overlap = ["run", "-q", "--backend", "proc", "--overlap=standby-idle", "--", "true"];
    let trace = ["run", "-q", "--backend", "proc", "--trace", "-", "--", "true"];
    let (status, undo) = (["changes", "status"], ["changes", "undo"]);
    let commands: [&[&str]; 5] = [&pack, &overlap, &trace, &status, &undo];
    // Variable, and what below its folder stands in the way: names as cox gives them, and its own files' inside.
    let stale = "coxswain-4194000-0123abcd";
    let places = [
        ("COX_CHANGES", "".to_owned()),
        ("COX_CHANGES", "/foreign".to_owned()),
        ("COX_CHANGES", "/4194000-1.journal".to_owned()),
        ("COX_CHANGES", "/lock".to_owned()),
        ("XDG_RUNTIME_DIR", "/coxswain".to_owned()),
        ("XDG_RUNTIME_DIR", "/coxswain/x.journal".to_owned()),
        ("XDG_STATE_HOME", "/coxswain".to_owned()),
        ("HOME", "/.local".to_owned()),
        ("TMPDIR", "/coxswain-65534".to_owned()),
        ("TMPDIR", format!("/{stale}")),
        ("TMPDIR", format!("/{stale}/thesis")),
        ("TMPDIR", format!("/{stale}/umt")),
        ("TMPDIR", format!("/{stale}-x")),
    ];
    for (variable, below) in &places {
        for kind in KINDS {
            let mut field = Field::new();
            let folder = field.open().join("place");
            let at = PathBuf::from(format!("{}{below}", folder.display()));
            for made in at
                .parent()
                .unwrap()
                .ancestors()
                .take_while(|made| made.starts_with(&folder))
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
            {
                fs::create_dir(made).unwrap();
                fs::set_permissions(made, Permissions::from_mode(0o700)).unwrap();
                chown(made, Some(USER), None).unwrap();
            }
            field.put(kind, &at);
            let before = field.all();
            for command in commands {
                let (code, stderr) = user.cox(command, &[(*variable, &folder), ("COX_PRELOAD", &library)]);
                assert_same(&field, &before, &format!("{variable}{below} {kind:?} {command:?}: {code} {stderr}"));
            }
        }
    }
}

/// Root's journals are in /run/coxswain, whoever may have made that.
#[test]
fn roots_place_loses_nothing_of_others() {
    let test = "roots_place_loses_nothing_of_others";
    if !is_root(test) {
        return;
    }
    let Some(library) = preload_library(test) else { return };
    let hog = workload("hog");
    let pack = ["pack", "-q", "--backend", "proc", "--ncpus", "1", "--", &hog, "--threads", "2", "--seconds", "0.1"];
    let together = ["run", "-q", "--backend", "proc", "--pack-cpus", "0", "--", "true"];
    let commands: [&[&str]; 4] = [&pack, &together, &["changes", "status"], &["changes", "undo"]];
    // With nothing in the way cox works there: else all that follows would say nothing.
    let field = Field::new();
    fs::create_dir(field.at("run")).unwrap();
    let (code, stderr) = cox_of_root(&pack, &field.at("run"), &library);
    if stderr.contains("unshare: ") {
        return skip(test, Need::Namespaces, stderr);
    }
    assert!(code == 0 && field.at("run/coxswain").is_dir(), "{code} {stderr}");
    for below in ["", "/foreign", "/4194000-1.journal", "/lock"] {
        for kind in KINDS {
            let mut field = Field::new();
            let folder = field.at("run");
            fs::create_dir(&folder).unwrap();
            fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
            let at = folder.join(format!("coxswain{below}"));
            if !below.is_empty() {
                fs::create_dir(folder.join("coxswain")).unwrap();
                fs::set_permissions(folder.join("coxswain"), Permissions::from_mode(0o700)).unwrap();
            }
            field.put(kind, &at);
            let before = field.all();
            for command in commands {
                let (code, stderr) = cox_of_root(command, &folder, &library);
                assert_same(&field, &before, &format!("{below} {kind:?} {command:?}: {code} {stderr}"));
            }
        }
    }
}
