//! Journals after disk errors, kills and interference by other users. In each case masks are restored, or what is
//! left is reported; files that this program has not made stay unchanged.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod made;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use changes::entry::Problem;
use changes::format::{Change, FORMAT, Header};
use changes::journal::Journal;
use changes::{ChangeRequest, Error, JournalFolder, KnobIo, Session};
use made::{Made, SESSIONS, cpus, kill, original, within};
use tempfile::TempDir;
use testkit::skip::is_root;

fn session<'m>(made: &'m Made, journals: &JournalFolder, number: u32, command: &str) -> Result<Session<'m>, Error> {
    Session::begin(made, journals.clone(), SESSIONS + number, command, |_| Ok(None))
}

fn header(made: &Made, pid: u32) -> Header {
    Header { format: FORMAT, boot_id: made.boot_id().unwrap(), pid, start_ns: 99, command: "cox pack ./app".into() }
}

fn change(tid: u32) -> Change {
    let ChangeRequest { engine, knob, claim, .. } = within(tid, "0-1");
    Change { engine, knob, original: changes::Value::Cpus(original(tid)), claim }
}

/// Ours, as after taking.
fn packs(made: &Made, tid: u32) {
    made.write(&change(tid).knob, &change(tid).claim.first().unwrap()).unwrap();
}

/// A journal of a dead session that has packed these threads.
fn dead(made: &Made, journals: &JournalFolder, tids: &[u32]) -> PathBuf {
    let mut journal = Journal::create(journals.journal(77), &header(made, 77)).unwrap();
    journal.announce(&tids.iter().map(|tid| change(*tid)).collect::<Vec<_>>()).unwrap();
    tids.iter().for_each(|tid| packs(made, *tid));
    journal.path().to_owned()
}

fn journals_in(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|ending| ending == "journal")).collect()
}

/// A small file system of its own.
struct Disk(TempDir);

impl Disk {
    fn new(pages: usize) -> Disk {
        let folder = TempDir::new().unwrap();
        let size = format!("size={},mode=700", pages * 4096);
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(folder.path()).status();
        assert!(done.unwrap().success());
        Disk(folder)
    }

    fn journals(&self) -> JournalFolder {
        JournalFolder::at(self.0.path().join("changes"))
    }

    /// Leaves room for so many pages of 4 KiB.
    fn fill_but(&self, pages: usize) {
        let path = self.0.path().join("full");
        let mut full = File::create(&path).unwrap();
        while full.write_all(&[1; 4096]).is_ok() {}
        let length = full.metadata().unwrap().len() / 4096 * 4096;
        full.set_len(length - 4096 * pages as u64).unwrap();
    }

