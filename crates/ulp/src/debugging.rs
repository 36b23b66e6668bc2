//! What debuggers see: the files of all ULPs.
//!
//! gdb(1) finds the files in an address space by a list that the dynamic linker keeps ([`Lists`], `struct r_debug` in link.h); since glibc 2.35, by a chain
//! of such lists, one for each namespace of dlmopen(3). The host's dynamic linker knows nothing of the ULPs. So its chain gets two heads for each ULP
//! ([`Node`]):
//!
//! - One points to the list of the ULP's dynamic linker, as soon as there is one. The linker's own head is not in the chain: it would follow the chain to the
//!   lists of the others, whose memory may go.
//! - One has a list of the program itself, because the first file in the linker's list, the program, has no name: a debugger knows the program from the
//!   kernel, and here that is the host. The name cannot be set there: by the missing one, glibc tells that it must not call the program's constructors.

use std::io;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol, ReadRef};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

/// The head of a list: `struct r_debug_extended` in glibc's link.h.
#[repr(C)]
struct Lists {
    version: AtomicU64,
    /// The first file ([`LinkMap`]).
    map: AtomicU64,
    breakpoint: u64,
    state: u64,
    linker_base: u64,
    /// The next list. Only from version 2 on.
    next: AtomicU64,
}

/// The version that has more than one list.
const CHAINED: u64 = 2;

/// A file in a list: the beginning of `struct link_map` in link.h.
#[repr(C)]
struct LinkMap {
    base: AtomicU64,
    /// Address of its path.
    name: AtomicU64,
    /// Address of its dynamic section.
    dynamic: AtomicU64,
    next: u64,
    previous: u64,
}

/// What is in the chain for one ULP.
#[repr(C)]
struct Node {
    program: Lists,
    libraries: Lists,
    /// The list of `program`.
    file: LinkMap,
}

/// The symbol of a dynamic linker's list.
const SYMBOL: &str = "_r_debug";

/// Returns the address of the list in a dynamic linker, relative to its base. `None` if it does not export it (musl).
pub(crate) fn list_of_linker<'d, R: ReadRef<'d>>(file: R) -> Option<u64> {
    let linker = ElfFile64::<Endianness, R>::parse(file).ok()?;
    linker
        .dynamic_symbols()
        .find(|symbol| symbol.name() == Ok(SYMBOL) && symbol.is_definition())
        .map(|symbol| symbol.address())
}

/// The nodes of all ULPs. They stay until the end of the process.
#[derive(Debug)]
pub(crate) struct Nodes {
    first: *const Node,
    /// Number of nodes in the chain, and for how many there is memory.
    count: usize,
    room: usize,
}

impl Nodes {
    /// Makes a node for each of `count` ULPs, with room for `further` ones, and appends them to the list of this process.
    ///
    /// # Errors
    /// When memory is not available.
    pub fn new(count: usize, further: usize) -> io::Result<Nodes> {
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
        let room = count + further;
        let bytes = room.max(1) * size_of::<Node>();
        // SAFETY: the kernel chooses a free place.
        let first = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, prot, flags) }?.cast::<Node>().cast_const();
        let mut nodes = Nodes { first, count: 0, room };
        (0..count).for_each(|_| nodes.add());
        if let Some(own) = own_lists().filter(|own| count > 0 && own.next.load(Ordering::Relaxed) == 0) {
            own.next.store(first as u64, Ordering::Release);
            // The upper half of the word is padding.
            own.version.store(CHAINED, Ordering::Release);
        }
        Ok(nodes)
    }

    /// Appends the node of one more ULP, for which there is room.
    pub fn add(&mut self) {
        assert!(self.count < self.room, "no room for another node");
        // SAFETY: new memory, long enough and aligned; zeros are a valid value.
        let node = unsafe { &*self.first.add(self.count) };
        for (lists, next) in [(&node.program, &raw const node.libraries as u64), (&node.libraries, 0)] {
            lists.next.store(next, Ordering::Relaxed);
            lists.version.store(CHAINED, Ordering::Relaxed);
        }
        if let Some(before) = self.count.checked_sub(1) {
            // SAFETY: within the nodes.
            let before = unsafe { &*self.first.add(before) };
            before.libraries.next.store(node as *const Node as u64, Ordering::Release);
        }
        self.count += 1;
    }

    /// Returns the address of the node of a ULP.
    pub fn of(&self, number: usize) -> u64 {
        assert!(number < self.count, "no such ULP");
        // SAFETY: within the nodes.
        unsafe { self.first.add(number) as u64 }
    }

    /// Learns that the files of a ULP will be unmapped.
    pub fn ended(&self, number: usize) {
        // SAFETY: a node. What it pointed to is not touched.
        let node = unsafe { &*(self.of(number) as *const Node) };
        node.program.map.store(0, Ordering::Release);
        node.libraries.map.store(0, Ordering::Release);
    }
}

