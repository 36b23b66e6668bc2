//! What can take CPU time from a thread.

use std::collections::HashMap;

use wire::noise::Vector;

/// The id of a thread that no event has named.
pub(crate) const NOT_SEEN: u32 = u32::MAX;

/// A cause. Functions of the kernel are numbers: addresses, or what the source of the events has instead. The source knows their names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// The CPU's timer: the function of a high-resolution timer. The first function that an interrupt calls stands for the whole interrupt; further
    /// functions count apart.
    Timer {
        /// Number of the function.
        function: u64,
    },
    /// A device interrupt, by its number.
    Irq(u32),
    /// A softirq, by its number, without the functions of timers that it calls.
    Softirq(u32),
    /// A function of a timer that the softirq TIMER calls.
    SoftTimer {
        /// Number of the function.
        function: u64,
    },
    /// A function that another CPU made this one call. The first function that an interrupt calls stands for the whole interrupt.
    Call {
        /// Number of the function; 0 if not known.
        function: u64,
        /// The sender, if the kernel told it.
        sender: Option<Sender>,
    },
    /// Another CPU made this one choose a thread anew.
    Reschedule {
        /// The sender, if the kernel told it.
        sender: Option<Sender>,
    },
    /// Another interrupt, or one whose function is not known.
    Vector(Vector),
    /// A non-maskable interrupt.
    Nmi {
        /// Number of the handler.
        handler: u64,
    },
    /// A page fault of the thread.
    Fault {
        /// Whether the thread was in the kernel.
        in_kernel: bool,
        /// Whether the page was read from a device.
        major: bool,
    },
    /// Another thread ran on the CPU while the thread waited for it.
    Thread {
        /// Thread id; 0 is the idle task.
        tid: u32,
        /// The thread's name.
        comm: String,
    },
    /// A kernel thread executed a work item while the thread waited for the CPU.
    Work {
        /// Number of the work item's function.
        function: u64,
    },
}

impl Cause {
    /// Returns the functions of the kernel that this cause names.
    pub fn functions(&self) -> impl Iterator<Item = u64> + use<> {
        let place = |sender: &Option<Sender>| sender.as_ref().map_or(0, |sender| sender.place);
        let functions = match self {
            Cause::Timer { function } | Cause::SoftTimer { function } | Cause::Work { function } => [*function, 0],
            Cause::Nmi { handler } => [*handler, 0],
            Cause::Call { function, sender } => [*function, place(sender)],
            Cause::Reschedule { sender } => [0, place(sender)],
            Cause::Irq(_) | Cause::Softirq(_) | Cause::Vector(_) | Cause::Fault { .. } | Cause::Thread { .. } => [0, 0],
        };
        functions.into_iter().filter(|function| *function != 0)
    }

    /// Returns whether the CPU entered the kernel because of this cause. Softirqs and switches follow such an entry, before the thread goes on.
    pub(crate) fn enters_the_kernel(&self) -> bool {
        !matches!(self, Cause::Softirq(_) | Cause::SoftTimer { .. } | Cause::Thread { .. } | Cause::Work { .. })
    }
}

/// The thread that sent an interrupt to another CPU.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sender {
    /// Thread id.
    pub tid: u32,
    /// Process id.
    pub tgid: u32,
    /// The thread's name.
    pub comm: String,
    /// Number of the system call that the thread was in; `None` outside one.
    pub call: Option<u32>,
    /// The place in the kernel that sent the interrupt; 0 if it is not known.
    pub place: u64,
}

/// The number of a cause in [`Causes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CauseId(pub u32);

/// All causes that were seen, in the order of their first appearance.
#[derive(Clone, Debug, Default)]
pub struct Causes {
    all: Vec<Cause>,
    numbers: HashMap<Cause, CauseId>,
}

impl Causes {
    /// Returns the number of a cause; a new cause gets the next number.
    pub fn number(&mut self, cause: Cause) -> CauseId {
        if let Some(number) = self.numbers.get(&cause) {
            return *number;
        }
        let number = CauseId(self.all.len() as u32);
        self.all.push(cause.clone());
        self.numbers.insert(cause, number);
        number
    }

    /// Gives a thread that became a cause without a name its name.
    pub(crate) fn name_thread(&mut self, tid: u32, comm: String) {
        let unnamed = Cause::Thread { tid, comm: String::new() };
        if let Some(number) = self.numbers.remove(&unnamed) {
            let named = Cause::Thread { tid, comm };
            self.all[number.0 as usize] = named.clone();
            self.numbers.insert(named, number);
        }
    }

    /// Returns the cause with this number.
    ///
    /// # Panics
    /// If the number is not of these causes.
    #[must_use]
    pub fn get(&self, id: CauseId) -> &Cause {
        &self.all[id.0 as usize]
    }

    /// Returns all causes, in the order of their numbers.
    #[must_use]
    pub fn all(&self) -> &[Cause] {
        &self.all
    }
}