    fn is_free_again(&self) {
        fs::remove_file(self.0.path().join("full")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // What stays mounted would be seen by everybody.
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// The disk is full at each write of the journal, after each number of bytes of the line, and later has room again.
#[test]
fn a_full_disk_takes_no_mask() {
    if !is_root("a_full_disk_takes_no_mask") {
        return;
    }
    const THREADS: u32 = 60;
    let (mut refused_at_begin, mut refused_later) = (0, 0);
    for pages in 0..4 {
        // A line has some 170 bytes: each of its bytes is the last that there is room for.
        for shift in (0..200).step_by(if pages == 1 { 1 } else { 20 }) {
            // One each: there are kernels whose tmpfs does not take back all of what was cut off a file.
            let disk = Disk::new(32);
            let made = Made::with_threads(THREADS);
            let how = format!("{pages} pages, {shift} bytes");
            drop(disk.journals().lock().unwrap());
            disk.fill_but(pages);
            let Ok(mut mine) = session(&made, &disk.journals(), 1, &"x".repeat(shift)) else {
                refused_at_begin += 1;
                assert!(journals_in(&disk.0.path().join("changes")).is_empty(), "{how}");
                assert!(made.is_original());
                continue;
            };
            let mut refused = Vec::new();
            for tid in 0..THREADS {
                let taken = mine.adopt([within(tid, "0-1")]).and_then(|()| mine.take([within(tid, "0-1")]));
                if let Err(error) = taken {
                    assert!(matches!(error, Error::Journal { .. }), "{error}");
                    assert_eq!(made.mask(tid), original(tid), "{how}: changed without being announced");
                    refused.push(tid);
                }
            }
            refused_later += refused.len();
            // With the disk full until the end, or with room again for what was refused.
            let is_full_until_the_end = shift % 3 == 0;
            if !is_full_until_the_end {
                disk.is_free_again();
                for tid in refused {
                    mine.adopt([within(tid, "0-1")]).unwrap();
                    mine.take([within(tid, "0-1")]).unwrap();
                }
            }
            if shift % 2 == 0 {
                let undone = mine.end();
                assert_eq!(undone.failures().collect::<Vec<_>>(), Vec::<String>::new(), "{how}");
            } else {
                kill(&made, mine, 1);
                let journals = disk.journals();
                let settled = journals.settle_dead(&journals.lock().unwrap(), &made).unwrap();
                let failures: Vec<String> = settled.iter().flat_map(|(_, undone)| undone.failures()).collect();
                assert_eq!((settled.len(), failures), (1, Vec::new()), "{how}");
            }
            assert!(made.is_original(), "{how}");
            assert!(journals_in(&disk.0.path().join("changes")).is_empty(), "{how}");
        }
    }
    assert!(refused_at_begin > 0 && refused_later > 0, "the disk was never full: {refused_at_begin}, {refused_later}");
}

/// A session and its guardian are killed after each byte of the journal: what had been announced is back.
#[test]
fn killed_after_each_byte_all_masks_come_back() {
    let (made, folder) = (Made::with_threads(4), TempDir::new().unwrap());
    let journals = JournalFolder::at(folder.path());
    let path = dead(&made, &journals, &[0, 1, 2, 3]);
    let text = fs::read(&path).unwrap();
    for cut in 0..=text.len() {
        fs::write(&path, &text[..cut]).unwrap();
        // Two lines are the session's; what is announced is changed, or is about to be.
        let whole = text[..cut].iter().filter(|byte| **byte == b'\n').count().saturating_sub(2) as u32;
        (0..4).for_each(|tid| made.sets(tid, &original(tid).to_string()));
        (0..whole).for_each(|tid| packs(&made, tid));
        let next = session(&made, &journals, 1, "cox").unwrap();
        assert_eq!(next.inherited(), Vec::<String>::new());
        next.end();
        for tid in 0..4 {
            assert_eq!(made.mask(tid), original(tid), "{cut} of {} bytes", text.len());
        }
        assert!(journals_in(folder.path()).is_empty());
    }
}

/// A journal as version 2 left it when the disk was full for a moment: half a line, and more behind it.
#[test]
fn what_an_earlier_version_left_behind_half_a_line_comes_back() {
    let (made, folder) = (Made::with_threads(3), TempDir::new().unwrap());
    let journals = JournalFolder::at(folder.path());
    let line = |what: &str, of: &dyn erased::Line| format!("{{\"{what}\":{}}}\n", of.json());
    let session = line("session", &Header { format: 2, ..header(&made, 77) });
    let lines: Vec<String> = (0..3).map(|tid| line("change", &change(tid))).collect();
    let path = folder.path().join("77.journal");
    fs::write(&path, [&session, &lines[0], &lines[1][..40], &lines[1], &lines[2]].concat()).unwrap();
    (0..3).for_each(|tid| packs(&made, tid));
    let settled = journals.settle_dead(&journals.lock().unwrap(), &made).unwrap();
    let troubles: Vec<String> = settled.iter().flat_map(|(_, undone)| undone.failures()).collect();
    assert!(made.is_original());
    assert!(
        troubles.len() == 1 && troubles[0].contains("line 3") && troubles[0].contains("77.damaged"),
        "{troubles:?}"
    );
    // It stays to be looked at, and holds nothing any more.
    let entries = journals.look(&made).unwrap().entries;
    assert_eq!(entries.iter().map(|entry| entry.problem.clone()).collect::<Vec<_>>(), [Some(Problem::SetAside)]);
    assert!(journals.settle_dead(&journals.lock().unwrap(), &made).unwrap().is_empty());
}

/// Serialised by whatever serialises journals.
mod erased {
    pub trait Line {
        fn json(&self) -> String;
    }

    impl<T: serde::Serialize> Line for T {
        fn json(&self) -> String {
            serde_json::to_string(self).unwrap()
        }
    }
}

/// Something in the folder that is not a journal of ours, as it was made.
#[derive(Debug, PartialEq, Eq)]
struct Thing {
    number: u64,
    mode: u32,
    owner: u32,
    content: Option<Vec<u8>>,
}

fn thing(path: &Path) -> Thing {
    let found = fs::symlink_metadata(path).unwrap();
    let content = match found.file_type() {
        kind if kind.is_symlink() => Some(fs::read_link(path).unwrap().into_os_string().into_encoded_bytes()),
        kind if kind.is_dir() => Some(format!("{:?}", fs::read_dir(path).unwrap().count()).into_bytes()),
        kind if kind.is_fifo() || kind.is_socket() || kind.is_char_device() || kind.is_block_device() => None,
        _ if found.len() > 1 << 20 => None,
        _ => fs::read(path).ok(),
    };
    Thing { number: found.ino(), mode: found.mode(), owner: found.uid(), content }
}

/// Everything that somebody may put beside our journals, each with the name that it has there.
fn others(folder: &Path, outside: &Path) -> Vec<PathBuf> {
    let at = |name: &str| folder.join(name);
    let named = |number: u32| at(&format!("{number}-00000000000000ab.journal"));
    let journal = |path: &Path| format!("coxswain journal 3 {}\n", path.file_stem().unwrap().to_str().unwrap());
    fs::write(outside, journal(&named(20))).unwrap();
    let mut all = Vec::new();
    let mut file = |path: PathBuf, content: &[u8]| {
        fs::write(&path, content).unwrap();
        all.push(path);
    };
    file(at("thesis.tex"), b"\\documentclass{book}");
    file(at("thesis.journal"), b"dear diary");
    file(at("7.journal"), b"nonsense\n");
    file(at("8.journal"), b"");
    file(named(9), b"\x7fELF\0\xff\xfe\n\n");
    // The first line of another session's journal.
    file(named(10), journal(&named(11)).as_bytes());
    file(at("13-00000000000000ab.damaged"), b"mine");
    file(at("pack-12"), b"the luggage");
    file(at("pack-list"), b"");
    let huge = named(14);
    File::create(&huge).unwrap().set_len(1 << 40).unwrap();
    all.push(huge);
    for (name, target) in [
        ("15-00000000000000ab.journal", Path::new("/nowhere/at/all")),
        ("16-00000000000000ab.journal", Path::new("16-00000000000000ab.journal")),
        ("20-00000000000000ab.journal", outside),
        ("pack-16", Path::new("loop")),
    ] {
        symlink(target, at(name)).unwrap();
        all.push(at(name));
    }
    fs::create_dir(named(17)).unwrap();
    fs::write(named(17).join("thesis.tex"), "in a folder").unwrap();
    all.push(named(17));
    assert!(Command::new("mkfifo").arg(named(18)).status().unwrap().success());
    all.push(named(18));
    drop(UnixListener::bind(named(19)).unwrap());
    all.push(named(19));
    let open_to_all = named(21);
    fs::write(&open_to_all, journal(&open_to_all)).unwrap();
    fs::set_permissions(&open_to_all, fs::Permissions::from_mode(0o666)).unwrap();
    all.push(open_to_all);
    if is_root("a file of another user and a device") {
        let of_another = named(22);
        fs::write(&of_another, journal(&of_another)).unwrap();
        chown(&of_another, Some(54_321), None).unwrap();
        all.push(of_another);
        assert!(Command::new("mknod").arg(named(23)).args(["c", "1", "5"]).status().unwrap().success());
        all.push(named(23));
    }
    all
}

/// Beside each of them a dead session's journal is settled, a living session ends, and none begins.
#[test]
fn files_of_others_stay_as_they_are_and_keep_nothing_from_coming_back() {
    let all = {
        let folder = TempDir::new().unwrap();
        others(&folder.path().join("."), &folder.path().join("outside")).len()
    };
    for number in 0..all {
        let (made, folder) = (Made::with_threads(3), TempDir::new().unwrap());
        let (inside, outside) = (folder.path().join("changes"), folder.path().join("outside"));
        let journals = JournalFolder::at(&inside);
        let mut living = session(&made, &journals, 1, "cox pack").unwrap();
        living.adopt([within(0, "0-1")]).unwrap();
        living.take([within(0, "0-1")]).unwrap();
        dead(&made, &journals, &[1]);
        // One of them, so that each has to be told by itself; all are made, so that the numbers are the same.
        let scratch = folder.path().join("scratch");
        fs::create_dir(&scratch).unwrap();
        let path = others(&scratch, &outside).swap_remove(number);
        let path = {
            let there = inside.join(path.file_name().unwrap());
            fs::rename(&path, &there).unwrap();
            there
        };
        let (before, target) = (thing(&path), thing(&outside));
        let name = path.display().to_string();

        let refused = session(&made, &journals, 2, "cox pack").map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains(&name) && refused.contains("not made by cox"), "{refused}");
        assert!(journals.hold_alone(5).is_err(), "{name}");
        let listing = journals.look(&made).unwrap();
        assert_eq!(listing.foreign.iter().map(|foreign| &foreign.path).collect::<Vec<_>>(), [&path]);
        let lock = journals.lock().unwrap();
        assert!(matches!(journals.settle(&lock, &made, &path), Ok(_) | Err(Error::Foreign { .. })), "{name}");
        let settled = journals.settle_dead(&lock, &made).unwrap();
        assert_eq!(settled.iter().map(|(_, undone)| undone.restored).collect::<Vec<_>>(), [1], "{name}");
        drop(lock);
        living.take([within(2, "0-1")]).unwrap();
        assert_eq!(made.mask(2), cpus("0-1").intersection(&cpus("0-1")));
        let undone = living.end();
        assert_eq!(undone.failures().collect::<Vec<_>>(), Vec::<String>::new(), "{name}");
        assert!(made.is_original(), "{name}");
        assert_eq!((thing(&path), thing(&outside)), (before, target), "{name}");
    }
}

/// What is where the lock and the rights are to be is not opened for writing unless it is an empty file.
#[test]
fn a_folder_of_somebodys_is_refused_before_anything_is_made_in_it() {
    let (made, folder) = (Made::with_threads(1), TempDir::new().unwrap());
    for (name, content) in [("lock", &b"mine"[..]), ("rights", b"all reserved"), ("thesis.tex", b"")] {
        let inside = folder.path().join(name).with_extension("folder");
        fs::create_dir(&inside).unwrap();
        fs::write(inside.join(name), content).unwrap();
        let refused = session(&made, &JournalFolder::at(&inside), 1, "cox").map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains(name), "{refused}");
        assert!(JournalFolder::at(&inside).hold_alone(1).is_err());
        let names: Vec<_> = fs::read_dir(&inside).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!((names, fs::read(inside.join(name)).unwrap()), (vec![name.into()], content.to_vec()));
    }
}

#[test]
fn a_later_versions_journal_is_left_alone_and_keeps_only_its_living_session_from_being_joined() {
    let (made, folder) = (Made::with_threads(1), TempDir::new().unwrap());
    let journals = JournalFolder::at(folder.path());
    let write = |pid: u32| {
        let path = folder.path().join(format!("{pid}-00000000000000ab.journal"));
        fs::write(&path, format!("coxswain journal 9 {pid}-00000000000000ab\n\0binary\0")).unwrap();
        path
    };
    let old = write(SESSIONS + 50);
    session(&made, &journals, 1, "cox").unwrap().end();
    let of_living = write(SESSIONS + 2);
    let refused = session(&made, &journals, 1, "cox").map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("later version") && refused.contains(of_living.to_str().unwrap()), "{refused}");
    let problems: Vec<_> =
        journals.look(&made).unwrap().entries.into_iter().map(|entry| (entry.alive, entry.problem)).collect();
    assert_eq!(problems, [(true, Some(Problem::Newer(9))), (false, Some(Problem::Newer(9)))]);
    assert!(old.exists() && of_living.exists());
}

