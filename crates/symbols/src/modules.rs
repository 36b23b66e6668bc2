//! The files that sampled code comes from, kept open while the processes that map them live.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use machine::Root;
use machine::process::{Backing, Mapping};
use rustix::fs::OFlags;

/// Largest number of files held open: half of the usual limit of 1024 descriptors. For further files, only the path is kept.
const MAX_OPEN: usize = 512;

/// Index into [`Modules`].
pub type ModuleId = usize;

/// The file, or other memory, behind an executable mapping.
pub(crate) struct Module {
    /// Name in the report: the file name without folders, or the kernel's name in brackets.
    pub name: String,
    /// Path in the mount namespace of the process; `None` without a file.
    pub path: Option<PathBuf>,
    deleted: bool,
    identity: FileIdentity,
    file: Option<File>,
    /// Whether opening the file has been tried.
    tried: bool,
}

/// A file's device and inode, as /proc/PID/maps shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FileIdentity {
    device: (u32, u32),
    inode: u64,
}

impl FileIdentity {
    /// Returns whether `file` may be this file. Overlay and btrfs file systems show different devices in maps and in stat(2). So the
    /// files certainly differ only if their devices are the same and their inodes are not.
    fn may_be(self, file: &File) -> bool {
        file.metadata().is_ok_and(|metadata| {
            let device = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
            device != self.device || metadata.ino() == self.inode
        })
    }
}

/// All modules seen so far.
#[derive(Default)]
pub struct Modules {
    list: Vec<Module>,
    by_identity: HashMap<(FileIdentity, String), ModuleId>,
    open: usize,
}

impl Modules {
    /// Returns the module behind a mapping.
    pub fn of(&mut self, mapping: &Mapping) -> ModuleId {
        let (name, path, deleted) = match &mapping.backing {
            Backing::Anonymous => ("[anon]".to_owned(), None, false),
            Backing::Special(name) => (name.clone(), None, false),
            Backing::File { path, deleted } => {
                let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
                (name, Some(path.clone()), *deleted)
            }
        };
        let identity = FileIdentity { device: mapping.device, inode: mapping.inode };
        *self.by_identity.entry((identity, name.clone())).or_insert_with(|| {
            self.list.push(Module { name, path, deleted, identity, file: None, tried: false });
            self.list.len() - 1
        })
    }

    /// Returns the names of all modules.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|module| module.name.as_str())
    }

    /// Returns module `id`.
    pub(crate) fn get(&self, id: ModuleId) -> &Module {
        &self.list[id]
    }

    /// Opens the file of module `id`, which process `tgid` has mapped at `mapped`, unless that has been tried.
    pub(crate) fn hold(&mut self, id: ModuleId, root: &Root, tgid: u32, mapped: &Mapped) {
        let module = &mut self.list[id];
        if module.tried || self.open == MAX_OPEN {
            return;
        }
        module.tried = true;
        module.file = module.path.as_ref().and_then(|path| open_mapped(root, tgid, mapped, path, module));
        self.open += usize::from(module.file.is_some());
    }

    /// Returns the file of module `id` for reading. If the file is not held open (it was not asked for, or too many are open), it is opened by its path, unless it
    /// had been deleted.
    pub fn file(&self, id: ModuleId, root: &Root) -> Option<File> {
        let module = &self.list[id];
        match (&module.file, &module.path) {
            (Some(file), _) => file.try_clone().ok(),
            (None, Some(path)) if !module.tried && !module.deleted => {
                open_regular(&root.path(path)).filter(|file| module.identity.may_be(file))
            }
            _ => None,
        }
    }
}

/// The addresses that a mapping covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapped {
    pub start: u64,
    pub end: u64,
}