/// Returns the list of this process; `None` if its dynamic linker has no chain of them.
fn own_lists() -> Option<&'static Lists> {
    // SAFETY: the names are valid. Since 2.35, glibc has both the second symbol and the chain.
    let [lists, newer] =
        [c"_r_debug", c"__rseq_offset"].map(|name| unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) });
    // SAFETY: the dynamic linker's list, which exists as long as the process. Its fields are words, but for the version and the state, which have padding.
    (!lists.is_null() && !newer.is_null()).then(|| unsafe { &*lists.cast::<Lists>() })
}

/// How the list of a ULP gets into its node.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Listing {
    /// The node; 0: nothing is left to do.
    node: AtomicU64,
    /// The list of the ULP's dynamic linker.
    lists: u64,
}

impl Listing {
    /// `node`: what [`Nodes::of`] returns. `lists`: the address of the list of the ULP's dynamic linker, which it fills.
    pub fn new(node: u64, lists: u64) -> Listing {
        Listing { node: AtomicU64::new(node), lists }
    }

    /// For a program whose files no debugger sees.
    pub fn none() -> Listing {
        Listing::new(0, 0)
    }

    /// Enters the list into the node if there is one by now. `path`: the address of the program's path, which stays. Called in the ULP's context, now and
    /// then.
    ///
    /// # Safety
    /// The addresses must be as [`new`](Listing::new) wants them.
    pub unsafe fn look(&self, path: u64) {
        let node = self.node.load(Ordering::Relaxed);
        if node == 0 {
            return;
        }
        // SAFETY: the caller's. The first file of a list stays as long as its dynamic linker.
        unsafe {
            let map = (*(self.lists as *const Lists)).map.load(Ordering::Acquire);
            if map == 0 {
                return;
            }
            self.node.store(0, Ordering::Relaxed);
            let (node, program) = (&*(node as *const Node), &*(map as *const LinkMap));
            node.file.base.store(program.base.load(Ordering::Relaxed), Ordering::Relaxed);
            node.file.dynamic.store(program.dynamic.load(Ordering::Relaxed), Ordering::Relaxed);
            node.file.name.store(path, Ordering::Relaxed);
            node.program.map.store(&raw const node.file as u64, Ordering::Release);
            node.libraries.map.store(map, Ordering::Release);
        }
    }
}

const _: () = assert!(offset_of!(Lists, next) == 40 && offset_of!(LinkMap, dynamic) == 16);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_entered_when_there_is_one() {
        let mut nodes = Nodes::new(1, 1).unwrap();
        nodes.add();
        // SAFETY: nodes.
        let [first, second] = [0, 1].map(|number| unsafe { &*(nodes.of(number) as *const Node) });
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let word = AtomicU64::new;
        let map = LinkMap { base: word(7), name: word(0), dynamic: word(8), next: 0, previous: 0 };
        let lists = Lists { version: word(1), map: word(0), breakpoint: 0, state: 0, linker_base: 0, next: word(0) };
        let path = c"/bin/app".as_ptr() as u64;
        let listing = Listing::new(nodes.of(1), &raw const lists as u64);
        // SAFETY: the addresses are valid.
        let entered = || unsafe {
            listing.look(path);
            [load(&second.program.map), load(&second.libraries.map)]
        };
        assert_eq!(entered(), [0, 0]);
        lists.map.store(&raw const map as u64, Ordering::Relaxed);
        assert_eq!(entered(), [&raw const second.file as u64, &raw const map as u64]);
        let LinkMap { base, name, dynamic, next: 0, previous: 0 } = &second.file else { panic!("a list of one file") };
        assert_eq!([load(base), load(name), load(dynamic)], [7, path, 8]);
        nodes.ended(1);
        assert_eq!(entered(), [0, 0], "it is entered once");
        let chain = [&first.program, &first.libraries, &second.program, &second.libraries];
        let next = chain.map(|lists| load(&lists.next));
        assert_eq!(next, [&raw const *chain[1] as u64, &raw const *chain[2] as u64, &raw const *chain[3] as u64, 0]);
        assert!(own_lists().is_none_or(|own| load(&own.next) == nodes.of(0)));
    }

    #[test]
    fn the_list_of_this_machines_dynamic_linker_is_found() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let path = maps.lines().filter_map(|line| line.split_whitespace().nth(5)).find(|path| path.contains("/ld-"));
        let Some(path) = path.filter(|path| path.contains("linux")) else { return };
        let bytes = std::fs::read(path).unwrap();
        assert!(list_of_linker(&bytes[..]).is_some_and(|at| at > 0x1000));
        assert_eq!(list_of_linker(&b"\x7fELF"[..]), None);
    }
}