/// The journal of a living session is damaged, gone, or its folder is: the session knows what it has changed.
#[test]
fn a_living_session_needs_no_journal_to_end() {
    for harm in 0..4 {
        let (made, folder) = (Made::with_threads(2), TempDir::new().unwrap());
        let inside = folder.path().join("changes");
        let mut mine = session(&made, &JournalFolder::at(&inside), 1, "cox").unwrap();
        mine.adopt([within(0, "0-1")]).unwrap();
        mine.take([within(0, "0-1")]).unwrap();
        let unseen = made.bears(0);
        let journal = journals_in(&inside).remove(0);
        match harm {
            0 => fs::write(&journal, "nonsense\n").unwrap(),
            1 => fs::remove_file(&journal).unwrap(),
            2 => fs::remove_dir_all(&inside).unwrap(),
            _ => {
                fs::remove_dir_all(&inside).unwrap();
                fs::write(&inside, "a file").unwrap();
            }
        }
        let undone = mine.end();
        assert!(made.is_original() && made.mask(unseen) == original(0), "{harm}");
        assert_eq!(undone.failures().next().is_some(), harm == 3, "{harm}: {undone:?}");
    }
}

#[test]
fn a_right_is_one_processs_at_a_time_and_leaves_no_file_of_its_own() {
    let folder = TempDir::new().unwrap();
    let journals = JournalFolder::at(folder.path().join("changes"));
    assert!(!journals.is_held(4711).unwrap() && !folder.path().join("changes").exists());
    let right = journals.hold_alone(4711).unwrap().unwrap();
    assert!(journals.is_held(4711).unwrap() && !journals.is_held(4712).unwrap());
    assert!(journals.hold_alone(4711).unwrap().is_none());
    let other = journals.hold_alone(u32::MAX).unwrap().unwrap();
    drop(right);
    assert!(!journals.is_held(4711).unwrap() && journals.is_held(u32::MAX).unwrap());
    drop(other);
    let names: Vec<_> = fs::read_dir(folder.path().join("changes")).unwrap().map(|f| f.unwrap().file_name()).collect();
    assert_eq!(names, ["rights"]);
}

/// Earlier versions had a file for each right.
#[test]
fn files_of_earlier_versions_are_no_obstacle() {
    let (made, folder) = (Made::with_threads(1), TempDir::new().unwrap());
    fs::write(folder.path().join("pack-4711"), "").unwrap();
    fs::write(folder.path().join("lock"), "").unwrap();
    session(&made, &JournalFolder::at(folder.path()), 1, "cox").unwrap().end();
    assert!(folder.path().join("pack-4711").exists());
}