/// Opens the file behind a mapping of a living process:
///
/// 1. by `/proc/PID/map_files`, which leads to exactly this file, even if it is deleted or in another mount namespace, but needs
///    CAP_CHECKPOINT_RESTORE (proc_pid_map_files(5));
/// 2. by `/proc/PID/exe`, which leads to exactly this file for a user who may trace the process;
/// 3. by its path, in the mount namespace of the process, then in ours. This is not tried for a deleted file, because the path may lead to
///    its successor.
fn open_mapped(root: &Root, tgid: u32, mapped: &Mapped, path: &Path, module: &Module) -> Option<File> {
    let process = |name: String| root.path(format!("/proc/{tgid}/{name}"));
    let links = [format!("map_files/{:x}-{:x}", mapped.start, mapped.end), "exe".to_owned()];
    let by_link = links.into_iter().map(process).find_map(|link| {
        let metadata = fs::metadata(&link).ok()?;
        // `exe` leads to the program file. If the mapping belongs to another file, such as a library, the inodes differ.
        (metadata.ino() == module.identity.inode).then(|| open_regular(&link))?
    });
    if by_link.is_some() || module.deleted {
        return by_link;
    }
    let inside = Path::new("root").join(path.strip_prefix("/").unwrap_or(path));
    [process(inside.to_string_lossy().into_owned()), root.path(path)]
        .into_iter()
        .find_map(|path| open_regular(&path).filter(|file| module.identity.may_be(file)))
}

/// Opens a file if it is a regular file. Opening anything else could block or have side effects.
pub(crate) fn open_regular(path: &Path) -> Option<File> {
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    // Another process may have put a FIFO in the file's place since the check. With O_NONBLOCK, opening a FIFO does not wait for a writer.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().ok()?.is_file().then_some(file)
}

#[cfg(test)]
mod tests {
    use machine::process::Task;

    use super::*;

    /// The module of a program file that maps shows with the inode of the file plus `shift`.
    fn module(shift: u64, deleted: &str) -> (tempfile::TempDir, Modules, Mapped, Root) {
        let folder = tempfile::tempdir().expect("temporary folder");
        let program = folder.path().join("app");
        fs::write(&program, "content").expect("write");
        let metadata = fs::metadata(&program).expect("stat");
        let (major, minor) = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
        let line = format!("1000-2000 r-xp 00000000 {major:x}:{minor:x} {} /app{deleted}\n", metadata.ino() + shift);
        fs::create_dir_all(folder.path().join("proc/5")).expect("mkdir");
        fs::write(folder.path().join("proc/5/maps"), line).expect("write");
        let root = Root::at(folder.path());
        let mut modules = Modules::default();
        let maps = Task::process(&root, 5).maps().expect("maps");
        assert_eq!(modules.of(&maps[0]), 0);
        assert_eq!(modules.of(&maps[0]), 0, "one file is one module");
        (folder, modules, Mapped { start: 0x1000, end: 0x2000 }, root)
    }

    #[test]
    fn a_held_file_outlives_its_path() {
        let (folder, mut modules, mapped, root) = module(0, "");
        modules.hold(0, &root, 5, &mapped);
        fs::remove_file(folder.path().join("app")).expect("remove");
        assert!(modules.file(0, &root).is_some());
    }

    #[test]
    fn without_room_the_path_must_do() {
        let (folder, mut modules, mapped, root) = module(0, "");
        modules.open = MAX_OPEN;
        modules.hold(0, &root, 5, &mapped);
        assert!(modules.file(0, &root).is_some());
        fs::remove_file(folder.path().join("app")).expect("remove");
        assert!(modules.file(0, &root).is_none());
    }

    #[test]
    fn another_file_under_the_same_path_is_not_taken() {
        for open in [0, MAX_OPEN] {
            for (shift, deleted) in [(1, ""), (0, " (deleted)")] {
                let (_folder, mut modules, mapped, root) = module(shift, deleted);
                modules.open = open;
                modules.hold(0, &root, 5, &mapped);
                assert!(modules.file(0, &root).is_none(), "{open} {shift} {deleted}");
            }
        }
    }
}
